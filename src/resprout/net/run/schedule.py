"""When the schedule of a scenario begins in a run with processes, and when the run is over.

A scenario gives the times of workloads and faults as offsets from the beginning of the run. In virtual time every
client is subscribed a few latencies after the beginning; on a busy machine that can take many seconds. So a run holds
the schedule just before its first event until every subscription is confirmed, and plays all of it later by as much.
Times in the trace are those of the common clock.

Nobody can look at all processes and all wires at one moment. So the run is over when every application is done and
every request has an outcome, and that has been so for a while in which nothing was observed; or, where some outcome
never comes (a broker is dead, a subscriber frozen for good), after a much longer while in which nothing at all was
observed. Then what has not been delivered is lost, and the judge will say so. After a fault, brokers act on silence: so
the last fault must be longer ago than it takes them to suspect a broker and to declare it dead, and a repair that has
begun is awaited like an outcome.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.core.message import Message
from resprout.edge.requests import ClientNews
from resprout.links.options import LinkOptions
from resprout.scenario.app import App, AppWish, WakeAt
from resprout.scenario.model import Scenario
from resprout.stacks.stack import WaitTimes
from resprout.trace import kinds
from resprout.trace.schema import Row

SETTLE_US: Final = 500_000
"""Longer than reports are apart: they tell that every publication was delivered, and nothing is under way then."""
UNTOLD_SETTLE_US: Final = 2_000_000
"""With a stack that gives no receipt `delivered`, what is under way is only noticed when it arrives. This is longer
than a busy machine keeps a process waiting."""

WORK: Final = frozenset((kinds.REPAIR_BEGIN, kinds.REPAIR_END, "fenced", "moved", "joined"))
"""Notes of brokers that are at work. Others (suspicions) may come again and again of one that is dead for good."""


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
        """Nobody waits longer than this before he acts again: a peer is suspected after a silence, given up some time
        later, and attempts to connect are never further apart."""
        given_up_us = (self.links.silence_us or 0) + self.links.session_linger_us
        return SETTLE_US + max(given_up_us, self.suspicion_us + self.stack.return_us, 2 * self.links.reconnect_us_max)


class Repairs:
    """What brokers say about their work."""

    def __init__(self) -> None:
        self.heard = 0
        """It stands still when nobody works."""
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
