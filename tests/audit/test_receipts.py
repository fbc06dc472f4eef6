"""Receipts are true, in order, and about something."""

import pytest

from resprout.audit.judge import judge
from resprout.trace.schema import TraceError
from tests.audit.spoiling import change
from tests.audit.trace_builder import TraceBuilder


def complaints(t: TraceBuilder) -> list[str]:
    return [a.explanation for a in judge(t.rows).anomalies if a.rule == "receipt"]


def published() -> TraceBuilder:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    return t


def test_delivered_after_every_delivery_is_true() -> None:
    t = published()
    t.deliver("s", "c:1")
    t.receipt("c:1", "delivered")
    assert complaints(t) == []


def test_delivered_before_a_delivery_is_a_lie() -> None:
    t = published()
    t.receipt("c:1", "delivered")
    t.deliver("s", "c:1")
    assert complaints(t) == ["c was told at 0.000003 s that c:1 is delivered, but s delivered it only at 0.000004 s"]


def test_delivered_without_a_delivery_is_a_lie_even_if_the_run_did_not_end() -> None:
    t = published()
    t.receipt("c:1", "delivered")
    assert complaints(t) == ["c was told at 0.000003 s that c:1 is delivered, but s never delivered it"]


@pytest.mark.parametrize("event", ["crash", "leave"])
def test_a_subscriber_that_crashes_is_not_waited_for(event: str) -> None:
    t = published()
    t.receipt("c:1", "delivered")
    t.add("s", event)
    assert complaints(t) == []


def test_a_subscriber_that_was_frozen_in_between_is_not_waited_for() -> None:
    t = published()
    t.add("s", "freeze")
    t.receipt("c:1", "delivered")
    t.add("s", "unfreeze")
    t.deliver("s", "c:1")
    assert complaints(t) == []


def test_a_freeze_after_the_receipt_is_no_excuse() -> None:
    t = published()
    t.receipt("c:1", "delivered")
    t.add("s", "freeze")
    t.add("s", "unfreeze")
    t.deliver("s", "c:1")
    assert len(complaints(t)) == 1


def test_a_subscription_that_was_asked_to_end_before_the_receipt_is_not_waited_for() -> None:
    t = published()
    t.add("s", "unsubscribe", filter="a")
    t.receipt("c:1", "delivered")
    assert complaints(t) == []
    t = published()
    t.receipt("c:1", "delivered")
    t.add("s", "unsubscribe", filter="a")
    assert len(complaints(t)) == 1


def test_receipts_may_skip_and_repeat_but_not_go_back() -> None:
    t = published()
    t.deliver("s", "c:1")
    for word in ("accepted", "delivered", "delivered"):
        t.receipt("c:1", word)
    assert complaints(t) == []
    t.receipt("c:1", "safe")
    assert complaints(t) == ["c was given the receipt 'safe' for c:1 at 0.000007 s, after 'delivered'"]


def test_what_is_refused_stays_refused() -> None:
    t = published()
    t.add("c", "refused", **t.identity("c:1"))
    t.receipt("c:1", "accepted")
    t.deliver("s", "c:1")
    assert complaints(t) == [
        "c was given the receipt 'accepted' for c:1 at 0.000004 s, after it was refused for good",
        "s delivered c:1 at 0, though c was told that it never will be",
    ]


def test_a_failed_publication_may_still_be_delivered() -> None:
    t = published()
    t.receipt("c:1", "failed")
    t.deliver("s", "c:1")
    assert complaints(t) == []


def at_rest(t: TraceBuilder) -> list[str]:
    return [a.explanation for a in judge(t.quiescent()).anomalies if a.rule == "receipt"]


@pytest.mark.parametrize("word", ["accepted", "safe"])
def test_the_last_receipt_is_due_in_a_run_at_rest_where_all_that_are_owed_it_have_it(word: str) -> None:
    t = published()
    t.receipt("c:1", word)
    t.deliver("s", "c:1")
    assert complaints(t) == [], "it may still come"
    assert at_rest(t) == ["c was never told that c:1 is delivered, though all 1 that are owed it have it"]


@pytest.mark.parametrize("event", ["crash", "leave", "unsubscribe"])
def test_delivered_is_not_due_where_somebody_cannot_be_waited_for_but_safe_is(event: str) -> None:
    for word, missing in (("accepted", ["c was never told that c:1 is safe"]), ("safe", [])):
        t = published()
        t.receipt("c:1", word)
        t.add("s", event, **({"filter": "a"} if event == "unsubscribe" else {}))
        assert at_rest(t) == missing


def test_no_receipt_is_due_to_a_publisher_that_is_gone_or_was_told_that_it_failed() -> None:
    t = published()
    t.receipt("c:1", "accepted")
    t.deliver("s", "c:1")
    t.add("c", "crash")
    assert at_rest(t) == []
    t = published()
    t.receipt("c:1", "accepted")
    t.receipt("c:1", "failed")
    assert at_rest(t) == []


def test_no_receipt_is_due_while_a_link_is_cut_or_a_node_hangs() -> None:
    for kind, end, detail in (("cut", "heal", "b2"), ("partition", "heal", None), ("freeze", "unfreeze", None)):
        for ended in (False, True):
            t = published()
            t.receipt("c:1", "accepted")
            t.deliver("s", "c:1")
            t.add("b1", kind, detail=detail)
            if ended:
                t.add("b1", end, detail=detail)
            assert bool(at_rest(t)) == ended, kind


def test_delivered_receipts_of_one_client_may_come_in_any_order() -> None:
    t = published()
    t.publish("c:2", "a")
    t.deliver("s", "c:1", "c:2")
    t.receipt("c:2", "delivered")
    t.receipt("c:1", "delivered")
    assert at_rest(t) == []


def test_a_receipt_that_is_not_one_is_refused() -> None:
    t = published()
    t.receipt("c:1", "accepted")
    with pytest.raises(TraceError, match="row 3: unknown receipt 'maybe'"):
        judge([*t.rows[:3], change(t.rows[3], receipt="maybe")])
