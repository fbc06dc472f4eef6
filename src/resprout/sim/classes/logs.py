"""Class `logs`: replicated logs whose replicas, leaders and feeders crash, freeze, are cut off, or lose their disks.

Each trial has one to three logs with one to five replicas, some of them with a small disk. In some trials brokers fail
within the fault model, once or repeatedly. In others all of them are killed at once (`durable = "journal"`), or an
operator restarts them one by one, or disks are full for a while. Clients may read the logs meanwhile. Some logs are
compacted while that happens.

In every trial each log keeps a majority: replicas that never return, and those that lose their disks, are a minority of
each log in the whole run. So every log must be complete at the end and have no gap mark.
"""

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import Final

import msgspec

from resprout.journal.interface import Flush
from resprout.logs.declaration import LogDeclaration
from resprout.scenario.draw import STACK_OPTIONS, draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec, ReaderSpec, Scenario, random_for
from resprout.sim.classes.machines import BLACKOUTS_MAX, DISK_LATENCIES_US
from resprout.sim.mishaps import with_blows
from resprout.sim.run import FaultAtEvent, RunResult, Trial, formed_us, rehearse
from resprout.trace import kinds

BROKERS_MAX: Final = 7
CLIENTS_MAX: Final = 5
OPERATIONS_MAX: Final = 30
REACH_US: Final = 30_000
LOGS: Final = (1, 1, 1, 2, 3)
REPLICAS: Final = (1, 2, 3, 3, 3, 3, 4, 5)
RETAIN_BYTES: Final = (1 << 30, 1 << 30, 1 << 30, 20_000)
SEGMENT_BYTES: Final = 4_096
PARTITIONS: Final = (1, 1, 1, 2, 4)
COMPACTED: Final = 0.4
"""Share of the logs that are compacted."""
GRACES_US: Final = (0, 2_000_000, 24 * 3_600 * 1_000_000)
COMPACT_BYTES: Final = (1, 1_000, 5_000)
TIME_LIMIT_US: Final = 1_800_000_000
FOUNDED_US: Final = 3_000_000
"""Time from a complete tree until a log is founded and fed."""
FAILURES: Final = ("blows", "blows", "blows", "blackout", "restart", "pauses", "disks")
OPTIONS: Final = {**STACK_OPTIONS, "faults_tolerated": (1, 1, 1, 2)}


class LogsTrial(Trial, frozen=True):
    def complaints(self, result: RunResult) -> list[str]:
        """Return a complaint for each log that has a gap or was never fed."""
        rows = result.rows
        gaps = {(row.attributes or {})["log"]: row.detail for row in rows if row.kind == kinds.LOG_GAP}
        fed = {(row.attributes or {})["log"] for row in rows if row.kind == kinds.LOG_FED}
        unfed = [part.name for log in self.scenario.logs for part in log.parts if part.name not in fed]
        return [
            *[f"GAP: {log} has a gap mark: {reason}" for log, reason in sorted(gaps.items())],
            *([f"UNFED: nothing feeds {', '.join(unfed)}"] if unfed else []),
        ]


