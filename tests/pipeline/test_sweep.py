"""A sweep runs every scenario once, into an archive, whatever interrupts it; and any run can be made again alone."""

import os
import shlex
import signal
from pathlib import Path

import pytest

from resprout.cli.main import run as command
from resprout.pipeline import results
from resprout.pipeline.archive import verify
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import find_runs, run_folder
from resprout.pipeline.sweep import (
    Finished,
    SweepOutcome,
    SweepPlan,
    SweepRow,
    count_finished,
    load_plan,
    look,
    run_sweep,
    simulate,
)
from resprout.scenario.model import Scenario
from resprout.scenario.source import ScenarioError
from resprout.trace.store import Recorder, RunInfo, read_info, read_trace
from tests.pipeline.small import a_sweep, files

pytestmark = pytest.mark.usefixtures("spark")

NAMES = ["ops=3,seed=1", "ops=3,seed=2", "ops=6,seed=1", "ops=6,seed=2"]


@pytest.fixture
def plan(tmp_path: Path) -> SweepPlan:
    return load_plan(a_sweep(tmp_path))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def finish(plan: SweepPlan, out: Path, replace: bool = False) -> SweepOutcome:
    return run_sweep(plan, look(plan, out, replace), out, replace=replace)


def made_at(out: Path) -> dict[str, tuple[int, int]]:
    """By run, what changes when it is made again."""
    return {
        place.run: ((status := Path(place.parts[0].path).stat()).st_ino, status.st_mtime_ns)
        for place in find_runs([out])
    }


def test_every_run_is_made_once_and_has_a_row_of_results(plan: SweepPlan, out: Path) -> None:
    told: list[str] = []
    outcome = run_sweep(plan, look(plan, out), out, on_finished=lambda it: told.append(it.wanted.name))
    places = find_runs([out])
    assert [place.name for place in places] == [f"small/{name}" for name in NAMES] and sorted(told) == NAMES
    assert all(verify(place) for place in places)
    assert outcome.failed == [] and [row.run for row in outcome.rows] == NAMES
    row = next(row for row in results.read(out, SweepRow, places) if row.run == "ops=6,seed=2")
    trace = read_trace(run_folder(out, "small", "ops=6,seed=2"))
    assert (row.labels, row.seed, row.stack, row.ended) == ({"ops": "6"}, 2, "resprout", "quiescent")
    assert (row.digest, row.rows) == (trace.info.digest, len(trace.rows))
    assert row.publications == sum(row.kind == "publish" for row in trace.rows) == 18
    assert row.deliveries == sum(row.kind == "deliver" for row in trace.rows) == 54
    assert row.wall_s is not None and row.wall_s > 0


def test_a_run_is_the_one_that_its_command_makes(
    plan: SweepPlan, out: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    row = finish(plan, out).rows[0]
    words = shlex.split(row.command)
    assert words[:2] == ["resprout", "sim"] and words[-1] == "DIR"
    assert command([*words[1:-1], str(tmp_path / "alone"), "--set", f"name={row.run}"]) == 0
    capfd.readouterr()
    alone = read_info(tmp_path / "alone")
    assert alone.digest == row.digest
    assert alone == read_info(run_folder(out, "small", row.run))


def test_after_an_interrupt_nothing_is_lost_and_nothing_is_made_twice(plan: SweepPlan, out: Path) -> None:
    told: list[str] = []

    def interrupt(finished: Finished) -> None:
        told.append(finished.wanted.name)
        if len(told) == 2:
            raise KeyboardInterrupt

    standing = look(plan, out)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, standing, out, on_finished=interrupt)
    before = made_at(out)
    assert count_finished(plan, standing, out, told) == len(before) >= 2
    assert {row.run for row in results.read(out, SweepRow, find_runs([out]))} >= set(told)
    again: list[str] = []
    rows = run_sweep(plan, look(plan, out), out, on_finished=lambda it: again.append(it.wanted.name)).rows
    assert sorted([*before, *again]) == NAMES == sorted(row.run for row in rows)
    assert before.items() <= made_at(out).items()
    assert len(results.read(out, SweepRow, find_runs([out]))) == 4


