"""Figures that sweep files hold: read with complaints that name the line, kept beside the runs, drawn from there."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from resprout.cli.main import run as command
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.ingest import add_runs
from resprout.pipeline.places import make_archive, run_folder
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape, grid_of
from resprout.pipeline.report.measures import MEASURES
from resprout.pipeline.report.page import page_of
from resprout.pipeline.report.sweep_report import SweepReport, keep_report, known_reports, load_report
from resprout.pipeline.stores import StorePath
from resprout.scenario.load import load_sweep
from resprout.scenario.source import ScenarioError, shipped
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import write_trace
from tests.pipeline.made_up import ASKED, gossip, reports_of, seed000, seed001, seed004, sweep_run
from tests.pipeline.object_store import ObjectStore, object_store
from tests.pipeline.small import a_sweep, files
from tests.pipeline.test_report_page import HOSTILE, Reader

OWN = """
[report]
title = "My experiment"
about = "Three brokers."

[[figure]]
title = "Waiting"
measure = "latency"
value = "median latency"
x = { name = "ops", title = "publications of a client" }
panels = "guarantee"
claim = "Nobody waits longer for more."
"""


def with_tables(folder: Path, tables: str) -> Path:
    path = a_sweep(folder)
    path.write_text(f"{path.read_text()}\n{tables}")
    return path


def a_report(experiment: str = "mine", **changes: object) -> SweepReport:
    figure = Figure(title="Waiting", measure="latency", value="latency", x=FigureAxis("faults", "faults"))
    values = {"experiment": experiment, "sweep": "mine.toml", "title": "Mine", "figures": (figure,), **changes}
    return SweepReport(**values)  # type: ignore[arg-type]


# -- the sweeps that are there -----------------------------------------------------------------------------------------


def test_every_sweep_loads_with_its_figures_and_draws_all_of_them_from_its_runs() -> None:
    reports = {report.experiment: report for report in reports_of("")}
    assert set(shipped("sweeps")) - set(reports) == {"seed000-crashes"}, "it has the general ones"
    facts = [*seed000(seeds=2), *seed001(), *seed004(), *gossip()]
    for name, report in reports.items():
        own = [one for one in facts if one.run.experiment == name]
        if name in ("seed003", "seed004-7"):  # test_claims has their runs, which are no rows of a sweep
            continue
        assert own or name == "stacks", name
        undrawn = [figure.title for figure in report.figures if grid_of(figure, own) is None]
        assert undrawn in ([], ["Rounds of requests"]), name  # the rows that were made up have no requests
        assert report.has_figures and report.title and report.about


def test_measures_say_by_which_axes_their_numbers_differ() -> None:
    facts = [*seed000(seeds=1), *seed001(), *seed004(), *gossip()]
    for name, measure in MEASURES.items():
        found = {tuple(own) for one in facts for own, _ in measure.numbers(one)}
        assert all(set(measure.axes) <= set(own) for own in found), name
        assert found or name == "requests", name
        for one in facts:
            places = [tuple(own[axis] for axis in measure.axes) for own, _ in measure.numbers(one)]
            assert len(places) == len(set(places)), f"{name}: two numbers of one run in one place"


def test_all_measures_are_in_the_documents() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
    assert [name for name in MEASURES if f"| `{name}` |" not in text] == []


# -- what a file may say -----------------------------------------------------------------------------------------------


def test_a_figure_is_read_with_all_that_it_may_say(tmp_path: Path) -> None:
    tables = """
