"""Sweeps: what a grid file expands to, and what it is refused for."""

from pathlib import Path

import pytest

from resprout.scenario.load import Sweep, load_sweep, parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.source import ScenarioError

BASE = """
name = "base"
seed = 9
topology = { kind = "chain", brokers = 2, subscribe = ["t"] }
[[workload]]
kind = "random"
topics = ["t"]
operations = 5
"""

GRID = """
base = "base.toml"
set = ["workload.0.payload=7"]
seeds = [3, 1]

[[axis]]
name = "keys"
path = "workload.0.keys"
values = [1, 10]

[[axis]]
name = "death"

[[axis.point]]
name = "none"

[[axis.point]]
name = "b1"
set = ['fault.0={ at = "4s", kind = "crash", nodes = ["b1"] }', "options.faults_tolerated=2"]

[[axis]]
name = "stack"

[[axis.point]]
name = "resprout"

[[axis.point]]
name = "ginger"
set = ["stack=ginger", "options={ buffer_size = 150 }"]
"""


def sweep_of(folder: Path, text: str, base: str = BASE) -> Sweep:
    (folder / "base.toml").write_text(base)
    (folder / "grid.toml").write_text(text)
    return load_sweep(folder / "grid.toml")


def test_a_grid_has_a_run_for_every_combination_and_seed_in_the_order_of_the_file(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, GRID)
    names = [run.name for run in sweep.runs()]
    assert len(names) == len(sweep) == 16
    assert names[:3] == [
        "keys=1,death=none,stack=resprout,seed=3",
        "keys=1,death=none,stack=resprout,seed=1",
        "keys=1,death=none,stack=ginger,seed=3",
    ]
    assert names[-1] == "keys=10,death=b1,stack=ginger,seed=1"
    assert len(set(names)) == 16
    assert sweep.name == "grid"


def test_a_run_is_the_base_with_its_settings_and_nothing_else(tmp_path: Path) -> None:
    runs = {run.name: run for run in sweep_of(tmp_path, GRID).runs()}
    run = runs["keys=10,death=b1,stack=resprout,seed=3"]
    assert run.seed == 3 and run.labels == {"keys": "10", "death": "b1", "stack": "resprout"}
    by_hand = parse_scenario(
        BASE,
        overrides=[
            "name=keys=10,death=b1,stack=resprout,seed=3",
            "seed=3",
            "workload.0.payload=7",
            "workload.0.keys=10",
            'fault.0={ at = "4s", kind = "crash", nodes = ["b1"] }',
            "options.faults_tolerated=2",
        ],
    )
    assert run.scenario == by_hand


def test_the_setting_of_a_later_axis_wins(tmp_path: Path) -> None:
    runs = {run.name: run.scenario for run in sweep_of(tmp_path, GRID).runs()}
    assert runs["keys=1,death=b1,stack=ginger,seed=1"].options == {"buffer_size": 150}
    assert runs["keys=1,death=b1,stack=resprout,seed=1"].options == {"faults_tolerated": 2}


def test_values_of_an_axis_may_be_texts_numbers_and_flags(tmp_path: Path) -> None:
    axis = '[[axis]]\nname = "a"\npath = "{}"\nvalues = {}\n'

    def values(path: str, listed: str) -> list[Scenario]:
        text = 'base = "base.toml"\nseeds = [1]\n' + axis.format(path, listed)
        return [run.scenario for run in sweep_of(tmp_path, text).runs()]

    assert [s.stack for s in values("stack", '["ginger", "resprout"]')] == ["ginger", "resprout"]
    assert [s.workloads[0].interval_us for s in values("workload.0.interval", '["5ms", "2s"]')] == [5_000, 2_000_000]
    assert [s.options["durable"] for s in values("options.durable", "[true, false]")] == [True, False]


