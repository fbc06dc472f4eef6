"""Causal order: chains through other topics and other clients, and none through eventual messages."""

import pytest

from resprout.audit.causal import Way, Ways
from resprout.audit.judge import judge
from resprout.audit.live.judge import LiveJudge
from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import EXPLAINED_MAX, lines
from resprout.trace.schema import Row
from tests.audit.trace_builder import TraceBuilder


def found(rows: list[Row], rule: str = "causal") -> list[str]:
    return [a.explanation for a in judge(rows).anomalies if a.rule == rule]


def test_a_chain_through_a_topic_that_the_subscriber_does_not_receive_is_followed() -> None:
    t = TraceBuilder()
    t.subscribe("s3", "bank/pt")
    t.subscribe("c2", "bank/pt")
    t.subscribe("c1", "bank/fr")
    t.publish("c0:1", "bank/pt")
    t.deliver("c2", "c0:1")
    t.publish("c2:1", "bank/fr")
    t.deliver("c1", "c2:1")
    t.publish("c1:1", "bank/pt")
    t.deliver("s3", "c1:1", "c0:1")
    t.deliver("c2", "c1:1")
    assert found(t.quiescent()) == [
        "s3 delivered c1:1 at 0 before c0:1 at 1, on which it depends through c2:1 on topic bank/fr"
    ]


def test_what_a_publisher_had_delivered_long_before_is_a_direct_dependency() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("s", "a", "b")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    for number in range(1, 6):
        t.publish(f"c1:{number}", "unheard")
    t.publish("c1:6", "b")
    t.deliver("s", "c1:6", "c0:1")
    assert found(t.quiescent()) == ["s delivered c1:6 at 0 before c0:1 at 1, on which it depends directly"]


def test_an_eventual_message_passes_no_chain_on() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("c2", "e")
    t.subscribe("s", "a", "e", "b")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    t.publish("c1:e1", "e", "eventual")
    t.deliver("c2", "c1:e1")
    t.publish("c2:1", "b")
    t.deliver("s", "c2:1", "c1:e1", "c0:1")
    assert not judge(t.quiescent()).violated


def test_what_a_client_was_given_before_its_eventual_message_counts_for_its_next_ordered_one() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("s", "a", "b", "e")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    t.publish("c1:e1", "e", "eventual")
    t.publish("c1:1", "b")
    t.deliver("s", "c1:e1", "c1:1", "c0:1")
    assert found(t.quiescent()) == ["s delivered c1:1 at 1 before c0:1 at 2, on which it depends directly"]


def test_an_eventual_message_may_come_after_what_depends_on_it() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("s", "a", "b")
    t.publish("c0:e1", "a", "eventual")
    t.deliver("c1", "c0:e1")
    t.publish("c1:1", "b")
    t.deliver("s", "c1:1", "c0:e1")
    assert not judge(t.quiescent()).violated


def test_a_fifo_message_may_come_before_what_it_depends_on_but_not_what_follows_it() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("c2", "b")
    t.subscribe("s", "a", "b", "c")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    t.publish("c1:1", "b", "fifo")
    t.deliver("c2", "c1:1")
    t.publish("c2:1", "c")
    t.deliver("s", "c1:1", "c2:1", "c0:1")
    assert found(t.quiescent()) == [
        "s delivered c2:1 at 1 before c0:1 at 2, on which it depends through c1:1 on topic b"
    ]


def test_a_dependency_that_was_owed_and_never_came_violates() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c0:1", "a")
    t.publish("c0:2", "a")
    t.deliver("s", "c0:2")
    rows = t.quiescent()
    assert found(rows) == ["s delivered c0:2 at 0 but never c0:1, on which it depends directly"]
    assert found(rows, "lost")


def test_a_missing_dependency_is_noticed_without_an_end_of_the_run_and_after_a_crash() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c0:1", "a")
    t.publish("c0:2", "a")
    t.deliver("s", "c0:2")
    t.add("s", "crash")
    assert found(t.rows) == ["s delivered c0:2 at 0 but never c0:1, on which it depends directly"]


def test_a_missing_dependency_is_forgiven_once_the_subscription_was_asked_to_end() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a", "b")
    t.publish("c0:1", "a")
    t.add("s", "unsubscribe", filter="a")
    t.publish("c0:2", "b")
    t.deliver("s", "c0:2")
    assert not judge(t.quiescent()).violated


def test_a_dependency_that_died_with_its_publisher_is_not_owed() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c0:1", "a")
    t.restart("c0")
    t.publish("c0.1:1", "a")
    t.deliver("s", "c0.1:1")
    assert not judge(t.quiescent()).violated


