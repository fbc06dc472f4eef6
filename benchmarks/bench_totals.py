"""What totals cost beside what they do not touch: frames and bytes between brokers for a publication, by the number of
brokers and the share of totals in the mix; and how long publications take meanwhile, in times of the links (`eventual`,
and `causal` where there are no totals) or of the formula of a total.

A total, and what is carried as one, crosses every link once and is answered on every link, so its cost grows with the
tree, whoever wants it. The yardstick is the same work without totals.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from benchmarks.measure import Measure
from benchmarks.seed000.latency import Barrier, Delivered, deliveries, link_sum_us
from benchmarks.seed000.stage import Played, distances_in, percentile, play
from resprout.order.messages import Lock
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Mix, Scenario
from resprout.trace import kinds

SIZES: Final = (3, 8, 31, 127)
NO_TOTALS: Final = Mix(eventual=0.4, causal=0.6)
MIXES: Final = {
    "no totals": NO_TOTALS,
    "1 of 20 total": Mix(eventual=0.4, causal=0.55, total=0.05),
    "3 of 10 total": Mix(eventual=0.4, causal=0.3, total=0.3),
}

_TREE: Final = """
name = "what totals cost"
time_limit = "600s"

[options]
faults_tolerated = 1

[topology]
kind = "tree"
brokers = {brokers}
degree = 3
latency = "20ms"
clients_per_broker = 1
subscribe = ["t/+"]

[[workload]]
kind = "random"
clients = [{writers}]
topics = ["t/0", "t/1"]
keys = 100
operations = {operations}
interval = "50ms"
start = "10s"
"""


def run(quick: bool = False) -> list[Measure]:
    return [measure for brokers in SIZES[: 2 if quick else None] for measure in _size(brokers, 10 if quick else 40)]


def _size(brokers: int, operations: int) -> Iterator[Measure]:
    for readers in ("all read", "two read"):
        played = {name: play(_scenario(brokers, operations, mix, readers)) for name, mix in MIXES.items()}
        without = _per_publication(played["no totals"])
        for name, one in played.items():
            title = f"{brokers} brokers, {readers}, {name}"
            for what, value in _per_publication(one).items():
                yield Measure(f"{title}: {what} of a publication", value, "", "no totals", without[what])
            ordered = len([row for row in one.of(kinds.PUBLISH) if row.guarantee != "eventual"])
            share = one.traffic.messages[Lock.__name__] / (brokers - 1) / max(1, ordered)
            yield Measure(f"{title}: of the ordered, with a place", share, "", "all", 1.0)
            if readers == "all read":
                yield from _times(title, one)


def _scenario(brokers: int, operations: int, mix: Mix, readers: str) -> Scenario:
    """`two read`: clients at the root and at the last broker; everybody else has no subscription."""
    scenario = parse_scenario(tree_of_writers(brokers, operations), "<totals>")
    (work,) = scenario.workloads
    clients = [
        client
        if readers == "all read" or client.name in ("c0", f"c{brokers - 1}")
        else msgspec.structs.replace(client, subscriptions=())
        for client in scenario.clients
    ]
    return msgspec.structs.replace(
        scenario, clients=tuple(clients), workloads=(msgspec.structs.replace(work, mix=mix),)
    )


def tree_of_writers(brokers: int, operations: int) -> str:
    """Return a scenario: four clients publish, at the root, at the last broker, and in between."""
    writers = ", ".join(f'"c{number}"' for number in sorted({0, brokers // 3, brokers // 2, brokers - 1}))
    return _TREE.format(brokers=brokers, operations=operations, writers=writers)


def _per_publication(played: Played) -> dict[str, float]:
    count = len(played.of(kinds.PUBLISH))
    return {"frames": played.traffic.frames / count, "bytes": played.traffic.bytes / count}


def _times(title: str, played: Played) -> Iterator[Measure]:
    places, barrier = distances_in(played.scenario), Barrier(played.scenario)
    has_totals = any(work.mix.total for work in played.scenario.workloads)

    def least_us(one: Delivered) -> int:
        return barrier.us(one) if has_totals and one.guarantee != "eventual" else link_sum_us(places, one)

    found: dict[str, list[float]] = {}
    for one in deliveries(played.rows):
        if not one.is_own:
            found.setdefault(one.guarantee, []).append(one.latency_us / least_us(one))
    for guarantee, times in sorted(found.items()):
        for what, share, goal in (("median", 0.5, "at most 1.05"), ("most", 1.0, "at most 1.5")):
            yield Measure(f"{title}: {guarantee}, {what}", percentile(times, share), "", "least", 1.0, goal)
