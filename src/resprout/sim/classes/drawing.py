"""Parts that several classes share: brokers and clients of drawn scenarios, a death with or without a return, and a
drawn scenario that is busy after its tree has formed, with moments of its run to strike at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

import msgspec

from resprout.scenario.draw import draw_scenario, with_keepers
from resprout.scenario.model import BrokerSpec, ClientSpec, FaultKind, FaultSpec, Scenario, SubscriptionSpec
from resprout.sim.mishaps import LONG_EVENTS, TIME_LIMIT_US
from resprout.sim.run import FaultAtEvent
from resprout.sim.trial import FaultModel, Rehearsal, Trial, formed_us, rehearse
from resprout.stacks.stack import everything


def brokers_in(
    parents: Iterable[int | None],
    latency_us: Callable[[], int],
    bandwidth_bps: Callable[[], int | None] = lambda: None,
) -> tuple[BrokerSpec, ...]:
    """Return brokers `b0`, `b1`, ... below these parents, with a latency and a bandwidth drawn for each."""
    return tuple(
        [
            BrokerSpec(f"b{i}", None if parent is None else f"b{parent}", latency_us(), bandwidth_bps())
            for i, parent in enumerate(parents)
        ]
    )


def subscriptions_to(filters: Sequence[str]) -> tuple[SubscriptionSpec, ...]:
    return tuple([SubscriptionSpec(filter) for filter in filters])


def first_reads_all(clients: Sequence[ClientSpec]) -> tuple[ClientSpec, ...]:
    """Return the clients; the first one subscribes to everything, so that every message has a reader."""
    return (msgspec.structs.replace(clients[0], subscriptions=(SubscriptionSpec("#"),)), *clients[1:])


def death(
    rng: Random, name: str, at_us: int, *, host: bool, return_chance: float, within_us: int
) -> tuple[FaultSpec, ...]:
    """Return the crash of a broker and, by chance, its return within this time."""
    crash = FaultSpec(at_us, FaultKind.CRASH, (name,), host=host)
    if rng.random() >= return_chance:
        return (crash,)
    return (crash, FaultSpec(at_us + rng.randint(1, within_us), FaultKind.RECOVER, (name,)))


class GrowingTrial:
    """A trial that grows fault by fault."""

    def __init__(self, seed: int, rng: Random, change: Callable[[Scenario], Scenario] = lambda drawn: drawn) -> None:
        drawn = change(with_keepers(draw_scenario(seed)))
        faults = max(1, int(drawn.options.get("faults_tolerated", 1)))
        options = {**drawn.options, "faults_tolerated": faults}
        limit_us = max(TIME_LIMIT_US, drawn.time_limit_us)
        scenario = msgspec.structs.replace(drawn, options=options, faults=(), time_limit_us=limit_us)
        self.formed_us = formed_us(scenario)
        work = [msgspec.structs.replace(w, start_us=self.formed_us + w.start_us // 4) for w in scenario.workloads]
        self.scenario: Scenario = msgspec.structs.replace(scenario, workloads=tuple(work))
        self.model = FaultModel(scenario.brokers, everything(faults))
        self._rng = rng
        self._at_events: list[FaultAtEvent] = []

    @property
    def trial(self) -> Trial:
        return Trial(self.scenario, tuple(self._at_events))

    def rehearse(self) -> Rehearsal:
        return rehearse(self.trial)

    def rounds(self, most: int) -> Iterator[tuple[int, int, int]]:
        """(number, event, its time) of each round of blows: the first while clients are busy, the next ones when the
        tree stands again. No more when the run has become long."""
        from_us = self.formed_us
        for number in range(self._rng.randint(1, most)):
            rehearsal = self.rehearse()
            if len(rehearsal.times_us) > LONG_EVENTS:
                return
            if number:
                from_us = rehearsal.rest_us
            event = self.moment(rehearsal, from_us)
            yield number, event, rehearsal.time_of(event)

    def moment(self, rehearsal: Rehearsal, from_us: int) -> int:
        """An event from then on, while clients are busy if they are."""
        first = rehearsal.event_from(from_us)
        last = max(first, rehearsal.event_from(rehearsal.busy_until_us + 1))
        return self._rng.randint(first, self._rng.choice((last, first + (last - first) // 3)))

    def strike(self, event: int, fault: FaultSpec) -> None:
        self._at_events.append(FaultAtEvent(event, fault))

    def later(self, *faults: FaultSpec) -> None:
        in_order = sorted((*self.scenario.faults, *faults), key=lambda fault: fault.at_us)
        self.scenario = msgspec.structs.replace(self.scenario, faults=tuple(in_order))
