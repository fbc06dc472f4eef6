from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import BrokerSpec, Scenario
from resprout.scenario.source import shipped
from resprout.scenario.write import to_toml
from tests.soak import cases

READY_MADE = sorted(shipped("scenarios").values())


@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_a_ready_made_scenario_survives_being_written_and_read(path: Path) -> None:
    scenario = load_scenario(path)
    assert parse_scenario(to_toml(scenario)) == scenario


@settings(deadline=None, derandomize=True, max_examples=cases(50, 150))
@given(st.integers(0, 2**63 - 1))
def test_a_drawn_scenario_survives_being_written_and_read(seed: int) -> None:
    scenario = draw_scenario(seed)
    assert parse_scenario(to_toml(scenario)) == scenario


def test_faults_sites_and_options_survive_being_written_and_read() -> None:
    text = """
    name = "all"
    time_limit = "1500ms"
    options = { faults_tolerated = 2 }
    broker = [
        { name = "a", site = "r" },
        { name = "b", site = "s", parent = "a", bandwidth = "1500bit" },
    ]
    client = [{ name = "c", broker = "b", latency = "1s", subscribe = [{ filter = "t", where = "x = 'it''s'" }, "t"] }]
    workload = [{ kind = "bank", topics = ["t"], start = "0s", initial = 7 }]
    fault = [
        { at = "1us", kind = "crash", nodes = ["a"], host = true },
        { at = "2us", kind = "recover", nodes = ["a"], disk = false, found = true },
        { at = "3us", kind = "freeze", nodes = ["a", "c"] },
        { at = "4us", kind = "unfreeze", nodes = ["a", "c"] },
        { at = "5us", kind = "cut", nodes = ["a", "b"] },
        { at = "6us", kind = "cut", nodes = [["a", "b"], ["b", "c"]] },
        { at = "7us", kind = "heal", nodes = ["a", "b"] },
        { at = "8us", kind = "partition", nodes = ["b"] },
        { at = "9us", kind = "heal" },
        { at = "10us", kind = "leave", nodes = ["b"] },
        { at = "11us", kind = "join", nodes = ["b", "d"], parent = "a", latency = "9s", bandwidth = "1bit", site = "s"},
    ]
    """
    scenario = parse_scenario(text)
    assert len(scenario.faults) == 11
    assert parse_scenario(to_toml(scenario)) == scenario


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.isprintable))
def test_any_printable_name_survives(name: str) -> None:
    scenario = Scenario(name, (BrokerSpec("b0"),))
    assert parse_scenario(to_toml(scenario)) == scenario
