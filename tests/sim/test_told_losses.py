"""A client that was away for too long is told that deliveries are missing, and the judge knows that it was."""

from resprout.audit.judge import judge
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario

AWAY = """
name = "a client is away for too long"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "far"
broker = "b1"
subscribe = ["a"]
[[client]]
name = "near"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
clients = ["near"]
topics = ["a"]
operations = 60
interval = "100ms"
[[fault]]
at = "2s"
kind = "cut"
nodes = ["far", "b1"]
[[fault]]
at = "50s"
kind = "heal"
"""


def test_a_client_that_returns_too_late_is_told_and_nothing_is_lost_in_silence() -> None:
    rows = run_scenario(parse_scenario(AWAY)).rows
    [told] = [row for row in rows if row.kind == "session_lost"]
    assert told.node == "far" and "deliveries may be missing" in (told.detail or "")
    verdict = judge(rows)
    assert verdict.check("lost").anomalies == 0
    assert verdict.check("lost_told").anomalies == verdict.counts["told"] > 0
    assert verdict.counts["owed"] == verdict.counts["came"] + verdict.counts["told"]