[[figure]]
title = "t"
measure = "percentiles_by_phase"
value = "v"
x = "percentile"
panels = { name = "ops", title = "operations", one = "operation", many = "operations" }
rows = "guarantee,phase"
series = { name = "stack" }
shape = "lines"
note = "n"
claim = "c"
"""
    path = with_tables(tmp_path, tables)
    assert load_report(path) == SweepReport(
        experiment="small",
        sweep=str(path),
        figures=(
            Figure(
                title="t",
                measure="percentiles_by_phase",
                value="v",
                x=FigureAxis("percentile", "percentile"),
                panels=FigureAxis("ops", "operations", "operation", "operations"),
                rows=FigureAxis("guarantee,phase", "guarantee,phase"),
                shape=Shape.LINES,
                note="n",
                claim="c",
            ),
        ),
    )
    assert load_report(a_sweep(tmp_path)).is_empty and len(load_sweep(path)) == 4


FIGURE = '[[figure]]\ntitle = "t"\nmeasure = "throughput"\nvalue = "v"\nx = "ops"\n'


@pytest.mark.parametrize(
    ("tables", "line", "complaint"),
    [
        (FIGURE.replace("throughput", "speed"), 13, "figure 't': unknown measure 'speed'; it is one of latency, "),
        (FIGURE.replace("throughput", "troughput"), 13, "unknown measure 'troughput'; did you mean 'throughput'?"),
        (FIGURE.replace('title = "t"\n', ""), 11, "figure 0: 'title' is missing"),
        (FIGURE.replace('x = "ops"', ""), 11, "figure 't': 'x' is missing"),
        (FIGURE.replace('"ops"', '"opps"'), 15, "figure 't': unknown axis 'opps'; did you mean 'ops'?"),
        (FIGURE.replace('"ops"', "3"), 15, "x must be the name of an axis, or a table with its name and title"),
        (FIGURE.replace('"ops"', '{ title = "o" }'), 15, "figure 't', x: 'name' is missing"),
        (FIGURE.replace('"ops"', '{ name = "ops", one = "o" }'), 15, "'one' and 'many' come together"),
        (FIGURE.replace('"ops"', '"stack"'), 11, "it has a number for each ops; give 'ops' a place"),
        (FIGURE.replace("throughput", "latency"), 11, "it has a number for each guarantee; give 'guarantee' a place"),
        (f'{FIGURE}shape = "pie"', 16, "unknown shape 'pie'; it is one of bars, lines"),
        (f"{FIGURE}note = 7", 16, "note must be a text, not a number"),
        (f'{FIGURE}colour = "red"', 16, "figure 't': unknown key 'colour'"),
        ('[figure]\ntitle = "t"', 11, "write [[figure]], not [figure]"),
        ("[report]\ntitel = 1", 12, "report: unknown key 'titel'; did you mean 'title'?"),
        ('[report]\ntable = "none"', 12, "report: unknown table 'none'; it is one of comparison, default-beside"),
        ('[report]\ncomputed = ["x"]', 12, "report: unknown computed figure 'x'; it is one of locamu-headers, ring-"),
        ("[report]\norder = 1.5", 12, "report: order must be a whole number"),
    ],
)
def test_a_wrong_table_is_refused_with_its_file_and_line(
    tmp_path: Path, tables: str, line: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_tables(tmp_path, tables)
    with pytest.raises(ScenarioError) as caught:
        load_report(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ") and complaint in message and "\n" not in message
    assert command(["sweep", str(path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"resprout: {message}\n" and not (tmp_path / "out").exists()


# -- a user's own figure -----------------------------------------------------------------------------------------------


def test_a_sweep_with_a_figure_of_its_own_gives_a_page_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No code, and for so few runs no Spark: `sweep` finds them finished, `report` looks at them in this process."""
    path, archive, page = with_tables(tmp_path, OWN), make_archive(tmp_path / "out"), tmp_path / "page.html"
    for run in load_sweep(path).runs():
        result = run_scenario(run.scenario)
        write_trace(run_folder(archive, "small", run.name), result.rows, run_info(run.scenario, result.ended))
    assert command(["sweep", str(path), "--out", str(archive)]) == 0
    words = ["report", str(archive), "--out", str(page)]
    assert command(words) == 0
    text = page.read_text()
    assert "<h2>My experiment</h2>\n<p>Three brokers.</p>" in text and "<h3>Waiting</h3>" in text
    assert "<p>To show: Nobody waits longer for more.</p></figcaption>" in text
    assert "fifo" in text and ">publications of a client</text>" in text and "Ordering bytes" not in text
    assert f"resprout sweep {path} --out {archive}" in text

    kept = files(archive)
    path.write_text(path.read_text().replace("Waiting", "How long they wait"))
    assert command([*words, "--sweep", str(path)]) == 0
    text = page.read_text()
    assert "<h3>How long they wait</h3>" in text and "<h3>Waiting</h3>" not in text
    assert f"resprout report {archive} --out {page} --sweep {path}" in text
    assert files(archive) == kept, "a page changes nothing"
    assert command([*words, "--sweep", str(path), "--sweep", str(path)]) == 2
    assert f"--sweep {path}: {path} is the sweep 'small', too" in capsys.readouterr().err

    a_sweep(tmp_path)
    assert command([*words, "--sweep", str(path)]) == 0
    assert "Waiting" not in page.read_text() and "Ordering bytes" in page.read_text()
    assert command(["sweep", str(path), "--out", str(archive)]) == 0
    assert known_reports([archive]) == [] and not any((archive / "figures").iterdir())


