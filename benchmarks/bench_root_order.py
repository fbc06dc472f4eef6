"""Cost of totals that the root publishes by itself (`root_ordered_after`): frames between brokers, and the time until a
reader has one, by the number of brokers and readers. The same messages as totals that all brokers close, and as
`causal` publications, are measured beside them.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from benchmarks.bench_totals import tree_of_writers
from benchmarks.measure import Measure
from benchmarks.seed000.latency import deliveries
from benchmarks.seed000.stage import Played, median, play
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import ClientSpec, Mix, Scenario
from resprout.trace import kinds

SIZES: Final = (8, 31, 127)
READERS: Final = ("two", "a quarter", "all")
WAYS: Final = {
    "causal": (Mix(causal=1.0), 0),
    "closed by all": (Mix(total=1.0), 0),
    "published by the root": (Mix(total=1.0), 1),
}

_BEFORE: Final = """
[[workload]] # the topics become root-ordered
kind = "random"
clients = ["c0"]
topics = ["t/0"]
keys = 1
operations = 1
start = "5s"

[[workload]]
kind = "random"
clients = ["c0"]
topics = ["t/1"]
keys = 1
operations = 1
start = "6s"
"""


def run(quick: bool = False) -> list[Measure]:
    sizes = [measure for brokers in SIZES[: 2 if quick else None] for measure in _size(brokers, 10 if quick else 40)]
    return [*sizes, *_layout(50 if quick else 150)]


def _size(brokers: int, operations: int) -> Iterator[Measure]:
    for readers in READERS:
        played = {name: play(_scenario(brokers, operations, readers, *way)) for name, way in WAYS.items()}
        plain = played["causal"]
        for name, one in played.items():
            title = f"{brokers} brokers, readers: {readers}, {name}"
            yield Measure(f"{title}: frames of a publication", _frames(one), "", "causal", _frames(plain))
            yield Measure(f"{title}: until a reader has it, median", _median_ms(one), "ms", "causal", _median_ms(plain))


def _scenario(brokers: int, operations: int, readers: str, mix: Mix, after: int) -> Scenario:
    scenario = parse_scenario(tree_of_writers(brokers, operations) + _BEFORE, "<root order>")
    return msgspec.structs.replace(
        scenario,
        options={**scenario.options, "root_ordered_after": after},
        clients=tuple(_only(scenario.clients, readers, brokers)),
        workloads=tuple([msgspec.structs.replace(work, mix=mix) for work in scenario.workloads]),
    )


def _only(clients: tuple[ClientSpec, ...], readers: str, brokers: int) -> Iterator[ClientSpec]:
    """Leave subscriptions to these readers only: `two` are at the root and at the last broker."""
    for number, client in enumerate(clients):
        reads = {"two": number in (0, brokers - 1), "a quarter": number % 4 == 0, "all": True}[readers]
        yield client if reads else msgspec.structs.replace(client, subscriptions=())


def _layout(operations: int) -> Iterator[Measure]:
    """Yield the median times of totals on the layout of seed 000, by topic, and all frames."""
    found: dict[int, tuple[dict[str, list[float]], int]] = {}
    for after in (0, 1):
        scenario = load_scenario("seed000")
        played = play(
            msgspec.structs.replace(
                scenario,
                stack="resprout",
                options={"faults_tolerated": 1, "total_degree": 3, "root_ordered_after": after},
                workloads=tuple([msgspec.structs.replace(work, operations=operations) for work in scenario.workloads]),
            )
        )
        topics = {name: work.topics[0] for work in scenario.workloads for name in work.clients}
        times: dict[str, list[float]] = {}
        for one in deliveries(played.rows):
            if one.guarantee == "total" and not one.is_own:
                times.setdefault(topics[one.subscriber], []).append(one.latency_us / 1_000)
        found[after] = (times, played.traffic.frames)
    (closed, all_closed), (published, all_published) = found[0], found[1]
    for topic in sorted(closed):
        before = median(closed[topic])
        yield Measure(f"seed 000, a total on {topic}, median", median(published[topic]), "ms", "closed by all", before)
    yield Measure("seed 000, frames", all_published, "", "closed by all", all_closed)


def _frames(played: Played) -> float:
    return played.traffic.frames / len(played.of(kinds.PUBLISH))


def _median_ms(played: Played) -> float:
    return median([one.latency_us / 1_000 for one in deliveries(played.rows) if not one.is_own])
