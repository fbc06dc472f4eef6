"""From runs to the numbers of figures, their charts and their tables."""

import re

import msgspec

from resprout.pipeline.report.charts import charts
from resprout.pipeline.report.facts import RunFacts, Tables, facts_of
from resprout.pipeline.report.figures import (
    Cell,
    Figure,
    FigureAxis,
    Grid,
    Shape,
    general_figures,
    grid_of,
    in_order,
    percentile_figure,
)
from resprout.pipeline.report.measures import MEASURES, coordinates_of
from resprout.pipeline.report.page import environment
from resprout.pipeline.report.page_tables import numbers_table
from resprout.pipeline.report.sections import figure_of, legend
from resprout_lab.figures.comparison import default_beside, points_beside
from resprout_lab.figures.formulas import closed_forms
from tests.pipeline.made_up import (
    gossip,
    latency,
    repair,
    run_row,
    sweep_run,
    traffic,
    verdict,
)

LATENCY = Figure(
    title="Latency", measure="latency", value="median latency", x=FigureAxis("faults", "faults"),
    panels=FigureAxis("guarantee", "guarantee"),
)  # fmt: skip


def grid(figure: Figure, facts: list[RunFacts]) -> Grid:
    found = grid_of(figure, facts)
    assert found is not None
    return found


def shown(grid: Grid) -> str:
    """The numbers as the page has them."""
    return str(environment().get_template("parts.html").module.table(numbers_table(grid)))  # type: ignore[attr-defined]


def test_a_place_of_a_figure_is_the_median_over_seeds_with_the_range() -> None:
    facts = [sweep_run("e", "ginger", seed, base_us, faults="1") for seed, base_us in ((1, 300), (2, 100), (3, 800))]
    cells = grid(LATENCY, facts).cells
    assert cells["", "eventual", "1", "ginger"] == Cell(300, 100, 800, 3)
    assert cells["", "total", "1", "ginger"] == Cell(900, 300, 2400, 3)


def test_labels_stand_in_the_order_that_readers_expect() -> None:
    assert in_order(["total", "eventual", "causal"]) == ("eventual", "causal", "total")
    assert in_order(["100", "9", "1000", "10"]) == ("9", "10", "100", "1000")
    assert in_order(["b10", "b2", "b2"]) == ("b2", "b10")
    assert in_order(["1.0", "01", "1", "1.00"]) == ("01", "1", "1.0", "1.00")
    assert in_order(["scribe", "ginger", "resprout"]) == ("resprout", "ginger", "scribe")


def test_a_run_without_the_numbers_is_left_out_and_without_any_there_is_no_figure() -> None:
    bare = RunFacts(run=run_row("e", "bare", labels={"faults": "1"}))
    assert grid_of(LATENCY, [bare]) is None
    assert grid(LATENCY, [bare, sweep_run("e", "ginger", 1, 300, faults="1")]).runs == 1


def test_the_default_stack_is_shown_beside_the_best_of_the_other_causal_ones() -> None:
    rates = {"resprout": 900.0, "locamu": 905.0, "cbcast": 100.0, "delta": 5_000.0}
    facts = []
    for payload, factor in (("16384", 0.5), ("32", 1.0), ("256", 2.0)):
        for stack, rate in rates.items():
            run = sweep_run("seed001-5.1d", stack, 1, 100, payload=payload)
            steady = rate * factor if stack == "resprout" else rate
            row = traffic(run.run.experiment, run.run.run, steady_throughput=steady, metadata_bytes_max=8)
            facts.append(msgspec.structs.replace(run, traffic=row))
    points = points_beside(facts)
    assert [(*point.labels, point.rival, point.verdict, point.ordering_bytes) for point in points] == [
        ("32", "locamu", "level", 8),
        ("256", "locamu", "ahead", 8),
        ("16384", "locamu", "behind", 8),
    ], "delta offers no causal order"
    assert [row.cells[0].strong for row in default_beside(facts).rows] == ["level", "ahead", "behind"]
    assert not default_beside([]).rows


def test_reliability_is_the_share_that_came_and_what_was_told_to_be_missing_can_be_left_out() -> None:
    _, struck = gossip()  # of 1,000 owed, 30 did not come, and of 10 of these the client was told
    assert list(MEASURES["reliability"].numbers(struck)) == [({}, 0.97)]
    assert list(MEASURES["reliability_untold"].numbers(struck)) == [({}, 970 / 990)]
    assert list(MEASURES["copies"].numbers(struck)) == [({}, 7.0)]
    unfinished = RunFacts(run=run_row(), verdict=verdict("e", "r"))
    assert not list(MEASURES["reliability"].numbers(unfinished)) and not list(MEASURES["copies"].numbers(unfinished))


