"""One topic that this broker holds: its log, agreed upon with the others who hold it, and what is for its leader to do.

Seed 004 never proposes what is published, and has every replica spread it (S5). Here a publication is proposed by the
leader, has a place when it is decided (`replicas`, with S4), and is spread by the leader alone, with its position.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, Protocol

from resprout.core.bundle import Origin
from resprout.core.contract import ProtocolMessage
from resprout.replicas.ledger import Chosen, HeartbeatDue, Led, News, PatienceOver, Restored
from resprout.replicas.messages import NO_BALLOT, Ask, Known
from resprout.replicas.replica import Replica
from resprout.stacks.shell import Step
from resprout_lab.blocks.replicated import ReplicaInSessions
from resprout_lab.scribe.log import (
    EndTopic,
    LogCommand,
    Look,
    PlaceBundle,
    PlacedAt,
    SetReplica,
    Spread,
    TakeLead,
    TopicAnnounced,
    TopicLog,
    decode,
    encode,
)  # fmt: skip
from resprout_lab.scribe.messages import (
    ENDED_MARKS_MAX,
    ChangeReplica,
    PublicationPlaced,
    PublishAt,
    ReplicaChanged,
    TopicEnded,
    TopicKnown,
    TopicLed,
    name_of,
)  # fmt: skip
from resprout_lab.scribe.options import ScribeOptions
from resprout_lab.scribe.ring_numbers import number_of
from resprout_lab.scribe.trees_messages import AskMissed, NotKept, Scribed

DEFERRED_BYTES: Final = 16 << 20
"""Of publications that wait until the tree has come further; more is not taken, and has to be said again."""


ADDED_MAX: Final = 8
"""Holders that operators may add to one topic: with those of the ring fewer than one message names."""
YOUNG_US: Final = 10_000_000
"""For so long a client may be between two brokers. What is younger is kept although all of the tree have it, ..."""
YOUNG_FACTOR: Final = 8
"""... up to so many times `keep_bytes`."""


class TopicHouse(Protocol):
    """The broker, as its topics know it."""

    def post_holder(self, holder: str, message: ProtocolMessage) -> None: ...
    def say(self, name: str, message: ProtocolMessage) -> None:
        """To a broker, or to this one itself."""

    def give(self, name: str, scribed: Scribed) -> None:
        """A publication that somebody missed."""

    def led(self, held: "HeldTopic") -> None:
        """This broker leads it now."""

    def unled(self, held: "HeldTopic") -> None:
        """It does not any more, or somebody else does."""

    def spread(self, placed: PlacedAt) -> None: ...
    def floor(self, topic: str) -> int | None:
        """Everybody in the tree has all up to this position; None: nobody is in it."""

    def has_readers(self, topic: str) -> bool:
        """To the leader: somebody is in its tree, or wants to be."""

    def ended(self, held: "HeldTopic") -> None:
        """Its holders have decided to drop it."""


class HeldTopic:
    def __init__(
        self, topic: str, group: str, founders: tuple[str, ...], me: str, options: ScribeOptions, step: Step,
        rng: Random, house: TopicHouse, is_kept: bool, before: TopicEnded | None,
    ) -> None:  # fmt: skip
        """`is_kept`: all of it, for ever. `before`: the log of the topic that ended before this one."""
        self.topic: Final = topic
        self.number: Final = number_of(topic)
        self.group: Final = group
        self.founders: Final = founders
        self._me = me
        self._options = options
        self._step = step
        self._house = house
        self._is_kept = is_kept
        self._before = before
        self.log = TopicLog()
        self.replica: Final = Replica(group, me, founders, rng, options.replicas)
        self._group = ReplicaInSessions(self.replica, step, self, house.post_holder)
        self._is_said_begun = False
        self.is_leading = False
        """And knows all that was decided before."""
        self.heard: dict[str, None] = {}
        """Other holders that were heard of it, in their sessions."""
        self._stands_us = 0
        """Before this, it does not stand again."""
        self._known_holders = founders
        """Before the latest configuration."""
        self._is_passed_on = False
        """This broker was left out, and most of those who hold the topic know so."""
        self._requests: dict[tuple[Origin, int], str] = {}
        """Publications that wait for a place, and who asked for it."""
        self._under_way_bytes = 0
        """Of publications that were proposed by this leader."""
        self._deferred: dict[tuple[Origin, int], tuple[str, PublishAt]] = {}
        """Publications that are proposed when the tree has come further, and who asked for it."""
        self._deferred_bytes = 0
        self._changes: dict[SetReplica, dict[tuple[str, int], None]] = {}
        """Commands of operators that are not decided: who asked, and the number of the command there."""
        self._announced_us = 0
        self._used_us = 0
        """By the leader: when somebody last read the topic, published on it, or asked for it."""
        self.is_ending = False
        """By the leader: it proposed to end the topic, and takes nothing more until that is decided."""
        self._looks: dict[int, str] = {}
        self._numbers = 0
        self._times: deque[tuple[int, int]] = deque()
        """(position, when it got here)."""

    def begin(self, stands: bool, is_begun: bool) -> None:
        """`stands`: nobody leads yet, and nobody need wait to find that out. `is_begun`: somebody says that it is."""
        self._is_said_begun = is_begun
        self._group.begin(self._options.suspect_us, stands)

    @property
    def holders(self) -> tuple[str, ...]:
        return self.replica.ledger.members

    @property
    def others(self) -> Iterator[str]:
        return (holder for holder in self.holders if holder != self._me)

    @property
    def is_member(self) -> bool:
        return self._me in self.holders

    @property
    def leader(self) -> str | None:
        """Who may be asked for anything; None while nobody leads, or this broker does not know all yet."""
        leader = self.replica.leader
        return leader if leader in self.holders and (leader != self._me or self.is_leading) else None

    @property
    def is_begun(self) -> bool:
        """Somebody has led it, or tried to: something may be decided."""
        return self._is_said_begun or self.replica.ledger.promised != NO_BALLOT

    @property
    def known(self) -> TopicKnown:
        return TopicKnown(self.topic, self.group, self.founders, self.holders, self.is_begun)

    @property
    def epitaph(self) -> TopicEnded:
        last = self.log.latest_marks(ENDED_MARKS_MAX)
        return TopicEnded(self.topic, self.group, self.log.position, self.log.next_tseq, last)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def hear(self, holder: str, message: ProtocolMessage) -> None:
        self.heard[holder] = None
        if isinstance(message, Ask) and holder not in self.holders:  # it was left out, and does not know
            self._house.post_holder(holder, Known(self.group, self.replica.ledger.chosen))
        self._group.hear(holder, message)

    def fired(self, timer: HeartbeatDue | PatienceOver) -> None:
        self._group.fired(timer)

    def configure(self, holders: Sequence[str]) -> None:
        """By its leader."""
        if set(holders) != set(self.holders):
            for holder in holders:
                if holder not in self.holders:
                    known = TopicKnown(self.topic, self.group, self.founders, tuple(holders), is_begun=True)
                    self._house.post_holder(holder, known)
            self._group.configure(holders)

    def wake(self) -> None:
        """A holder cannot be reached, or it matters whether this broker still leads."""
        self._group.wake()

    def stand(self) -> None:
        """If the leader is none of those who hold it any more, the owner need not wait to find that out."""
        if self.replica.leader not in (None, *self.holders) and self.holders[0] == self._me:
            if self._step.now_us < self._stands_us:
                return
            self._stands_us = self._step.now_us + self._options.suspect_us
            self._group.stand()

    def invite(self) -> None:
        """Whoever holds it and was not heard may not know. One that was left out may be the only one who does, and goes
        on until most of them were heard."""
        if not self.is_member:
            heard = sum(holder in self.heard for holder in self.holders)
            self._is_passed_on = self._is_passed_on or 2 * heard > len(self.holders)
        if self.is_leading or not (self.is_member or self._is_passed_on):
            for holder in self.others:
                if holder not in self.heard:
                    self.forget(holder)
                    self._house.post_holder(holder, self.known)

    # -- what the leader is asked --------------------------------------------------------------------------------------

    def publish(self, name: str, message: PublishAt) -> None:
        bundle = message.bundle
        key = (bundle.origin, bundle.first)
        if self.log.has(bundle):
            self._say_placed(name, key)
        elif self.log.is_outlived(bundle):
            self._say_outlived(name, key)
        elif key in self._requests:
            self._requests[key] = name
        elif key in self._deferred:
            self._deferred[key] = (name, message)
        elif self._deferred_bytes >= DEFERRED_BYTES:
            self._house.say(name, TopicLed(self.topic, self._me))
        else:
            self._deferred[key] = (name, message)
            self._deferred_bytes += bundle.cost
            self.go_on()

    def go_on(self) -> None:
        """Propose what waits, in order, as far as the tree can be expected to carry it."""
        while self._deferred and self.is_leading and not self.is_ending and not self._is_full():
            key = next(iter(self._deferred))
            name, message = self._deferred.pop(key)
            cost = message.bundle.cost
            self._deferred_bytes -= cost
            self._requests[key] = name
            self._under_way_bytes += cost
            if not self._propose(PlaceBundle(message.bundle, message.previous)):
                self._requests.pop(key, None)  # too much waits, or too few have promised
                self._under_way_bytes -= cost
                self._house.say(name, TopicLed(self.topic, self._me))

    def _is_full(self) -> bool:
        """As much is on its way as may be kept for those who miss it: what is more would be lost to them."""
        most, size = self._options.keep_bytes, self._under_way_bytes
        if self._is_kept or size + self.log.bytes <= most:
            return False
        floor = self._spread_upto
        for placed in reversed(self.log.recent):
            if placed.position <= floor or size > most:
                break
            size += placed.bundle.cost
        return size > most

    @property
    def _spread_upto(self) -> int:
        """Nobody in the tree lacks anything up to this position. Until it is announced, and filters that match it have
        had time to ask for it, somebody may want it all."""
        if not self.log.is_announced or self._step.now_us < self._announced_us + self._options.again_us:
            return self.log.watermark
        floor = self._house.floor(self.topic)
        return self.log.position if floor is None else floor

    def look(self, name: str) -> None:
        """How far has it come? What is decided elsewhere, unknown to a leader of old, is decided against this."""
        self._used_us = self._step.now_us
        self._numbers += 1
        self._looks[self._numbers] = name
        self._propose(Look(self._me, self._numbers))

    def give_missed(self, name: str, message: AskMissed) -> None:
        if message.after < self.log.watermark:
            self._house.say(name, NotKept(self.topic, self.log.watermark, self.log.begins))
        for placed in self.log.after(message.after):
            if placed.position > message.upto:
                break
            self._house.give(name, scribed(placed))

    def change_replica(self, name: str, message: ChangeReplica) -> None:
        """Have the log decide it, unless it is so."""
        known = self.log.added.get(name_of(message.holder))
        if (known == message.holder) if message.is_added else known is None:
            self._house.say(name, ReplicaChanged(self.topic, message.number))
        elif message.is_added and known is None and len(self.log.added) >= ADDED_MAX:
            refusal = f"operators have added {ADDED_MAX} brokers to the topic {self.topic!r}, and there can be no more"
            self._house.say(name, ReplicaChanged(self.topic, message.number, refusal))
        elif self._propose(change := SetReplica(message.holder, message.is_added)):
            self._changes.setdefault(change, {})[name, message.number] = None

    def announced(self) -> None:
        if not self.log.is_announced:
            self._propose(TopicAnnounced())

    def let_go(self) -> None:
        """From time to time: of what was spread, and is old or too much (the watermark)."""
        if not self.is_leading or self._is_kept:
            return
        self.go_on()
        old_us, spare = self._step.now_us - self._options.keep_us, self.log.bytes - self._options.keep_bytes
        upto, floor = self.log.watermark, self._spread_upto
        young_us, young_bytes = self._step.now_us - YOUNG_US, (YOUNG_FACTOR - 1) * self._options.keep_bytes
        for placed, (_, at_us) in zip(self.log.recent, self._times, strict=True):
            is_young = at_us > young_us and spare <= young_bytes
            if at_us > old_us and (spare <= 0 or placed.position > floor or is_young):
                break
            upto = placed.position
            spare -= placed.bundle.cost
        if upto > self.log.watermark:
            self._propose(Spread(upto))
        self._end_unused()

    def _end_unused(self) -> None:
        """Propose to end a topic that nobody has read, published on or asked for in a while."""
        if self._requests or self._deferred or self.log.recent or self._house.has_readers(self.topic):
            self._used_us = self._step.now_us
        elif self.log.is_announced and not self.is_ending and self._step.now_us - self._used_us >= self._options.end_us:
            self.is_ending = self._propose(EndTopic(self.log.position))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _propose(self, command: LogCommand) -> bool:
        return self._group.propose(encode(command))

    def forget(self, holder: str) -> None:
        """What was said to it may be lost."""
        self.heard.pop(holder, None)
        self._group.forget(lambda other: other == holder)

    # -- the owner of its group (`GroupOwner`) -------------------------------------------------------------------------

    def dump(self) -> bytes:
        return self.log.dump()

    def learn(self, news: News) -> None:
        if self.log.is_ended:
            return
        if isinstance(news, Led):
            if news.leader == self._me:
                self._propose(self._take_lead)
            else:
                self._lose_lead()
        elif isinstance(news, Restored):
            self.log = TopicLog.load(news.snapshot.state)
            self._times = deque([(placed.position, self._step.now_us) for placed in self.log.recent])
        elif isinstance(news, Chosen) and news.entry.command:
            self._apply(decode(news.entry.command))
        elif isinstance(news, Chosen) and news.entry.is_configuration:
            self._is_passed_on = False
            self._tell_left_out()
            self.invite()
            self.stand()

    @property
    def _take_lead(self) -> TakeLead:
        before = self._before
        return TakeLead(self._me, before.position, before.tseq, before.last) if before else TakeLead(self._me)

    def _tell_left_out(self) -> None:
        """Whoever does not know would take the lead, in the configuration that it knows. All who know tell it: the
        leader may be left out itself, and lead no more when it learns that; or die."""
        before, self._known_holders = self._known_holders, self.holders
        for holder in before:
            if holder not in self.holders and holder != self._me:
                self._house.post_holder(holder, Known(self.group, self.replica.ledger.chosen))

    def end(self) -> None:
        """Drop it: whoever waits for this leader has to ask again, and founds the topic anew."""
        self.log.is_ended = True
        if self.is_leading:
            self._lose_lead()

    def _lose_lead(self) -> None:
        """Whoever waits for this broker has to ask another one."""
        self.is_leading = self.is_ending = False
        deferred = [name for name, _ in self._deferred.values()]
        changes = [name for asked in self._changes.values() for name, _ in asked]
        for name in dict.fromkeys((*self._requests.values(), *deferred, *self._looks.values(), *changes)):
            self._house.say(name, TopicLed(self.topic, self.leader or ""))
        self._requests.clear()
        self._deferred.clear()
        self._under_way_bytes = self._deferred_bytes = 0
        self._looks.clear()
        self._changes.clear()
        self._house.unled(self)

    def _apply(self, command: LogCommand) -> None:
        placed = self.log.apply(command)
        while self._times and self._times[0][0] <= self.log.watermark:
            self._times.popleft()
        if placed is not None:
            self._times.append((placed.position, self._step.now_us))
            if self.is_leading:
                self._house.spread(placed)
        match command:
            case PlaceBundle():
                key = (command.bundle.origin, command.bundle.first)
                name = self._requests.pop(key, None)
                if name is not None:
                    self._under_way_bytes -= command.bundle.cost
                if name is not None and self.log.has(command.bundle):
                    self._say_placed(name, key)
                elif name is not None and self.log.is_outlived(command.bundle):
                    self._say_outlived(name, key)
                elif name is not None:  # the one before it was not taken, and has to be said again first
                    self._house.say(name, TopicLed(self.topic, self._me))
                self.go_on()
            case Spread():
                self.go_on()
            case TopicAnnounced():
                self._announced_us = self._step.now_us
            case TakeLead() if command.holder == self._me and self.replica.is_leading:
                self.is_leading = True
                self._used_us = self._step.now_us
                self._house.led(self)
            case SetReplica():
                for name, number in self._changes.pop(command, {}):
                    self._house.say(name, ReplicaChanged(self.topic, number))
            case EndTopic():
                self.is_ending = False
                if self.log.is_ended:
                    self._house.ended(self)
                else:
                    self.go_on()
            case Look() if command.holder == self._me and command.number in self._looks:
                self._house.say(self._looks.pop(command.number), self._come)
            case _:
                pass

    @property
    def _come(self) -> TopicLed:
        return TopicLed(self.topic, self._me, self.log.position, self.log.watermark)

    def _say_placed(self, name: str, key: tuple[Origin, int]) -> None:
        self._answer(name, key, len(self.holders) // 2 + 1)

    def _say_outlived(self, name: str, key: tuple[Origin, int]) -> None:
        """Whoever is told `safe` must be able to rely on it: this was not placed, and will not be."""
        self._answer(name, key, 0)

    def _answer(self, name: str, key: tuple[Origin, int], copies: int) -> None:
        (publisher, stream, incarnation), first = key
        self._house.say(name, PublicationPlaced(self.topic, publisher, incarnation, stream, first, copies))


def scribed(placed: PlacedAt) -> Scribed:
    return Scribed(placed.bundle, placed.position, 0, placed.tseq)
