"""Keeps what a broker can tell of itself, life after life, and makes its account when somebody asks.

Nothing here is done for each publication: `edge.broker.meter` counts, this reads. Rates and latencies of the last
moments come from counts that only grow, looked at every second.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from resprout import __version__
from resprout.core.contract import Machine, Note
from resprout.edge.broker.meter import BOUNDS_US, Meter, Passages, TrafficTally
from resprout.links.links import Links
from resprout.links.options import LinkStatus
from resprout.net.accounts import (
    BrokerAccount,
    ClientAccount,
    Counters,
    JournalAccount,
    LatencySummary,
    MqttAccount,
    NeighbourAccount,
    NotedLine,
    PassageAnswer,
    Rates,
    StoreAccount,
    TopicAnswer,
)
from resprout.net.address import AddressBook
from resprout.net.data_folder import DataFolder
from resprout.net.disk import Rooms
from resprout.net.event_loop import now_us
from resprout.net.history import History
from resprout.net.host import Host
from resprout.stacks.stack import Stack
from resprout.stacks.status import Absent, MemberSeen, StackStatus, TellsStatus, TopicReaders

RECENT_MAX: Final = 100
"""Notes that are remembered."""
CLIENTS_TOLD: Final = 1_000
MEMBERS_TOLD: Final = 2_000
LOOK_SECONDS: Final = 1.0
NOT_TO_SAY: Final = "it said what it may not say"

RATE_SECONDS: Final = 10
LATENCY_SECONDS: Final = 60


class ServesMqtt(Protocol):
    """What a broker serves to MQTT clients, as far as people want to know."""

    @property
    def is_serving(self) -> bool:
        """Whether MQTT clients can connect."""
        ...

    def account(self) -> MqttAccount: ...

    def protocol_of(self, client: str) -> str:
        """What a client speaks; empty for one that is none of these."""
        ...


class _CurrentLife(NamedTuple):
    host: Host
    node: Links
    machine: Machine
    address: str
    incarnation: int
    since: float


class Bookkeeper:
    def __init__(self, name: str, stack: Stack[Any], book: AddressBook, metered: bool = True) -> None:
        """`metered`: publications are counted; otherwise only what costs nothing."""
        self.name = name
        self._stack = stack
        self._book = book
        self._metered = metered
        self._tally = TrafficTally()
        self._meter: Meter | None = None
        self._passages = Passages()
        self._rates = RateHistory(self._tally, time.monotonic())
        self._history = History()
        self._since = time.time()
        self.kinds: Counter[str] = Counter()
        """Notes, by kind."""
        self._recent: deque[NotedLine] = deque(maxlen=RECENT_MAX)
        self._refused_before: Counter[str] = Counter()
        """In lives that are over."""
        self._life: _CurrentLife | None = None
        self._looking: asyncio.TimerHandle | None = None
        self.folder: DataFolder | None = None
        self.rooms: Rooms | None = None
        self.http: str | Absent = msgspec.UNSET
        self.mqtt: ServesMqtt | None = None

    # -- what happens --------------------------------------------------------------------------------------------------

    def meter(self, machine: Machine) -> Machine:
        """What stands between the links and a machine."""
        if not self._metered:
            return machine
        self._fold()
        self._meter = Meter(machine, self._tally, self._passages, self._stack.receipts)
        return self._meter

    @property
    def tally(self) -> TrafficTally:
        """With everything that has passed by now."""
        self._fold()
        return self._tally

    def _fold(self) -> None:
        if self._meter is not None:
            self._meter.fold()

    def begin(self, host: Host, node: Links, machine: Machine, address: str, incarnation: int) -> None:
        """Another life of this broker: counts go on, whatever tells how it is now is asked of this one."""
        self._end_life()
        self._life = _CurrentLife(host, node, machine, address, incarnation, time.time())
        if self._looking is None:
            self._look()

    def note(self, note: Note) -> None:
        self.kinds[note.kind] += 1
        self._recent.append(NotedLine(round(time.time(), 3), note.kind, str(note.columns.get("detail", ""))))

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self) -> None:
        self._fold()
        self._rates.look(time.monotonic())
        now_s = time.time()
        if self._history.is_due(now_s):
            clients, status, tally = sum(one.role == "client" for one in self.sessions()), self.status(), self._tally
            members = status.members if status.serving else None
            self._history.add(now_s, tally.published, tally.delivered, clients, members)
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _end_life(self) -> None:
        self._refused_before = self.refusals()
        self._life = None

    # -- what is told --------------------------------------------------------------------------------------------------

    @property
    def stack(self) -> str:
        return self._stack.name

    @property
    def life(self) -> int:
        return self._life.incarnation if self._life is not None else 0

    @property
    def connections(self) -> int:
        return self._life.host.connections if self._life is not None else 0

    @property
    def machine(self) -> Any:
        """The stack's, of the life that runs."""
        return self._life.machine if self._life is not None else None

    def refusals(self) -> Counter[str]:
        """By reason, since the process began."""
        counted = Counter(self._refused_before)
        if (life := self._life) is not None:
            counted.update(life.host.reception.refusals.counts)
            counted.update(life.node.refusals.counts)
            mistakes = life.node.mistakes + getattr(life.machine, "mistakes", 0)
            if mistakes:
                counted[NOT_TO_SAY] += mistakes
            if isinstance(life.machine, TellsStatus):
                counted.update(life.machine.status().refused)
        return counted

    def sessions(self) -> list[LinkStatus]:
        return self._life.node.sessions() if self._life is not None else []

    def status(self) -> StackStatus:
        life = self._life
        if life is None:
            return StackStatus(serving=False)
        told = life.machine.status() if isinstance(life.machine, TellsStatus) else StackStatus()
        return told if not life.host.is_over else msgspec.structs.replace(told, serving=False)

    def counters(self) -> Counters:
        tally = self.tally
        return Counters(
            publications=tally.published,
            publication_bytes=tally.published_bytes,
            deliveries=tally.delivered,
            delivery_bytes=tally.delivered_bytes,
            carried=tally.carried,
            passed_on=tally.passed_on,
            receipts_safe=tally.safe,
            receipts_delivered=tally.spread,
            repairs=self.kinds["repair_end"],
            suspicions=self.kinds["suspect"],
            publications_refused=tally.refused_publications,
            subscriptions_refused=tally.refused_subscriptions,
            refusals=dict(self.refusals()),
        )

    def journal(self) -> JournalAccount | Absent:
        folder = self.folder
        if folder is None:
            return msgspec.UNSET
        events = folder.events.size if folder.events is not None else msgspec.UNSET
        return JournalAccount(folder.records.journal.size, len(folder.records), events)

    def stores(self) -> list[StoreAccount]:
        """What it writes to, and how much room there is."""
        return [
            StoreAccount(
                one.name, one.state, one.free, one.least, one.warn, one.failures, one.lost, one.trouble,
                round(one.held_since, 3) if one.held_since is not None else msgspec.UNSET,
            )
            for one in (self.rooms or ())
        ]  # fmt: skip

    def account(self) -> BrokerAccount:
        self._fold()
        status, now_s, sessions = self.status(), time.monotonic(), self.sessions()
        safe, delivered = self._rates.latencies(now_s)
        life = self._life
        assert life is not None, "it is asked when it lives"
        clients = [one for one in sessions if one.role == "client"]
        return BrokerAccount(
            name=self.name,
            life=life.incarnation,
            address=life.address,
            stack=self._stack.name,
            version=__version__,
            network=life.host.network,
            time=round(time.time(), 3),
            since=round(self._since, 3),
            life_since=round(life.since, 3),
            ready=status.serving,
            neighbours=tuple([_neighbour(one, status) for one in sessions if one.role != "client"]),
            clients=tuple([self._client(one, status) for one in clients[:CLIENTS_TOLD]]),
            clients_count=len(clients),
            connections=life.host.connections,
            queue_bytes=sum([_queue_bytes(one, status) for one in sessions]),
            rates=self._rates.rates(now_s),
            counters=self.counters(),
            members=tuple([self._located(member) for member in status.members[:MEMBERS_TOLD]]),
            repairs=status.repairs,
            recent=tuple(self._recent),
            notices=(*life.host.notices(), *status.notices),
            parent=status.parent,
            site=status.site,
            log_bytes=status.log_bytes,
            log_bundles=status.log_bundles,
            log_bytes_max=status.log_bytes_max,
            spill=status.spill,
            journal=self.journal(),
            safe_latency=_or_absent(safe),
            delivered_latency=_or_absent(delivered),
            http=self.http,
            stores=tuple(self.stores()),
            paused=status.paused,
            held=status.held,
            durables=status.durables,
            logs=status.logs,
            roles=status.roles,
            slow_consumers=status.slow_consumers,
            dropped_messages=status.dropped_messages,
            history=self._history.points(),
            departed=self._history.departed(time.time()),
            mqtt=self.mqtt.account() if self.mqtt is not None else msgspec.UNSET,
        )

    def _client(self, one: LinkStatus, status: StackStatus) -> ClientAccount:
        protocol = self.mqtt.protocol_of(one.peer) if self.mqtt is not None else ""
        held = one.held or any(publisher.name == one.peer for publisher in status.held)
        queue_bytes = _queue_bytes(one, status)
        return ClientAccount(one.peer, one.incarnation, one.connected, one.unconfirmed, queue_bytes, held, protocol)

    def readers(self, topic: str) -> TopicAnswer:
        machine = self.machine
        told = machine.readers(topic) if isinstance(machine, TellsStatus) else TopicReaders()
        return TopicAnswer(self.name, topic, told.clients, told.conditional, told.onward, told.roles)

    def passage(self, publisher: str, incarnation: int, stream: str, seq: int) -> PassageAnswer:
        self._fold()
        found = self._passages.find((publisher, stream, incarnation), seq)
        if found is None:
            return PassageAnswer(self.name, found=False)
        return PassageAnswer(
            broker=self.name,
            found=True,
            topic=found.topic,
            guarantee=found.guarantee.label,
            came_from=found.from_peer,
            published_here=found.is_own,
            time=_clock_time(found.seen_us),
            passed_to=tuple(found.passed_to),
            passed_time=_clock_time(found.passed_us),
            readers=tuple(found.readers),
            given=found.given,
            shown_time=_clock_time(found.shown_us),
            safe_time=_clock_time(found.safe_us),
            delivered_time=_clock_time(found.delivered_us),
        )

    def _located(self, member: MemberSeen) -> MemberSeen:
        """With its address, if that is known to anybody here."""
        known = self._book.find(member.name)
        if (member.address is msgspec.UNSET or not member.address) and known is not None:
            return msgspec.structs.replace(member, address=str(known))
        return member


