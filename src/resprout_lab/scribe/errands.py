"""What this broker wants of the leaders of topics, until they have answered: a place for what its clients published,
what trees missed, how far a topic has come.

Who leads is found out as in seed 004: the ring tells who owns the topic's key, and that one who leads. It is remembered
until it fails. A leader that is new is told everything, in order; one that has not answered for a while, the oldest
again. What comes twice does no harm.
"""

from collections.abc import Callable
from typing import Final

from resprout.core.contract import CancelTimer, ProtocolMessage, SetTimer, Timer
from resprout.stacks.shell import Step
from resprout_lab.scribe.chord import Chord, KeyFound, KeyNotFound
from resprout_lab.scribe.messages import (
    AskTopic,
    ChangeReplica,
    PublishAt,
    TopicLed,
    address_of,
    holder_of,
    name_of,
)
from resprout_lab.scribe.ring import RingSessions
from resprout_lab.scribe.ring_numbers import number_of, to_key
from resprout_lab.scribe.trees_messages import AskMissed

Key = tuple[object, ...]
LEADERS_MAX: Final = 10_000
AGAIN_MAX: Final = 1
"""Of what a leader has not answered for a while, so much is said again, the oldest: it may only be slow. If it leads no
more, or has left something out, it says so."""
UNLED_US: Final = 20_000
"""Where nobody leads, it is asked again after this, then after twice as long each time, up to `again_us`: leaders are
found within milliseconds while a ring forms, and those who asked in vain are not told."""
POINTERS_MAX: Final = 8
"""Brokers that may name each other before it is waited until errands are due."""

Errand = PublishAt | AskMissed | AskTopic | ChangeReplica


class ErrandsDue(Timer, frozen=True):
    """When to tell the leader of a topic again what it has not answered."""

    topic: str


