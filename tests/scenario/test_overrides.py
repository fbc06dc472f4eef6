import pytest

from resprout.scenario.load import build_scenario, parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.source import ScenarioError, apply_overrides, parse_source

TEXT = """\
seed = 1
[topology]
kind = "chain"
brokers = 3
subscribe = ["t"]
[[client]]
name = "extra"
broker = "b1"
[[workload]]
kind = "random"
topics = ["t"]
clients = ["c0",
  "c1"]
"""


def changed(*overrides: str) -> Scenario:
    return parse_scenario(TEXT, "x.toml", overrides)


def test_an_override_replaces_a_value_of_the_file() -> None:
    scenario = changed("seed=9", "workload.0.operations=10", 'name="two words"')
    assert (scenario.seed, scenario.workloads[0].operations, scenario.name) == (9, 10, "two words")


def test_an_override_makes_the_tables_it_needs() -> None:
    scenario = changed("options.faults_tolerated=2", "fault.0.kind=heal", "fault.0.at=5s")
    assert scenario.options == {"faults_tolerated": 2}
    assert scenario.faults[0].at_us == 5_000_000


def test_bare_words_are_texts_and_everything_else_is_toml() -> None:
    scenario = changed("topology.latency=5ms", 'workload.0.clients=["c2"]', "workload.0.mix={fifo=1.0}", "name = a = b")
    assert scenario.brokers[1].latency_us == 5_000
    assert scenario.workloads[0].clients == ("c2",)
    assert scenario.workloads[0].mix.fifo == 1.0
    assert scenario.name == "a = b"


def test_an_element_of_a_list_is_found_by_its_name() -> None:
    assert changed("client.extra.broker=b2").clients[-1].broker == "b2"


def test_a_later_override_wins() -> None:
    assert changed("seed=9", "seed=10").seed == 10


def test_the_source_itself_is_left_alone() -> None:
    source = parse_source(TEXT, "x.toml")
    apply_overrides(source, ["workload.0.keys=3", "seed=2", "client.1.name=more", "client.1.broker=b0"])
    assert build_scenario(source) == parse_scenario(TEXT, "x.toml")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("seed", "write path.to.option=value"),
        ("=3", "write path.to.option=value"),
        ("workload..keys=3", "write path.to.option=value"),
        ("sede=3", "unknown key 'sede'; did you mean 'seed'?"),
        ("seed=x", "seed must be a whole number, not a text"),
        ("seed=-3", "seed is -3; it must be 0 to 9223372036854775807"),
        ("seed.x=3", "there is nothing to name by 'x' inside a single value"),
        ("workload.7.keys=3", "there are only 1 before index 7"),
        ("workload.first.keys=3", "no element named 'first'; lists take an index or a name"),
        ("workload.0.mix.fifo=0.5", "workload 0: mix: the shares sum to 0.5, not to 1"),
        ("workload.0.clients=['c0','c9']", "workload 0: client 'c9' does not exist"),
        ("options.colour=red", "options: option 'colour': the stack 'resprout' has no such option"),
        ("client.extra.broker=b7", "client extra: broker 'b7' does not exist"),
        ("client.1.name=c9", "client c9: 'broker' is missing"),
        ("broker=3", "write [[broker]], not [broker]: there can be several"),
    ],
)
def test_a_bad_override_is_refused_by_its_own_words(override: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        changed(override)
    assert str(caught.value).startswith(f"--set {override}: {reason}")


def test_what_an_override_did_not_touch_is_still_blamed_on_the_file() -> None:
    with pytest.raises(ScenarioError, match=r"^x\.toml:13: workload 0: client 'c1' does not exist"):
        changed("topology.brokers=1", "client.extra.broker=b0")
