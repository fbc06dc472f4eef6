"""All stacks in one table: each is in it, with what it says of itself and what the same workload cost it."""

import re

import pytest

from resprout.core.guarantee import Guarantee, OrderScope
from resprout.pipeline.report.facts import RunFacts, RunStanding
from resprout.pipeline.report.page import page_of
from resprout.pipeline.report.page_tables import PageTable
from resprout.pipeline.report.verdicts import UNKNOWN, guarantees_of, promised_by, survives_in_words
from resprout.stacks.stack import DEFAULT, NOTHING, Survival, everything, find_stack
from resprout_lab import SYSTEMS
from resprout_lab.figures.comparison import COLUMNS, ComparedRow, compared, comparison_table
from tests.pipeline.made_up import ASKED, latency, load, reports_of, run_row, traffic, verdict
from tests.pipeline.played import play, runs_of
from tests.soak import SOAKING

STACKS = {name: find_stack(name) for name in (DEFAULT, *SYSTEMS)}
SMALL = ("workload.0.operations=2",)
COMPARED = ("resprout-eventual", "gossip-eventual")


@pytest.fixture(scope="module")
def played() -> list[RunFacts]:
    """Every stack in calm at the strongest guarantee (in `make soak`: at both), two of them at eventual as well, and
    three with a broker that dies: the same comparison, with few publications."""
    calm = list(runs_of("stacks", SMALL, fault=("calm",)))
    strongest = {run.scenario.stack: run for run in calm}
    if not SOAKING:
        calm = [run for run in calm if run in strongest.values() or run.labels["system"] in COMPARED]
    struck = ("resprout-eventual", "flood-eventual", "gossip-eventual")
    dying = runs_of("stacks", ("workload.0.operations=4", "workload.0.interval=1s"), fault=("crash",), system=struck)
    return [play("stacks", run) for run in (*calm, *dying)]


@pytest.fixture(scope="module")
def rows(played: list[RunFacts]) -> list[ComparedRow]:
    return compared(played)


def number(row: ComparedRow, title: str) -> float:
    found = row.numbers[[column.title for column in COLUMNS].index(title)]
    assert found is not None
    return found


# -- the sweep ---------------------------------------------------------------------------------------------------------


def test_every_stack_is_compared_at_eventual_and_at_the_strongest_that_it_offers() -> None:
    asked: dict[str, set[Guarantee]] = {}
    for run in runs_of("stacks", fault=("calm",)):
        (workload,) = run.scenario.workloads
        (guarantee,) = [one for one in Guarantee if getattr(workload.mix, one.label)]
        asked.setdefault(run.scenario.stack, set()).add(guarantee)
    wanted = {name: {Guarantee.EVENTUAL, max(stack.guarantees)} for name, stack in STACKS.items()}
    assert asked == wanted, "a stack needs its points in the sweep stacks"


def test_all_of_them_have_the_same_network_and_the_same_workload() -> None:
    for fault in ("calm", "crash", "return"):
        scenarios = [run.scenario for run in runs_of("stacks", fault=(fault,))]
        assert len({(one.brokers, one.clients, one.faults) for one in scenarios}) == 1
        assert {(w.operations, w.interval_us, w.payload, w.topics) for one in scenarios for w in one.workloads} == {
            (15, 150_000, 32, ("t0", "t1", "t2", "t3", "t4"))
        }


def test_without_faults_everybody_keeps_every_promise_and_everything_comes(rows: list[ComparedRow]) -> None:
    calm = [row for row in rows if row.circumstances == "calm"]
    assert {row.stack for row in calm} == set(STACKS)
    assert all(row.standing is RunStanding.CLEAN and row.is_covered and not row.rules for row in calm)
    assert all(None not in row.numbers and number(row, "came") == 1.0 for row in calm)


def test_what_a_dead_broker_does_to_each_is_told_and_whether_that_is_survived(rows: list[ComparedRow]) -> None:
    dying = {row.stack: row for row in rows if row.circumstances == "crash"}
    assert dying["resprout"].standing is RunStanding.CLEAN and number(dying["resprout"], "came") == 1.0
    assert dying["flood"].standing is RunStanding.VIOLATED and "lost" in dying["flood"].rules
    assert not dying["flood"].is_covered and dying["resprout"].is_covered and dying["gossip"].is_covered
    assert number(dying["flood"], "came") < number(dying["gossip"], "came")


def test_gossip_sends_more_than_a_tree_and_no_broker_of_it_bears_much_more_than_another(
    rows: list[ComparedRow],
) -> None:
    calm = {(row.stack, row.asked, row.options): row for row in rows if row.circumstances == "calm"}
    gossip, tree = calm["gossip", "eventual", ""], calm["resprout", "eventual", ""]
    assert number(gossip, "messages a publication") > 1.5 * number(tree, "messages a publication")
    uneven = [number(row, "load, most") / number(row, "load of a broker, mean") for row in (gossip, tree)]
    assert uneven[0] < 1.5 < uneven[1]


def test_the_page_has_one_table_with_what_each_stack_says_of_itself(played: list[RunFacts]) -> None:
    page = page_of(played, {}, ASKED, reports_of("stacks"))
    assert page.count('aria-label="All stacks compared"') == 1
    for name, stack in STACKS.items():
        assert f"<strong>{name}</strong> guarantees " in page
        assert survives_in_words(stack.survives(stack.parse_options({}))) in page
    assert "resprout sweep stacks" in page
    assert re.search(r'<th scope="col">judged</th>\s*<th scope="col">asked for</th>', page), "a phone shows it first"


