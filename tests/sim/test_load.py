"""What nodes send and receive is counted, and told at the end of the run."""

from resprout.scenario.load import parse_scenario
from resprout.sim.run import RunResult, run_scenario
from resprout.trace.schema import Row

SCENARIO = """
name = "two brokers"
seed = 3
{more}
[[broker]]
name = "b0"
{bandwidth}
[[broker]]
name = "b1"
parent = "b0"
latency = "5ms"
[[client]]
name = "c0"
broker = "b0"
[[client]]
name = "c1"
broker = "b1"
subscribe = ["a"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["a"]
operations = {operations}
mix = {{ fifo = 1.0 }}
interval = "100ms"
start = "1s"
"""


def played(operations: int = 10, bandwidth: str = "", fault: str = "") -> RunResult:
    text = SCENARIO.format(operations=operations, bandwidth=bandwidth, more="")
    return run_scenario(parse_scenario(text + fault, "<test>"))


def counts(result: RunResult) -> dict[str, dict[str, int]]:
    return {
        row.node: {name: int(text) for name, text in (row.attributes or {}).items()}
        for row in result.rows
        if row.kind == "load"
    }


def test_every_node_tells_once_right_before_the_run_ends() -> None:
    rows = played().rows
    assert [(row.kind, row.node) for row in rows[-5:]] == [
        ("load", "b0"), ("load", "b1"), ("load", "c0"), ("load", "c1"), ("quiescent", "world")
    ]  # fmt: skip
    assert {row.time_us for row in rows[-5:]} == {rows[-1].time_us}
    assert sum(row.kind == "load" for row in rows) == 4


def test_messages_are_counted_by_type_where_they_are_sent() -> None:
    load = counts(played(10))
    assert load["c0"]["sent:Publish"] == 10
    assert load["b0"]["sent:Forward"] == 10
    assert load["b1"]["sent:Delivery"] == 10
    assert "sent:Forward" not in load["b1"]
    assert "sent:Publish" not in load["c1"]


def test_what_one_end_sends_the_other_receives() -> None:
    load = counts(played(10))
    sent = sum(of_node["frames_sent"] for of_node in load.values())
    received = sum(of_node["frames_received"] for of_node in load.values())
    assert received <= sent <= received + 6  # at most one sign of life is under way on each link and direction


def test_frames_to_a_dead_node_are_sent_and_never_received() -> None:
    calm, crash = counts(played(50)), counts(played(50, fault=CRASH))
    assert crash["c1"]["frames_received"] < calm["c1"]["frames_received"]
    assert crash["c0"]["sent:Publish"] == calm["c0"]["sent:Publish"] == 50


def test_lives_of_one_node_are_counted_together() -> None:
    once, twice = counts(played(50, fault=CRASH)), counts(played(50, fault=CRASH + RECOVER))
    assert once["c1"]["sent:Subscribe"] == 1
    assert twice["c1"]["sent:Subscribe"] == 2


def test_bytes_are_known_only_where_a_bandwidth_asks_for_them() -> None:
    load = counts(played(10, bandwidth='bandwidth = "10Mbit"'))
    assert load["b0"]["bytes_sent"] > 10 * 32
    assert all("bytes_sent" not in load[node] for node in ("b1", "c0", "c1"))


def test_a_run_that_hits_its_limit_tells_as_well() -> None:
    text = SCENARIO.format(operations=50, bandwidth="", more='time_limit = "2s"')
    last: list[Row] = run_scenario(parse_scenario(text, "<test>")).rows[-2:]
    assert [row.kind for row in last] == ["load", "timeout"]
    assert last[0].time_us == 2_000_000


CRASH = """
[[fault]]
at = "2s"
kind = "crash"
nodes = ["c1"]
"""
RECOVER = """
[[fault]]
at = "3s"
kind = "recover"
nodes = ["c1"]
"""
