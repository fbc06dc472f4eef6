"""Coming to the ring: a broker asks its successor which topics are its own now, and owns none before it was told. From
then on the successor founds none of these."""

from collections.abc import Iterable
from typing import Final, Protocol

from resprout.core.contract import SetTimer, Timer
from resprout.overlay.chord.ring import number_of
from resprout.stacks.scribe.messages import AskRange, RangeCeded, TopicKnown
from resprout.stacks.scribe.options import ScribeOptions
from resprout.stacks.scribe.ring import RingSessions
from resprout.stacks.shell.peers import Peer
from resprout.stacks.shell.step import Step

NEWCOMERS_MAX: Final = 1_000
"""Who wait for their topics; the others ask again."""


class RangeOverdue(Timer, frozen=True):
    """When to ask the successor again which topics are owned here."""


class SettledHouse(Protocol):
    def settled(self) -> None:
        """This broker has its place on the ring, and knows its topics."""


class KnowsTopics(Protocol):
    @property
    def known(self) -> Iterable[TopicKnown]: ...


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
        self._newcomers: dict[str, None] = {}
        """Who has asked which topics are its own, and waits."""

    def joined(self) -> None:
        if self._sessions.is_alone:
            self._settle()
        else:
            self.overdue(RangeOverdue())

    def overdue(self, timer: RangeOverdue) -> None:
        if self.is_settled:
            return
        if not self._ring.successors:
            self._settle()
        else:
            self._step.out.append(SetTimer(timer, self._step.now_us + self._options.stabilise_us))
            self._sessions.say(self._ring.successors[0], AskRange())

    def hear_ask(self, peer: Peer, message: AskRange) -> None:
        if len(self._newcomers) < NEWCOMERS_MAX:
            self._newcomers[peer.name] = None
            self.cede()

    def cede(self) -> None:
        """To the one before this broker, if it has asked, as soon as this broker knows its own topics."""
        before = self._ring.predecessor
        if not self.is_settled or before is None or before.name not in self._newcomers:
            return
        self._newcomers.pop(before.name)
        for one in list(self._topics.known):
            if not self._ring.owns(number_of(one.topic)):
                self._sessions.post(before.name, one)
        self._sessions.post(before.name, RangeCeded())

    def hear_ceded(self, peer: Peer, message: RangeCeded) -> None:
        if self._ring.is_member:
            self._settle()

    def ended(self, name: str) -> None:
        self._newcomers.pop(name, None)

    def _settle(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self._house.settled()
            self.cede()
