"""What is delivered was published, asked for, new, in its place; what is owed is there."""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, NOT_JUDGED
from resprout.trace.schema import Row, TraceError
from tests.audit.spoiling import change
from tests.audit.trace_builder import TraceBuilder


def explained(rows: list[Row]) -> list[tuple[str, str]]:
    return [(a.rule, a.explanation) for a in judge(rows).anomalies]


def one_delivery() -> TraceBuilder:
    t = TraceBuilder()
    t.subscribe("s", "a/+")
    t.publish("c:1", "a/b", "fifo", "k")
    t.deliver("s", "c:1")
    return t


def test_an_empty_trace_is_clean_but_its_end_is_not_judged() -> None:
    verdict = judge([])
    assert not verdict.violated
    assert verdict.check("lost").status == NOT_JUDGED


def test_each_way_of_inventing_says_what_differs() -> None:
    t = one_delivery()
    *rest, last = t.rows
    assert explained([*rest, change(last, seq=2)]) == [("invented", "s delivered c:2 at 0, which nobody published")]
    assert "but it was published on a/b" in explained([*rest, change(last, topic="a/c")])[0][1]
    assert "as total, but it was published as fifo" in explained([*rest, change(last, guarantee="total")])[0][1]
    assert "with keys none, but it was published with k" in explained([*rest, change(last, keys=())])[0][1]
    early = [*t.rows[:2], change(last, time_us=1), t.rows[2]]
    assert explained(early) == [("invented", "s delivered c:1 at 0, before it was published at 0.000002 s")]


def test_a_second_delivery_is_reported_once_and_is_no_disorder() -> None:
    t = one_delivery()
    t.publish("c:2", "a/b")
    t.deliver("s", "c:2", "c:1")
    assert explained(t.quiescent()) == [("twice", "s delivered c:1 at 2, which it had delivered at 0")]


def test_two_subscriptions_that_match_are_served_by_one_delivery() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a", "#")
    t.publish("c:1", "a")
    t.deliver("s", "c:1")
    assert explained(t.quiescent()) == []


def test_a_publisher_that_subscribes_is_owed_its_own_publications() -> None:
    t = TraceBuilder()
    t.subscribe("c", "a")
    t.publish("c:1", "a")
    ((rule, text),) = explained(t.quiescent())
    assert rule == "lost"
    assert text == (
        "c never delivered c:1, published on a at 0.000002 s, though its subscription a was confirmed before"
    )


def test_a_publication_is_owed_to_subscribers_of_every_topic_it_names() -> None:
    t = TraceBuilder()
    t.subscribe("s", "pt")
    t.publish("c:1", "fr", "total", "k pt#k")
    assert [rule for rule, _ in explained(t.quiescent())] == ["lost"]


def test_between_request_and_confirmation_a_delivery_is_optional() -> None:
    for takes in (True, False):
        t = TraceBuilder()
        t.add("s", "subscribe", filter="a")
        t.publish("c:1", "a")
        t.add("s", "subscribed", filter="a")
        if takes:
            t.deliver("s", "c:1")
        assert explained(t.quiescent()) == []


def test_a_confirmation_in_the_same_microsecond_but_in_an_earlier_row_counts() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    assert [rule for rule, _ in explained([change(row, time_us=0) for row in t.quiescent()])] == ["lost"]


def test_what_was_under_way_when_a_subscription_was_asked_to_end_is_optional_until_it_is_over() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    t.publish("c:2", "a")
    t.add("s", "unsubscribe", filter="a")
    t.deliver("s", "c:1")
    t.add("s", "unsubscribed", filter="a")
    assert explained(t.quiescent()) == []
    t.deliver("s", "c:2")
    assert explained(t.rows) == [("unasked", "s delivered c:2 on a at 1; no subscription asked for it then")]


def test_a_subscription_that_is_asked_for_again_owes_again() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.add("s", "unsubscribe", filter="a")
    t.add("s", "subscribe", filter="a")
    t.add("s", "unsubscribed", filter="a")
    t.publish("c:1", "a")
    t.add("s", "subscribed", filter="a")
    t.publish("c:2", "a")
    assert [a.messages for a in judge(t.quiescent()).anomalies] == [("c:2",)]


def test_a_refused_subscription_is_over_but_a_refused_repetition_changes_nothing() -> None:
    t = TraceBuilder()
    t.add("s", "subscribe", filter="a")
    t.add("s", "subscribe", filter="a")
    t.add("s", "refused", filter="a", detail="already subscribed")
    t.publish("c:1", "a", "fifo")
    t.deliver("s", "c:1")
    assert explained(t.rows) == []
    t.add("s", "refused", filter="a", detail="no room")
    t.publish("c:2", "a", "fifo")
    t.deliver("s", "c:2")
    assert [rule for rule, _ in explained(t.quiescent())] == ["unasked"]


