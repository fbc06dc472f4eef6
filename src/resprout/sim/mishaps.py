"""Faults by chance, added to drawn scenarios that have none of their own.

Some of the scenarios meet nothing, or what needs no repair: links are cut and healed, nodes freeze and go on, clients
leave, or crash and may return. In the others the tree itself is struck (`with_blows`), brokers join, and clients may be
unlucky at the same time.

Blows strike brokers at any event of a run: they crash, freeze, leave or are cut off. Blows keep to what the stack says
that it survives: what falls at once is what it must bear, and the next blow comes when the repair of the one before is
complete. Some of the fallen come back, in the middle of their own repair or long after it. A piece of the tree that is
too large to have crashed is only ever cut off, and heals.

Classes of swarms (`sim.classes`) share the rest: brokers and clients of drawn scenarios, a death with or without a
return, and `GrowingTrial`, a scenario that is busy after its tree has formed, with moments of its run to strike at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario, with_keepers
from resprout.scenario.model import (
    BrokerSpec,
    ChatterOptions,
    ClientSpec,
    FaultKind,
    FaultSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.sim.run import FaultAtEvent, FaultModel, Rehearsal, Trial, formed_us, majority_left, rehearse, survival_of
from resprout.stacks.stack import everything

LATER_OPERATIONS: Final = 15
"""Per client: enough to be busy when a later blow falls."""
LONG_EVENTS: Final = 12_000
"""A run with more of them is struck no more: it takes too long to go through several of its kind."""
REPAIRED_US: Final = 60_000_000
"""Ample for one repair of the slowest tree that is drawn."""
TIME_LIMIT_US: Final = 900_000_000
"""Ample for three repairs of the slowest tree that is drawn."""

WHEN_US_MAX: Final = 3_000_000
"""Most drawn workloads are busy in the first seconds."""

REST_US_MAX: Final = 40_000_000
"""Longer rests take too long to simulate."""

LASTS_US_MAX: Final = 5_000_000
"""Well below the time for which a session waits for its peer; but a client looks for another broker meanwhile."""

SHORT_US_MAX: Final = 1_200_000
"""Well below the time after which a broker may be taken for dead."""


def with_blows(rng: Random, scenario: Scenario, formed_us: int) -> Trial:
    """The same scenario with its work where the blows are: after the tree has formed."""
    work = tuple(msgspec.structs.replace(work, start_us=formed_us + work.start_us // 4) for work in scenario.workloads)
    limit_us = max(TIME_LIMIT_US, scenario.time_limit_us)
    trial = Trial(msgspec.structs.replace(scenario, workloads=work, time_limit_us=limit_us))
    blows = _Blows(rng, trial, formed_us)
    survival = survival_of(scenario)
    later = rng.choice((0, 0, 0, 1, 2)) if survival.faults and survival.again else 0
    blows.strike()
    while later and blows.events <= LONG_EVENTS:
        blows.rest()
        blows.strike()
        later -= 1
    return Trial(blows.scenario, tuple(blows.at_events))


class _Blows:
    def __init__(self, rng: Random, trial: Trial, formed_us: int) -> None:
        self._rng = rng
        self._survival = survival_of(trial.scenario)
        self._moments = ("together", "together", "time" if self._survival.all_return else "event", "time")
        """Of the second that falls. When the time of its fall is not known, nor can be that of its return."""
        self._model = FaultModel(trial.scenario.brokers, self._survival)
        self._living = list(self._model.names)
        self.events = 0
        """Of the latest rehearsal."""
        self._is_first = True
        self._from_us = formed_us
        self.scenario = trial.scenario
        self.at_events = list(trial.at_events)

    def rest(self) -> None:
        """Wait for the repair to be complete, and give the clients something to do after it."""
        self._from_us = self._rehearse().rest_us
        later = _more_work(self.scenario.workloads, self._from_us)
        self.scenario = msgspec.structs.replace(self.scenario, workloads=(*self.scenario.workloads, later))

    def strike(self) -> None:
        rehearsal = self._rehearse()
        self.events = len(rehearsal.times_us)
        first = rehearsal.event_from(self._from_us)
        last = max(first, rehearsal.event_from(rehearsal.busy_until_us + 1))
        event = self._rng.randint(first, self._rng.choice((last, first + (last - first) // 3)))
        at_us = rehearsal.time_of(event)
        names = self._model.names
        if (
            self._is_first
            and self._survival.partitions
            and len(names) > self._model.faults + 1
            and (self._rng.random() < 0.12 or not self._model.faults)
        ):
            piece = self._model.draw_piece(self._rng)
            self._at_event(event, FaultSpec(at_us, FaultKind.PARTITION, tuple(piece)))
            self._later(FaultSpec(at_us + self._lasts(), FaultKind.HEAL))
        else:
            self._fell(event, at_us)
        self._is_first = False

    def _fell(self, event: int, at_us: int) -> None:
        rng = self._rng
        victims = self._draw_victims()
        if not victims and not self._survival.each_site:
            self._crash_majority(event, at_us)
        for number, name in enumerate(victims):
            when = "together" if number == 0 else rng.choice(self._moments)
            for_good = [FaultKind.CRASH, *([FaultKind.LEAVE] if self._survival.leaves else [])]
            kinds = for_good if when == "event" else [*for_good, *self._passing(name)]
            kind = rng.choice([*[FaultKind.CRASH] * 5, *kinds])
            host = kind is FaultKind.CRASH and rng.random() < 0.35 and self._survival.silent_hosts
            links = ((name, str(self._model.parents[name])),) if kind is FaultKind.CUT else ()
            if when == "time":
                at_us += rng.choice((rng.randint(1, 300_000), rng.randint(1, 5_000_000)))
            fault = FaultSpec(at_us, kind, () if links else (name,), links, host=host)
            if when == "time":
                self._later(fault)
            else:
                soon = rng.choice((rng.randint(1, 60), rng.randint(1, 3000))) if when == "event" else 0
                self._at_event(event + soon, fault)
            if when == "event" or not self._returns(fault, name):
                self._living.remove(name)

    def _crash_majority(self, event: int, at_us: int) -> None:
        """In a tree that is too small to bear silence: processes crash, so that no majority of the list is left."""
        for name in self._model.draw_crashes(self._rng, self._living):
            fault = FaultSpec(at_us, FaultKind.CRASH, (name,))
            self._at_event(event, fault)
            if not self._returns(fault, name):
                self._living.remove(name)

    def _passing(self, name: str) -> list[FaultKind]:
        """What a broker can undergo without an end of its process."""
        if self._survival.clients_restart_at_home and self._a_client_crashes():
            return []
        has_parent = self._is_first and self._model.parents[name] is not None
        freezes = [FaultKind.FREEZE, FaultKind.FREEZE] if self._survival.freezes else []
        cuts = [FaultKind.PARTITION, *([FaultKind.CUT] if has_parent else [])] if self._survival.cuts else []
        return [*freezes, *cuts]

    def _a_client_crashes(self) -> bool:
        clients = {client.name for client in self.scenario.clients}
        crashes = [fault for fault in self.scenario.faults if fault.kind is FaultKind.CRASH]
        return any(not clients.isdisjoint(fault.nodes) for fault in crashes)

    def _keep_crashed_clients_down(self) -> None:
        """A client that starts again while its broker is down finds another one, and what only the disk of the first
        one has comes after it."""
        clients = {client.name for client in self.scenario.clients}
        faults = [
            fault
            for fault in self.scenario.faults
            if fault.kind is not FaultKind.RECOVER or clients.isdisjoint(fault.nodes)
        ]
        self.scenario = msgspec.structs.replace(self.scenario, faults=tuple(faults))

    def _returns(self, fault: FaultSpec, name: str) -> bool:
        """Draws whether and when; False when it is gone for good."""
        rng = self._rng
        back_us = fault.at_us + self._lasts()
        match fault.kind:
            case FaultKind.CRASH:
                if not self._survival.recovers or not (self._survival.all_return or rng.random() >= 0.5):
                    return False
                soon_us = fault.at_us + rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 15_000_000)))
                if not self._survival.returns_early:
                    soon_us += REPAIRED_US
                if self._survival.all_return and self._survival.clients_restart_at_home:
                    self._keep_crashed_clients_down()
                self._later(FaultSpec(soon_us, FaultKind.RECOVER, (name,), disk=self._keeps_disk()))
            case FaultKind.LEAVE:
                others = [other for other in self._living if other != name]
                if rng.random() < 0.6:
                    return False
                back = FaultSpec(back_us, FaultKind.JOIN, (name,), parent=rng.choice(others), latency_us=1_000)
                self._later(back)
            case FaultKind.FREEZE:
                self._later(FaultSpec(back_us, FaultKind.UNFREEZE, (name,)))
            case FaultKind.CUT:
                self._later(FaultSpec(back_us, FaultKind.HEAL, links=fault.links))
            case _:
                self._later(FaultSpec(back_us, FaultKind.HEAL))
        return True

    def _keeps_disk(self) -> bool:
        survival = self._survival
        kept = self._rng.random() < 0.5
        return survival.recovers_with_disk and (kept or not survival.recovers_without_disk)

    def _draw_victims(self) -> list[str]:
        """After a repair the tree is another one, and any f may fall that leave enough others."""
        rng, model = self._rng, self._model
        if self._is_first:
            return model.draw_victims(rng)
        if self._survival.each_site:
            return model.draw_again(rng, self._living)
        count = rng.randint(1, model.faults)
        while count and not majority_left(len(self._living), count, model.faults):
            count -= 1
        return rng.sample(self._living, count)

    def _lasts(self) -> int:
        """Shorter and longer than a lease."""
        rng = self._rng
        return rng.choice(
            (rng.randint(1, 1_000_000), rng.randint(1_000_000, 15_000_000), rng.randint(5_000_000, 15_000_000))
        )

    def _rehearse(self) -> Rehearsal:
        return rehearse(Trial(self.scenario, tuple(self.at_events)))

    def _at_event(self, event: int, fault: FaultSpec) -> None:
        self.at_events.append(FaultAtEvent(event, fault))

    def _later(self, fault: FaultSpec) -> None:
        faults = sorted((*self.scenario.faults, fault), key=lambda fault: fault.at_us)
        self.scenario = msgspec.structs.replace(self.scenario, faults=tuple(faults))


def _more_work(before: Sequence[WorkloadSpec], start_us: int) -> WorkloadSpec:
    """That leaves everything as it is until it begins. So there is one workload that answers at most: it would answer
    what is said before its time; and subscriptions change for one workload only."""
    work = before[0]
    options = work.options
    if any(isinstance(other.options, ChatterOptions) for other in before):
        options = RandomOptions()
    elif isinstance(options, RandomOptions):
        options = ChatterOptions(depth=3, answer=0.3, answers_max=40)
    kind = "random" if isinstance(options, RandomOptions) else "chatter"
    operations = min(work.operations, LATER_OPERATIONS)
    return msgspec.structs.replace(work, kind=kind, start_us=start_us, operations=operations, options=options)


def with_rest(trial: Trial, idle_us: int) -> Trial:
    """Let half of the drawn trials rest for so long when their work is done, and then work again. Some clients leave
    before the rest, and a broker may crash in it, if none failed before. Everything before the rest stays as the seed
    has it."""
    scenario = trial.scenario
    rng = random_for(scenario.seed, "rest")
    if not 0 < idle_us <= REST_US_MAX or rng.random() < 0.5:
        return trial
    faults_before = [*scenario.faults, *(strike.fault for strike in trial.at_events)]
    struck = {name for fault in faults_before for name in chain(fault.nodes, *fault.links)}
    rest_us = max(work.start_us for work in scenario.workloads) + rng.randint(1, 2 * WHEN_US_MAX)
    clients = [client.name for client in scenario.clients if client.name not in struck]
    leavers = rng.sample(clients, rng.randint(0, max(0, len(clients) - 1)))
    faults = [FaultSpec(rest_us, FaultKind.LEAVE, (name,)) for name in leavers]
    brokers = [broker.name for broker in scenario.brokers]
    survival = survival_of(scenario)
    if survival.faults and len(brokers) >= max(3, survival.least) and struck.isdisjoint(brokers):
        name, at_us = rng.choice(brokers), rest_us + idle_us - rng.randint(0, WHEN_US_MAX)
        faults.append(FaultSpec(at_us, FaultKind.CRASH, (name,)))
        if rng.random() < 0.5:
            faults.append(FaultSpec(at_us + rng.randint(1, LASTS_US_MAX), FaultKind.RECOVER, (name,)))
    later = _more_work(scenario.workloads, rest_us + idle_us)
    works = msgspec.structs.replace(scenario, workloads=(*scenario.workloads, later))
    return msgspec.structs.replace(trial, scenario=_with_faults(works, faults))


def with_mishaps(scenario: Scenario) -> Trial:
    rng = random_for(scenario.seed, "mishaps")
    chance = rng.random()
    if scenario.faults or chance < 0.12:
        return Trial(scenario)
    clients = [client.name for client in scenario.clients]
    if chance < 0.27 or len(scenario.brokers) == 1:
        nodes = [broker.name for broker in scenario.brokers] + clients
        return Trial(_unlucky(rng, scenario, rng.sample(nodes, min(len(nodes), rng.randint(1, 4))), 0))
    survival = survival_of(scenario)
    standing_us = formed_us(scenario)
    if rng.random() < 0.25:
        scenario = _unlucky(rng, scenario, rng.sample(clients, rng.randint(1, min(2, len(clients)))), standing_us)
    if rng.random() < 0.2 and survival.joins:
        scenario = _joined(rng, scenario, standing_us + rng.randint(0, WHEN_US_MAX))
    if not (survival.faults or survival.partitions):
        return Trial(scenario)
    return with_blows(rng, scenario, standing_us)


def _joined(rng: Random, scenario: Scenario, at_us: int) -> Scenario:
    """A new broker comes, perhaps with a client that was told to wait for it."""
    reach_us = max(broker.latency_us for broker in scenario.brokers)
    parent = rng.choice(scenario.brokers).name
    join = FaultSpec(at_us, FaultKind.JOIN, ("j0",), parent=parent, latency_us=rng.randint(0, reach_us))
    clients = list(scenario.clients)
    if rng.random() < 0.5:
        place = rng.randrange(len(clients))
        clients[place] = msgspec.structs.replace(clients[place], broker="j0")
    return _with_faults(msgspec.structs.replace(scenario, clients=tuple(clients)), [join])


def _unlucky(rng: Random, scenario: Scenario, names: list[str], from_us: int) -> Scenario:
    return _with_faults(scenario, [fault for name in names for fault in _mishap(rng, scenario, name, from_us)])


def _with_faults(scenario: Scenario, faults: list[FaultSpec]) -> Scenario:
    in_order = sorted((*scenario.faults, *faults), key=lambda fault: fault.at_us)
    return msgspec.structs.replace(scenario, faults=tuple(in_order))


def _mishap(rng: Random, scenario: Scenario, name: str, from_us: int) -> list[FaultSpec]:
    at_us = from_us + rng.randint(0, WHEN_US_MAX)
    is_client = any(client.name == name for client in scenario.clients)
    longest_us = LASTS_US_MAX if is_client and survival_of(scenario).cuts else SHORT_US_MAX
    back_us = at_us + rng.choice((0, rng.randint(0, 20_000), rng.randint(0, longest_us)))
    above = _above(scenario, name)
    choices = [
        "freeze",
        "freeze",
        *(["cut", "cut", "partition"] if above else []),
        *(["crash", "crash", "leave"] if is_client else []),
    ]
    match rng.choice(choices):
        case "cut":
            assert above is not None
            link = ((name, above),)
            return [FaultSpec(at_us, FaultKind.CUT, links=link), FaultSpec(back_us, FaultKind.HEAL, links=link)]
        case "partition":
            return [FaultSpec(at_us, FaultKind.PARTITION, nodes=(name,)), FaultSpec(back_us, FaultKind.HEAL)]
        case "crash":
            crash = FaultSpec(at_us, FaultKind.CRASH, nodes=(name,), host=rng.random() < 0.3)
            return [crash, FaultSpec(back_us, FaultKind.RECOVER, nodes=(name,))] if rng.random() < 0.7 else [crash]
        case "leave":
            return [FaultSpec(at_us, FaultKind.LEAVE, nodes=(name,))]
        case _:
            froze = FaultSpec(at_us, FaultKind.FREEZE, nodes=(name,))
            return [froze, FaultSpec(back_us, FaultKind.UNFREEZE, nodes=(name,))]


def _above(scenario: Scenario, name: str) -> str | None:
    """The node that this one hangs on; None for a root."""
    for client in scenario.clients:
        if client.name == name:
            return client.broker
    return next(broker.parent for broker in scenario.brokers if broker.name == name)


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
