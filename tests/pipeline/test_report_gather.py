"""From traces and archives to the page, through Spark: what is known is not asked again."""

from pathlib import Path

import pytest

from resprout.cli.main import run as command
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import make_archive, run_folder
from resprout.pipeline.report.facts import find_all, recipe_of
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.schema import Row
from resprout.trace.store import Recorder, RunInfo, write_trace

CRASH = "crash-b1"
FIGURES = "seed000-5.4"
SHORT = ("workload.0.operations=12", "workload.0.keys=3")


def scenario(*changes: str) -> Scenario:
    return load_scenario(CRASH, [*SHORT, *changes])


def make(folder: Path, of: Scenario) -> None:
    result = run_scenario(of, Recorder())
    write_trace(folder, result.rows, run_info(of, result.ended))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of the figure 5.4 with each stack."""
    folder = tmp_path_factory.mktemp("report") / "archive"
    make_archive(folder)
    for stack in ("resprout", "ginger"):
        options = ["options={ total_degree = 3 }"] if stack == "ginger" else []
        of = scenario(f"stack={stack}", *options)
        make(run_folder(folder, "seed000-5.4", f"faults=1,stack={stack},seed=7"), of)
    return folder


def result_files(archive: Path) -> list[Path]:
    return sorted((archive / "results").rglob("*.parquet"))


@pytest.mark.usefixtures("spark")
def test_an_archive_is_judged_and_measured_once_and_shown_twice(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    words = ["report", str(archive), "--out", str(out), "--sweep", FIGURES]
    assert command([*words, "--master", "local[2]"]) == 0
    assert capsys.readouterr().out == f"2 runs: {out}\n"
    first, kept = out.read_text(), result_files(archive)
    assert "5.4 Latency of each guarantee" in first
    assert "The run" not in first
    assert {path.parent.name for path in kept} >= {"runs", "latency", "repairs", "verdicts", "anomalies"}
    assert command(words) == 0
    assert out.read_text() == first
    assert result_files(archive) == kept


@pytest.mark.usefixtures("spark")
def test_a_single_trace_is_shown_with_its_story_and_leaves_nothing_behind(tmp_path: Path) -> None:
    folder, out = tmp_path / "demo", tmp_path / "page.html"
    make(folder, scenario())
    before = sorted(folder.iterdir())
    assert command(["report", str(folder), "--out", str(out)]) == 0
    page = out.read_text()
    assert "b1 dies" in page
    assert "Latency over time" in page
    assert "The run kept every promise." in page
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("spark")
def test_a_trace_that_is_not_of_a_scenario_is_shown_all_the_same(tmp_path: Path) -> None:
    rows = [Row(time_us=5, node="<b>", kind="crash"), Row(time_us=9, node="world", kind="quiescent")]
    write_trace(tmp_path / "t", rows, RunInfo(scenario={"name": "<script>"}, ended="quiescent"))
    assert command(["report", str(tmp_path / "t"), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt; dies" in page
    assert page.count("<script>") == 1 and "&lt;script&gt;" in page


def test_a_run_that_is_named_twice_counts_once(archive: Path) -> None:
    (_, first), (_, second) = find_all([archive, archive])
    assert len(first) == 2
    assert second == []


def test_different_runs_of_one_name_are_not_mixed_up(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_archive(other)
    name = "faults=1,stack=resprout,seed=7"
    make(run_folder(other, "seed000-5.4", name), scenario("seed=8"))
    with pytest.raises(PipelineError, match="are different runs with the same name"):
        find_all([archive, other])


@pytest.mark.parametrize("name", ["crash-b1", "partition", "chatter", "random", "content"])
def test_the_scenario_on_the_page_makes_the_run_again(name: str) -> None:
    of = load_scenario(name)
    recipe = recipe_of(run_info(of, "quiescent"))
    assert recipe is not None
    assert parse_scenario(recipe, "recipe", []) == of


@pytest.mark.parametrize("values", [{}, {"name": 3}, {"name": "x", "brokers": "many"}])
def test_what_is_no_scenario_has_no_recipe(values: dict[str, object]) -> None:
    assert recipe_of(RunInfo(scenario=values)) is None