def test_a_finished_sweep_is_answered_from_its_archive(
    plan: SweepPlan, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when its rows of results are gone."""
    rows = finish(plan, out).rows
    for path in (out / "results" / "sweep").iterdir():
        path.unlink()
    monkeypatch.setattr("resprout.pipeline.sweep.session", None)
    again = finish(plan, out).rows
    assert again == rows
    assert results.read(out, SweepRow, find_runs([out])) == again


def test_a_run_that_fails_is_named_with_its_reason_and_the_others_go_on(plan: SweepPlan, out: Path) -> None:
    def falls_over_seed_2(scenario: Scenario, recorder: Recorder) -> RunInfo:
        if scenario.seed == 2:
            raise AssertionError("a broker\nlost its way")
        return simulate(scenario, recorder)

    outcome = run_sweep(plan, look(plan, out), out, simulate=falls_over_seed_2)
    assert [(it.wanted.name, it.failure) for it in outcome.failed] == [
        (name, "AssertionError: a broker lost its way") for name in NAMES if name.endswith("seed=2")
    ]
    assert "--seed 2" in plan.command_of(outcome.failed[0].wanted)
    assert [row.run for row in outcome.rows] == [name for name in NAMES if name.endswith("seed=1")]
    assert [wanted.name for wanted in look(plan, out).todo] == ["ops=6,seed=2", "ops=3,seed=2"]
    assert finish(plan, out).failed == []


# -- the file has changed ------------------------------------------------------------------------------------------


def test_finished_runs_that_the_file_now_says_differently_are_noticed(
    plan: SweepPlan, out: Path, tmp_path: Path
) -> None:
    finish(plan, out)
    before, made = files(out), made_at(out)
    path = tmp_path / "small.toml"
    path.write_text(path.read_text().replace("payload=16", "payload=17").replace("[1, 2]", "[1, 3]"))
    changed = load_plan(path)
    with pytest.raises(
        PipelineError, match=r"2 finished runs .* first ops=3,seed=1: workloads.0.payload was 16, is 17"
    ):
        look(changed, out)
    assert files(out) == before
    rows = finish(changed, out, replace=True).rows
    assert sorted(row.run for row in rows) == ["ops=3,seed=1", "ops=3,seed=3", "ops=6,seed=1", "ops=6,seed=3"]
    assert look(changed, out).todo == []
    assert {run for run, when in made_at(out).items() if made.get(run) == when} == {"ops=3,seed=2", "ops=6,seed=2"}


@pytest.mark.parametrize("lost", ["run.json", "part-00000.parquet", "manifest.json"])
def test_a_damaged_run_is_made_again_on_request(plan: SweepPlan, out: Path, lost: str) -> None:
    finish(plan, out)
    digests = {place.run: place.info.digest for place in find_runs([out])}
    (run_folder(out, "small", NAMES[0]) / lost).unlink()
    assert [wanted.name for wanted in look(plan, out, replace=True).todo] == NAMES[:1]
    finish(plan, out, replace=True)
    assert {place.run: place.info.digest for place in find_runs([out])} == digests
    assert all(verify(place) for place in find_runs([out]))


def test_settings_and_fewer_seeds_make_a_sweep_small(plan: SweepPlan, tmp_path: Path) -> None:
    """What is said on the command line comes last."""
    small = load_plan(tmp_path / "small.toml", ["workload.0.operations=1"], seeds=1)
    runs = list(small.sweep.runs())
    assert [run.name for run in runs] == ["ops=3,seed=1", "ops=6,seed=1"]
    assert all(run.scenario.workloads[0].operations == 1 for run in runs)
    assert small.command_of(look(small, tmp_path / "out").todo[0]).endswith(
        " --set workload.0.operations=1 --seed 1 --trace DIR"
    )


def test_a_sweep_without_axes_takes_settings_too(tmp_path: Path) -> None:
    a_sweep(tmp_path)
    (tmp_path / "flat.toml").write_text('base = "tree.toml"\nseeds = [4]\n')
    plan = load_plan(tmp_path / "flat.toml", ["workload.0.operations=2"])
    [wanted] = look(plan, tmp_path / "out").todo
    assert plan.scenario_of(wanted).workloads[0].operations == 2
    assert plan.command_of(wanted).endswith("tree.toml --set workload.0.operations=2 --seed 4 --trace DIR")


def test_what_has_most_to_do_begins_first(plan: SweepPlan, out: Path) -> None:
    assert [wanted.name for wanted in look(plan, out).todo] == [*NAMES[2:], *NAMES[:2]]


def test_a_combination_that_cannot_be_run_is_found_before_any_run(tmp_path: Path) -> None:
    path = a_sweep(tmp_path)
    path.write_text(path.read_text().replace("[3, 6]", "[3, -6]"))
    with pytest.raises(ScenarioError, match=r"--set workload.0.operations=-6"):
        look(load_plan(path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_worker_that_is_killed_ends_the_sweep_in_one_line_and_finished_runs_stay(plan: SweepPlan, out: Path) -> None:
    """As by a system that has run out of memory."""

    def dies_at_seed_2(scenario: Scenario, recorder: Recorder) -> RunInfo:
        if scenario.seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(scenario, recorder)

    finish(load_plan(Path(plan.sweep.base.name).with_name("small.toml"), seeds=1), out)
    before = files(out)
    with pytest.raises(PipelineError) as raised:
        run_sweep(plan, look(plan, out), out, simulate=dies_at_seed_2)
    assert "\n" not in str(raised.value) and "worker" in str(raised.value)
    assert files(out) == before and finish(plan, out).failed == []


def test_one_command_runs_a_sweep_and_writes_its_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, page = a_sweep(tmp_path), tmp_path / "page.html"
    figure = 'title = "How much"\nmeasure = "throughput"\nvalue = "deliveries per second"\nx = "ops"'
    path.write_text(f'{path.read_text()}\n[report]\ntitle = "Small ones"\n[[figure]]\n{figure}\n')
    words = ["sweep", str(path), "--out", str(tmp_path / "out"), "--seeds", "1", "--report", str(page)]
    assert command(words) == 0
    assert f"the page: {page}" in capfd.readouterr().out
    text = page.read_text()
    assert "2 runs of the stack resprout" in text
    assert "<h2>Small ones</h2>" in text and "<h3>How much</h3>" in text, "its figures are kept with its runs"


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", str(a_sweep(tmp_path)), "--out", str(tmp_path / "out"), "--report", str(tmp_path)]
    assert command(words) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line == f"resprout: --report {tmp_path}: that is a folder; name a file in it"
    assert not (tmp_path / "out").exists()
