"""Receipts are true, in order, and about something."""

import pytest

from resprout.audit.judge import judge
from resprout.trace.errors import TraceError
from tests.audit.mutations import change
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


def test_a_receipt_that_is_not_one_is_refused() -> None:
    t = published()
    t.receipt("c:1", "accepted")
    with pytest.raises(TraceError, match="row 3: unknown receipt 'maybe'"):
        judge([*t.rows[:3], change(t.rows[3], receipt="maybe")])
