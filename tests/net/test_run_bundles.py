"""A run with processes keeps to the bundles that its scenario allows."""

import asyncio

from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import parse_scenario

SCENARIO = """
time_limit = "150s"
[[broker]]
name = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
keys = 0
operations = 40
burst = 20
attributes = false
interval = "10ms"
{more}
"""


def order_bytes(more: str) -> list[int]:
    """What each delivery says that its order cost: a bundle shares it out among its messages."""

    async def play() -> list[int]:
        result = await RealRun(parse_scenario(SCENARIO.format(more=more), "<test>")).finish()
        return [row.metadata_bytes or 0 for row in result.rows if row.kind == "deliver"]

    return asyncio.run(play())


def test_processes_bundle_as_little_as_the_scenario_says() -> None:
    together, alone = order_bytes(""), order_bytes("bundle_max = 1")
    assert len(together) == len(alone) == 40
    assert max(together) < min(alone)
