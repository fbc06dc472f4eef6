"""What a publication costs on the links between brokers: messages, frames, and bytes that carry order."""

from typing import Final

import msgspec

from benchmarks.seed000.stage import Played
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.trace import kinds

CARRIERS: Final = frozenset((
    "Forward", "Submit", "Lock", "Closed",
    "Metadata", "TotalRequest", "TotalLock", "TotalAck", "TotalProcessed",
))  # fmt: skip
"""Bring a publication, or what is needed to order it."""

REPORTS: Final = frozenset(("Levels", "TotalLevels", "Progress", "Passed"))
"""Say how far publications have come."""

_TREE: Final = """
name = "ordering bytes"
time_limit = "600s"

[options]
faults_tolerated = {faults}

[topology]
kind = "tree"
brokers = {brokers}
degree = {degree}
latency = "5ms"
clients_per_broker = 1
subscribe = ["t/+"]

[[workload]]
kind = "chatter"
clients = ["c0", "c{middle}", "c{last}"]
topics = ["t/0", "t/1", "t/2"]
operations = 20
mix = {{ fifo = 0.3, causal = 0.7 }}
interval = "20ms"
start = "5s"
"""


class Cost(msgspec.Struct, frozen=True):
    """Per publication."""

    carriers: float
    reports: float
    frames: float
    signs_of_life: float


def cost_of(played: Played) -> Cost:
    publications = len(played.of(kinds.PUBLISH))
    counts = played.traffic.messages
    return Cost(
        sum(counts[name] for name in CARRIERS) / publications,
        sum(counts[name] for name in REPORTS) / publications,
        played.traffic.frames / publications,
        played.traffic.signs_of_life / publications,
    )


def tree_scenario(brokers: int, degree: int, faults: int) -> Scenario:
    text = _TREE.format(brokers=brokers, degree=degree, faults=faults, middle=brokers // 2, last=brokers - 1)
    return parse_scenario(text, "<tree>")


def ordering_bytes(played: Played) -> list[int]:
    """Of every delivery, as told by the broker that made it: what its order cost on the last link."""
    return [row.metadata_bytes or 0 for row in played.of(kinds.DELIVER)]
