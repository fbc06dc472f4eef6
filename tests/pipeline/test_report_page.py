"""The whole page: verdicts first, nothing from outside, nothing hostile, the same bytes again."""

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from resprout.audit.verdict import RULES
from resprout.pipeline.errors import NoSparkError, PipelineError
from resprout.pipeline.report.facts import Happening, RunFacts, TimeSlice, Trail, Trails
from resprout.pipeline.report.output import check_drawer, check_target, write_whole
from resprout.pipeline.report.page import page_of
from resprout.pipeline.report.sections import RUNS_MAX, run_list, targets_of
from tests.pipeline.made_up import (
    ASKED,
    GUARANTEES,
    anomaly,
    latency,
    load,
    repair,
    reports_of,
    run_row,
    seed000,
    sweep_run,
    traffic,
    verdict,
)

HOSTILE = "</title></style></svg><script>alert('x')</script><img src=x onerror=alert(1)>"
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Follows a page and complains about what is not well-formed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def values(self, name: str) -> list[str]:
        return [value or "" for _, found, value in self.attributes if found == name]


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.split("</style>")[1].split("<script>")[0]))


def single(name: str = "the demo", **changes: object) -> tuple[RunFacts, Trails]:
    facts = RunFacts(
        run=run_row(name, "out/demo", scenario=name, **changes),
        verdict=verdict(name, "out/demo"),
        traffic=traffic(name, "out/demo"),
        latency=tuple(latency(name, "out/demo", guarantee, 5_000_000) for guarantee in GUARANTEES),
        repairs=(repair(name, "out/demo", 5_345_000, 465_000),),
        load=(load(name, "out/demo", "b0", 3000), load(name, "out/demo", "c0", 200, role="client")),
    )
    trail = Trail(
        happenings=(
            Happening(100_000, "b1", "joined", "b0"),
            Happening(5_000_000, "b1", "crash", ""),
            Happening(5_345_000, "b0", "repair_begin", "b1"),
            Happening(5_810_000, "b0", "repair_end", "b1"),
            Happening(9_000_000, "world", "quiescent", ""),
        ),
        left_out=0,
        slice_us=200_000,
        slices=tuple(TimeSlice(guarantee, 23 + n, 10, 1e6, 2_000_000) for guarantee in GUARANTEES for n in range(5)),
        recipe='name = "the demo"\n',
    )
    return facts, {(name, "out/demo"): trail}


def page_of_one(facts: RunFacts, trails: Trails | None = None) -> str:
    return page_of([facts], trails or {}, ASKED)


@pytest.fixture(scope="module")
def whole() -> str:
    """Of all runs of the first figures."""
    return page_of(seed000(), {}, ASKED, reports_of("seed000-"))


@pytest.fixture(scope="module")
def alone() -> str:
    """Of one run."""
    facts, trails = single()
    return page_of([facts], trails, ASKED)


def test_the_page_of_all_runs_of_the_first_figures_is_small_and_well_formed(whole: str) -> None:
    assert len(whole.encode()) < 1_000_000
    reader = Reader(whole)
    assert reader.tags["h1"] == reader.tags["script"] == 1
    assert reader.tags["img"] == reader.tags["link"] == reader.tags["iframe"] == 0


