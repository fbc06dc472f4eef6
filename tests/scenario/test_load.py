"""What a good file becomes."""

import pytest

from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import (
    BankOptions,
    BrokerSpec,
    ChatterOptions,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)  # fmt: skip
from resprout.scenario.source import ScenarioError

EXAMPLE = """
name = "broker b1 dies"
stack = "resprout"
seed = 7
time_limit = "100s"

[options]
faults_tolerated = 1
total_degree = 3

[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "115ms"
bandwidth = "100Mbit"

[[client]]
name = "c0"
broker = "b1"
subscribe = ["bank/pt", { filter = "bank/#", where = "amount > 100" }]

[[workload]]
kind = "bank"
clients = ["c0"]
topics = ["bank/pt"]
keys = 100
operations = 500
mix = { eventual = 0.4, fifo = 0.3, causal = 0.3 }
interval = "50ms"
payload = 32

[[fault]]
at = "5s"
kind = "crash"
nodes = ["b1"]
"""


def test_the_documented_example_is_read_completely() -> None:
    assert parse_scenario(EXAMPLE) == Scenario(
        name="broker b1 dies",
        stack="resprout",
        seed=7,
        time_limit_us=100_000_000,
        options={"faults_tolerated": 1, "total_degree": 3},
        brokers=(BrokerSpec("b0"), BrokerSpec("b1", "b0", 115_000, 100_000_000)),
        clients=(
            ClientSpec("c0", "b1", 100, (SubscriptionSpec("bank/pt"), SubscriptionSpec("bank/#", "amount > 100"))),
        ),
        workloads=(
            WorkloadSpec(
                "bank", ("c0",), ("bank/pt",), 100, 500, Mix(0.4, 0.3, 0.3), 50_000, 32, 2_000_000, 0, BankOptions()
            ),
        ),
        faults=(FaultSpec(5_000_000, FaultKind.CRASH, ("b1",)),),
    )


def test_the_judge_can_learn_what_accounts_held_at_first() -> None:
    assert parse_scenario(EXAMPLE).bank_initial == 10_000
    assert parse_scenario(EXAMPLE, overrides=["workload.0.initial=5"]).bank_initial == 5
    assert parse_scenario('[[broker]]\nname = "only"\n').bank_initial is None


def test_everything_but_a_broker_has_a_default() -> None:
    scenario = parse_scenario('[[broker]]\nname = "only"\n', "folder/my run.toml")
    assert scenario == Scenario("my run", (BrokerSpec("only"),), "resprout", 1, 120_000_000)


def test_options_may_go_well_together_though_each_alone_would_not_with_the_defaults() -> None:
    text = 'stack = "scribe"\n[options]\nbackups = 6\nsuccessors = 8\n[[broker]]\nname = "b"\n'
    assert parse_scenario(text).options == {"backups": 6, "successors": 8}
    with pytest.raises(ScenarioError, match=r":2: options: successors must be at least as many as backups, 6, not 5$"):
        parse_scenario(text.replace("8", "5"))


def test_a_workload_is_for_all_clients_unless_it_names_some() -> None:
    text = '[topology]\nkind = "star"\nbrokers = 3\nsubscribe = ["t"]\n[[workload]]\nkind = "random"\ntopics = ["t"]\n'
    (workload,) = parse_scenario(text).workloads
    assert workload.clients == ("c0", "c1", "c2")
    assert workload.options == RandomOptions()


def test_options_of_a_workload_stand_among_its_keys() -> None:
    text = '[topology]\nkind = "star"\nbrokers = 1\nsubscribe = ["t"]\n[[workload]]\nkind = "chatter"\ntopics = ["t"]\n'
    scenario = parse_scenario(text + 'depth = 9\nanswer = 1\nthink_max = "3ms"\n')
    assert scenario.workloads[0].options == ChatterOptions(depth=9, answer=1.0, think_max_us=3_000)