def logs(seed: int) -> Trial:
    rng = random_for(seed, "logs")
    drawn = draw_scenario(
        seed, brokers_max=BROKERS_MAX, clients_max=CLIENTS_MAX, operations_max=OPERATIONS_MAX, reach_us=REACH_US,
        options=OPTIONS,
    )  # fmt: skip
    brokers = [broker.name for broker in drawn.brokers]
    what = (
        "calm"
        if len(brokers) == 1
        else rng.choice(("blows", "blows", "blows", "blackout", "restart", "pauses", "disks"))
    )
    if what == "blackout" or rng.random() < 0.3:
        drawn = msgspec.structs.replace(drawn, options={**drawn.options, "durable": "journal"})
    drawn = msgspec.structs.replace(
        drawn, brokers=tuple(_with_disk(rng, drawn)), logs=_logs(rng, drawn, is_calm=what in ("calm", "pauses")),
        time_limit_us=TIME_LIMIT_US,
    )  # fmt: skip
    begin_us = formed_us(drawn) + FOUNDED_US
    drawn = msgspec.structs.replace(drawn, readers=_readers(drawn, begin_us))
    if what == "blows":
        trial = with_blows(rng, drawn, begin_us)
        return LogsTrial(*_spared(rng, trial, drawn.logs))
    work = [msgspec.structs.replace(each, start_us=begin_us + each.start_us // 4) for each in drawn.workloads]
    scenario = msgspec.structs.replace(drawn, workloads=tuple(work))
    if what == "blackout":
        return killed_at_once(rng, LogsTrial(scenario), begin_us)
    if what == "restart":
        names = rng.sample(brokers, rng.choice((1, len(brokers))))
        faults = [FaultSpec(begin_us + rng.randint(0, 1_500_000), FaultKind.RESTART, tuple(names))]
    else:
        draw = {"pauses": _pauses, "disks": _full_disks}.get(what)
        faults = draw(rng, scenario, begin_us) if draw is not None else []
    return LogsTrial(msgspec.structs.replace(scenario, faults=tuple(faults)))


def _with_disk(rng: Random, drawn: Scenario) -> Iterable[object]:
    slow = rng.random() < 0.4
    return [
        msgspec.structs.replace(broker, disk_latency_us=rng.choice(DISK_LATENCIES_US) if slow else 0)
        for broker in drawn.brokers
    ]


def _logs(rng: Random, drawn: Scenario, is_calm: bool) -> tuple[LogDeclaration, ...]:
    """Draw the logs of a trial. `is_calm`: no disk loses unsynced data."""
    divided = random_for(drawn.seed, "partitions of logs")
    compacting = random_for(drawn.seed, "compaction of logs")
    brokers = [broker.name for broker in drawn.brokers]
    topics = list(dict.fromkeys(topic for work in drawn.workloads for topic in work.topics))
    declared = tuple(
        LogDeclaration(
            f"log{number}",
            rng.choice((*topics, "#", "#", "#")),
            tuple(rng.sample(brokers, min(len(brokers), rng.choice(REPLICAS)))),
            rng.choice(RETAIN_BYTES),
            flush=rng.choice((Flush.ALWAYS, Flush.INTERVAL, Flush.NEVER)) if is_calm else Flush.ALWAYS,
            segment_bytes=SEGMENT_BYTES,
            partitions=divided.choice(PARTITIONS),
        )
        for number in range(rng.choice(LOGS))
    )
    return tuple([_compacted(compacting, log) if compacting.random() < COMPACTED else log for log in declared])


def _compacted(rng: Random, log: LogDeclaration) -> LogDeclaration:
    return msgspec.structs.replace(
        log, compact=True, compact_grace_us=rng.choice(GRACES_US), compact_bytes=rng.choice(COMPACT_BYTES),
        retain_bytes=LogDeclaration("", "", ()).retain_bytes,
    )  # fmt: skip


def _readers(drawn: Scenario, begin_us: int) -> tuple[ReaderSpec, ...]:
    """Let some clients read logs before, during and after the failures."""
    rng = random_for(drawn.seed, "readers of logs")
    divided = random_for(drawn.seed, "readers of partitions")
    readers = []
    for client in rng.sample(drawn.clients, min(len(drawn.clients), rng.choice((0, 1, 1, 2)))):
        log = divided.choice(rng.choice(drawn.logs).parts)
        start_us = rng.choice((0, begin_us, begin_us + rng.randint(0, 5_000_000)))
        readers.append(
            ReaderSpec(
                client.name, log.name, log.filter, start_us, rng.choice((-1, -1, 0)), rng.choice((200, 4_096, 1 << 18)),
                rng.choice((20_000, 200_000, 1_000_000)), begin_us + rng.choice((0, 5_000_000, 30_000_000)),
            )
        )  # fmt: skip
    return tuple(readers)


def _pauses(rng: Random, scenario: Scenario, begin_us: int) -> list[FaultSpec]:
    """Freeze or cut off one broker at a time, for less than a lease."""
    faults: list[FaultSpec] = []
    at_us = begin_us
    for _ in range(rng.randint(1, 4)):
        broker = rng.choice(scenario.brokers)
        at_us += rng.randint(0, 1_500_000)
        back_us = at_us + rng.randint(1, 1_200_000)
        if broker.parent is None or rng.random() < 0.5:
            faults += [FaultSpec(at_us, FaultKind.FREEZE, (broker.name,))]
            faults += [FaultSpec(back_us, FaultKind.UNFREEZE, (broker.name,))]
        else:
            link = ((broker.name, broker.parent),)
            faults += [FaultSpec(at_us, FaultKind.CUT, links=link), FaultSpec(back_us, FaultKind.HEAL, links=link)]
        at_us = back_us
    return faults


def _full_disks(rng: Random, scenario: Scenario, begin_us: int) -> list[FaultSpec]:
    """Fill the disk of one broker at a time, and make room again."""
    faults: list[FaultSpec] = []
    at_us = begin_us
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(scenario.brokers).name
        at_us += rng.randint(0, 1_500_000)
        free_us = at_us + rng.choice((rng.randint(1, 1_000_000), rng.randint(1, 30_000_000)))
        faults += [FaultSpec(at_us, FaultKind.DISK_FULL, (name,)), FaultSpec(free_us, FaultKind.DISK_FREE, (name,))]
        at_us = free_us
    return faults


def killed_at_once(rng: Random, trial: Trial, begin_us: int) -> Trial:
    """Kill all brokers, once or twice, and let them return with their disks."""
    names = [broker.name for broker in trial.scenario.brokers]
    from_us = begin_us
    for number in range(rng.randint(1, BLACKOUTS_MAX)):
        rehearsal = rehearse(trial)
        if number:
            from_us = rehearsal.rest_us
        event = rng.randint(rehearsal.event_from(from_us), max(
            rehearsal.event_from(from_us), rehearsal.event_from(rehearsal.busy_until_us + 1)
        ))  # fmt: skip
        at_us = rehearsal.time_of(event)
        blow = FaultAtEvent(event, FaultSpec(at_us, FaultKind.CRASH, tuple(names)))
        rng.shuffle(names)
        back = [
            FaultSpec(
                at_us + rng.choice((1, rng.randint(1, 300_000), rng.randint(1, 5_000_000))), FaultKind.RECOVER, (n,)
            )
            for n in names
        ]
        faults = sorted((*trial.scenario.faults, *back), key=lambda fault: fault.at_us)
        scenario = msgspec.structs.replace(trial.scenario, faults=tuple(faults))
        trial = type(trial)(scenario, (*trial.at_events, blow))
    return trial


def _spared(rng: Random, trial: Trial, logs: Sequence[LogDeclaration]) -> tuple[Scenario, tuple[FaultAtEvent, ...]]:
    """Change a trial so that each log keeps a majority: more brokers return, and keep their disks."""
    spared: set[str] = set()
    every = [*trial.scenario.faults, *[strike.fault for strike in trial.at_events]]
    gone = _gone(every)
    faults = []
    for fault in trial.scenario.faults:
        if fault.kind is FaultKind.RECOVER and not fault.disk:
            if _bears(logs, {*gone, *spared, *fault.nodes}):
                spared.update(fault.nodes)
            else:
                fault = msgspec.structs.replace(fault, disk=True)
        faults.append(fault)
    back_us = max([fault.at_us for fault in every], default=0) + rng.randint(1, 20_000_000)
    for name in sorted(gone):
        if not _bears(logs, {*gone, *spared}):
            gone.discard(name)
            faults.append(_return(name, every, back_us))
    in_order = tuple(sorted(faults, key=lambda fault: fault.at_us))
    return msgspec.structs.replace(trial.scenario, faults=in_order), trial.at_events


def _gone(faults: Iterable[FaultSpec]) -> set[str]:
    """Return the brokers and clients that do not return."""
    gone: set[str] = set()
    for fault in sorted(faults, key=lambda fault: fault.at_us):
        if fault.kind in (FaultKind.CRASH, FaultKind.LEAVE):
            gone.update(fault.nodes)
        elif fault.kind in (FaultKind.RECOVER, FaultKind.JOIN):
            gone.difference_update(fault.nodes)
    return gone


def _return(name: str, faults: Sequence[FaultSpec], back_us: int) -> FaultSpec:
    left = any(fault.kind is FaultKind.LEAVE and name in fault.nodes for fault in faults)
    if not left:
        return FaultSpec(back_us, FaultKind.RECOVER, (name,))
    return FaultSpec(back_us, FaultKind.RECOVER, (name,), first=True)


def _bears(logs: Sequence[LogDeclaration], lost: Collection[str]) -> bool:
    return all(2 * sum(broker in lost for broker in log.replicas) < len(log.replicas) for log in logs)
