"""A replicated bank stays one bank."""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import NOT_JUDGED, RULES
from resprout.trace.schema import TraceError
from resprout.trace.store import RunInfo, Trace
from tests.audit.spoiling import change
from tests.audit.trace_builder import TraceBuilder


def complaints(t: TraceBuilder, initial: int = 100) -> list[tuple[str, str]]:
    return [(a.rule, a.explanation) for a in judge(t.rows, bank_initial=initial).anomalies]


def bank() -> TraceBuilder:
    t = TraceBuilder()
    t.subscribe("r1", "pt")
    t.subscribe("r2", "pt")
    return t


def test_without_a_bank_nothing_is_judged() -> None:
    verdict = judge(bank().rows)
    unjudged = {c.rule: c.reason for c in verdict.checks if c.status == NOT_JUDGED and c.rule.startswith("bank_")}
    assert unjudged == dict.fromkeys((r for r in RULES if r.startswith("bank_")), "the trace holds no bank")


def test_a_bank_without_totals_has_nothing_to_agree_on() -> None:
    t = bank()
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=50)
    for replica in ("r1", "r2"):
        t.deliver(replica, "c:1")
        t.applied(replica, "c:1", pt_1=150)
    verdict = judge(t.rows, bank_initial=100)
    assert [c.rule for c in verdict.checks if c.rule.startswith("bank_") and c.status == NOT_JUDGED] == [
        "bank_balance", "bank_outcome", "bank_replay", "bank_realtime",
    ]  # fmt: skip


def test_every_operation_does_what_it_says() -> None:
    t = bank()
    orders = [
        ("causal", "1", {"op": "deposit", "amount": 50}, "ok", {"pt_1": 150}),
        ("total", "1", {"op": "withdraw", "amount": 30}, "ok", {"pt_1": 120}),
        ("total", "1", {"op": "withdraw", "amount": 500}, "refused", {"pt_1": 120}),
        ("total", "0 1", {"op": "transfer", "amount": 20, "to": "0"}, "ok", {"pt_1": 100, "pt_0": 120}),
        ("total", "0 1", {"op": "transfer", "amount": 121, "to": "1"}, "refused", {"pt_1": 100, "pt_0": 120}),
        ("total", "0", {"op": "interest", "amount": 250}, "ok", {"pt_0": 123}),
    ]
    for number, (guarantee, keys, order, outcome, balances) in enumerate(orders, 1):
        t.publish(f"c:{number}", "pt", guarantee, keys, **order)
        for replica in ("r1", "r2"):
            t.deliver(replica, f"c:{number}", tseq=number if guarantee == "total" else None)
            t.applied(replica, f"c:{number}", outcome, **balances)
    assert complaints(t) == []


def test_a_wrong_sum_names_what_was_held_and_what_should_be() -> None:
    t = bank()
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=50)
    t.deliver("r1", "c:1")
    t.applied("r1", "c:1", "ok", pt_1=151)
    assert complaints(t) == [
        ("bank_conserved", "r1 held 100 in pt#1 and holds 151 after c:1 (deposit of 50, ok); it should be 150")
    ]


def test_replicas_that_differ_at_a_total_are_named_but_not_between_totals() -> None:
    t = bank()
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=50)
    t.publish("d:1", "pt", "causal", "1", op="deposit", amount=7)
    t.publish("e:1", "pt", "total", "1", op="withdraw", amount=100)
    t.deliver("r1", "c:1")
    t.applied("r1", "c:1", pt_1=150)
    t.deliver("r1", "d:1")
    t.applied("r1", "d:1", pt_1=157)
    t.deliver("r1", "e:1")
    t.applied("r1", "e:1", pt_1=57)
    t.deliver("r2", "d:1")
    t.applied("r2", "d:1", pt_1=107)
    t.deliver("r2", "e:1")
    t.applied("r2", "e:1", pt_1=7)
    found = complaints(t)
    assert ("bank_balance", "after e:1, r2 holds 7 in pt#1, but r1 holds 57") in found
    assert {rule for rule, _ in found} == {"bank_balance"}


