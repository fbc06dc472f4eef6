"""Which topics this broker holds, and which are its own to look after.

A topic belongs to the first broker at or behind its key on the ring, and is held by that one and the next ones behind
it. The *owner* sees to that: it founds the topic when somebody first asks for it, and whenever the ring has changed it
claims that the right ones hold it, which they decide (`replicas`, S4). The leader, any of them, goes on meanwhile.

Only who has the right to begin a topic founds it (`ranges`), and all who are to hold it must have agreed before it
begins (`founding`). So whoever owns the key later, and is one of them, knows of the topic.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Final, Protocol

from resprout.core.contract import SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.replicas.ledger import HeartbeatDue, PatienceOver
from resprout.stacks.peers import Peer
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.scribe.founding import TOPICS_MAX, TopicFounding
from resprout_lab.scribe.held import HeldTopic, TopicHouse
from resprout_lab.scribe.messages import (
    HOLDERS_MAX,
    AskTopic,
    ClaimTopic,
    FoundTopic,
    TopicEnded,
    TopicKnown,
    TopicLed,
    holder_of,
    name_of,
)  # fmt: skip
from resprout_lab.scribe.options import ScribeOptions
from resprout_lab.scribe.ranges import SettledHouse, TopicRange
from resprout_lab.scribe.ring import RingSessions
from resprout_lab.scribe.ring_numbers import is_owned, member_number, number_of

TOPICS_TOLD: Final = 3
"""Of those that it leads, by name, to people."""
ENDED_MAX: Final = 100_000
"""Topics that ended whose last numbers are remembered, the latest ones."""
ASKERS_MAX: Final = 1_000
"""Who wait to hear who leads one topic; the others ask again."""


class ClaimsDue(Timer, frozen=True):
    """When to see whether the right brokers hold the topics that are owned here, and what they need not keep."""

    @property
    def background(self) -> bool:
        return True


class OwnersHouse(TopicHouse, SettledHouse, Protocol):
    def found_leader(self, topic: str) -> None:
        """Somebody leads it, or is said to."""


class TopicOwners:
    def __init__(
        self, seat: BrokerSeat, options: ScribeOptions, step: Step, rng: Random, sessions: RingSessions,
        house: OwnersHouse, kept: str,
    ) -> None:  # fmt: skip
        """`kept`: a topic of which nothing is let go."""
        self.me: Final = holder_of(seat.name, seat.incarnation, seat.address)
        self._name = seat.name
        self._options = options
        self._step = step
        self._rng = rng
        self._sessions = sessions
        self._ring = sessions.ring
        self._house = house
        self._kept = kept
        self.range = TopicRange(options, step, sessions, house, self)
        self._founding = TopicFounding(sessions, options.backups, self)
        self.hear_given_up = self._founding.hear_given_up
        self.held: Final[dict[str, HeldTopic]] = {}
        self._by_group: dict[str, HeldTopic] = {}
        self.hints: Final[dict[str, TopicKnown]] = {}
        """Topics that others hold, and are or may be owned here."""
        self._ended: dict[str, TopicEnded] = {}
        """By topic: its latest log that ended, the latest topic last."""
        self._ended_groups: dict[str, TopicEnded] = {}
        """By group: all of these logs, the latest last."""
        self._tried: dict[str, int] = {}
        """By hint: how often its holders were asked."""
        self._moved_us = 0
        """When the ring has changed last."""
        self._missing: dict[str, None] = {}
        """Brokers that hold topics with this one, and cannot be reached."""
        self._askers: dict[str, dict[str, bool]] = {}
        """By topic: who waits to hear who leads, and whether how far it has come."""

    def begin(self) -> None:
        self._wake(ClaimsDue(), self._options.noop_us)

    def owns(self, topic: str) -> bool:
        return self.range.is_settled and self._ring.owns(number_of(topic))

    def leads(self, topic: str) -> HeldTopic | None:
        held = self.held.get(topic)
        return held if held is not None and held.is_leading else None

    def leader_of(self, topic: str) -> str | None:
        """Who is known here to lead it, or to know better; None: nobody."""
        held = self.held.get(topic)
        if held is not None and held.is_member:
            return held.leader
        hint = self.hints.get(topic)
        holders = held.holders if held is not None else hint.holders if hint is not None else ()
        others = [holder for holder in holders if name_of(holder) != self._name]
        return others[self._tried.get(topic, 0) % len(others)] if others else None

    @property
    def needed(self) -> Iterator[str]:
        for held in self.held.values():
            if held.is_member:
                yield from map(name_of, held.others)
                yield from [name for name in held.log.added if name != self._name]
        yield from self.range.needed

    @property
    def known(self) -> Iterator[TopicKnown | TopicEnded]:
        """What is known here of topics, for whoever is to own them."""
        yield from self._ended.values()
        yield from [held.known for held in self.held.values()]
        yield from self._founding.known
        yield from [hint for topic, hint in self.hints.items() if topic not in self.held]

    @property
    def roles(self) -> tuple[str, ...]:
        """For people: which topics it leads, and how many it owns and holds."""
        led = sorted(topic for topic, held in self.held.items() if held.is_leading)
        owned = sum(self.owns(topic) for topic in self.held)
        more = ", ..." if len(led) > TOPICS_TOLD else ""
        leads = [f"leads {len(led)} topics ({', '.join(led[:TOPICS_TOLD])}{more})"] if led else []
        return (*leads, f"owns {owned}, holds {sum(held.is_member for held in self.held.values())}")

    def roles_for(self, topic: str) -> tuple[str, ...]:
        """For people: what this broker is to the topic."""
        held = self.held.get(topic)
        is_holder = held is not None and held.is_member
        roles = (("owner", self.owns(topic)), ("leader", self.leads(topic) is not None), ("holder", is_holder))
        return tuple([name for name, is_one in roles if is_one])

    # -- who leads -----------------------------------------------------------------------------------------------------

    def hear_ask(self, name: str, message: AskTopic) -> None:
        topic = message.topic
        if (held := self.leads(topic)) is not None:
            self._answer(held, name, message.fresh)
        elif (leader := self.leader_of(topic)) is not None:
            self._tried[topic] = self._tried.get(topic, 0) + 1
            self._house.say(name, TopicLed(topic, leader))
        elif self.owns(topic) and (topic in self.held or self._founding.found(topic)):
            askers = self._askers.setdefault(topic, {})
            if len(askers) < ASKERS_MAX:
                askers[name] = message.fresh
        else:
            self._house.say(name, TopicLed(topic, ""))

    def _answer(self, held: HeldTopic, name: str, fresh: bool) -> None:
        if fresh:
            held.look(name)
        else:
            self._house.say(name, TopicLed(held.topic, self.me))

    def led(self, held: HeldTopic) -> None:
        """By this broker, or by another one."""
        for name, fresh in self._askers.pop(held.topic, {}).items():
            if held.is_leading:
                self._answer(held, name, fresh)
            elif held.leader is not None:
                self._house.say(name, TopicLed(held.topic, held.leader))
        self._house.found_leader(held.topic)

    def hear_claim(self, peer: Peer, message: ClaimTopic) -> None:
        _check(message.holders)
        held = self.held.get(message.topic)
        if held is not None and held.is_leading:
            self._sessions.meet(message.holders)
            held.configure(self._with_added(held, message.holders))
        elif (leader := self.leader_of(message.topic)) is not None:
            self._house.say(peer.name, TopicLed(message.topic, leader))
        elif (ended := self._ended.get(message.topic)) is not None:
            self._house.say(peer.name, ended)

    def hear_led(self, message: TopicLed) -> None:
        """Of a topic that others hold: whom to ask first."""
        hint = self.hints.get(message.topic)
        if hint is not None and message.leader and message.leader != self.me:
            holders = (message.leader, *(one for one in hint.holders if one != message.leader))[:HOLDERS_MAX]
            known = TopicKnown(hint.topic, hint.group, hint.founders, holders, hint.is_begun)
            self.hints[message.topic] = known
            self._tried[message.topic] = 0

    # -- founding ------------------------------------------------------------------------------------------------------

    def may_found(self, topic: str) -> bool:
        """This broker owns it, nobody else may begin it, and most of the ring is in sight."""
        return self.owns(topic) and self.range.covers(number_of(topic)) and not self._ring.is_outnumbered

    def hear_found(self, peer: Peer, message: FoundTopic) -> None:
        _check(message.holders)
        self._founding.hear_found(peer, message)

    def hear_known(self, peer: Peer, message: TopicKnown) -> None:
        _check(message.founders)
        _check(message.holders)
        self._founding.hear_known(peer, message)

    def hold(self, topic: str, group: str, founders: tuple[str, ...], stands: bool, is_begun: bool = False) -> None:
        self.drop(topic)
        self.hints.pop(topic, None)
        self._tried.pop(topic, None)
        self._founding.held(topic)
        self._sessions.meet(founders)
        held = HeldTopic(
            topic, group, founders, self.me, self._options, self._step, self._rng, self._house, topic == self._kept,
            self._ended.get(topic),
        )  # fmt: skip
        self.held[topic] = self._by_group[group] = held
        held.begin(stands, is_begun)

    def drop(self, topic: str) -> None:
        if (before := self.held.pop(topic, None)) is not None:
            assert not before.is_begun, "what may be decided is not forgotten"
            del self._by_group[before.group]

    # -- topics that end -----------------------------------------------------------------------------------------------

    def end(self, held: HeldTopic) -> None:
        """The holders have decided so: drop it, and tell all who may still hold it."""
        ended = held.epitaph
        for holder in dict.fromkeys((*held.others, *held.heard)):
            self._sessions.post_holder(holder, ended)
        self._drop_ended(ended)

    def hear_ended(self, peer: Peer, message: TopicEnded) -> None:
        self._drop_ended(message)

    def tell_ended(self, name: str, group: str) -> bool:
        ended = self._ended_groups.get(group)
        if ended is not None:
            self._house.say(name, ended)
        return ended is not None

    def _drop_ended(self, ended: TopicEnded) -> None:
        topic, latest = ended.topic, self._ended.pop(ended.topic, ended)
        self._ended[topic] = ended if ended.position >= latest.position else latest
        self._ended_groups[ended.group] = ended
        for known in (self._ended, self._ended_groups):
            if len(known) > ENDED_MAX:
                del known[next(iter(known))]
        if topic in self.hints and self.hints[topic].group == ended.group:
            del self.hints[topic]
            self._tried.pop(topic, None)
        held = self._by_group.pop(ended.group, None)
        if held is not None:
            del self.held[topic]
            held.end()

    def hint(self, message: TopicKnown) -> None:
        if len(self.hints) < TOPICS_MAX or message.topic in self.hints:
            self.hints[message.topic] = message
            self._house.found_leader(message.topic)

    # -- the log of each -----------------------------------------------------------------------------------------------

    def hear_replica(self, peer: Peer, message: Any) -> None:
        held = self._by_group.get(message.group)
        if held is not None:  # otherwise this broker is told of it (`invite`), and then it is said again
            life = holder_of(peer.name, peer.incarnation, "")
            known = (*held.holders, *held.founders, message.ballot.leader if hasattr(message, "ballot") else "")
            held.hear(next((one for one in known if one.startswith(life)), life), message)
        else:
            self.tell_ended(peer.name, message.group)

    def fired(self, timer: HeartbeatDue | PatienceOver) -> None:
        held = self._by_group.get(timer.group)
        if held is not None:
            held.fired(timer)

    # -- seeing to it --------------------------------------------------------------------------------------------------

    def began(self, name: str) -> None:
        """A session: whoever was to be reached may be one of those that are missing."""
        for held in self.held.values():
            for holder in dict.fromkeys((*held.holders, *held.heard)):
                if name_of(holder) == name:
                    held.forget(holder)
        self._founding.found_wished()

    def ended(self, name: str) -> None:
        self.range.ended(name)
        for held in list(self.held.values()):
            if any(name_of(holder) == name for holder in held.holders):
                held.wake()
        if name not in self._missing and self._misses(name):
            self._missing[name] = None
            self._step.note("repair_begin", name)
        self._founding.ended(name)

    def _misses(self, name: str) -> bool:
        """Something that is held here is held by a life of it that cannot be reached."""
        return any(
            name_of(holder) == name and not self._sessions.is_life(holder)
            for held in self.held.values()
            if held.is_member
            for holder in held.holders
        )

    def look(self) -> None:
        """At the end of a step: whom topics are repaired without, or who is back."""
        for name in [name for name in self._missing if not self._misses(name)]:
            del self._missing[name]
            self._step.note("repair_end", name)

    def moved(self) -> None:
        """The ring has changed. Where many come at a time it is waited for the last of them before topics move."""
        self._moved_us = self._step.now_us
        self.range.cede()
        self._founding.found_wished()

    def claims_due(self, timer: ClaimsDue) -> None:
        self._wake(timer, self._options.noop_us)
        self.range.look(self._is_quiet)
        self._founding.look()
        self._claim()
        for held in list(self.held.values()):
            held.invite()
            held.stand()
            held.let_go()

    @property
    def _is_quiet(self) -> bool:
        return self._step.now_us - self._moved_us >= self._options.noop_us

    def _claim(self) -> None:
        if not self._is_quiet:
            return
        mine = [topic for topic in (*self.held, *self.hints) if self.owns(topic)]
        holders = self._founding.desired() if mine else None
        for topic in mine if holders is not None else ():
            assert holders is not None, "known by now"
            held = self.held.get(topic)
            if held is not None and held.is_leading:
                held.configure(self._with_added(held, holders))
                continue
            wanted = self._with_added(held, holders) if held is not None else ()
            if (leader := self.leader_of(topic)) is not None and (held is None or set(held.holders) != set(wanted)):
                self._tried[topic] = self._tried.get(topic, 0) + 1
                self._sessions.post_holder(leader, ClaimTopic(topic, holders))

    def _with_added(self, held: HeldTopic, ring: tuple[str, ...]) -> tuple[str, ...]:
        """Return the holders by the ring, and those that operators have added, as long as the same life is there."""
        names = {name_of(holder) for holder in ring}
        added = [holder for name, holder in held.log.added.items() if name not in names]
        return (*ring, *[holder for holder in added if holder == self.me or self._sessions.is_life(holder)])

    def next_hop(self, topic: str) -> str | None:
        """On the way to whoever leads the topic."""
        number, successors = number_of(topic), self._ring.successors
        held = self.held.get(topic)
        if self.owns(topic) or (held is not None and held.is_member):
            leader = self.leader_of(topic)
            if leader is None and held is None:
                self._founding.found(topic)
            return name_of(leader) if leader is not None and leader != self.me else None
        if not successors or self._ring.owns(number):
            return None
        if is_owned(self._ring.number, number, member_number(successors[0])):
            return successors[0].name
        if self._ring.predecessor is None:
            return None  # it may be owned here: that will be known soon
        return self._ring.closest_before(number).name

    def _wake(self, timer: Timer, after_us: int) -> None:
        self._step.out.append(SetTimer(timer, self._step.now_us + after_us))


def _check(holders: Iterable[str]) -> None:
    """PeerError for more than there can be."""
    count = len(tuple(holders))
    if not 0 < count <= HOLDERS_MAX:
        raise PeerError(f"{count} holders of a topic; at most {HOLDERS_MAX}")
