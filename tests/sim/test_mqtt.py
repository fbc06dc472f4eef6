"""MQTT clients in the virtual world: sessions of real brokers' code survive crashes, and traces and the judge see them
like others."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from resprout.audit.judge import judge
from resprout.audit.mqtt import MQTT_RULES
from resprout.audit.verdict import CLEAN, NOT_JUDGED, lines
from resprout.mqtt.state import SessionState
from resprout.net.run.schedule import check_runnable
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.source import shipped
from resprout.scenario.write import to_toml
from resprout.sim.classes import CLASSES
from resprout.sim.run import run_scenario
from resprout.sim.swarm import complaint_about, try_seed
from resprout.trace.schema import Row
from tests.patience import PATIENCE_S
from tests.soak import cases

SCENARIO = """
seed = 11
time_limit = "10m"
options = { faults_tolerated = 1 }
broker = [{ name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }]
fault = [FAULTS]
[[client]]
name = "native"
broker = "b0"
subscribe = ["t/#"]
[[client]]
name = "one"
broker = "b1"
protocol = "mqtt"
subscribe = ["t/#"]
[[client]]
name = "two"
broker = "b1"
protocol = "mqtt"
qos = 2
subscribe = ["t/a", "t/b"]
[[workload]]
kind = "random"
topics = ["t/a", "t/b"]
operations = 60
interval = "20ms"
start = "3s"
"""


def fault(at: str, kind: str, node: str) -> str:
    return f'{{ at = "{at}", kind = "{kind}", nodes = ["{node}"] }}'


def rows_of(*faults: str) -> list[Row]:
    """Rows of a run in which nothing is wrong."""
    scenario = parse_scenario(SCENARIO.replace("FAULTS", ", ".join(faults)))
    result = run_scenario(scenario)
    assert complaint_about(scenario, result) == ""
    verdict = judge(result.rows)
    assert all(verdict.check(rule).status == CLEAN for rule in (*MQTT_RULES, "durable", "lost")), lines(verdict)
    return result.rows


def sessions(rows: list[Row], name: str) -> list[str]:
    """What brokers said of the sessions of a client, by connection."""
    return [(row.attributes or {})["session"] for row in rows if row.kind == "mqtt_connected" and row.node == name]


def handed(rows: list[Row], name: str, qos: str = "") -> Counter[tuple[str | None, int | None, str]]:
    """How often each publication was handed to a client, by its publisher, number and subscription. With `qos`, only
    what was sent with it."""
    return Counter([
        (row.publisher, row.seq, (row.attributes or {})["durable"])
        for row in rows
        if row.kind == "handed" and row.node == name and qos in ("", (row.attributes or {})["qos"])
    ])  # fmt: skip


def test_clients_of_both_protocols_get_each_others_messages() -> None:
    rows = rows_of()
    publishers = {row.publisher for row in rows if row.kind == "deliver"}
    assert publishers == {"native", "one", "two"}
    for name in ("one", "two"):
        assert {publisher for publisher, _, _ in handed(rows, name)} == publishers
        assert len(handed(rows, name)) == 180
        assert sessions(rows, name) == ["new"]
        assert sum(row.kind == "receipt" and row.node == name and row.receipt == "safe" for row in rows) == 60


@pytest.mark.parametrize("at", ["3100ms", "3457ms", "3801ms"])
def test_sessions_survive_the_crash_of_their_broker(at: str) -> None:
    rows = rows_of(fault(at, "crash", "b1"), fault("20s", "recover", "b1"))
    for name in ("one", "two"):
        assert sessions(rows, name) == ["new", "present"]
    assert set(handed(rows, "two", "2").values()) == {1}
    assert max(handed(rows, "one", "1").values()) == 2, "what was not acknowledged comes again"


def test_sessions_survive_a_broker_that_freezes_and_one_that_stops() -> None:
    rows = rows_of(fault("3300ms", "freeze", "b1"), fault("60s", "unfreeze", "b1"))
    assert sessions(rows, "two") == ["new", "present"]
    rows = rows_of(fault("3300ms", "restart", "b1"))
    assert sessions(rows, "two") == ["new", "present"]


def test_a_client_that_freezes_gets_again_what_it_had_not_acknowledged() -> None:
    """A message of MQTT does not say how often it was sent, so the judge does not ask for it (seed 1122)."""
    rows = rows_of(fault("3500ms", "freeze", "one"), fault("8s", "unfreeze", "one"))
    assert sessions(rows, "one") == ["new", "present"]
    assert max(handed(rows, "one", "1").values()) == 2


def test_a_client_that_crashes_begins_a_new_session() -> None:
    rows = rows_of(fault("3500ms", "crash", "two"), fault("4s", "recover", "two"))
    assert sessions(rows, "two") == ["new", "new"]
    lives = {row.incarnation for row in rows if row.kind == "publish" and row.node == "two"}
    assert lives == {1, 2}


def test_a_publication_with_qos_1_that_is_sent_again_is_another_one() -> None:
    failed = []
    for at in range(3_300, 3_700, 40):
        rows = rows_of(fault(f"{at}ms", "crash", "b1"), fault("20s", "recover", "b1"))
        failed += [row.node for row in rows if row.kind == "receipt" and row.receipt == "failed"]
    assert set(failed) == {"one"}, "QoS 2 is published once"


def test_the_same_scenario_gives_the_same_trace_whatever_the_hash_seed() -> None:
    text = SCENARIO.replace("FAULTS", ", ".join([fault("3500ms", "crash", "b1"), fault("5s", "recover", "b1")]))
    program = (
        "import sys; from resprout.scenario.load import parse_scenario; from resprout.sim.run import run_scenario;"
        "result = run_scenario(parse_scenario(sys.argv[1])); print(result.ended, result.stats.events, result.digest)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, text],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1


def test_the_ready_made_scenario_takes_sessions_over() -> None:
    scenario = load_scenario(shipped("scenarios")["mqtt"])
    rows = run_scenario(scenario).rows
    assert [sessions(rows, name) for name in ("m1", "m2")] == [["new", "present"]] * 2


def test_a_scenario_with_mqtt_clients_is_written_as_it_is_read_and_is_for_the_simulator_only() -> None:
    scenario = parse_scenario(SCENARIO.replace("FAULTS", ""))
    assert parse_scenario(to_toml(scenario)).clients == scenario.clients
    with pytest.raises(Exception, match="client one: MQTT clients are only for `resprout sim`"):
        check_runnable(scenario)


def test_rules_for_mqtt_are_not_judged_without_mqtt_clients() -> None:
    verdict = judge([Row(time_us=0, node="world", kind="quiescent")])
    assert {verdict.check(rule).status for rule in MQTT_RULES} == {NOT_JUDGED}


@pytest.mark.parametrize("seed", range(cases(6, 40)))
def test_drawn_scenarios_are_clean(seed: int) -> None:
    assert "mqtt" in CLASSES
    outcome = try_seed(seed, "mqtt")
    assert not outcome.failed, outcome.report


def test_a_broken_takeover_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the next broker does not know which publications with QoS 2 the last one has received."""
    monkeypatch.setattr(SessionState, "mark_received", lambda state, packet_id: None)
    text = SCENARIO.replace('interval = "20ms"', 'interval = "2ms"').replace("operations = 60", "operations = 200")
    for at in range(3_100, 4_200, 37):
        crash = ", ".join([fault(f"{at}ms", "crash", "b1"), fault("20s", "recover", "b1")])
        verdict = judge(run_scenario(parse_scenario(text.replace("FAULTS", crash))).rows)
        if {check.rule for check in verdict.checks if check.anomalies} >= {"twice", "mqtt_twice"}:
            return
    pytest.fail("nobody noticed")


def test_a_subscription_that_begins_when_a_neighbour_falls_silent_is_confirmed_after_the_repair() -> None:
    """Its broker told the dead neighbour of the subscription during the repair, and waited for the answer for ever
    (`swarm --class mqtt --first 640002268`)."""
    scene = parse_scenario("""
time_limit = "120s"
[options]
faults_tolerated = 2
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "84us"
[[broker]]
name = "b2"
parent = "b0"
latency = "44us"
[[client]]
name = "c0"
broker = "b0"
latency = "0s"
subscribe = ["lamp/a"]
protocol = "mqtt"
qos = 2
[[fault]]
at = "4926355us"
kind = "crash"
nodes = ["c0"]
[[fault]]
at = "4926356us"
kind = "recover"
nodes = ["c0"]
[[fault]]
at = "4926524us"
kind = "crash"
nodes = ["b1"]
host = true
""")
    result = run_scenario(scene)
    assert result.ended == "quiescent"
    assert [row.kind for row in result.rows if row.node == "c0"].count("consuming") == 2, "of each life of the client"
