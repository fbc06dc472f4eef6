"""The right to begin topics: which part of the ring is this broker's own.

The pointers of a ring that forms are wrong for a while: a member may take for its predecessor one that is far away, and
so believe that it owns what others own. So nobody begins a topic by these alone. The *right* to begin topics between
two places of the ring is handed over, from a broker to the one that comes to stand before it; the first broker of all
has it everywhere. Whoever hands it over begins no such topic any more. So no two brokers that live have it for one key,
however wrong the pointers are.

A right that died with its broker goes to whoever stands behind, up to its predecessor as the ring then says, when the
ring has been quiet for a while.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from resprout.core.contract import SetTimer, Timer
from resprout.stacks.peers import Peer
from resprout.stacks.shell import Step
from resprout_lab.blocks.mesh import OverlayMember
from resprout_lab.scribe.messages import AskRange, RangeCeded, TopicEnded, TopicKnown, holder_of
from resprout_lab.scribe.options import ScribeOptions
from resprout_lab.scribe.ring import RingSessions
from resprout_lab.scribe.ring_numbers import distance, is_owned, member_number, number_of

NEWCOMERS_MAX: Final = 1_000
"""Who wait for their topics; the others ask again."""


class RangeOverdue(Timer, frozen=True):
    """When to ask the successor again which topics are owned here."""


class SettledHouse(Protocol):
    def settled(self) -> None:
        """This broker has its place on the ring, and knows its topics."""


class KnowsTopics(Protocol):
    @property
    def known(self) -> Iterable[TopicKnown | TopicEnded]: ...


class TopicRange:
    def __init__(
        self, options: ScribeOptions, step: Step, sessions: RingSessions, house: SettledHouse, topics: KnowsTopics
    ) -> None:
        self._options = options
        self._step = step
        self._sessions = sessions
        self._ring = sessions.ring
        self._house = house
        self._topics = topics
        self.is_settled = False
        self.start: OverlayMember | None = None
        """Behind it the right of this broker begins, and goes up to itself; None: it has none."""
        self._is_open = False
        """Whoever had the right before that is gone."""
        self._newcomers: dict[str, OverlayMember] = {}
        """Who has asked which topics are its own, and waits."""

    @property
    def needed(self) -> Iterable[str]:
        """Who must be watched, because its right falls to this broker when it is gone."""
        start = self.start
        return [start.name] if start is not None and start != self._ring.me and not self._is_open else []

    def covers(self, number: int) -> bool:
        """Nobody else who lives may begin a topic with this number."""
        return self.start is not None and is_owned(member_number(self.start), number, self._ring.number)

    # -- coming to the ring --------------------------------------------------------------------------------------------

    def joined(self) -> None:
        if self._sessions.is_alone:
            self.start = self._ring.me
            self._settle()
        else:
            self.overdue(RangeOverdue())

    def overdue(self, timer: RangeOverdue) -> None:
        if self.is_settled:
            return
        if not self._ring.successors:
            self._is_open = True
            self._settle()
        else:
            self._step.out.append(SetTimer(timer, self._step.now_us + self._options.stabilise_us))
            self._sessions.say(self._ring.successors[0], AskRange(self._ring.me.address))

    def hear_ceded(self, peer: Peer, message: RangeCeded) -> None:
        """Of two that were asked, both may have had a part."""
        if not self._ring.is_member:
            return
        start = message.start
        if start is not None and (self.start is None or self._reach(start) > self._reach(self.start)):
            self._begin_at(start)
        elif not self.is_settled:
            self._is_open = True
        self._settle()

    def _begin_at(self, start: OverlayMember) -> None:
        self.start, self._is_open = start, False
        self._sessions.meet([holder_of(start.name, 0, start.address)])

    def _reach(self, start: OverlayMember) -> int:
        return distance(member_number(start), self._ring.number)

    def _settle(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self._house.settled()
            self.cede()

    # -- those who come ------------------------------------------------------------------------------------------------

    def hear_ask(self, peer: Peer, message: AskRange) -> None:
        if len(self._newcomers) < NEWCOMERS_MAX:
            self._newcomers[peer.name] = OverlayMember(peer.name, message.address)
            self.cede()

    def cede(self) -> None:
        """To those before this broker who have asked, as soon as this broker knows its own topics."""
        start = self.start
        if not self.is_settled or start is None:
            return
        for member in sorted(self._newcomers.values(), key=self._reach, reverse=True):
            if member_number(member) == member_number(start):
                self._hand_over(member, None)  # an earlier life of it had the right
            elif self.covers(member_number(member)):
                self._hand_over(member, self.start)

    def _hand_over(self, member: OverlayMember, start: OverlayMember | None) -> None:
        del self._newcomers[member.name]
        self._begin_at(member)
        for one in list(self._topics.known):
            if not self.covers(number_of(one.topic)):
                self._sessions.post(member.name, one)
        self._sessions.post(member.name, RangeCeded(start))

    # -- those who go --------------------------------------------------------------------------------------------------

    def ended(self, name: str) -> None:
        self._newcomers.pop(name, None)

    def unreachable(self, name: str) -> None:
        if self.start is not None and self.start.name == name:
            self._is_open = True

    def look(self, is_quiet: bool) -> None:
        """From time to time. `is_quiet`: the ring has not changed for a while."""
        if self._is_open and self.is_settled and is_quiet:
            before, is_alone = self._ring.predecessor, not self._ring.successors
            if before is not None or is_alone:
                self._begin_at(before if before is not None else self._ring.me)
                self.cede()