def test_without_axes_a_sweep_is_its_seeds(tmp_path: Path) -> None:
    runs = list(sweep_of(tmp_path, 'name = "s"\nbase = "base.toml"\nseeds = [5, 6]').runs())
    assert [(run.name, run.scenario.seed) for run in runs] == [("seed=5", 5), ("seed=6", 6)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("seeds = [1]", "'base' is missing"),
        ('base = "base.toml"', "'seeds' is missing"),
        ('base = "base.toml"\nseeds = []', "grid.toml:2: it needs at least one seed"),
        ('base = "base.toml"\nseeds = [1, 1]', "grid.toml:2: the seed 1 is there twice"),
        ('base = "base.toml"\nseeds = [-1]', "grid.toml:2: a seed is a whole number"),
        ('base = "base.toml"\nseeds = [true]', "grid.toml:2: a seed is a whole number"),
        ('base = "gone.toml"\nseeds = [1]', "gone.toml: No such file"),
        ('base = "base.toml"\nseeds = [1]\nsset = []', "unknown key 'sset'; did you mean 'set'?"),
        ('base = "base.toml"\nseeds = [1]\nset = ["workload.5.keys=1"]', "there are only 1 before index 5"),
        ('name = "a/b"\nbase = "base.toml"\nseeds = [1]', "'a/b' cannot name a folder"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        sweep_of(tmp_path, text)
    assert complaint in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("axis", "complaint"),
    [
        ('path = "seed"\nvalues = [1]', "'name' is missing"),
        ('name = "seed"\npath = "seed"\nvalues = [1]', "'seed' is taken"),
        ('name = "a"\nvalues = [1]', "axis a: 'path' is missing"),
        ('name = "a"\npath = "stack"\nvalues = []', "axis a: it needs at least one value"),
        ('name = "a"\npath = "stack"\nvalues = ["x", "x"]', "two points are called 'x'"),
        ('name = "a"\npath = "stack"\nvalues = [[1]]', "values are texts, numbers, true or false"),
        ('name = "a"\npath = "stack"\nvalues = [nan]', "nan is no value"),
        ('name = "a"\npath = "stack"\nvalues = ["x,y"]', "'x,y' cannot be part of a run's name"),
        ('name = "a"\npath = "stack"\npoint = [{ name = "p" }]', "unknown key 'path'"),
        ('name = "a"\npoint = [{ set = [] }]', "'name' is missing"),
        ('name = "a"\npoint = [{ name = "=" }]', "'=' cannot be part of a run's name"),
        ('name = "a"\npoint = [{ name = "p", set = [1] }]', "set is a list of texts"),
    ],
)
def test_a_bad_axis_is_refused_with_its_place(tmp_path: Path, axis: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        sweep_of(tmp_path, f'base = "base.toml"\nseeds = [1]\n[[axis]]\n{axis}')
    message = str(caught.value)
    assert complaint in message and "grid.toml:" in message and "\n" not in message


def test_two_axes_of_one_name_are_refused(tmp_path: Path) -> None:
    axis = '[[axis]]\nname = "a"\npath = "seed"\nvalues = [1]\n'
    with pytest.raises(ScenarioError, match="two axes are called 'a'"):
        sweep_of(tmp_path, 'base = "base.toml"\nseeds = [1]\n' + axis * 2)


def test_a_grid_that_is_too_large_is_refused_before_it_is_expanded(tmp_path: Path) -> None:
    axes = "".join(f'[[axis]]\nname = "a{n}"\npath = "seed"\nvalues = {list(range(100))}\n' for n in range(4))
    with pytest.raises(ScenarioError, match="100000000 runs; at most 1000000"):
        sweep_of(tmp_path, 'base = "base.toml"\nseeds = [1]\n' + axes)


def test_a_setting_that_cannot_be_is_blamed_on_itself_when_its_run_comes(tmp_path: Path) -> None:
    text = 'base = "base.toml"\nseeds = [1]\n[[axis]]\nname = "a"\npath = "workload.0.keys"\nvalues = [1, -1]\n'
    runs = sweep_of(tmp_path, text).runs()
    next(runs)
    with pytest.raises(ScenarioError, match=r"--set workload\.0\.keys=-1: .*keys is -1"):
        next(runs)


@pytest.mark.parametrize(("figure", "runs"), [("5.3", 40), ("5.4", 40), ("5.5", 160)])
def test_the_ready_made_sweeps_expand(figure: str, runs: int) -> None:
    sweep = load_sweep(f"seed000-{figure}")
    scenarios = [run.scenario for run in sweep.runs()]
    assert len(sweep) == len(scenarios) == runs
    assert {scenario.stack for scenario in scenarios} == {"resprout", "ginger"}
    assert {sum(len(fault.nodes) for fault in scenario.faults) for scenario in scenarios} == {0, 1, 2, 3}
    assert {scenario.workloads[0].operations for scenario in scenarios} == {1000 if figure == "5.3" else 500}