def test_a_replica_that_subscribed_later_is_not_compared() -> None:
    t = TraceBuilder()
    t.subscribe("r1", "pt")
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=50)
    t.subscribe("r2", "pt")
    t.publish("c:2", "pt", "total", "1", op="withdraw", amount=120)
    t.deliver("r1", "c:1")
    t.applied("r1", "c:1", pt_1=150)
    t.deliver("r1", "c:2")
    t.applied("r1", "c:2", pt_1=30)
    t.deliver("r2", "c:2")
    t.applied("r2", "c:2", "refused", pt_1=100)
    assert complaints(t) == []


def test_a_replica_of_one_side_of_a_transfer_is_not_compared() -> None:
    t = TraceBuilder()
    t.subscribe("r1", "#")
    t.subscribe("r2", "pt")
    t.publish("c:1", "fr", "causal", "1", op="deposit", amount=50)
    t.publish("c:2", "pt", "total", "1 fr#1", op="transfer", amount=120, to="1")
    t.deliver("r1", "c:1")
    t.applied("r1", "c:1", fr_1=150)
    t.deliver("r1", "c:2")
    t.applied("r1", "c:2", "ok", fr_1=30, pt_1=220)
    t.deliver("r2", "c:2")
    t.applied("r2", "c:2", "refused", fr_1=100, pt_1=100)
    assert complaints(t) == []


def test_a_replica_that_misses_a_later_operation_of_the_circle_is_not_compared() -> None:
    t = TraceBuilder()
    t.subscribe("r1", "#")
    t.subscribe("r2", "pt")
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=10)
    t.publish("c:2", "fr", "causal", "1", op="deposit", amount=50)
    t.publish("c:3", "pt", "total", "1 fr#1", op="transfer", amount=120, to="1")
    for name, balances in (("c:1", {"pt_1": 110}), ("c:2", {"fr_1": 150}), ("c:3", {"fr_1": 30, "pt_1": 230})):
        t.deliver("r1", name)
        t.applied("r1", name, "ok", **balances)
    t.deliver("r2", "c:1")
    t.applied("r2", "c:1", pt_1=110)
    t.deliver("r2", "c:3")
    t.applied("r2", "c:3", "refused", fr_1=100, pt_1=110)
    assert complaints(t) == []


def test_an_outcome_that_all_replicas_share_but_that_is_wrong_is_found_by_replay() -> None:
    t = bank()
    t.publish("c:1", "pt", "total", "1", op="withdraw", amount=30)
    for replica in ("r1", "r2"):
        t.deliver(replica, "c:1", tseq=1)
        t.applied(replica, "c:1", "refused", pt_1=100)
    assert complaints(t) == [
        (
            "bank_replay",
            "c:1 (withdraw of 30) ended 'refused' at r1, but executed in order it finds 100 in pt#1 and ends 'ok'",
        )
    ]


def test_a_claimed_order_that_would_have_ended_differently_is_found_by_replay() -> None:
    t = bank()
    t.publish("c:1", "pt", "total", "1", op="withdraw", amount=80)
    t.publish("d:1", "pt", "total", "1", op="withdraw", amount=80)
    for replica in ("r1", "r2"):
        t.deliver(replica, "c:1", tseq=2)
        t.applied(replica, "c:1", "ok", pt_1=20)
        t.deliver(replica, "d:1", tseq=1)
        t.applied(replica, "d:1", "refused", pt_1=20)
    found = [rule for rule, _ in complaints(t) if rule != "tseq"]
    assert found == ["bank_replay", "bank_replay"]