def test_a_restarted_client_forgets_what_it_was_given_but_not_what_it_published() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("s", "a", "b")
    t.publish("c1:1", "b")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    t.restart("c1")
    t.publish("c1.1:1", "b")
    t.deliver("s", "c1.1:1", "c0:1", "c1:1")
    rules = {a.rule: a.explanation for a in judge(t.quiescent()).anomalies}
    assert rules == {
        "fifo": "s delivered c1.0:1 at 2 after c1.1:1 at 0, though c1 published it first",
        "causal": "s delivered c1.1:1 at 0 before c1.0:1 at 2, on which it depends directly",
    }


def test_a_restarted_client_does_not_depend_on_what_only_its_last_eventual_message_did() -> None:
    t = TraceBuilder()
    t.subscribe("c1", "a")
    t.subscribe("s", "a", "b")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    t.publish("c1:e1", "unheard", "eventual")
    t.restart("c1")
    t.publish("c1.1:1", "b")
    t.deliver("s", "c1.1:1", "c0:1")
    assert not judge(t.quiescent()).violated


def test_a_long_chain_is_shortened_in_the_middle() -> None:
    t = TraceBuilder()
    t.subscribe("s", "t0", "t9")
    t.publish("c0:1", "t0")
    for n in range(1, 10):
        t.subscribe(f"c{n}", f"t{n - 1}")
    t.publish("c0:2", "t0")
    t.deliver("c1", "c0:2")
    for n in range(1, 9):
        t.publish(f"c{n}:1", f"t{n}")
        t.deliver(f"c{n + 1}", f"c{n}:1")
    t.publish("c9:1", "t9")
    t.deliver("s", "c9:1", "c0:1", "c0:2")
    (text,) = found(t.quiescent())
    assert text == (
        "s delivered c9:1 at 0 before c0:2 at 2, on which it depends through c1:1 on topic t1, c2:1 on topic t2, "
        "5 more and c8:1 on topic t8"
    )


# -- many that depend on one ------------------------------------------------------------------------------------------


def one_dropped(dependents: int) -> list[Row]:
    """s never gets c0:1; c1 does, and all that c1 publishes after that depends on it."""
    t = TraceBuilder()
    t.subscribe("s", "a", "b")
    t.subscribe("c1", "a")
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    for number in range(1, dependents + 1):
        t.publish(f"c1:{number}", "b")
        t.deliver("s", f"c1:{number}")
    return t.quiescent()


def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The causes that are searched from, from now on."""
    causes: list[int] = []
    search = Ways.search

    def noted(ways: Ways, cause: int, end: int) -> Way | None:
        causes.append(cause)
        return search(ways, cause, end)

    monkeypatch.setattr(Ways, "search", noted)
    return causes


def test_one_search_explains_all_that_depends_on_one_missing_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    causes = searches(monkeypatch)
    texts = found(one_dropped(300))
    assert len(texts) == 300
    assert texts[-1] == "s delivered c1:300 at 299 but never c0:1, on which it depends directly"
    assert causes == [0]


def test_the_first_thousand_violations_are_explained_and_the_rest_is_counted() -> None:
    verdict = judge(one_dropped(EXPLAINED_MAX + 77))
    told = [a for a in verdict.anomalies if a.rule == "causal"]
    assert [a.messages[0] for a in told] == [f"c1:{n}" for n in range(1, EXPLAINED_MAX + 1)]
    assert verdict.check("causal").anomalies == EXPLAINED_MAX + 77
    assert verdict.found == EXPLAINED_MAX + 78
    text = lines(verdict)
    assert f"    ... and {EXPLAINED_MAX + 67} more" in text
    assert text[-1] == f"VIOLATED: {EXPLAINED_MAX + 78} anomalies (lost, causal)"


def test_where_the_means_to_search_are_used_up_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two causes, each with its dependents; there are means for one search."""
    t = TraceBuilder()
    t.subscribe("s", "a", "b", "c")
    for n in (0, 1):
        t.subscribe(f"d{n}", "a")
        t.publish(f"c{n}:1", "a")
        t.deliver(f"d{n}", f"c{n}:1")
        t.publish(f"d{n}:1", "b")
        t.deliver("s", f"d{n}:1")
    monkeypatch.setattr("resprout.audit.causal.SEARCHED_MIN", 1)
    monkeypatch.setattr("resprout.audit.causal.ROUNDS", 0)
    verdict = judge(t.rows)
    told = [a.explanation for a in verdict.anomalies if a.rule == "causal"]
    assert told == ["s delivered d0:1 at 0 but never c0:1, on which it depends directly"]
    assert verdict.check("causal").anomalies == 2


def test_a_live_judge_tells_so_many_of_a_batch_and_counts_the_rest() -> None:
    live = LiveJudge(LiveOptions(lateness_us=0))
    told = live.take(one_dropped(EXPLAINED_MAX + 77))
    assert sum(anomaly.rule == "causal" for anomaly in told) == EXPLAINED_MAX
    assert live.found["causal"] == EXPLAINED_MAX + 77
