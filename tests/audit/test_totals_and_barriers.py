"""Totals agree on their order, and divide everything else on their keys."""

import pytest

from resprout.audit.judge import judge
from tests.audit.trace_builder import TraceBuilder


def explained(t: TraceBuilder) -> dict[str, list[str]]:
    by_rule: dict[str, list[str]] = {}
    for a in judge(t.quiescent()).anomalies:
        by_rule.setdefault(a.rule, []).append(a.explanation)
    return by_rule


def two_subscribers() -> TraceBuilder:
    t = TraceBuilder()
    t.subscribe("s1", "#")
    t.subscribe("s2", "#")
    return t


def test_two_subscribers_that_disagree_on_two_totals_are_named() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "bank", "total", "k")
    t.deliver("s1", "c1:1", "c2:1")
    t.deliver("s2", "c2:1", "c1:1")
    assert explained(t) == {
        "total": [
            (
                "s1 delivered c1:1 at 0 before c2:1 at 1 (both name bank#k) and "
                "s2 delivered c2:1 at 0 before c1:1 at 1 (both name bank#k)"
            )
        ]
    }


def test_totals_without_a_common_key_need_no_common_order() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "bank", "total", "l")
    t.publish("c3:1", "bank", "total")
    t.deliver("s1", "c1:1", "c2:1", "c3:1")
    t.deliver("s2", "c3:1", "c2:1", "c1:1")
    assert explained(t) == {}


def test_a_key_of_another_topic_is_the_same_key_there() -> None:
    t = two_subscribers()
    t.publish("c1:1", "fr", "total", "pt#k")
    t.publish("c2:1", "pt", "total", "k")
    t.deliver("s1", "c1:1", "c2:1")
    t.deliver("s2", "c2:1", "c1:1")
    assert "both name pt#k" in explained(t)["total"][0]


def test_a_cycle_over_three_keys_that_no_two_subscribers_see_is_found() -> None:
    t = TraceBuilder()
    for n, topic in enumerate(("x", "y", "z")):
        t.subscribe(f"s{n}", topic)
    t.publish("c1:1", "x", "total", "k z#k")
    t.publish("c2:1", "x", "total", "k y#k")
    t.publish("c3:1", "y", "total", "k z#k")
    t.deliver("s0", "c1:1", "c2:1")
    t.deliver("s1", "c2:1", "c3:1")
    t.deliver("s2", "c3:1", "c1:1")
    (text,) = explained(t)["total"]
    assert [name in text for name in ("s0", "s1", "s2", "x#k", "y#k", "z#k")] == [True] * 6


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize("guarantee", ["fifo", "causal"])
def test_passing_a_total_on_a_common_key_violates_its_barrier(guarantee: str, claims: bool) -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    name = "c2:1"
    t.publish(name, "bank", guarantee, "k other")
    t.deliver("s1", name)
    t.deliver("s1", "c1:1", tseq=1 if claims else None)
    t.deliver("s2", "c1:1", tseq=1 if claims else None)
    t.deliver("s2", name)
    assert explained(t) == {
        "barrier": [
            (
                f"s1 delivered {name} at 0 before the total c1:1 at 1, but s2 delivered it at 1 after c1:1 at 0 "
                "(all name bank#k)"
            )
        ]
    }


def test_no_total_divides_eventual_publications() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:e1", "bank", "eventual", "k")
    t.deliver("s1", "c2:e1", "c1:1")
    t.deliver("s2", "c1:1", "c2:e1")
    assert explained(t) == {}


def test_a_late_joiner_that_saw_fewer_totals_is_no_violation() -> None:
    t = TraceBuilder()
    t.subscribe("s1", "bank")
    t.publish("c1:1", "bank", "total", "k")
    t.deliver("s1", "c1:1")
    t.publish("c2:1", "bank", "causal", "k")
    t.subscribe("s2", "bank")
    t.publish("c1:2", "bank", "total", "k")
    t.deliver("s1", "c2:1", "c1:2")
    t.deliver("s2", "c2:1", "c1:2")
    assert explained(t) == {}


def test_a_place_between_totals_that_nobody_else_saw_is_compared_by_their_order() -> None:
    """s1 got only the first total and s2 only the second; s3 shows which one is first."""
    t = TraceBuilder()
    t.subscribe("s1", "bank", where="n = 1 or n = 0")
    t.subscribe("s2", "bank", where="n = 2 or n = 0")
    t.subscribe("s3", "bank", where="n = 1 or n = 2")
    t.publish("c1:1", "bank", "total", "k", n=1)
    t.publish("c2:1", "bank", "total", "k", n=2)
    t.publish("c3:1", "bank", "causal", "k", n=0)
    t.deliver("s3", "c1:1", "c2:1")
    t.deliver("s1", "c3:1", "c1:1")
    t.deliver("s2", "c2:1", "c3:1")
    (text,) = explained(t)["barrier"]
    assert text == (
        "s1 delivered c3:1 at 0 before the total c1:1 at 1, but s2 delivered it at 1 after c2:1 at 0, "
        "and c1:1 is ordered before c2:1 (all name bank#k)"
    )