def test_a_claimed_order_against_real_time_is_named() -> None:
    t = bank()
    t.publish("c:1", "pt", "total", "1", op="interest", amount=1)
    for replica in ("r1", "r2"):
        t.deliver(replica, "c:1", tseq=5)
        t.applied(replica, "c:1", pt_1=100)
    t.receipt("c:1", "delivered")
    t.publish("d:1", "pt", "total", "1", op="interest", amount=1)
    for replica in ("r1", "r2"):
        t.deliver(replica, "d:1", tseq=4)
        t.applied(replica, "d:1", pt_1=100)
    assert [complaint for complaint in complaints(t) if complaint[0] != "tseq"] == [
        (
            "bank_realtime",
            (
                "d:1 was published after c:1 was delivered everywhere, but is ordered before it "
                "(tseq 4, not after 5; both name pt#1)"
            ),
        )
    ]


def test_the_first_balance_comes_from_the_run_and_is_10000_otherwise() -> None:
    t = bank()
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=50)
    t.deliver("r1", "c:1")
    t.applied("r1", "c:1", "ok", pt_1=150)
    assert not judge(Trace(t.rows, RunInfo(scenario={"bank_initial": 100}))).violated
    assert judge(Trace(t.rows, RunInfo())).violated
    rows = [*t.rows[:-1], change(t.rows[-1], attributes={"outcome": "'ok'", "pt|1": "10050"})]
    assert not judge(rows).violated


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"outcome": "maybe"}, "row 6: an applied row with the outcome 'maybe'"),
        ({"outcome": "ok", "pt|1": "1.5"}, "row 6: the balance of 'pt|1' is 1.5"),
        ({"outcome": "ok", "pt|1": "much"}, "row 6: attribute value 'much'"),
    ],
)
def test_books_that_cannot_be_read_are_refused(attributes: dict[str, str], reason: str) -> None:
    t = bank()
    t.publish("c:1", "pt", "causal", "1", op="deposit", amount=50)
    t.deliver("r1", "c:1")
    t.applied("r1", "c:1", "ok", pt_1=150)
    with pytest.raises(TraceError) as error:
        judge([*t.rows[:-1], change(t.rows[-1], attributes=attributes)])
    assert str(error.value).startswith(reason)


def with_an_eventual_deposit(t: TraceBuilder) -> None:
    """Which one replica executes before a withdrawal, and the other one after it."""
    t.publish("c:e1", "pt", "eventual", "1", op="deposit", amount=50)
    t.publish("d:1", "pt", "total", "1", op="withdraw", amount=120)
    t.deliver("r1", "c:e1")
    t.applied("r1", "c:e1", pt_1=150)
    t.deliver("r1", "d:1")
    t.applied("r1", "d:1", pt_1=30)
    t.deliver("r2", "d:1")
    t.applied("r2", "d:1", "refused", pt_1=100)
    t.deliver("r2", "c:e1")
    t.applied("r2", "c:e1", pt_1=150)


def test_balances_that_eventual_deposits_move_are_not_compared_at_totals() -> None:
    t = bank()
    with_an_eventual_deposit(t)
    verdict = judge(t.rows, bank_initial=100)
    assert not verdict.violated
    assert verdict.check("bank_balance").status == NOT_JUDGED


def test_accounts_without_eventual_deposits_are_compared_beside_those_with_them() -> None:
    t = bank()
    with_an_eventual_deposit(t)
    t.publish("d:2", "pt", "total", "7", op="withdraw", amount=10)
    for replica, cents in (("r1", 90), ("r2", 91)):
        t.deliver(replica, "d:2")
        t.applied(replica, "d:2", pt_7=cents)
    verdict = judge(t.rows, bank_initial=100)
    assert [a.rule for a in verdict.anomalies] == ["bank_conserved", "bank_balance"]
    assert verdict.check("bank_balance").reason == (
        "not judged in 1 circles of accounts in which eventual operations move money"
    )


def test_an_inquiry_about_a_balance_may_carry_anything() -> None:
    t = bank()
    t.publish("c:1", "pt", "total", "1", op="balance", amount="how much is it?")
    for replica in ("r1", "r2"):
        t.deliver(replica, "c:1")
        t.applied(replica, "c:1", pt_1=100)
    assert complaints(t) == []