class Errands:
    def __init__(
        self, me: str, step: Step, sessions: RingSessions, again_us: int, say: Callable[[str, ProtocolMessage], None],
        leader_here: Callable[[str], str | None],
    ) -> None:  # fmt: skip
        """`say` also to this broker itself. `leader_here`: who leads, if this broker holds the topic."""
        self._me = me
        self._step = step
        self._sessions = sessions
        self._ring: Chord = sessions.ring
        self._again_us = again_us
        self._say = say
        self._leader_here = leader_here
        self._open: dict[str, dict[Key, Errand]] = {}
        self._leaders: dict[str, str] = {}
        self._sought: dict[bytes, str] = {}
        """By key: topics whose owner the ring was asked for."""
        self._asked: dict[str, None] = {}
        """Topics of which somebody was asked who leads."""
        self._behind: dict[str, None] = {}
        """Topics whose leader has said that it did not take something."""
        self._pointers: dict[str, int] = {}
        """By topic: how many have named somebody else, since its errands were due."""
        self._unled: dict[str, int] = {}
        """By topic: how often it was said that nobody leads it, since somebody did."""

    @property
    def needed(self) -> list[str]:
        """Leaders that are to answer something."""
        return [name_of(self._leaders[topic]) for topic in self._open if topic in self._leaders]

    def has(self, topic: str, key: Key) -> bool:
        return key in self._open.get(topic, ())

    def add(self, topic: str, key: Key, errand: Errand) -> None:
        """Until it is `done`. One of the same key is replaced."""
        errands = self._open.setdefault(topic, {})
        errands[key] = errand
        if len(errands) == 1:
            self._wake(topic)
        leader = self._leader(topic)
        if leader is not None:
            self._tell(leader, errand)
        else:
            self._seek(topic)

    def done(self, topic: str, key: Key) -> Errand | None:
        errands = self._open.get(topic, {})
        errand = errands.pop(key, None)
        if errand is not None and not errands:
            del self._open[topic]
            self._asked.pop(topic, None)
            self._pointers.pop(topic, None)
            self._behind.pop(topic, None)
            self._unled.pop(topic, None)
            self._step.out.append(CancelTimer(ErrandsDue(topic)))
        return errand

    def settle(self, topic: str, key: Key) -> None:
        """The publication before this one has its place: this one need not name it any more, also to a later log."""
        errand = self._open.get(topic, {}).get(key)
        if isinstance(errand, PublishAt):
            self._open[topic][key] = PublishAt(errand.bundle, 0)

    def last(self, topic: str) -> list[Errand]:
        return list(self._open.get(topic, {}).values())

    # -- who leads -----------------------------------------------------------------------------------------------------

    def _leader(self, topic: str) -> str | None:
        return self._leader_here(topic) or self._leaders.get(topic)

    def _seek(self, topic: str) -> None:
        key = to_key(number_of(topic))
        if key not in self._sought:
            self._sought[key] = topic
            self._ring.look_up(key)

    def owner_found(self, outcome: KeyFound) -> None:
        topic = self._sought.pop(outcome.key, None)
        if topic is not None and topic in self._open:
            self._asked[topic] = None
            self._sessions.meet([holder_of(outcome.owner.name, 0, outcome.owner.address)])
            self._say(outcome.owner.name, AskTopic(topic, False))

    def owner_not_found(self, outcome: KeyNotFound) -> None:
        """It is sought again when something is due."""
        self._sought.pop(outcome.key, None)

    def led(self, name: str, message: TopicLed) -> None:
        """Says one that was asked, or was taken for the leader. Whoever says it of somebody else may be wrong."""
        topic, leader, known = message.topic, message.leader, self._leaders.get(message.topic)
        if leader and topic not in self._asked and leader == self._leader(topic) and name_of(leader) == name:
            self._behind[topic] = None  # it has left something out, and is told all again in a while
            return
        if self._asked.pop(topic, 0) is not None and (known is None or name_of(known) != name):
            return
        self._leaders.pop(topic, None)
        if leader and name_of(leader) == name:
            self._is_led(topic, leader)
        elif leader and topic in self._open and self._pointers.get(topic, 0) < POINTERS_MAX:
            self._pointers[topic] = self._pointers.get(topic, 0) + 1
            self._asked[topic] = None
            self._sessions.meet([leader])
            self._say(name_of(leader), AskTopic(topic, False))
        elif topic in self._open:
            tries = self._unled[topic] = self._unled.get(topic, -1) + 1
            self._wake(topic, min(UNLED_US << min(tries, 16), self._again_us))

    def rooted(self, topic: str, leader: str) -> None:
        """The tree of the topic says so."""
        if self._leaders.get(topic) != leader:
            self._is_led(topic, leader)

    def _is_led(self, topic: str, leader: str) -> None:
        self._unled.pop(topic, None)
        self._leaders[topic] = leader
        if len(self._leaders) > LEADERS_MAX:
            del self._leaders[next(iter(self._leaders))]
        self._tell_all(topic)

    def found_leader(self, topic: str) -> None:
        """A holder of the topic knows by itself."""
        if self._leader_here(topic) is not None:
            self._tell_all(topic)

    def began(self, name: str) -> None:
        """A session with a leader: what was said before it may be lost."""
        for topic in list(self._open):
            leader = self._leader(topic)
            if leader is not None and name_of(leader) == name:
                self._tell_all(topic)

    def ended(self, name: str) -> None:
        for topic in [topic for topic, leader in self._leaders.items() if name_of(leader) == name]:
            del self._leaders[topic]
            if topic in self._open:
                self._seek(topic)

    # -- telling them --------------------------------------------------------------------------------------------------

    def due(self, timer: ErrandsDue) -> None:
        """Whoever was taken for the leader may be none: the owner is asked, too."""
        topic = timer.topic
        if topic in self._open:
            self._pointers.pop(topic, None)
            self._wake(topic)
            self._tell_all(topic, None if self._behind.pop(topic, 0) is None else AGAIN_MAX)
            self._seek(topic)

    def _tell_all(self, topic: str, most: int | None = None) -> None:
        leader = self._leader(topic)
        for errand in list(self._open.get(topic, {}).values())[:most] if leader is not None else ():
            self._tell(leader, errand)

    def _tell(self, leader: str | None, errand: Errand) -> None:
        assert leader is not None, "it is known"
        name = name_of(leader)
        if name == name_of(self._me):
            self._say(name, errand)
            return
        self._sessions.meet([holder_of(name, 0, address_of(leader))])
        if errand.cost:
            self._sessions.send(name, errand)
        elif self._sessions.find(name) is None:
            self._sessions.open(name)
        else:
            self._sessions.post(name, errand)

    def _wake(self, topic: str, after_us: int | None = None) -> None:
        self._step.out.append(SetTimer(ErrandsDue(topic), self._step.now_us + (after_us or self._again_us)))
