"""The traces that the judge on Spark is measured with are what they claim to be: clean, varied, and easy to spoil."""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.spark.archive import generate, write_archive, write_run
from benchmarks.spark.processes import output_and_peak
from benchmarks.spark.spoiled import write_with_a_delivery_dropped

from resprout.audit.judge import judge
from resprout.audit.mqtt import MQTT_RULES
from resprout.audit.timing import TIMING_RULES
from resprout.audit.values import VALUE_RULES
from resprout.audit.verdict import CLEAN, EXPLAINED_MAX
from resprout.pipeline.judging.runs import detect
from resprout.pipeline.places import find_runs, place_of
from resprout.trace.columns import rows_of
from resprout.trace.schema import Row
from resprout.trace.store import read_trace
from tests.audit.mutations import MUTATIONS
from tests.audit.spoiling import Rows, ident, moved, renumbered, steady

SPOILED = [
    "drop", "duplicate", "forge", "deliver_before_publishing", "deliver_unasked", "deliver_after_the_end",
    "skip_a_position", "swap", "invert", "invert_across_topics", "pass_a_barrier", "disagree_on_totals",
    "say_delivered_too_early", "take_a_receipt_back",
]  # fmt: skip


def rows_of_run(seed: int, deliveries: int = 1) -> Rows:
    return [row for part in generate(seed, deliveries).parts() for row in rows_of(part)]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return rows_of_run(seed=3)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_generated_run_is_clean_and_only_what_it_does_not_have_is_not_judged(seed: int) -> None:
    verdict = judge(rows_of_run(seed, deliveries=5_000))
    assert verdict.anomalies == []
    assert verdict.counts["deliveries"] >= 5_000
    others = [c.rule for c in verdict.checks if c.status != CLEAN and not c.rule.startswith(("bank_", "log_"))]
    unused = [*TIMING_RULES, "durable", *MQTT_RULES, *VALUE_RULES]
    assert others == unused, "these runs have no delayed messages, durable subscriptions, MQTT clients or last values"


def test_a_generated_run_holds_all_that_a_judge_must_look_at(rows: Rows) -> None:
    assert {row.guarantee for row in rows if row.kind == "deliver"} == {"eventual", "fifo", "causal", "total"}
    assert {row.receipt for row in rows if row.kind == "receipt"} == {"accepted", "safe", "delivered"}
    assert {"crash", "recover", "unsubscribe", "unsubscribed", "repair_begin", "repair_end"} <= {r.kind for r in rows}
    assert any(len(row.keys or ()) > 1 for row in rows) and any("#" in key for row in rows for key in row.keys or ())
    assert {row.incarnation for row in rows if row.kind == "publish"} >= {1, 2}
    assert any(row.filter == "bank/+" for row in rows)


def test_subscribers_take_what_is_concurrent_in_different_orders(rows: Rows) -> None:
    orders = {node: [ident(row) for row in rows if row.kind == "deliver" and row.node == node] for node in steady(rows)}
    different = 0
    for one, other in itertools.combinations(sorted(orders), 2):
        common = set(orders[one]) & set(orders[other])
        different += [m for m in orders[one] if m in common] != [m for m in orders[other] if m in common]
    assert different > len(orders)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path: Path) -> None:
    digests = [write_run(tmp_path / str(n), generate(seed, 1), seed).digest for n, seed in enumerate((1, 1, 2))]
    assert digests[0] == digests[1] != digests[2]


def test_the_digest_of_a_generated_run_is_true_however_its_rows_are_divided(tmp_path: Path) -> None:
    run = generate(1, 1)
    whole = write_run(tmp_path / "whole", run, seed=1)
    parts = write_run(tmp_path / "parts", run, seed=1, rows_max=700)
    assert whole.digest == parts.digest
    assert len(list((tmp_path / "parts").glob("*.parquet"))) > 3
    assert read_trace(tmp_path / "parts").rows == read_trace(tmp_path / "whole").rows