def test_a_condition_decides_what_is_owed_and_what_was_asked_for() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a", where="amount > 100 and kind = 'it''s'")
    t.publish("c:1", "a", amount=101, kind="it's")
    t.publish("c:2", "a", amount=99.5, kind="it's")
    t.deliver("s", "c:2")
    assert [(a.rule, a.messages[0]) for a in judge(t.quiescent()).anomalies] == [
        ("unasked", "c:2"), ("lost", "c:1"), ("causal", "c:2"),
    ]  # fmt: skip


@pytest.mark.parametrize("ending", ["crash", "leave", "freeze"])
def test_a_subscriber_that_is_down_at_the_end_is_owed_nothing(ending: str) -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    t.add("s", ending)
    assert explained(t.quiescent()) == []


def test_a_publication_of_a_crashed_client_is_owed_once_it_is_safe_or_a_correct_subscriber_has_it() -> None:
    def trace(safe: bool, had: str) -> list[Row]:
        t = TraceBuilder()
        t.subscribe("s", "a")
        t.subscribe("u", "a")
        t.subscribe("dead", "a")
        t.publish("c:1", "a")
        if safe:
            t.receipt("c:1", "safe")
        if had:
            t.deliver(had, "c:1")
        t.add("c", "crash")
        t.add("dead", "crash")
        return t.quiescent()

    def lost(rows: list[Row]) -> list[str]:
        return [a.subscriber for a in judge(rows).anomalies if a.rule == "lost"]

    assert lost(trace(False, "")) == []
    assert lost(trace(False, "dead")) == []
    assert lost(trace(False, "u")) == ["s"]
    assert lost(trace(True, "")) == ["s", "u"]


def test_what_was_refused_or_failed_is_not_owed() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    t.publish("c:2", "a")
    t.add("c", "refused", **t.identity("c:1"))
    t.receipt("c:2", "failed")
    assert explained(t.quiescent()) == []


def test_a_restarted_subscriber_begins_again_at_0_with_no_subscription() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    t.deliver("s", "c:1")
    t.restart("s")
    t.publish("c:2", "a")
    t.subscribe("s", "a")
    t.publish("c:3", "a")
    t.deliver("s", "c:3")
    assert explained(t.quiescent()) == []
    t.deliver("s", "c:3")
    assert explained(t.rows) == [("twice", "s (life 2) delivered c:3 at 1, which it had delivered at 0")]


@pytest.mark.parametrize(("end", "reason"), [("timeout", "time limit"), (None, "no quiescent row")])
def test_without_rest_at_the_end_loss_is_not_judged_and_the_verdict_says_why(end: str | None, reason: str) -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    if end is not None:
        t.add("world", end)
    check = judge(t.rows).check("lost")
    assert (check.status, reason in check.reason) == (NOT_JUDGED, True)
    assert judge(t.quiescent()).check("lost").status != NOT_JUDGED


def test_rows_out_of_time_order_are_read_in_time_order() -> None:
    t = one_delivery()
    assert judge(list(reversed(t.quiescent()))).check("invented").status == CLEAN


def test_numbers_that_go_back_are_named() -> None:
    t = TraceBuilder()
    t.publish("c:1", "a")
    t.publish("c:2", "a")
    first, second = t.rows
    swapped = [change(second, time_us=0), change(first, time_us=1)]
    assert explained(swapped) == [
        ("identity", "c published c:1 at 0.000001 s, after c:2, which has a higher number"),
    ]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"kind": "publish"}, "row 0: a publish row without publisher, incarnation, stream and seq"),
        ({"kind": "deliver"}, "row 0: a deliver row without publisher"),
        ({"kind": "subscribe"}, "row 0: a subscribe row without filter"),
        ({"kind": "subscribe", "filter": "a/#/b"}, "row 0: subscription 'a/#/b': "),
        ({"kind": "subscribe", "filter": "a", "where": "and"}, "row 0: subscription 'a': "),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_with_its_number(columns: dict[str, str], reason: str) -> None:
    row = Row(time_us=0, node="c", **columns)  # type: ignore[arg-type]
    with pytest.raises(TraceError) as error:
        judge([row])
    assert str(error.value).startswith(reason)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"guarantee": "loud"}, "unknown guarantee 'loud'"),
        ({"guarantee": None}, "without topic or guarantee"),
        ({"stream": "eventual"}, "a causal publication in the eventual stream"),
        ({"node": "d"}, "d reports a publication of c"),
    ],
)
def test_a_publish_row_that_contradicts_itself_is_refused(wrong: dict[str, str], reason: str) -> None:
    t = TraceBuilder()
    t.publish("c:1", "a")
    with pytest.raises(TraceError, match=reason):
        judge([change(t.rows[0], **wrong)])


def test_an_attribute_that_cannot_be_read_is_refused_where_a_condition_needs_it() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a", where="n > 1")
    t.publish("c:1", "a", n=2)
    with pytest.raises(TraceError, match="row 2: attribute value 'two' is no text"):
        judge([*t.rows[:2], change(t.rows[2], attributes={"n": "two"})])