# -- what a row is made of ---------------------------------------------------------------------------------------------


def made_up(seed: int, came: int | None = 100, **changes: object) -> RunFacts:
    name = f"fault=crash,system=x,seed={seed}"
    labels = {"fault": "crash", "system": "x"}
    return RunFacts(
        run=run_row("stacks", name, seed=seed, labels=labels, faults=1, gone=1, **changes),
        verdict=verdict("stacks", name, owed=None if came is None else 100, came=came, told=0),
        traffic=traffic("stacks", name, settled_us=seed * 1_000),
        latency=(latency("stacks", name, "total", seed * 1_000),),
        load=(load("stacks", name, "b0", 10 * seed), load("stacks", name, "b1", 30 * seed)),
    )


def texts(table: PageTable) -> list[str]:
    return [cell.text for row in table.rows for cell in row.cells]


def test_a_number_is_the_median_of_the_runs_and_the_share_that_came_the_least() -> None:
    (row,) = compared([made_up(1), made_up(2), made_up(6)])
    assert (row.asked, row.circumstances, row.runs) == ("total", "crash", 3)
    assert [number(row, name) for name in ("latency, median", "latency, 99 %")] == [2_000, 6_000]
    assert number(row, "everybody has everything") == 2_000
    assert [number(row, name) for name in ("load of a broker, mean", "load, most")] == [40, 60]
    (row,) = compared([made_up(1), made_up(2, came=99), made_up(6)])
    assert number(row, "came") == 0.99
    assert "never" in texts(comparison_table([made_up(1), made_up(2, came=99)]))


def test_of_a_run_that_did_not_come_to_rest_nobody_says_that_something_never_came() -> None:
    (row,) = compared([made_up(1, came=None)])
    assert row.numbers[-1] is None
    assert "never" not in texts(comparison_table([made_up(1, came=None)]))


def test_options_tell_rows_of_one_stack_apart_and_decide_what_it_promises() -> None:
    rows = compared([made_up(1, stack="sites", options={"order": '"none"'}), made_up(1, stack="sites")])
    assert [(row.options, row.promised.guarantees.split(",")[0]) for row in rows] == [
        ("", "eventual"),
        ('order = "none"', "eventual"),
    ]
    assert "total" in rows[0].promised.guarantees and "total" not in rows[1].promised.guarantees


def test_a_stack_that_is_not_installed_here_is_shown_all_the_same() -> None:
    (row,) = compared([made_up(1, stack="elsewhere")])
    assert row.promised.guarantees == UNKNOWN and not row.is_covered
    (row,) = compared([made_up(1, stack="gossip", options={"no_such": "1"})])
    assert row.promised.survives == UNKNOWN


# -- what stacks say of themselves -------------------------------------------------------------------------------------


def test_what_is_survived_is_said_in_words() -> None:
    assert survives_in_words(NOTHING) == "pauses and connections that break, no dead broker"
    assert survives_in_words(Survival(faults=2, span=5)) == "2 dead brokers on any path of 5 at once"
    assert survives_in_words(Survival(1, each_site=True, again=True, recovers_with_disk=True)) == (
        "1 dead broker in each site at once, again and again; "
        "a dead broker may return with its disk, when its repair is over"
    )
    assert survives_in_words(Survival(1, least=3)).endswith("; with 3 brokers or more")
    assert "every dead broker must return" in survives_in_words(Survival(1, all_return=True))
    words = survives_in_words(everything(1))
    for part in ("silent hosts", "frozen", "cut off", "partitions", "newcomers", "leave", "disk or without"):
        assert part in words


def test_what_is_guaranteed_is_said_with_its_scope_its_chance_and_its_receipts() -> None:
    resprout = STACKS["resprout"]
    assert guarantees_of(resprout, resprout.parse_options({})) == (
        "eventual, fifo, causal, total, for certain; receipts: accepted, safe, delivered"
    )
    gossip = STACKS["gossip"]
    assert "with a probability" in guarantees_of(gossip, gossip.parse_options({}))
    assert all(
        ("within each topic" in guarantees_of(stack, stack.parse_options({})))
        == (stack.order is OrderScope.EACH_TOPIC and len(stack.guarantees) > 1)
        for stack in STACKS.values()
    )


@pytest.mark.parametrize(
    ("stack", "faults", "gone", "is_covered"),
    [
        ("resprout", 1, 1, True),
        ("resprout", 2, 2, False),
        ("flood", 1, 1, False),
        ("flood", 0, 0, True),
        ("locamu", 1, 1, False),  # its clients wait for it
        ("locamu", 1, 0, True),
        ("cbcast", 1, 1, True),
        ("cbcast", 1, 0, False),  # it does not say that brokers may return
    ],
)
def test_whether_a_run_is_within_what_a_stack_survives(stack: str, faults: int, gone: int, is_covered: bool) -> None:
    facts = RunFacts(run=run_row("x", "y", stack=stack, faults=faults, gone=gone))
    assert promised_by(facts).covers(facts) is is_covered