def test_an_archive_holds_its_runs_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    size = write_archive(tmp_path, runs=2, deliveries=1, processes=1)
    assert write_archive(tmp_path, runs=2, deliveries=1, processes=1) == size
    places = find_runs([tmp_path])
    assert [place.info.seed for place in places] == [1, 2]
    assert sum(place.info.rows for place in places) == size.rows


@pytest.mark.parametrize("name", SPOILED)
def test_a_fault_in_a_generated_run_is_found(name: str, rows: Rows) -> None:
    rule, mutate = MUTATIONS[name]
    spoiled = mutate(rows, random.Random(7))
    assert spoiled is not None
    assert rule in {anomaly.rule for anomaly in judge(spoiled).anomalies}


def test_a_causal_inversion_is_found_where_the_chain_passes_through_what_the_subscriber_does_not_get(
    rows: Rows,
) -> None:
    cause, effect, between = _hidden_chain(rows)
    spoiled = renumbered(moved(rows, cause, effect), rows[cause].node)
    found = [a for a in judge(spoiled).anomalies if a.rule == "causal" and a.time_us == rows[effect].time_us]
    assert found
    assert f"through {between.publisher}" in found[0].explanation


def test_one_dropped_delivery_is_explained_alike_by_both_engines_however_much_depends_on_it(tmp_path: Path) -> None:
    info = write_with_a_delivery_dropped(tmp_path / "run", generate(3, 60_000))
    trace = read_trace(tmp_path / "run")
    detected = detect(place_of(tmp_path / "run", "generated", "run"), is_sealed=False)
    verdict = judge(trace)
    assert info.rows == len(trace.rows)
    assert detected.broken == {"lost", "causal", "receipt"}  # it was told `delivered`
    assert verdict.check("lost").anomalies == 1
    assert verdict.check("causal").anomalies > EXPLAINED_MAX
    assert len(verdict.anomalies) == EXPLAINED_MAX + 2
    assert detected.explained(trace) == verdict


def _hidden_chain(rows: Rows) -> tuple[int, int, Row]:
    """Deliver rows of d and m at one subscriber, where m depends on d only through a publication that neither it nor
    anybody's direct delivery tells it of: the publisher of m never got d, and the subscriber never got what is
    between."""
    given: dict[str, dict[tuple[object, ...], int]] = {}
    for i, row in enumerate(rows):
        if row.kind == "deliver":
            given.setdefault(row.node, {}).setdefault(ident(row), i)
    published = {ident(row): i for i, row in enumerate(rows) if row.kind == "publish"}
    lasting = steady(rows)
    for node in sorted(lasting):
        for message, effect in given[node].items():
            m = rows[effect]
            if m.guarantee != "causal" or m.publisher not in lasting:
                continue
            for other, heard in given[m.publisher or ""].items():
                x = rows[heard]
                if heard > published[message] or other in given[node] or x.publisher in (node, m.publisher):
                    continue
                for first, told in given.get(x.publisher or "", {}).items():
                    d = rows[told]
                    if (
                        told < published[other]
                        and first in given[node]
                        and d.guarantee == "causal"
                        and first not in given[m.publisher or ""]
                        and d.publisher not in (m.publisher, x.publisher)
                        and not rows[published[first]].keys
                    ):
                        return given[node][first], effect, x
    raise AssertionError("the run has no such chain")


def test_memory_of_a_program_is_that_of_its_descendants_too() -> None:
    hold = "import time; held = bytearray(80_000_000); time.sleep(0.5); print('held')"
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}], check=True)"
    output, peak = output_and_peak([sys.executable, "-c", command], os.environ)
    assert output.strip() == b"held"
    assert 80_000_000 < peak < 400_000_000


def test_a_program_that_fails_is_not_measured() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        output_and_peak([sys.executable, "-c", "raise SystemExit(3)"], os.environ)