def test_the_time_of_repairs_is_from_the_first_that_begins_to_the_last_that_ends() -> None:
    facts = RunFacts(
        run=run_row(),
        repairs=(
            repair("e", "r", 10_000, 5_000, detection_us=1_000),
            repair("e", "r", 12_000, 9_000, detection_us=4_000),
            repair("e", "r", 50_000, 9_000, cause="move"),
        ),
    )
    found = {own["part"]: number for own, number in MEASURES["repair_times"].numbers(facts)}
    assert found == {"until it begins": 2_000, "the repair": 11_000, "both together": 13_000}


def test_a_repair_that_never_ended_has_no_time() -> None:
    facts = RunFacts(run=run_row(), repairs=(repair("e", "r", 10_000, 5_000), repair("e", "r", 11_000, None)))
    assert list(MEASURES["repair_times"].numbers(facts)) == []
    assert list(MEASURES["round_trips"].numbers(facts)) == [({}, 5_000 / 200_000)]


def test_rounds_are_all_requests_of_a_run() -> None:
    rows = (repair("e", "r", 10, 5, rounds=3), repair("e", "r", 11, 5, rounds=2))
    assert list(MEASURES["requests"].numbers(RunFacts(run=run_row(), repairs=rows))) == [({}, 5)]
    assert list(MEASURES["requests"].numbers(RunFacts(run=run_row(), repairs=(repair("e", "r", 10, 5),)))) == []


def test_messages_are_those_that_publishing_causes() -> None:
    facts = RunFacts(run=run_row(publications=1000), traffic=traffic("e", "r"))
    found = {own["purpose"]: number for own, number in MEASURES["messages"].numbers(facts)}
    assert found == {"publications": 7.0, "reports": 14.5, "both together": 21.5}
    unknown = RunFacts(run=run_row(), traffic=traffic("e", "r", messages=None, messages_per_publication=None))
    assert list(MEASURES["messages"].numbers(unknown)) == []


def test_every_number_in_a_table_is_that_of_the_runs() -> None:
    facts = [
        sweep_run("e", stack, seed, base_us * seed, faults=faults)
        for stack, base_us in (("resprout", 111_000), ("ginger", 333_000))
        for seed in (1, 2, 3)
        for faults in ("0", "1")
    ]
    table = shown(grid(LATENCY, facts))
    rows = [
        re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    ][2:]
    assert rows[0] == ["eventual", "0", "222", "111 – 333", "666", "333 – 999", "0.33"]
    assert rows[1] == ["1", "222", "111 – 333", "666", "333 – 999", "0.33"]
    assert rows[-1] == ["1", "666", "333 – 999", "1,998", "999 – 2,997", "0.33"]
    assert "Median latency, in ms: median of 3 runs; range: the least to the most" in table


def test_a_table_says_how_many_runs_where_they_differ_and_leaves_out_ranges_of_nothing() -> None:
    two = [sweep_run("e", "ginger", seed, 5_000, faults="1") for seed in (1, 2)]
    alike = shown(grid(LATENCY, two))
    assert "range" not in alike
    assert "median of 2 runs, which are all alike" in alike
    uneven = shown(grid(LATENCY, [*two, sweep_run("e", "ginger", 1, 5_000, faults="2")]))
    assert ">runs<" in uneven


def test_a_stack_without_a_number_has_a_dash() -> None:
    facts = [sweep_run("e", "resprout", 1, 5_000, faults="1"), sweep_run("e", "ginger", 1, 5_000, faults="2")]
    table = shown(grid(LATENCY, facts))
    assert table.count("–") == 3 * 2 * 2  # three guarantees, two faults, one stack each and no ratio


def test_bars_begin_at_zero_and_lines_over_far_values_are_logarithmic() -> None:
    facts = [sweep_run("e", "ginger", 1, 10_000 * int(keys), keys=keys) for keys in ("1", "100")]
    x = FigureAxis("keys", "keys")
    bars = figure_of(grid(Figure(title="t", measure="latency", value="v", x=x), facts))
    lines = figure_of(grid(Figure(title="t", measure="latency", value="v", x=x, shape=Shape.LINES), facts))
    ((bar,), (line,)) = (one.panels.drawings for one in (bars, lines))
    assert ">0</text>" in bar and "mark-rect role-mark" in bar and "mark-line" not in bar
    assert ">0</text>" not in line and "mark-line" in line and "logarithmic" in lines.caption
    assert "logarithmic" not in bars.caption


def test_every_mark_tells_its_numbers_to_who_points_at_it_and_axes_have_titles_with_units() -> None:
    facts = [sweep_run("e", "ginger", seed, 1_000_000 * seed, faults="1") for seed in (1, 3)]
    drawings = charts(grid(LATENCY, facts)).drawings
    assert 'aria-label="ginger, faults 1: 2,000\u00a0ms (2 runs, 1,000 – 3,000)"' in drawings[0]
    assert ">median latency, ms</text>" in drawings[0] and ">faults</text>" in drawings[0]
    assert len(drawings) == 3 and all(one.startswith('<svg class="chart"') for one in drawings)
    assert all(one.count('role="img"') == 1 for one in drawings)


