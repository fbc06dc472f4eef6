"""The default stack beside `ginger`: repairs, latencies, messages and memory, in virtual time.

Times are virtual and therefore exact; medians are over seeds, and the two stacks take turns only for form's sake. The
value is that of the default stack. A ratio below 1 is in its favour unless the yardstick is the links themselves.
"""

import statistics
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.measure import Measure
from benchmarks.seed000.calm import calm_scenario, notices
from benchmarks.seed000.latency import Barrier, Delivered, deliveries, link_sum_us
from benchmarks.seed000.memory import stall, stalled_scenario
from benchmarks.seed000.repair import CRASHES, Repair, crash_at, repair_of, round_trip_us
from benchmarks.seed000.stage import STACKS, Played, distances_in, load, on, percentile, play
from benchmarks.seed000.traffic import cost_of, ordering_bytes, tree_scenario
from resprout.scenario.model import Mix, Scenario

GINGER = "ginger"
WITHIN = "at most 1.05"
NO_TOTALS = Mix(eventual=0.5, causal=0.5)


def run(quick: bool = False) -> list[Measure]:
    seeds = range(1, 3 if quick else 6)
    return [
        *_repairs(seeds),
        *_latencies("b1: the mix, every 2 s", _bank(30 if quick else 100, "2s"), seeds),
        *_latencies("b2: no totals, every 2 s", _bank(30 if quick else 100, "2s", NO_TOTALS), seeds),
        *_latencies("b2: no totals, every 50 ms", _bank(50 if quick else 200, "50ms", NO_TOTALS), seeds),
        *_alone("b2: no totals, every 50 ms, one publisher", NO_TOTALS, "50ms", 50 if quick else 200),
        *_alone("b3: totals alone, one publisher", Mix(total=1.0), "5s", 5 if quick else 20),
        *_costs(quick),
        *_ordering(quick),
        *_calm(),
        *_memory(quick),
    ]


def _bank(operations: int, interval: str, mix: Mix | None = None) -> Scenario:
    scenario = load("bank", f"workload.0.operations={operations}", f"workload.0.interval={interval}")
    if mix is None:
        return scenario
    (workload,) = scenario.workloads
    return msgspec.structs.replace(scenario, workloads=(msgspec.structs.replace(workload, mix=mix),))


def _seeded(scenario: Scenario, seeds: Sequence[int]) -> dict[str, list[Played]]:
    """Both stacks over the seeds, in turns."""
    played: dict[str, list[Played]] = {stack: [] for stack in STACKS}
    for seed in seeds:
        for stack in STACKS:
            played[stack].append(play(on(stack, msgspec.structs.replace(scenario, seed=seed))))
    return played


# -- repairs -----------------------------------------------------------------------------------------------------------


def _repairs(seeds: Sequence[int]) -> Iterator[Measure]:
    for crash in CRASHES:
        scenario = load(crash)
        found: dict[str, list[Repair]] = {stack: [] for stack in STACKS}
        for seed in seeds:
            for stack in STACKS:
                found[stack].append(repair_of(play(on(stack, crash_at(scenario, seed)))))
        trip_us = round_trip_us(scenario)
        for what, unit, attribute, scale, goal in (
            ("detected after", "ms", "detection_us", 1_000, ""),
            ("then the first has its place after", "ms", "first_end_us", 1_000, ""),
            ("then the last has its place after", "ms", "last_end_us", 1_000, ""),
            ("until the first, in round trips", "trips", "first_end_us", trip_us, "1 round trip"),
            ("until the last, in round trips", "trips", "last_end_us", trip_us, ""),
            ("from the crash to the last", "ms", "whole_us", 1_000, ""),
            ("until the degree is restored as well", "ms", "settled_us", 1_000, ""),
        ):
            ours, theirs = (
                statistics.median(getattr(repair, attribute) for repair in found[stack]) / scale for stack in STACKS
            )
            yield Measure(f"{crash}: {what}", ours, unit, GINGER, theirs, goal)


def _calm() -> Iterator[Measure]:
    ours, theirs = (notices(play(on(stack, calm_scenario()))) for stack in STACKS)
    for pair, notice in ours.items():
        goal = "as before" if "outside" in pair else ""
        before = "the same before the crash"
        yield Measure(
            f"longest latency in a repair, {pair}", _ms(notice.during_us), "ms", before, _ms(notice.before_us), goal
        )
        yield Measure(
            f"longest latency in a repair, {pair}", _ms(notice.during_us), "ms", GINGER, _ms(theirs[pair].during_us)
        )


# -- latencies ---------------------------------------------------------------------------------------------------------


