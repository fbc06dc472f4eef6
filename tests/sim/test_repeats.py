"""Producers that crash and publish everything again, at the same broker or elsewhere: when `delivered` is told.

The trace has a delivery when it is handed to the client, also while the client does not read. So these tests compare
the time of the receipts with the time at which the reader goes on.
"""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario

BROKERS = 6
READS_AGAIN_S = 95
RETURNS_S = 41

PRODUCER_AND_READER = """
seed = 1
time_limit = "300s"
[options]
faults_tolerated = 1
{brokers}
[[client]]
name = "p"
broker = "{home}"
repeats = true
[[client]]
name = "r"
broker = "{reader}"
subscribe = ["e"]
when_full = "block"
{idle}
[[workload]]
kind = "random"
clients = ["p"]
topics = ["e"]
operations = 3
interval = "1ms"
start = "40050ms"
mix = {{ {guarantee} = 1.0 }}
[[fault]]
at = "40200ms"
kind = "crash"
nodes = ["p"]
{cuts}
[[fault]]
at = "41s"
kind = "recover"
nodes = ["p"]
"""

IDLE = f'idle_from = "39s"\nidle_until = "{READS_AGAIN_S}s"'


CRASH_OF_NEW_BROKER = """
[[fault]]
at = "50s"
kind = "heal"
[[fault]]
at = "60s"
kind = "crash"
nodes = ["{name}"]
"""


def delivered_s(
    home: str, returns_to: str, reader: str, idle: str, guarantee: str = "causal", then: str = ""
) -> list[float]:
    """Return when `p` was told `delivered`, in seconds, for each of its three publications. It publishes at `home`,
    crashes, and repeats all of them at `returns_to`; the brokers are a chain from b0 to b5. `then`: more faults."""
    names = [f"b{number}" for number in range(BROKERS)]
    brokers = [f'[[broker]]\nname = "{name}"' for name in names]
    brokers[1:] = [f'{broker}\nparent = "{parent}"' for broker, parent in zip(brokers[1:], names, strict=False)]
    others = [name for name in names if name != returns_to]
    cuts = [f'[[fault]]\nat = "40300ms"\nkind = "cut"\nnodes = ["p", "{name}"]' for name in others]
    scene = PRODUCER_AND_READER.format(
        brokers="\n".join(brokers), home=home, reader=reader, idle=idle, guarantee=guarantee, cuts="\n".join(cuts)
    )
    scene += then
    result = run_scenario(parse_scenario(scene))
    verdict = judge(result.rows)
    assert result.ended == "quiescent"
    assert not verdict.violated, "\n".join(lines(verdict))
    times = [
        row.time_us / 1e6
        for row in result.rows
        if row.kind == "receipt" and row.receipt == "delivered" and row.time_us > RETURNS_S * 1e6
    ]
    assert len(times) == 3
    return times


@pytest.mark.parametrize("guarantee", ["eventual", "fifo", "causal", "total"])
@pytest.mark.parametrize("returns_to", ["b3", "b4"])
def test_delivered_of_a_repeat_waits_for_a_subscriber_that_does_not_read(returns_to: str, guarantee: str) -> None:
    times = delivered_s("b3", returns_to, "b5", IDLE, guarantee)
    assert READS_AGAIN_S <= min(times) <= max(times) < READS_AGAIN_S + 3


@pytest.mark.parametrize("guarantee", ["eventual", "fifo", "causal", "total"])
def test_delivered_waits_for_a_subscriber_far_behind_the_old_broker_also_where_the_repeat_is_new(
    guarantee: str,
) -> None:
    """The originals never came to b0, and all brokers that the repeats meet first are through with them."""
    times = delivered_s("b3", "b0", "b5", IDLE, guarantee)
    assert READS_AGAIN_S <= min(times) <= max(times) < READS_AGAIN_S + 3


@pytest.mark.parametrize("returns_to", ["b0", "b3", "b4", "b5"])
def test_delivered_of_a_repeat_comes_at_once_if_everybody_has_read_the_original(returns_to: str) -> None:
    """`p` needs up to 3.5 s to find a broker that it reaches."""
    times = delivered_s("b3", returns_to, "b5", "idle_from = '39s'\nidle_until = '40s'")
    assert max(times) < RETURNS_S + 5


@pytest.mark.parametrize("guarantee", ["eventual", "fifo", "causal", "total"])
@pytest.mark.parametrize("returns_to", ["b0", "b1"])
def test_delivered_of_a_repeat_waits_also_if_the_broker_where_it_was_repeated_dies_before_all_is_read(
    returns_to: str, guarantee: str
) -> None:
    """The broker that has the ghost of the dead one took everything without a trace for delivered. It cannot know that
    the dead one had asked the tree, and the client can."""
    then = CRASH_OF_NEW_BROKER.format(name=returns_to)
    times = delivered_s("b3", returns_to, "b5", IDLE, guarantee, then)
    assert READS_AGAIN_S <= min(times) <= max(times) < READS_AGAIN_S + 3