def test_latency_is_drawn_by_percentile_and_a_run_that_was_only_counted_has_fewer_points() -> None:
    facts = [sweep_run("e", "ginger", 1, 100_000, faults="1")]
    figure = percentile_figure(FigureAxis("guarantee", "guarantee"))
    found = grid(figure, facts)
    assert [found.cells["", "eventual", x, "ginger"].median for x in found.xs] == [1e5, 1.5e5, 2e5, 3e5, 3.5e5]
    (drawing, *_) = charts(found).drawings
    assert "ginger, percentile 99.9: 350\u00a0ms" in drawing and ">99.9</text>" in drawing
    counted = tuple(msgspec.structs.replace(row, p90_us=None, p999_us=None) for row in facts[0].latency)
    assert grid(figure, [msgspec.structs.replace(facts[0], latency=counted)]).xs == ("50", "95", "99")


def test_shares_that_are_nearly_all_are_not_drawn_from_zero() -> None:
    x = FigureAxis("share", "share")
    figure = Figure(title="t", measure="reliability", value="v", x=x, shape=Shape.LINES)
    drawn = figure_of(grid(figure, gossip()))
    assert "The scale does not begin at zero." in drawn.caption
    assert ">0</text>" not in drawn.panels.drawings[0].split("role-axis-label")[2]


def test_legends_show_each_series_with_its_own_look() -> None:
    (ours, _), (theirs, _) = legend(("resprout", "ginger"), Shape.BARS).keys
    assert (ours.colour, theirs.colour) == ("var(--c0)", "var(--c1)")


def test_an_unknown_experiment_is_drawn_along_its_longest_axis_and_the_others_make_rows() -> None:
    facts = [
        sweep_run("mine", "resprout", 1, 1000, degree=degree, buffer=buffer)
        for degree in ("2", "3", "8")
        for buffer in ("10", "20")
    ]
    figure = general_figures(facts)[0]
    assert figure.x.name == "degree"
    assert figure.rows is not None
    assert grid(figure, facts).rows == ("10", "20")


def test_where_nothing_but_seeds_varies_few_runs_are_shown_one_by_one_and_many_together() -> None:
    few = [sweep_run("mine", "resprout", seed, 1000) for seed in range(3)]
    assert grid(general_figures(few)[0], few).xs == ("0", "1", "2")
    many = [sweep_run("mine", "resprout", seed, 1000) for seed in range(50)]
    assert grid(general_figures(many)[0], many).xs == ("resprout",)


def test_axes_beyond_the_second_are_kept_apart() -> None:
    facts = [sweep_run("mine", "resprout", 1, 1000, a=a, b=b, c=c) for a in ("1", "2", "3") for b in "xy" for c in "pq"]
    figure = general_figures(facts)[0]
    assert grid(figure, facts).rows == ("b x, c p", "b x, c q", "b y, c p", "b y, c q")
    assert grid(figure, facts).runs == 1


def test_rows_of_all_tables_come_together_by_run() -> None:
    tables: Tables = {
        "runs": [run_row("e", "one"), run_row("e", "two")],
        "verdicts": [verdict("e", "two", "lost")],
        "traffic": [traffic("e", "one")],
        "latency": [latency("e", "two", "total", 5), latency("e", "one", "total", 6), latency("e", "one", "fifo", 7)],
    }
    one, two = facts_of(tables)
    assert (one.name, two.name) == ("one", "two")
    assert one.verdict is None
    assert two.verdict is not None
    assert [row.median_us for row in one.latency] == [6, 7]
    assert one.traffic is not None
    assert two.traffic is None


def test_f_is_what_the_stack_was_told_whatever_it_calls_it() -> None:
    run = sweep_run("seed001-5.1e", "locamu", 1, 100)
    run = msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, faults_tolerated=2))
    assert coordinates_of(run)["f"] == "2"


def test_closed_forms_are_drawn_without_runs_and_say_so() -> None:
    headers, memory, by_f, by_degree = closed_forms()
    assert headers.cells["", "", "1024", "causal-barriers"].median == 8 * 1024 * 1025
    assert {headers.cells["", "", nodes, "locamu"].median for nodes in headers.xs} == {540}
    assert headers.xs[-1] == "65536" and by_f.xs == ("1", "2", "3") and by_degree.xs[0] == "3"
    drawn = charts(headers).drawings[0] + shown(memory)
    assert "(computed)" in drawn and "; computed" in drawn and "one run" not in drawn
