"""Messages that come back, and dead letters, in the virtual world: consumers and brokers freeze and die."""

import importlib

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, Verdict, lines
from resprout.core.timing import DUE
from resprout.scenario.load import parse_scenario
from resprout.scenario.source import ScenarioError
from resprout.scenario.write import to_toml
from resprout.sim.classes.queues import queues
from resprout.sim.run import Trial, run_scenario
from resprout.trace.schema import Row, values
from tests.sim.test_durable import handed, run

SCENARIO = """
seed = 3
time_limit = "200s"
options = { faults_tolerated = 1 }
broker = [
    { name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }, { name = "b3", parent = "b2" },
]
client = [
    { name = "p", broker = "b0" },
    { name = "w0", broker = "b1", reading = "10ms", subscribe = [WANTED] },
    { name = "w1", broker = "b2", latency = "200us", reading = "10ms", subscribe = [WANTED] },
    { name = "undertaker", broker = "b3", subscribe = ["dead/#"] },
    { name = "store", broker = "b3", subscribe = [{ filter = "dead/g", durable = "g.dead", group = true }] },
]
fault = [FAULTS]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
keys = KEYS
operations = 60
interval = "20ms"
start = "20050ms"
"""


def fault(at: str, kind: str, node: str) -> str:
    return f'{{ at = "{at}", kind = "{kind}", nodes = ["{node}"] }}'


def rows_of(policy: str, *faults: str, keys: int = 0) -> list[Row]:
    wanted = f'{{ filter = "t", durable = "g", group = true, {policy} }}'
    return run(
        parse_scenario(
            SCENARIO.replace("WANTED", wanted).replace("FAULTS", ", ".join(faults)).replace("KEYS", str(keys))
        )
    )


def dead(rows: list[Row], kind: str = "deliver") -> list[str]:
    """Ids of messages whose dead letters somebody was given."""
    letters = {(row.publisher, row.incarnation): row for row in rows if row.kind == "dead_letter"}
    given = [letters[row.publisher, row.incarnation] for row in rows if row.kind == kind and row.topic == "dead/g"]
    return sorted(str(values(row.attributes)["dead_id"]) for row in given)


@pytest.mark.parametrize("keys", [0, 3])
@pytest.mark.parametrize(
    "faults",
    [
        (),
        ('{ at = "20700ms", kind = "crash", nodes = ["b1"] }',),
        (
            '{ at = "20700ms", kind = "crash", nodes = ["b1", "w0"] }',
            '{ at = "26s", kind = "recover", nodes = ["w0"] }',
        ),
    ],
    ids=["calm", "the home dies", "the home dies with a consumer"],
)
def test_every_message_is_acknowledged_or_has_one_dead_letter(faults: tuple[str, ...], keys: int) -> None:
    rows = rows_of('max_deliver = 3, ack_wait = "2s", poison = 0.2, flaky = 0.2', *faults, keys=keys)
    letters = dead(rows)
    assert len(letters) == len(set(letters)) > 3
    assert dead(rows, "handed") == letters, "those who subscribe to them, and the group that keeps them, get the same"
    done = {(row.publisher, row.stream, row.seq) for row in rows if row.kind == "acknowledged" and row.node[0] == "w"}
    assert len(done) + len(letters) == 60


def test_a_consumer_that_is_frozen_keeps_what_it_has_while_its_time_is_not_over() -> None:
    frozen = (
        '{ at = "20700ms", kind = "freeze", nodes = ["w0"] }',
        '{ at = "26700ms", kind = "unfreeze", nodes = ["w0"] }',
    )
    assert handed(rows_of("max_deliver = 5", *frozen), "g", redelivered="yes"), "without ack_wait it counts as gone"
    assert not handed(rows_of('ack_wait = "30s"', *frozen), "g", redelivered="yes")
    assert handed(rows_of('ack_wait = "5s"', *frozen), "g", redelivered="yes"), "its time was over"


