"""The schedule of a run with processes: which processes it needs, when its events begin, and when it is over.

A scenario gives the times of workloads and faults as offsets from the beginning of the run. In virtual time every
client is subscribed a few latencies after the beginning; on a busy machine that can take many seconds. So a run holds
the schedule just before its first event until every subscription is confirmed, and shifts all of it by as much. Times
in the trace are those of the common clock.

Nobody can look at all processes and links at one moment. So the run is over when every application is done, every
request has an outcome, and nothing was observed for a while after that. Where some outcome never comes (a broker is
dead, a subscriber frozen for good), the run is over after a much longer while without any observation; then what has
not been delivered is lost, and the judge will say so. After a fault, brokers act on silence: so the last fault must be
longer ago than it takes them to suspect a broker and to declare it dead, and a repair that has begun is awaited like an
outcome.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.message import Message
from resprout.edge.requests import ClientNews
from resprout.links.options import LinkOptions
from resprout.net.sessions import HEARTBEAT_US, SILENCE_US
from resprout.scenario.app import App, AppWish, WakeAt
from resprout.scenario.model import MQTT, FaultKind, Scenario
from resprout.stacks.stack import WaitTimes
from resprout.trace import kinds
from resprout.trace.schema import Row

BROKERS_MAX: Final = 64
CLIENTS_MAX: Final = 512
WORKERS_MAX: Final = 16
"""Processes with clients. Where there are more clients than this, several share a process."""

_ONLY_SIMULATED: Final = (
    FaultKind.DISK_LOW, FaultKind.DISK_FULL, FaultKind.DISK_FREE, FaultKind.UNRESOLVE, FaultKind.RESOLVE,
)  # fmt: skip
_BY_SIGNAL: Final = (FaultKind.CRASH, FaultKind.FREEZE)
_OF_CLOCKS: Final = (FaultKind.SUSPEND, FaultKind.RESUME, FaultKind.LEAP)

SETTLE_US: Final = 500_000
"""Longer than reports are apart: they tell that every publication was delivered, and nothing is under way then."""
UNTOLD_SETTLE_US: Final = 2_000_000
"""With a stack that gives no receipt `delivered`, what is under way is only noticed when it arrives. This is longer
than a busy machine keeps a process waiting."""

WORK: Final = frozenset((kinds.REPAIR_BEGIN, kinds.REPAIR_END, "fenced", "moved", "joined"))
"""Notes of brokers that are at work. Others (suspicions) may come again and again of one that is dead for good."""


def check_runnable(scenario: Scenario) -> None:
    """UsageError, in one line, for what needs more than processes on one machine."""
    if hangs := [fault for fault in scenario.faults if fault.kind in (FaultKind.HANG, FaultKind.UNHANG)]:
        name = hangs[0].nodes[0]
        raise UsageError(f"{name} hangs: no signal does that to a process; `resprout sim` runs it, or take a freeze")
    for fault in scenario.faults:
        if fault.kind in _ONLY_SIMULATED:
            raise UsageError(
                f"{fault.kind} of {fault.nodes[0]}: the machine's disks and names are left alone; see `resprout sim`"
            )
    if clocks := [fault for fault in scenario.faults if fault.kind in _OF_CLOCKS]:
        raise UsageError(f"{clocks[0].nodes[0]}: a {clocks[0].kind} moves a clock; only `resprout sim` does that")
    for client in scenario.clients:
        if client.called is not None or client.reading_us or client.repeats:
            raise UsageError(f"client {client.name}: `called`, `reading` and `repeats` are only for `resprout sim`")
        if client.protocol == MQTT:
            raise UsageError(f"client {client.name}: MQTT clients are only for `resprout sim`")
    if any(fault.kind is FaultKind.DOUBLE for fault in scenario.faults):
        raise UsageError("a second broker of one name (fault kind double) is only simulated: use `resprout sim`")
    if scenario.trace != "rows":
        raise UsageError('trace = "counts" is only for `resprout sim`: a run with processes records its rows')
    joining = {name for fault in scenario.faults if fault.kind is FaultKind.JOIN for name in fault.nodes}
    brokers = len(joining | {broker.name for broker in scenario.brokers})
    for count, most, what in (
        (brokers, BROKERS_MAX, "brokers, each a process"),
        (len(scenario.clients), CLIENTS_MAX, "clients"),
        (len(_alone(scenario)), WORKERS_MAX - 1, "clients that crash or freeze, each a process"),
    ):
        if count > most:
            raise UsageError(f"{count} {what}: at most {most} run on one machine; `resprout sim` runs any number")


def share_out(scenario: Scenario) -> list[tuple[str, ...]]:
    """The clients of each worker. One that a signal will hit has a process to itself; the others are dealt evenly."""
    alone = _alone(scenario)
    rest = [client.name for client in scenario.clients if client.name not in alone]
    workers = min(len(rest), WORKERS_MAX - len(alone))
    return [*((name,) for name in alone), *(tuple(rest[i::workers]) for i in range(workers))]


def longest_way_us(scenario: Scenario) -> int:
    """No two nodes are further apart than this, one way."""
    up = {broker.name: (broker.parent, broker.latency_us) for broker in scenario.brokers}
    for fault in scenario.faults:
        if fault.kind is FaultKind.JOIN:
            up |= {broker.name: (broker.parent, broker.latency_us) for broker in scenario.joining(fault)}
    deepest_us = max((_depth_us(name, up) for name in up), default=0)
    return 2 * (deepest_us + max((client.latency_us for client in scenario.clients), default=0))


def silence_us(scenario: Scenario) -> int:
    """Whoever is far away is not taken for silent: a greeting takes two ways, and the first heartbeat comes one way
    after that."""
    return max(SILENCE_US, HEARTBEAT_US + 2 * longest_way_us(scenario))


def _depth_us(name: str | None, up: dict[str, tuple[str | None, int]]) -> int:
    depth_us = 0
    seen: set[str] = set()
    while name is not None and name not in seen and name in up:
        seen.add(name)
        name, latency_us = up[name]
        depth_us += latency_us if name is not None else 0
    return depth_us


def _alone(scenario: Scenario) -> list[str]:
    hit = {name for fault in scenario.faults if fault.kind in _BY_SIGNAL for name in fault.nodes}
    return _in_order(hit, (client.name for client in scenario.clients))


def _in_order(names: set[str], order: Iterable[str]) -> list[str]:
    return [name for name in order if name in names]


def first_event_us(scenario: Scenario) -> int:
    """Return when the first workload begins or the first fault strikes a broker or a link, whichever is earlier.

    A fault of clients does not count: a client that crashes before it has subscribed is not waited for.
    """
    clients = {client.name for client in scenario.clients}
    strikes = [fault.at_us for fault in scenario.faults if not fault.nodes or not clients.issuperset(fault.nodes)]
    return min([workload.start_us for workload in scenario.workloads] + strikes, default=0)


def subscribers(scenario: Scenario) -> list[str]:
    """Return the clients that subscribe at the beginning, at brokers that are there from the beginning."""
    brokers = {broker.name for broker in scenario.brokers}
    return [client.name for client in scenario.clients if client.subscriptions and client.broker in brokers]


class ScheduledApp:
    """Runs an application on the clock of the schedule.

    Before `release` that clock stops one microsecond before the first event: the application subscribes, and takes what
    is delivered to it, but does nothing of its own accord.
    """

    def __init__(self, app: App, first_us: int) -> None:
        self._app = app
        self._last_us = first_us - 1
        self._held_us: int | None = None
        """How much later than in the file everything happens; None while the schedule is held."""
        self._alarms: list[WakeAt] = []
        """Wishes to be woken, made while the schedule was held."""

    def release(self, held_us: int) -> None:
        """Let the schedule go on. `woke` must be called next."""
        self._held_us = held_us

    @property
    def done(self) -> bool:
        return self._app.done

    def start(self, now_us: int) -> Sequence[AppWish]:
        return self._later(self._app.start(self._time_us(now_us)))

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        return self._later(self._app.told(news, self._time_us(now_us)))

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return self._later(self._app.delivered(message, self._time_us(now_us)))

    def woke(self, now_us: int) -> Sequence[AppWish]:
        alarms, self._alarms = self._alarms, []
        return self._later([*self._app.woke(self._time_us(now_us)), *alarms])

    def _time_us(self, now_us: int) -> int:
        return min(now_us, self._last_us) if self._held_us is None else now_us - self._held_us

    def _later(self, wishes: Sequence[AppWish]) -> Sequence[AppWish]:
        """The same wishes, on the clock of the run."""
        if self._held_us == 0 or not any(isinstance(wish, WakeAt) for wish in wishes):
            return wishes
        if self._held_us is None:
            self._alarms += [wish for wish in wishes if isinstance(wish, WakeAt)]
            return [wish for wish in wishes if not isinstance(wish, WakeAt)]
        held_us = self._held_us
        return [WakeAt(wish.at_us + held_us) if isinstance(wish, WakeAt) else wish for wish in wishes]


class Patience(msgspec.Struct, frozen=True):
    """How long brokers and clients wait for each other before they act."""

    links: LinkOptions
    stack: WaitTimes

    @property
    def suspicion_us(self) -> int:
        """From the last sign of life of a broker to the beginning of its repair, at most."""
        return SETTLE_US + (self.links.silence_us or 0) + self.stack.death_us

    @property
    def patience_us(self) -> int:
        """The longest time that a process waits before it acts again: until it suspects a silent peer, until it gives
        that peer up, or between two attempts to connect."""
        given_up_us = (self.links.silence_us or 0) + self.links.session_linger_us
        return SETTLE_US + max(given_up_us, self.suspicion_us + self.stack.return_us, 2 * self.links.reconnect_us_max)


class Repairs:
    """What brokers say about their work."""

    def __init__(self) -> None:
        self.heard = 0
        """Notes of brokers about their work. It does not grow while no broker repairs anything."""
        self._open: dict[str, set[str]] = {}
        """By broker: the dead ones that it takes part in repairing."""

    @property
    def open(self) -> int:
        """How many brokers have begun a repair and not said that it ended."""
        return len(self._open)

    def hear(self, row: Row) -> None:
        if row.kind in WORK:
            self.heard += 1
        if row.kind == kinds.REPAIR_BEGIN:
            self._open.setdefault(row.node, set()).update((row.detail or "").split())
        elif row.kind == kinds.REPAIR_END and row.node in self._open:
            self._open[row.node].difference_update((row.detail or "").split())
            if not self._open[row.node]:
                del self._open[row.node]
        elif row.kind in (kinds.CRASH, "fenced", "moved"):
            self._open.pop(row.node, None)


class Calm:
    """`way_us`: the longest way through the network; nothing is under way for longer than that. `tells_delivered`:
    whether clients are told when everybody has what they published."""

    def __init__(self, way_us: int, patience: Patience, tells_delivered: bool = True) -> None:
        self._settle_us = (SETTLE_US if tells_delivered else UNTOLD_SETTLE_US) + 2 * way_us
        self._suspicion_us = patience.suspicion_us + 2 * way_us
        self._patience_us = patience.patience_us + 4 * way_us
        self._observed: object = None
        self._since_us = 0

    def over(self, now_us: int, observed: object, busy: bool, pending: int, fault_us: int | None = None) -> bool:
        """`observed`: a value that changes whenever anything is observed. `busy`: somebody will act of his own accord.
        `pending`: how many things have no outcome. `fault_us`: when something last went wrong."""
        if observed != self._observed or busy:
            self._observed = observed
            self._since_us = now_us
            return False
        if fault_us is not None and now_us - fault_us < self._suspicion_us:
            return False
        calm_us = now_us - self._since_us
        return calm_us >= (self._patience_us if pending else self._settle_us)