def test_faults_come_in_the_order_of_time_and_then_of_the_file() -> None:
    text = EXAMPLE + (
        '[[fault]]\nat = "9s"\nkind = "heal"\n'
        '[[fault]]\nat = "1s"\nkind = "cut"\nnodes = ["b0", "b1"]\n'
        '[[fault]]\nat = "2s"\nkind = "cut"\nnodes = [["b0", "b1"], ["c0", "b1"]]\n'
        '[[fault]]\nat = "2s"\nkind = "join"\nnodes = ["b2"]\nparent = "b1"\nlatency = "3ms"\nbandwidth = "1Mbit"\n'
        '[[fault]]\nat = "6s"\nkind = "recover"\nnodes = ["b1"]\ndisk = false\n'
        '[[fault]]\nat = "7s"\nkind = "crash"\nnodes = ["b1", "b2"]\nhost = true\n'
    )
    scenario = parse_scenario(text)
    assert scenario.faults == (
        FaultSpec(1_000_000, FaultKind.CUT, links=(("b0", "b1"),)),
        FaultSpec(2_000_000, FaultKind.CUT, links=(("b0", "b1"), ("c0", "b1"))),
        FaultSpec(2_000_000, FaultKind.JOIN, ("b2",), parent="b1", latency_us=3_000, bandwidth_bps=1_000_000),
        FaultSpec(5_000_000, FaultKind.CRASH, ("b1",)),
        FaultSpec(6_000_000, FaultKind.RECOVER, ("b1",), disk=False),
        FaultSpec(7_000_000, FaultKind.CRASH, ("b1", "b2"), host=True),
        FaultSpec(9_000_000, FaultKind.HEAL),
    )
    assert scenario.joining(scenario.faults[2]) == (BrokerSpec("b2", "b1", 3_000, 1_000_000),)


def test_clients_are_on_their_brokers_side_of_a_partition() -> None:
    text = EXAMPLE + '[[fault]]\nat = "1s"\nkind = "partition"\nnodes = ["b1"]\n'
    scenario = parse_scenario(text)
    assert scenario.side(scenario.faults[0]) == ("b1", "c0")


def test_a_client_may_belong_to_a_broker_that_joins_later() -> None:
    text = (
        '[[broker]]\nname = "b0"\n[[client]]\nname = "c0"\nbrokers = "b9"\n'
        '[[fault]]\nat = "1s"\nkind = "join"\nnodes = ["b9"]\nparent = "b0"\n'
    ).replace("brokers", "broker")
    assert parse_scenario(text).clients[0].broker == "b9"


def test_brokers_of_one_site_share_its_place_in_the_tree_of_sites() -> None:
    rows = [("a", "s0", ""), ("b", "s0", ""), ("c", "s1", "a"), ("d", "s1", "b"), ("e", "s1", ""), ("f", "s2", "e")]
    text = "".join(
        f'[[broker]]\nname = "{name}"\nsite = "{site}"\n' + (f'parent = "{parent}"\n' if parent else "")
        for name, site, parent in rows
    )
    assert [broker.site for broker in parse_scenario(text).brokers] == [site for _, site, _ in rows]


def test_the_other_brokers_of_a_site_may_name_its_first_as_their_parent() -> None:
    rows = [("a", "s0", ""), ("b", "s0", "a"), ("c", "s1", "a"), ("d", "s1", "c"), ("e", "s1", "c")]
    text = "".join(
        f'[[broker]]\nname = "{name}"\nsite = "{site}"\n' + (f'parent = "{parent}"\n' if parent else "")
        for name, site, parent in rows
    )
    assert [(b.name, b.site, b.parent or "") for b in parse_scenario(text).brokers] == rows


def test_a_broker_with_contacts_needs_no_parent() -> None:
    text = (
        '[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\ncontacts = ["b0", "b2"]\n'
        '[[broker]]\nname = "b2"\ncontacts = ["b1"]\n'
        '[[fault]]\nat = "1s"\nkind = "join"\nnodes = ["b3"]\ncontacts = ["b2"]\n'
    )
    scenario = parse_scenario(text)
    assert [(broker.parent, broker.contacts) for broker in scenario.brokers] == [
        (None, ()), (None, ("b0", "b2")), (None, ("b1",)),
    ]  # fmt: skip
    assert scenario.joining(scenario.faults[0])[0] == BrokerSpec("b3", contacts=("b2",))


def test_a_file_that_cannot_be_read_is_the_callers_mistake(tmp_path: object) -> None:
    with pytest.raises(ScenarioError, match=r"no-such-file\.toml: No such file"):
        load_scenario(f"{tmp_path}/no-such-file.toml")
    with pytest.raises(ScenarioError, match="directory"):
        load_scenario(str(tmp_path))
