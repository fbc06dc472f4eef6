"""Messages that are dropped because a subscriber asked for it: all judges excuse exactly those that it was told of."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from resprout.audit.judge import judge
from resprout.core.errors import UsageError
from resprout.pipeline.judging.runs import detect
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.sim.run import run_scenario
from resprout.trace import kinds
from resprout.trace.schema import Row
from tests.audit.live_comparison import assert_agree, watched
from tests.audit.spoiling import change
from tests.audit.trace_builder import TraceBuilder
from tests.pipeline.judging_cases import Case, assert_agrees, write

SCENE = Path(__file__).parents[1] / "sim" / "attacks" / "what-is-dropped-is-told.toml"


def broken(rows: Sequence[Row], folder: Path) -> set[str]:
    """Return the rules that are broken, after all three judges have agreed on them."""
    case = Case("dropped", list(rows))
    assert_agree(rows, watched(rows), judge(case.rows), "live")
    return assert_agrees(case, detect(write(folder, case), is_sealed=False))


def story(*told: str, policy: bool = True, again: bool = False) -> list[Row]:
    """`s` reads c:1 and c:3; c:3 depends on c:2. `told`: what it was told to be dropped."""
    t = TraceBuilder()
    t.add("s", "subscribe", filter="a", attributes={"drop_oldest": "yes"} if policy else None)
    t.add("s", "subscribed", filter="a")
    for name in ("c:1", "c:2", "c:3"):
        t.publish(name, "a")
        t.receipt(name, "safe")
    t.deliver("s", "c:1")
    t.receipt("c:1", "delivered")
    t.receipt("c:2", "delivered")
    for name in told:
        t.add("s", "dropped", **t.identity(name))
    t.deliver("s", "c:3")
    t.receipt("c:3", "delivered")
    if again:
        t.deliver("s", "c:2")
    return t.quiescent()


def test_a_message_that_was_dropped_and_told_is_not_missing(tmp_path: Path) -> None:
    assert broken(story("c:2"), tmp_path) == set()


@pytest.mark.parametrize("told", [(), ("c:1",), ("c:3",)])
def test_a_message_that_is_missing_and_was_not_told_is_lost(told: tuple[str, ...], tmp_path: Path) -> None:
    assert broken(story(*told), tmp_path) >= {"lost", "causal", "receipt"}


def test_a_subscriber_that_did_not_ask_for_it_loses_what_is_dropped(tmp_path: Path) -> None:
    assert broken(story("c:2", policy=False), tmp_path) == {"lost", "causal", "receipt"}


def test_a_message_is_not_delivered_after_it_was_told_to_be_dropped(tmp_path: Path) -> None:
    assert "twice" in broken(story("c:2", again=True), tmp_path)


def test_in_a_run_each_message_is_delivered_or_told_to_be_dropped(tmp_path: Path) -> None:
    rows = run_scenario(load_scenario(SCENE)).rows
    dropped = [place for place, row in enumerate(rows) if row.kind == kinds.DROPPED]
    assert dropped and broken(rows, tmp_path / "right") == set()
    silent = [row for place, row in enumerate(rows) if place != dropped[len(dropped) // 2]]
    assert "lost" in broken(silent, tmp_path / "silent")
    unasked = [change(row, attributes=None) if row.kind == kinds.SUBSCRIBE else row for row in rows]
    assert "lost" in broken(unasked, tmp_path / "unasked")


def test_a_replica_of_a_bank_must_not_drop() -> None:
    text = """
        broker = [{ name = "b" }]
        client = [{ name = "c", broker = "b", subscribe = ["bank"], when_full = "drop_oldest" }]
        workload = [{ kind = "bank", topics = ["bank"], clients = ["c"] }]
    """
    with pytest.raises(UsageError, match="a replica of a bank needs every operation, but messages of c may be dropped"):
        parse_scenario(text)
