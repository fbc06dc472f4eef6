"""Who notices a repair: three pairs of clients, far from it, through its coordinator, and through the dead broker.

Fifteen brokers in a binary tree, a client with a topic of its own at each end of every pair. b3 dies: its star is b1,
which leads, with b7 and b8.
"""

from typing import Final

import msgspec

from benchmarks.seed000.latency import deliveries
from benchmarks.seed000.repair import repair_of
from benchmarks.seed000.stage import Played
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario

PAIRS: Final = {
    "outside the star": ("b11", "b12"),
    "through the coordinator": ("b9", "b5"),
    "through the dead broker": ("b7", "b10"),
}

_SCENARIO: Final = """
name = "who notices a repair"
time_limit = "60s"
topology = { kind = "tree", brokers = 15, degree = 3, latency = "100ms", clients_per_broker = 0 }
"""

_PAIR: Final = """
[[client]]
name = "from{n}"
broker = "{from_}"

[[client]]
name = "to{n}"
broker = "{to}"
subscribe = ["t{n}"]

[[workload]]
kind = "random"
clients = ["from{n}"]
topics = ["t{n}"]
mix = {{ eventual = 0.5, causal = 0.5 }}
operations = 800
interval = "10ms"
start = "5s"
"""

_CRASH: Final = """
[[fault]]
at = "9s"
kind = "crash"
nodes = ["b3"]
"""


def calm_scenario() -> Scenario:
    pairs = "".join(_PAIR.format(n=n, from_=one, to=other) for n, (one, other) in enumerate(PAIRS.values()))
    return parse_scenario(_SCENARIO + pairs + _CRASH, "<calm>")


class Notice(msgspec.Struct, frozen=True):
    """The longest latency of a pair, of what was published and delivered before the crash, and of what was under way
    between the crash and the end of the repair."""

    before_us: int
    during_us: int


def notices(played: Played) -> dict[str, Notice]:
    crash_us = played.scenario.faults[0].at_us
    end_us = crash_us + repair_of(played).whole_us
    found: dict[str, Notice] = {}
    every = deliveries(played.rows)
    for number, name in enumerate(PAIRS):
        ours = [one for one in every if one.subscriber == f"to{number}"]
        before = [one.latency_us for one in ours if one.published_us + one.latency_us < crash_us]
        during = [
            one.latency_us
            for one in ours
            if one.published_us <= end_us and one.published_us + one.latency_us >= crash_us
        ]
        found[name] = Notice(max(before), max(during))
    return found