def test_nothing_comes_from_elsewhere_and_the_browser_is_told_so(whole: str, alone: str) -> None:
    for page in (whole, alone):
        assert not re.search(r"https?:|//|@import|src=", page)
        assert {href[0] for href in Reader(page).values("href")} == {"#"}
        (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        (rule,) = [
            value for _, name, value in Reader(page).attributes if name == "content" and "default-src" in f"{value}"
        ]
        assert rule == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_links_inside_lead_somewhere_and_names_of_places_are_unique(whole: str) -> None:
    odd = [sweep_run(name, "ginger", seed, 1000) for name in ("a b", "a-b", "a_b", "ä", "a") for seed in (1, 2)]
    bare = [msgspec.structs.replace(one, latency=(), load=(), traffic=None) for one in odd]
    for page in (whole, page_of(bare, {}, ASKED)):
        reader = Reader(page)
        ids = reader.values("id")
        assert len(ids) == len(set(ids))
        assert {href[1:] for href in reader.values("href")} <= set(ids)


def test_runs_of_a_sweep_are_listed_with_their_verdicts_and_explanations_lead_to_them(whole: str) -> None:
    reader = Reader(whole)
    lines = [place for place in reader.values("id") if place.startswith("run-")]
    assert len(lines) == 240
    link = '<a href="#run-seed000-5_2e_3.faults_3d_0_2c_stack_3d_ginger_2c_seed_3d_1">'
    assert f"{link}seed000-5.3 / faults=0,stack=ginger,seed=1</a>" in whole
    assert "documented anomaly faults=0,stack=ginger,seed=1 barrier 1 1,000 5,000 30.0" in text_of(whole)


def test_of_very_many_runs_those_that_broke_a_promise_are_listed_first_and_the_rest_is_counted() -> None:
    facts = [RunFacts(run=run_row("e", f"r{n}"), verdict=verdict("e", f"r{n}")) for n in range(RUNS_MAX + 5)]
    name = facts[-1].name
    facts[-1] = RunFacts(
        run=facts[-1].run, verdict=verdict("e", name, "lost"), anomalies=(anomaly("e", name, "lost", "it is gone"),)
    )
    shown = run_list(facts)
    assert shown is not None and shown.title == f"{RUNS_MAX} of {RUNS_MAX + 5} runs"
    assert shown.table.rows[-1].id == targets_of(facts)["e", name] == f"run-e.{name}"
    assert "5 more, which are not listed, came out as well or better." in shown.table.caption
    assert targets_of(facts)["e", f"r{RUNS_MAX}"] == "at-e", "it is not listed"


def test_those_who_cannot_see_are_told(whole: str) -> None:
    reader = Reader(whole)
    assert reader.tags["caption"] == reader.tags["table"] > 5
    boxes = [value for tag, name, value in reader.attributes if tag == "div" and name == "aria-label"]
    assert len(boxes) == reader.tags["table"]
    pictures = re.findall(r'<svg class="chart" viewBox="[^"]*" role="img" aria-label="([^"]*)">', whole)
    assert len(pictures) == whole.count("<svg class=") - 1 and all("numbers in the table" in told for told in pictures)
    assert reader.values("lang") == ["en"]


def test_the_same_rows_give_the_same_bytes(alone: str) -> None:
    facts, trails = single()
    assert page_of([facts], trails, ASKED) == alone


def test_hostile_names_stay_names() -> None:
    facts, trails = single(HOSTILE, stack=HOSTILE, ended=HOSTILE, labels={"faults": HOSTILE})
    trail = msgspec.structs.replace(
        next(iter(trails.values())),
        happenings=(Happening(1, HOSTILE, "crash", HOSTILE), Happening(2, "b0", "fenced", HOSTILE)),
        recipe=HOSTILE,
    )
    broken = msgspec.structs.replace(
        facts,
        verdict=verdict(HOSTILE, "out/demo", "lost", skipped={"bank_applied": HOSTILE}),
        anomalies=(anomaly(HOSTILE, "out/demo", "lost", HOSTILE),),
    )
    swept = [sweep_run("e", HOSTILE, seed, 1000, axis=label) for seed in (1, 2) for label in (HOSTILE, "x")]
    for page in (page_of([broken, *swept], {(HOSTILE, "out/demo"): trail}, ASKED), page_of_one(broken)):
        reader = Reader(page)
        assert reader.tags["script"] == 1 and reader.tags["img"] == 0
        assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
        assert "&lt;script&gt;" in page and "<script>alert" not in page


def test_the_verdict_is_the_first_thing_on_the_page_however_long_its_list_of_contents(whole: str) -> None:
    """On a phone the list of contents fills the screen."""
    body = whole[whole.index("<header") :]
    assert body.index("</h1>\n") + len("</h1>\n") == body.index('<div class="banner')
    assert body.index('<div class="banner') < body.index("<nav")
    assert body.count('class="banner') == 1


def test_on_a_narrow_screen_the_verdict_is_not_beyond_the_edge(whole: str, alone: str) -> None:
    """A phone shows the first columns of a table."""
    text = text_of(whole)
    assert "verdict experiment stack runs violated unfinished not judged documented anomaly clean" in text
    assert "verdict run broke seed" in text
    assert "verdict rule promise" in text_of(alone)


def test_verdicts_come_first_and_count_every_run_by_experiment_and_stack(whole: str) -> None:
    text = text_of(whole)
    assert text.index("Verdicts") < text.index("5.3 How long a repair takes")
    assert "No promise was broken unexpectedly in 240 runs." in text
    assert "120 clean; 120 with nothing but the documented anomaly of their stack." in text
    assert "clean seed000-5.5 resprout 80 – – – – 80 documented anomaly ginger 80 – – – 80 –" in text
    assert "documented anomaly barrier by ginger, in 120 of 120 runs." in text
    assert "c0 got c1:1 after, c2 before total t" in text


def test_the_anomaly_that_is_documented_for_one_stack_is_a_violation_of_another() -> None:
    facts = RunFacts(
        run=run_row("e", "r"),
        verdict=verdict("e", "r", "barrier"),
        anomalies=(anomaly("e", "r", "barrier", "told in full"),),
    )
    text = text_of(page_of_one(facts))
    assert "The run broke a promise." in text
    assert "violated barrier by resprout, in 1 of 1 run." in text
    assert "told in full" in text
    assert "<details open>" in page_of_one(facts)


def test_another_violation_beside_the_documented_one_is_not_excused() -> None:
    facts = [
        RunFacts(run=run_row("e", run, stack="ginger"), verdict=verdict("e", run, *rules))
        for run, rules in (("r1", ("barrier", "twice")), ("r2", ("barrier",)), ("r3", ()))
    ]
    text = text_of(page_of(facts, {}, ASKED))
    assert "1 of 3 runs broke a promise." in text
    assert text.index("violated twice by ginger") < text.index("documented anomaly barrier by ginger")
    assert "1 clean; 1 with nothing but the documented anomaly of their stack." in text


def test_what_was_not_judged_is_said_with_its_reason() -> None:
    facts = [
        RunFacts(run=run_row("e", "r1"), verdict=verdict("e", "r1", skipped={"lost": "it did not come to rest"})),
        RunFacts(run=run_row("e", "r2"), verdict=verdict("e", "r2", status="not judged")),
        RunFacts(run=run_row("e", "r3")),
    ]
    text = text_of(page_of(facts, {}, ASKED))
    assert "1 of 3 runs were judged and kept every promise, as far as they were judged." in text
    assert "1 clean; 2 not judged." in text
    assert "lost not judged in 1 run: it did not come to rest" in text


def test_a_run_without_a_bank_is_not_said_to_be_judged_in_part() -> None:
    no_bank = {rule: "no bank" for rule in RULES if rule.startswith("bank_")}
    for skipped, words in ((no_bank, "kept every promise."), ({"bank_realtime": "x"}, "as far as they were judged.")):
        facts = RunFacts(run=run_row("e", "r"), verdict=verdict("e", "r", skipped=skipped))
        assert words in text_of(page_of_one(facts))


def test_sweeps_without_runs_are_listed_with_the_command_that_makes_them(whole: str) -> None:
    facts = [sweep_run("seed000-5.4", "resprout", 1, 1000, faults="0")]
    text = text_of(page_of(facts, {}, ASKED, reports_of("seed000-")))
    assert "No data yet" in text
    assert "resprout sweep seed000-5.3 --out DIR" in text
    assert "resprout sweep seed000-5.4 --out out/archive resprout report out/archive --out out/page.html" in text
    assert "No data yet" not in text_of(whole)


def test_figures_that_were_not_recorded_are_named() -> None:
    run = sweep_run("seed000-5.4", "resprout", 1, 1000, faults="1")
    bare = [msgspec.structs.replace(run, traffic=None, load=())]
    text = text_of(page_of(bare, {}, ASKED, reports_of("seed000-5.4")))
    assert (
        "Not recorded in these runs, so not drawn: Messages between brokers, Ordering bytes, Throughput, Load" in text
    )


def test_a_single_run_is_shown_with_what_happened_in_it() -> None:
    facts, trails = single()
    page = page_of_one(facts, trails)
    Reader(page)
    text = text_of(page)
    assert "The run kept every promise." in text
    assert "5.000 b1 dies 5.345 b0 begins to repair the tree around b1" in text
    assert "joins below" not in text  # that the tree comes to stand is no news
    assert "b1 crash b0 300.0 465.0 2.33 –" in text
    assert "eventual all 100 5,500 5,000 7,500 10,000 15,000 17,500 20,000" in text
    assert "eventual, percentile 99.9: 17.5\u00a0s (one run)" in page and "Latency by percentile" in text
    assert 'aria-label="5.000 s: b1 dies"' in page and 'aria-label="b1 is repaired"' in page
    assert "b0 3,000 300,000 3,000 300,000" in text
    assert "resprout sim scenario.toml --trace DIR" in text
    assert "name = &#34;the demo&#34;" in page


def test_a_run_without_anything_is_still_a_page() -> None:
    facts = RunFacts(run=run_row("e", "r", publications=0, deliveries=0, brokers=0, clients=0, keys=None))
    empty = Trail(happenings=(), left_out=0, slice_us=1, slices=(), recipe=None)
    Reader(page_of_one(facts, {("e", "r"): empty}))
    Reader(page_of_one(facts))


def test_what_draws_the_page_is_asked_for_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    check_drawer()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NoSparkError, match=r"the page needs altair, jinja2, vl-convert-python: pip install"):
        check_drawer()


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "one")
    write_whole(path, "two\n")
    assert path.read_bytes() == b"two\n"
    assert [found.name for found in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(PipelineError, match="cannot be written"):
        write_whole(tmp_path / "no" / "page.html", "three")


def test_a_target_that_cannot_be_is_refused_before_any_work(tmp_path: Path) -> None:
    check_target(tmp_path / "page.html")
    with pytest.raises(PipelineError, match="that is a folder"):
        check_target(tmp_path)
    with pytest.raises(PipelineError, match="there is no folder"):
        check_target(tmp_path / "none" / "page.html")