def test_totals_that_nobody_compared_do_not_bind_what_lies_between() -> None:
    t = TraceBuilder()
    t.subscribe("s1", "bank", where="n = 1 or n = 0")
    t.subscribe("s2", "bank", where="n = 2 or n = 0")
    t.publish("c1:1", "bank", "total", "k", n=1)
    t.publish("c2:1", "bank", "total", "k", n=2)
    t.publish("c3:1", "bank", "causal", "k", n=0)
    t.deliver("s1", "c3:1", "c1:1")
    t.deliver("s2", "c2:1", "c3:1")
    assert explained(t) == {}


def test_a_key_whose_totals_contradict_each_other_is_reported_once_and_its_barriers_are_left_out() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "bank", "total", "k")
    t.publish("c3:1", "bank", "causal", "k")
    t.deliver("s1", "c1:1", "c3:1", "c2:1")
    t.deliver("s2", "c2:1", "c3:1", "c1:1")
    verdict = judge(t.quiescent())
    assert [a.rule for a in verdict.anomalies] == ["total"]
    assert verdict.check("barrier").reason == "1 of 1 keys not judged: their totals contradict each other"


def test_places_against_a_right_order_are_wrong_places_and_no_disorder() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "bank", "total", "k")
    for s in ("s1", "s2"):
        t.deliver(s, "c1:1", tseq=9)
        t.deliver(s, "c2:1", tseq=3)
    assert explained(t) == {
        "tseq": [
            f"{s} delivered c2:1 at 1 after c1:1 at 0, though their places are 3 and 9 (both name bank#k)"
            for s in ("s1", "s2")
        ]
    }


def test_a_claim_that_two_totals_share_decides_nothing() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "bank", "total", "k")
    t.deliver("s1", "c1:1", "c2:1", tseq=1)
    t.deliver("s2", "c2:1", "c1:1", tseq=1)
    assert explained(t)["tseq"] == ["s1 was told that c2:1 has the place 1, which c1:1 has"]
    assert list(explained(t)) == ["total", "tseq"]


def test_each_total_has_a_place_of_its_own_also_where_they_share_no_key() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "shop", "total", "l")
    t.deliver("s1", "c1:1", "c2:1", tseq=4)
    assert explained(t) == {
        "tseq": ["s1 was told that c2:1 has the place 4, which c1:1 has"],
        "lost": explained(t)["lost"],
    }


def test_a_total_has_the_same_place_for_all_that_are_told_one() -> None:
    t = TraceBuilder()
    for n in (1, 2, 3):
        t.subscribe(f"s{n}", "#")
    t.publish("c1:1", "bank", "total", "k")
    for n, tseq in ((1, None), (2, 5), (3, 6)):
        t.deliver(f"s{n}", "c1:1", tseq=tseq)
    assert explained(t) == {"tseq": ["s3 was told that c1:1 has the place 6, but s2 that it has 5"]}


def test_totals_that_are_not_bound_to_each_other_come_in_any_order_whatever_their_places() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total", "k")
    t.publish("c2:1", "bank", "total", "l")
    t.publish("c3:1", "bank", "total")
    for name, tseq in (("c1:1", 3), ("c2:1", 2), ("c3:1", 1)):
        t.deliver("s1", name, tseq=tseq)
    for name, tseq in (("c3:1", 1), ("c2:1", 2), ("c1:1", 3)):
        t.deliver("s2", name, tseq=tseq)
    assert explained(t) == {}


def test_totals_of_one_topic_without_keys_are_in_one_order_and_divide_nothing() -> None:
    t = two_subscribers()
    t.publish("c1:1", "bank", "total")
    t.publish("c2:1", "bank", "total")
    t.publish("c3:1", "shop", "total")
    t.publish("c4:1", "bank", "causal", "k")
    t.deliver("s1", "c1:1", "c4:1", "c2:1", "c3:1")
    t.deliver("s2", "c3:1", "c2:1", "c4:1", "c1:1")
    assert explained(t) == {
        "total": [
            (
                "s1 delivered c1:1 at 0 before c2:1 at 2 (both name bank and no key) and "
                "s2 delivered c2:1 at 1 before c1:1 at 3 (both name bank and no key)"
            )
        ]
    }