def _neighbour(one: LinkStatus, status: StackStatus) -> NeighbourAccount:
    """A session without a connection is silent if its peer should be there: a broker that has left, or was replaced, is
    not missed, though its session is kept for a while."""
    is_missed = not one.connected and one.peer in {*status.neighbours, *_living(status)}
    return NeighbourAccount(
        one.peer, one.incarnation, one.connected, one.unconfirmed, one.unconfirmed_bytes,
        one.peer in status.silent or is_missed, one.peer in status.neighbours,
    )  # fmt: skip


def _living(status: StackStatus) -> list[str]:
    return [member.name for member in status.members if not member.dead]


def _queue_bytes(one: LinkStatus, status: StackStatus) -> int:
    """What the stack says is unread includes what is on its way."""
    return max(one.unconfirmed_bytes, status.unread.get(one.peer, 0))


def _or_absent(summary: LatencySummary | None) -> LatencySummary | Absent:
    return summary if summary is not None else msgspec.UNSET


def _clock_time(at_us: int) -> float | Absent:
    """Of a moment of this machine's own clock."""
    return round(time.time() - (now_us() - at_us) / 1e6, 6) if at_us else msgspec.UNSET


class _Look(NamedTuple):
    time_s: float
    published: int
    delivered: int
    carried: int
    passed_on: int
    safe: tuple[int, ...]
    spread: tuple[int, ...]


