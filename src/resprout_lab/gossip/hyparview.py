"""HyParView: an overlay without a fixed shape, in which each member has a few neighbours and knows some other members.

Leitao, Pereira and Rodrigues, "HyParView: a membership protocol for reliable gossip-based broadcast" (2007). The
*active view* of a member is its neighbours: open sessions that carry gossip, and which both ends agreed on. The
*passive view* is members that it knows and has no session with; when a neighbour fails, one of them replaces it
(`views`).

*Joining.* A new member asks a contact, which always accepts it as a neighbour and tells its other neighbours. This news
takes a random walk (`ForwardJoin`); where the walk ends the new member gets another neighbour, and one member on the
way remembers it.

*Agreeing.* One member asks (`NeighbourRequest`), the other answers. A member with a full view declines, unless the
asker is short of neighbours (`urgent`): then it drops another neighbour. Requests are numbered, so an answer that comes
too late is not taken for another one; with FIFO sessions, views are symmetric whenever no message is in flight. A
request stays open while its session stands, because distant members answer late. After a while it is *overdue*, and
the member asks others meanwhile (`Requests`).

*Shuffling.* Now and then a member sends a sample of the members it knows on a random walk, and receives as many from
the member where the walk ends. So passive views are samples of all members, and forget dead ones.

*Departures from the paper.* A member that could not be reached is called again now and then instead of forgotten at
once (`lost`), so two halves of a partitioned network find each other when it heals; the paper leaves this open. A
member is short when half of its neighbours are missing, not only when all are: three members that have each other,
and whom all others decline, would stay apart for ever. A member that joins or is dropped is told some other members. An
asker waits for the answer before the other member is its neighbour, and reserves a place for it, in the order of names:
otherwise members that ask each other in a circle would all take another one meanwhile, and withdraw. A contact that is
not in the overlay itself lets new members wait until it is.

The module is pure. Its input is messages of other members, and which of them cannot be reached (`unreachable`); its
output goes to its owner (`Wires`).
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

from resprout.core.contract import Outcome, Timer
from resprout_lab.blocks.mesh import OverlayMember, Wires
from resprout_lab.gossip.hyparview_messages import (
    ForwardJoin,
    JoinOverlay,
    NeighbourAnswer,
    NeighbourDropped,
    NeighbourRequest,
    Shuffle,
    ShuffleReply,
)
from resprout_lab.gossip.options import ViewOptions
from resprout_lab.gossip.views import Shuffling, Views, check_sample, check_steps

JOINING_MAX: Final = 256
"""Newcomers that may wait."""

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


class NeighbourUp(Outcome, frozen=True):
    """Both ends have agreed; nothing was said over this link before."""

    name: str


class NeighbourDown(Outcome, frozen=True):
    name: str


class ShuffleDue(Timer, frozen=True):
    """When to shuffle, and to look for neighbours that are missing."""

    @property
    def background(self) -> bool:
        return True


class HyParView:
    def __init__(
        self, me: OverlayMember, contacts: Sequence[str], options: ViewOptions, rng: Random, wires: Wires
    ) -> None:
        """`contacts`: whom to ask, in this order, while nobody else is known."""
        self.views = views = Views(me, options, rng)
        self._contacts = [OverlayMember(name) for name in contacts if name != me.name]
        self._options = options
        self._wires = wires
        self._shuffling = Shuffling(views, options, wires.say)
        self._asked = Requests(views, options, wires)
        self._tried: dict[str, None] = {}
        """Asked since the last neighbour failed, or the last shuffle: this round."""
        self._is_routine = False
        """This round began with a shuffle: nothing has happened, and nobody waits for it."""
        self._joining: dict[str, JoinOverlay] = {}
        """Newcomers that wait until this member is in the overlay itself: there is nobody yet to tell of them."""
        self.handlers: dict[type, Callable[[str, Any], None]] = {
            JoinOverlay: self._join,
            ForwardJoin: self._forward_join,
            NeighbourRequest: self._request,
            NeighbourAnswer: self._answer,
            NeighbourDropped: self._dropped,
            Shuffle: self._shuffling.hear,
            ShuffleReply: self._shuffling.hear_reply,
        }

    @property
    def neighbours(self) -> dict[str, OverlayMember]:
        return self.views.active

    @property
    def needed(self) -> list[str]:
        """Those with whom sessions are needed."""
        return [*self.views.active, *self._asked]

    def begin(self) -> None:
        self._wires.wake(ShuffleDue(), self._options.shuffle_us)
        self._fill()

    def leave(self) -> None:
        for name in list(self.views.active):
            self._drop(name, leaving=True)

    def hear(self, name: str, message: Any) -> None:
        """Any member may say any of these; PeerError for what none says."""
        self.views.found(name)
        self.handlers[type(message)](name, message)

    # -- time ----------------------------------------------------------------------------------------------------------

    def shuffle_due(self, timer: ShuffleDue) -> None:
        self._wires.wake(timer, self._options.shuffle_us)
        self._shuffling.begin()
        name = self.views.choose(name for name in self.views.lost if name not in self._asked)
        if name is not None:
            self._asked.make(self.views.lost[name], urgent=True, insists=True, routine=True)
        self._tried.clear()
        self._is_routine = True
        self._fill()

    def asked_too_long(self, timer: AskedTooLong) -> None:
        if self._asked.overdue(timer):
            self._fill()
            self._take_in()

    # -- joining -------------------------------------------------------------------------------------------------------

    def _join(self, name: str, message: JoinOverlay) -> None:
        self._joining[name] = message
        if name in self._asked or len(self._joining) > JOINING_MAX or not self._is_joining:
            self._take_in()

    @property
    def _is_joining(self) -> bool:
        return not self.views.active and self._asked.is_pending()

    def _take_in(self) -> None:
        joining, self._joining = self._joining, {}
        for name, message in joining.items():
            self._introduce(name, message)

    def _introduce(self, name: str, message: JoinOverlay) -> None:
        newcomer, views = OverlayMember(name, message.address), self.views
        others = [
            *views.sample(views.active, self._options.shuffle_active, (name,)),
            *views.sample(views.passive, self._options.shuffle_passive, (name,)),
        ]
        self._accept(newcomer, message.number, message.routine, tuple(others))
        for other in list(views.active.values()):
            if other.name != name:
                self._wires.say(other, ForwardJoin(newcomer, self._options.join_walk))

    def _forward_join(self, name: str, message: ForwardJoin) -> None:
        check_steps(message.steps)
        newcomer, views = message.newcomer, self.views
        if newcomer.name == views.me.name:
            return
        if message.steps == self._options.passive_walk:
            views.add_passive(newcomer)
        onward = views.choose(other for other in views.active if other not in (name, newcomer.name))
        if message.steps and onward is not None:
            self._wires.say(views.active[onward], ForwardJoin(newcomer, message.steps - 1))
        elif newcomer.name not in views.active and newcomer.name not in self._asked:
            self._asked.make(newcomer, urgent=False, insists=True, routine=False)

    # -- asking and answering ------------------------------------------------------------------------------------------

    def _request(self, name: str, message: NeighbourRequest) -> None:
        member = OverlayMember(name, message.address)
        if message.urgent or self._has_place_for(name):
            self._accept(member, message.number, message.routine)
        else:
            self._wires.say(member, NeighbourAnswer(message.number, False, self.views.me.address, message.routine))

    def _has_place_for(self, name: str) -> bool:
        """Places that others were asked for are theirs, if they come before this one. If they went to whoever asks,
        members in a circle, each with one place left for which it has asked the next, would all accept, find that the
        place is taken when they are accepted, withdraw, and ask again, for ever. This way nobody withdraws from the
        first in the order of names, so it comes to rest; and then the second, and so on."""
        return name in self.views.active or self.views.places > self._asked.ahead_of(name)

    def _accept(
        self, member: OverlayMember, number: int, routine: bool, others: tuple[OverlayMember, ...] = ()
    ) -> None:
        self._wires.say(member, NeighbourAnswer(number, True, self.views.me.address, routine, others))
        if member.name not in self.views.active:
            self._add(member)

    def _answer(self, name: str, message: NeighbourAnswer) -> None:
        check_sample(message.others)
        ask = self._asked.get(name)
        member = OverlayMember(name, message.address)
        if ask is None or ask.number != message.number:
            # It comes too late. If another request is under way, the answer to that one counts.
            if message.accepted and ask is None and name not in self.views.active:
                self._wires.say(member, NeighbourDropped(()))
            return
        self._asked.end(name)
        if not message.accepted:
            self._fill()
        elif name not in self.views.active:
            if self.views.is_full and not ask.insists:
                self._wires.say(member, NeighbourDropped(()))
            else:
                self._add(member)
                if not ask.joins:  # the word of a newcomer is on its way, to better ones than it can know
                    self._fill()
        for other in message.others:
            self.views.add_passive(other)

    def _add(self, member: OverlayMember) -> None:
        while self.views.is_full:
            name = self.views.choose(self.views.active)
            assert name is not None
            self._drop(name)
        self.views.add_active(member)
        self._wires.tell(NeighbourUp(member.name))
        if self._joining:
            self._take_in()

    # -- losing --------------------------------------------------------------------------------------------------------

    def _drop(self, name: str, leaving: bool = False) -> None:
        views = self.views
        member = views.active.pop(name)
        self._asked.end(name)  # what it answers is older than this
        others = views.sample(views.active, self._options.shuffle_active)
        self._wires.say(member, NeighbourDropped(tuple(others), leaving))
        views.add_passive(member)
        self._wires.tell(NeighbourDown(name))

    def _dropped(self, name: str, message: NeighbourDropped) -> None:
        check_sample(message.others)
        views = self.views
        member = views.active.pop(name, None)
        if member is not None:
            self._wires.tell(NeighbourDown(name))
        if message.leaving:
            views.forget(name)
        elif member is not None:
            views.add_passive(member)
        for other in message.others:
            views.add_passive(other)
        if member is not None:
            self._replace(name)  # it has just made room for somebody else

    def unreachable(self, name: str, lives: bool) -> None:
        """The session with it is over, or there cannot be one. `lives`: it was heard since."""
        views = self.views
        ask = self._asked.end(name)
        self._joining.pop(name, None)
        was_neighbour = name in views.active
        member = views.active.get(name) or views.passive.get(name) or (ask.member if ask is not None else None)
        if member is not None:
            if lives:
                views.active.pop(name, None)
                views.add_passive(member)
            else:
                views.lose(member)
        if was_neighbour:
            self._wires.tell(NeighbourDown(name))
            self._replace(name)
        elif ask is not None:
            self._fill()
        if self._joining and not self._is_joining:
            self._take_in()

    def forget(self, name: str) -> None:
        """It breaks the rules: nothing is remembered of it."""
        was_neighbour = name in self.views.active
        self._asked.end(name)
        self._joining.pop(name, None)
        self.views.forget(name)
        if was_neighbour:
            self._wires.tell(NeighbourDown(name))
            self._replace(name)

    def reach(self, name: str) -> None:
        """There is no way to it by neighbours: it is to be one, though others may have to give way."""
        views = self.views
        if name not in views.active and name not in self._asked:
            member = views.passive.get(name) or views.lost.get(name) or OverlayMember(name)
            self._asked.make(member, urgent=True, insists=True, routine=False)

    def stranger(self) -> OverlayMember | None:
        """Anybody that is known and no neighbour. Contacts are among them, because a part of the overlay that has been
        by itself for long knows nobody else outside."""
        views = self.views
        known = {member.name: member for member in self._contacts if member.name not in views.lost} | views.passive
        name = views.choose(name for name in known if name not in views.active)
        return known[name] if name is not None else None

    # -- replacing -----------------------------------------------------------------------------------------------------

    def _replace(self, name: str) -> None:
        """By anybody else, in a round of its own."""
        self._tried = {name: None}
        self._is_routine = False
        self._fill()

    def _fill(self) -> None:
        """While there is room for a neighbour, one after the other of those that are known is asked, each once in a
        round. Who is short of neighbours asks the contacts as well, and without any, those that were lost."""
        views, routine = self.views, self._is_routine
        if views.is_full or self._asked.is_pending(routine):
            return
        untried = [name for name in views.passive if name not in self._tried and name not in self._asked]
        if (name := views.choose(untried)) is not None:
            self._tried[name] = None
            self._asked.make(views.passive[name], urgent=views.is_short, insists=False, routine=routine)
        elif views.is_short:
            for member in (*self._contacts, *(() if views.active else views.lost.values())):
                if not any(member.name in known for known in (self._tried, self._asked, views.active)):
                    self._tried[member.name] = None
                    self._asked.make(member, urgent=True, insists=True, routine=routine, joins=True)
                    return