def _latencies(title: str, scenario: Scenario, seeds: Sequence[int]) -> Iterator[Measure]:
    found = {
        stack: [one for run in played for one in deliveries(run.rows) if not one.is_own]
        for stack, played in _seeded(scenario, seeds).items()
    }
    yield from _compare(title, scenario, found)


def _compare(title: str, scenario: Scenario, found: dict[str, list[Delivered]]) -> Iterator[Measure]:
    """With each other, and with what the links alone would take: the path, or for a total the way of its barrier."""
    places, barrier = distances_in(scenario), Barrier(scenario)

    def least_us(one: Delivered) -> int:
        return barrier.us(one) if one.guarantee == "total" else link_sum_us(places, one)

    for guarantee in sorted({one.guarantee for one in found["resprout"]}):
        ours, theirs = ([one for one in found[stack] if one.guarantee == guarantee] for stack in STACKS)
        yield Measure(f"{title}: {guarantee}, median", _median_ms(ours), "ms", GINGER, _median_ms(theirs))
        for what, share, goal in (("median", 0.5, WITHIN), ("99 %", 0.99, WITHIN), ("most", 1.0, "")):
            mine, other = (
                percentile([one.latency_us / least_us(one) for one in ones], share) for ones in (ours, theirs)
            )
            yield Measure(f"{title}: {guarantee}, times the links, {what}", mine, "", GINGER, other, goal)


def _alone(title: str, mix: Mix, interval: str, operations: int) -> Iterator[Measure]:
    """One publisher after the other: nobody who receives has anything of his own under way, and nothing contends."""
    scenario = _bank(operations, interval, mix)
    (workload,) = scenario.workloads
    found: dict[str, list[Delivered]] = {stack: [] for stack in STACKS}
    for client in workload.clients:
        alone = msgspec.structs.replace(scenario, workloads=(msgspec.structs.replace(workload, clients=(client,)),))
        for stack in STACKS:
            found[stack] += [one for one in deliveries(play(on(stack, alone)).rows) if not one.is_own]
    yield from _compare(title, scenario, found)


# -- messages and memory -----------------------------------------------------------------------------------------------


def _costs(quick: bool) -> Iterator[Measure]:
    operations = 30 if quick else 100
    for title, scenario in (
        ("no totals, every 50 ms", _bank(operations, "50ms", NO_TOTALS)),
        ("no totals, every 2 s", _bank(operations, "2s", NO_TOTALS)),
        ("totals alone, every 5 s", _bank(operations // 2, "5s", Mix(total=1.0))),
    ):
        ours, theirs = (cost_of(play(on(stack, scenario))) for stack in STACKS)
        for what in ("carriers", "reports", "frames", "signs_of_life"):
            words = what.replace("_", " ")
            yield Measure(f"{words} per publication, {title}", getattr(ours, what), "", GINGER, getattr(theirs, what))


def _ordering(quick: bool) -> Iterator[Measure]:
    sizes = ((15, 3), (15, 8)) if quick else ((15, 3), (15, 8), (127, 3), (127, 8))
    for brokers, degree in sizes:
        theirs = max(ordering_bytes(play(on("ginger", tree_scenario(brokers, degree, 1)))))
        for faults in (1, 2, 3):
            ours = max(ordering_bytes(play(on("resprout", tree_scenario(brokers, degree, faults)))))
            name = f"most ordering bytes of a message, {brokers} brokers of degree {degree}, f = {faults}"
            yield Measure(name, ours, "bytes", GINGER, theirs, "at most 16")


def _memory(quick: bool) -> Iterator[Measure]:
    scenario = stalled_scenario(operations=300 if quick else 2_000)
    stall_us = 600_000_000 if quick else 3_600_000_000
    ours, theirs = (stall(on(stack, scenario), stall_us) for stack in STACKS)
    title = f"a subscriber takes nothing for {stall_us // 60_000_000} min"
    wanted = scenario.workloads[0].operations
    yield Measure(f"{title}: most in a log", ours.kept.bytes / 1e6, "MB", GINGER, theirs.kept.bytes / 1e6, "bounded")
    yield Measure(f"{title}: most entries of a log", ours.kept.entries, "", GINGER, theirs.kept.entries, "bounded")
    yield Measure(f"{title}: most at the publisher", ours.writer_bytes / 1e6, "MB", GINGER, theirs.writer_bytes / 1e6)
    yield Measure(f"{title}: published meanwhile", ours.published_before_end, "", "wanted", wanted, "pushed back")
    yield Measure(f"{title}: delivered in the end", ours.delivered, "", "published", wanted, "all")


def _ms(us: float) -> float:
    return us / 1_000


def _median_ms(ones: Sequence[Delivered]) -> float:
    return _ms(statistics.median(one.latency_us for one in ones))