class RateHistory:
    """`look` is called about once a second, and when somebody asks."""

    def __init__(self, tally: TrafficTally, now_s: float) -> None:
        self._tally = tally
        self._looks: deque[_Look] = deque([self._take(now_s)], maxlen=LATENCY_SECONDS + 2)

    def look(self, now_s: float) -> None:
        self._looks.append(self._take(now_s))

    def rates(self, now_s: float) -> Rates:
        now, then = self._take(now_s), self._before(now_s - RATE_SECONDS)
        passed_s = now.time_s - then.time_s
        if passed_s <= 0:
            return Rates()
        pairs = zip(now[1:5], then[1:5], strict=True)
        return Rates(*[round((after - before) / passed_s, 2) for after, before in pairs])

    def latencies(self, now_s: float) -> tuple[LatencySummary | None, LatencySummary | None]:
        """Of `safe`, and of `delivered`; None where there was none."""
        now, then = self._take(now_s), self._before(now_s - LATENCY_SECONDS)
        return _summary(now.safe, then.safe), _summary(now.spread, then.spread)

    def _take(self, now_s: float) -> _Look:
        tally = self._tally
        return _Look(
            now_s, tally.published, tally.delivered, tally.carried, tally.passed_on,
            tuple(tally.safe_latency.counts), tuple(tally.spread_latency.counts),
        )  # fmt: skip

    def _before(self, time_s: float) -> _Look:
        """The last look that is as old as that; the first one, if none is."""
        return next((look for look in reversed(self._looks) if look.time_s <= time_s), self._looks[0])


def _summary(now: Sequence[int], then: Sequence[int]) -> LatencySummary | None:
    counts = [after - before for after, before in zip(now, then, strict=True)]
    total = sum(counts)
    return LatencySummary(total, quantile_ms(counts, 0.5), quantile_ms(counts, 0.99)) if total else None


def quantile_ms(counts: Sequence[int], share: float) -> float:
    """As far as the counts tell: within the bounds where it lies, as if all were spread evenly there."""
    wanted = share * sum(counts)
    before = 0
    for place, count in enumerate(counts):
        if count and before + count >= wanted:
            low = BOUNDS_US[place - 1] if place else 0
            high = BOUNDS_US[place] if place < len(BOUNDS_US) else low
            return round((low + (high - low) * (wanted - before) / count) / 1000, 3)
        before += count
    return 0.0