def test_a_consumer_that_dies_loses_what_it_has_at_once_whatever_its_time() -> None:
    rows = rows_of('ack_wait = "100s"', fault("20700ms", "crash", "w0"))
    again = [row.time_us for row in rows if row.kind == "handed" and "redelivered" in (row.attributes or {})]
    assert again and max(again) < 30_000_000


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ('{ filter = "t", max_deliver = 3 }', "only a durable subscription hands out messages again"),
        ('{ filter = "t", durable = "g", poison = 0.1, ack_wait = "1s" }', "without max_deliver"),
        ('{ filter = "t", durable = "g", flaky = 0.1 }', "messages can be rejected only with max_deliver or ack_wait"),
        ('{ filter = "t", durable = "g", ack_wait = "1ms" }', "it is at least 100ms"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused(wrong: str, text: str) -> None:
    scenario = SCENARIO.replace("WANTED", wrong).replace("FAULTS", "").replace("KEYS", "0")
    with pytest.raises(ScenarioError, match=text):
        parse_scenario(scenario)


def test_the_class_draws_every_policy_and_its_scenarios_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rehearsals that find the moments of faults, which are not looked at here."""
    module = importlib.import_module("resprout.sim.classes.queues")  # the package has a function of the same name
    monkeypatch.setattr(module, "with_blows", lambda rng, scenario, begin_us: Trial(scenario))
    trials: list[Trial] = [queues(seed) for seed in range(12)]
    wanted = [one for trial in trials for client in trial.scenario.clients for one in client.subscriptions]
    policies = [one for one in wanted if one.retries]
    assert {one.group for one in policies} == {False, True}
    for field in ("max_deliver", "ack_wait_us", "poison", "flaky"):
        assert {bool(getattr(one, field)) for one in policies} == {False, True}, field
    for trial in trials:
        calm = msgspec.structs.replace(trial.scenario, faults=())
        assert parse_scenario(to_toml(calm)).clients == calm.clients


TIMED = """
seed = 5
time_limit = "300s"
options = { faults_tolerated = 1 }
broker = [
    { name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }, { name = "b3", parent = "b2" },
]
client = [
    { name = "p", broker = "b0" },
    { name = "s", broker = "b1", subscribe = ["t"] },
    { name = "w", broker = "b1", reading = "1ms", subscribe = [{ filter = "t", durable = "d" }] },
    { name = "g", broker = "b3", reading = "1ms", subscribe = [{ filter = "t", durable = "g", group = true }] },
]
fault = [
    { at = "21s", kind = "crash", nodes = ["b1"] },
    { at = "22s", kind = "crash", nodes = ["w"] },
    { at = "30s", kind = "recover", nodes = ["w"] },
]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
operations = 80
interval = "20ms"
start = "20050ms"
delays = 0.4
delay_max = "15s"
expiries = 0.3
ttl_max = "5s"
mix = { eventual = 0.3, causal = 0.4, total = 0.3 }
"""


def timed_run() -> tuple[list[Row], Verdict]:
    result = run_scenario(parse_scenario(TIMED))
    return list(result.rows), judge(result.rows, clocks_us=0)


def test_delayed_and_expiring_messages_keep_their_times_through_crashes() -> None:
    rows, verdict = timed_run()
    assert not verdict.violated, "\n".join(lines(verdict))
    assert {check.status for check in verdict.checks if check.rule in ("early", "expired", "durable")} == {CLEAN}
    delayed = {row.seq for row in rows if row.kind == "publish" and DUE in (row.attributes or {})}
    given = {row.node for row in rows if row.kind in ("deliver", "handed") and row.seq in delayed}
    assert given == {"s", "w", "g"}
    assert any(row.kind == "expired" for row in rows)


def _deliver_all(*_: object) -> None:
    """As if nothing had a time."""


@pytest.mark.parametrize(
    ("target", "wrong", "rules"),
    [
        ("resprout.edge.client.incoming.sort_out", _deliver_all, {"early"}),
        ("resprout.edge.client.incoming.has_expired", lambda *_: False, {"expired"}),
        ("resprout.edge.client.delayed.DelayedMessages.add", lambda *_: [], {"lost"}),
        ("resprout.edge.broker.timed.timed_rows", _deliver_all, {"early"}),
        ("resprout.edge.broker.retries.heappush", lambda *_: None, {"durable"}),
        ("resprout.edge.client.consumer.has_expired", lambda *_: False, {"expired"}),
    ],
)  # fmt: skip
def test_the_judge_finds_brokers_and_clients_that_mistake_the_time(
    target: str, wrong: object, rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, wrong)
    if target.endswith("consumer.has_expired"):  # brokers leave out what has expired before it is handed out, too
        monkeypatch.setattr("resprout.edge.broker.timed.expires_of", lambda *_: 0)
    _, verdict = timed_run()
    assert {anomaly.rule for anomaly in verdict.anomalies} >= rules
