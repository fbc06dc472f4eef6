"""The clock of a scenario's schedule: when workloads begin and faults strike, in a run with processes.

A scenario gives these times as offsets from the beginning of the run. In virtual time every client is subscribed a few
latencies after the beginning; on a busy machine that can take many seconds. So a run holds the schedule just before its
first event until every subscription is confirmed, and plays all of it later by as much. Times in the trace are those of
the common clock.
"""

from collections.abc import Sequence

from resprout.core.message import Message
from resprout.edge.requests import ClientNews
from resprout.scenario.app import App, AppWish, WakeAt
from resprout.scenario.model import Scenario


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