def test_a_report_without_figures_has_the_general_ones_below_its_title() -> None:
    facts = [sweep_run("mine", "resprout", seed, 1000, degree=degree) for seed in (1, 2) for degree in ("2", "3")]
    page = page_of(facts, {}, ASKED, [SweepReport(experiment="mine", sweep="a b.toml", title="By degree")])
    assert "<h2>By degree</h2>" in page and "<h3>Ordering bytes</h3>" in page
    assert "resprout sweep &#39;a b.toml&#39; --out out/archive" in page


def test_sections_are_in_the_order_that_sweeps_ask_for_and_then_in_that_of_their_names() -> None:
    facts = [sweep_run(name, "resprout", 1, 1000, faults="1") for name in ("e10", "e9", "a", "none")]
    reports = [a_report("e10", title="ten"), a_report("a", title="last", order=1), a_report("e9", title="nine")]
    page = page_of(facts, {}, ASKED, [*reports, a_report("b", title="without runs")])
    places = [page.index(f"<h2>{title}</h2>") for title in ("nine", "ten", "last", "none", "No data yet")]
    assert places == sorted(places) and "without runs: <code>resprout sweep mine.toml --out DIR</code>" in page


def test_whatever_a_figure_says_is_shown_as_text() -> None:
    axis = FigureAxis("faults", HOSTILE, HOSTILE, HOSTILE)
    figure = Figure(title=HOSTILE, measure="latency", value=HOSTILE, x=axis, panels=axis, note=HOSTILE, claim=HOSTILE)
    report = a_report(sweep=HOSTILE, title=HOSTILE, about=HOSTILE, figures=(figure,))
    page = page_of([sweep_run("mine", "resprout", 1, 1000, faults="1")], {}, ASKED, [report])
    reader = Reader(page)
    assert reader.tags["script"] == 1 and reader.tags["img"] == 0


# -- beside the runs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StorePath, ObjectStore]]:
    with object_store(tmp_path / "store", monkeypatch) as (bucket, behind):
        yield make_archive(bucket / "runs"), behind


def test_figures_are_kept_in_an_object_store_whole_or_not_at_all(store: tuple[StorePath, ObjectStore]) -> None:
    archive, behind = store
    assert known_reports([archive]) == []
    report = a_report()
    keep_report(archive, report)
    assert known_reports([archive]) == [report]
    behind.fails_at = "figures"
    with pytest.raises(PipelineError, match="cannot be reached: the connection is gone"):
        keep_report(archive, a_report(title="Other"))
    behind.fails_at = ""
    assert known_reports([archive]) == [report]
    keep_report(archive, SweepReport(experiment="mine", sweep="mine.toml"))
    assert known_reports([archive]) == []


def test_figures_that_are_damaged_or_unknown_here_are_refused_unless_a_file_replaces_them(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "out")
    keep_report(archive, a_report("small", table="gone"))
    with pytest.raises(PipelineError, match=r"small.json: unknown table 'gone'; install the package that has it, or "):
        known_reports([archive])
    (figure,) = a_report().figures
    keep_report(archive, a_report("small", figures=(msgspec.structs.replace(figure, measure="gone"),)))
    with pytest.raises(PipelineError, match=r"small.json: unknown measure 'gone'; "):
        known_reports([archive])
    assert [one.title for one in known_reports([archive], [with_tables(tmp_path, OWN)])] == ["My experiment"]
    (archive / "figures" / "small.json").write_text("{")
    with pytest.raises(PipelineError, match=r"small.json: damaged: "):
        known_reports([archive])


def test_of_two_archives_the_first_counts_and_runs_of_another_archive_bring_their_figures_along(tmp_path: Path) -> None:
    one, two = make_archive(tmp_path / "one"), make_archive(tmp_path / "all" / "two")
    keep_report(one, a_report("a", title="first"))
    keep_report(two, a_report("a", title="second"))
    keep_report(two, a_report("b", title="other"))
    assert [report.title for report in known_reports([one, two])] == ["first", "other"]
    rows = run_scenario(next(load_sweep(a_sweep(tmp_path)).runs()).scenario)
    for archive in (one, two):  # so nothing is left for Spark to add
        info = run_info(next(load_sweep(tmp_path / "small.toml").runs()).scenario, rows.ended)
        write_trace(run_folder(archive, "a", "r"), rows.rows, info)
    add_runs(one, [tmp_path / "all"], experiment="a")
    assert [report.title for report in known_reports([one])] == ["first"], "under another name they have other figures"
    add_runs(one, [tmp_path / "all"])
    assert [report.title for report in known_reports([one])] == ["first", "other"]
