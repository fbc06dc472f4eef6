"""Whom a member has asked to be a neighbour, until they answer or cannot be reached.

A request is never given up while its session stands: whoever is far away answers late. After a while it is *overdue*,
and others are asked meanwhile.
"""

from collections.abc import Iterator
from typing import Final

from resprout.core.contract import Timer
from resprout.overlay.wires import OverlayMember, Wires
from resprout_lab.gossip.hyparview.messages import JoinOverlay, NeighbourRequest
from resprout_lab.gossip.hyparview.options import ViewOptions
from resprout_lab.gossip.hyparview.views import Views

ASKED_MAX: Final = 16
"""Members that may be asked at the same time: newcomers, mostly, and those that do not answer. Who comes beyond that is
only remembered."""


class AskedTooLong(Timer, frozen=True):
    """When to ask somebody else, because this one does not answer."""

    name: str
    number: int
    routine: bool

    @property
    def background(self) -> bool:
        return self.routine


class OpenRequest:
    __slots__ = ("insists", "is_overdue", "joins", "member", "number", "routine")

    def __init__(self, member: OverlayMember, number: int, insists: bool, routine: bool, joins: bool) -> None:
        self.member = member
        self.number = number
        self.insists = insists
        """If it accepts it is a neighbour, though another one may have to give way."""
        self.routine = routine
        self.joins = joins
        self.is_overdue = False

    @property
    def timer(self) -> AskedTooLong:
        return AskedTooLong(self.member.name, self.number, self.routine)


class Requests:
    def __init__(self, views: Views, options: ViewOptions, wires: Wires) -> None:
        self._views = views
        self._answer_us = options.answer_us
        self._wires = wires
        self._asked: dict[str, OpenRequest] = {}
        self._numbers = 0

    def __contains__(self, name: str) -> bool:
        return name in self._asked

    def __iter__(self) -> Iterator[str]:
        return iter(self._asked)

    def get(self, name: str) -> OpenRequest | None:
        return self._asked.get(name)

    def is_pending(self, routine: bool = True) -> bool:
        """Whether an answer is to come soon; `routine`: to one of any kind."""
        return any(not ask.is_overdue and (routine or not ask.routine) for ask in self._asked.values())

    def ahead_of(self, name: str) -> int:
        """How many of those that were asked, and for whom nobody gives way, have a place before this one: those with
        greater names. Any order would do, as long as it is the same everywhere."""
        return sum(other > name and not ask.insists for other, ask in self._asked.items())

    def make(self, member: OverlayMember, *, urgent: bool, insists: bool, routine: bool, joins: bool = False) -> None:
        """Ask it, unless too many are asked."""
        if len(self._asked) >= ASKED_MAX:
            overdue = next((name for name, ask in self._asked.items() if ask.is_overdue), None)
            if overdue is None:
                self._views.add_passive(member)
                return
            self.end(overdue)
        self._numbers += 1
        ask = self._asked[member.name] = OpenRequest(member, self._numbers, insists, routine, joins)
        address = self._views.me.address
        if joins:
            self._wires.say(member, JoinOverlay(ask.number, address, routine))
        else:
            self._wires.say(member, NeighbourRequest(ask.number, address, urgent, routine))
        self._wires.wake(ask.timer, self._answer_us)

    def end(self, name: str) -> OpenRequest | None:
        ask = self._asked.pop(name, None)
        if ask is not None:
            self._wires.let_sleep(ask.timer)
        return ask

    def overdue(self, timer: AskedTooLong) -> bool:
        """Its time is over: True when that request is the one that waits."""
        ask = self._asked.get(timer.name)
        if ask is None or ask.number != timer.number:
            return False
        ask.is_overdue = True
        return True
