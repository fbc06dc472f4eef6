"""Runs are judged by what they promise: the scope of their order, certainty or probability, and their receipts."""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, MEASURED, NOT_JUDGED, VIOLATED, as_dict, lines
from resprout.core.guarantee import OrderScope, Promises, Reliability
from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, Trace
from tests.audit.trace_builder import TraceBuilder

ALL_TOPICS = Promises()
EACH_TOPIC = Promises(OrderScope.EACH_TOPIC)
PROBABLE = Promises(reliability=Reliability.PROBABLE)


def broken(rows: list[Row], promise: Promises) -> list[str]:
    return sorted({anomaly.rule for anomaly in judge(rows, promise=promise).anomalies})


def swapped(first: str, second: str, guarantee: str, keys: str = "") -> list[Row]:
    """Two publications of one client, delivered the other way round."""
    t = TraceBuilder()
    t.subscribe("s", "#")
    t.publish("c:1", first, guarantee, keys)
    t.publish("c:2", second, guarantee, keys)
    t.deliver("s", "c:2", "c:1")
    return t.quiescent()


# -- scope ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["fifo", "causal"])
def test_publications_of_different_topics_are_in_order_only_where_that_is_promised(guarantee: str) -> None:
    rules = ["fifo"] if guarantee == "fifo" else ["causal", "fifo"]
    assert broken(swapped("a", "b", guarantee), ALL_TOPICS) == rules
    assert broken(swapped("a", "b", guarantee), EACH_TOPIC) == []
    assert broken(swapped("a", "a", guarantee), EACH_TOPIC) == rules


def chain(middle: str) -> list[Row]:
    """c0's publication is in the past of c2's by way of another topic, and comes after it."""
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.subscribe("c1", "a")
    t.subscribe("c2", middle)
    t.publish("c0:1", "a")
    t.deliver("c1", "c0:1")
    t.publish("c1:1", middle)
    t.deliver("c2", *(["c0:1"] if middle == "a" else []), "c1:1")
    t.publish("c2:1", "a")
    t.deliver("s", "c2:1", *(["c1:1"] if middle == "a" else []), "c0:1")
    return t.quiescent()


def test_a_chain_that_leaves_the_topic_binds_nobody_where_order_holds_within_each() -> None:
    assert "causal" in broken(chain("b"), ALL_TOPICS)
    assert "causal" not in broken(chain("b"), EACH_TOPIC)
    assert "causal" in broken(chain("a"), EACH_TOPIC)


def disagreeing(topic: str, keys: str) -> list[Row]:
    """Two subscribers deliver two totals in different orders; the second one names a key of topic a."""
    t = TraceBuilder()
    t.subscribe("s", "#")
    t.subscribe("r", "#")
    t.publish("c:1", "a", "total", "k")
    t.publish("d:1", topic, "total", keys)
    t.deliver("s", "c:1", "d:1")
    t.deliver("r", "d:1", "c:1")
    return t.quiescent()


def test_a_key_of_another_topic_binds_only_where_order_holds_over_all() -> None:
    assert broken(disagreeing("b", "a#k"), ALL_TOPICS) == ["total"]
    assert broken(disagreeing("b", "a#k"), EACH_TOPIC) == []
    assert broken(disagreeing("a", "k"), EACH_TOPIC) == ["total"]


def divided(topic: str, keys: str) -> list[Row]:
    """A total divides another publication differently for two subscribers."""
    t = TraceBuilder()
    t.subscribe("s", "#")
    t.subscribe("r", "#")
    t.publish("c:1", "a", "total", "k")
    t.publish("d:1", topic, "fifo", keys)
    t.deliver("s", "c:1", "d:1")
    t.deliver("r", "d:1", "c:1")
    return t.quiescent()


def test_a_total_divides_what_names_its_key_in_its_own_topic() -> None:
    assert broken(divided("b", "a#k"), ALL_TOPICS) == ["barrier"]
    assert broken(divided("b", "a#k"), EACH_TOPIC) == []
    assert broken(divided("a", "k"), EACH_TOPIC) == ["barrier"]


def test_each_topic_has_places_of_its_own_where_order_holds_within_each() -> None:
    for second, rules in (("b", []), ("a", ["tseq"])):
        t = TraceBuilder()
        t.subscribe("s", "#")
        t.publish("c:1", "a", "total", "k")
        t.publish("d:1", second, "total", "l")
        t.deliver("s", "c:1", "d:1", tseq=7)
        rows = t.quiescent()
        assert broken(rows, ALL_TOPICS) == ["tseq"]
        assert broken(rows, EACH_TOPIC) == rules


def test_a_trace_says_itself_what_it_is_judged_by_and_all_topics_where_it_says_nothing() -> None:
    rows = swapped("a", "b", "fifo")
    assert not judge(Trace(rows, RunInfo(promise=EACH_TOPIC))).violated
    assert judge(Trace(rows, RunInfo())).violated


# -- probability ------------------------------------------------------------------------------------------------------


def one_of_four_missing(told: bool = False) -> list[Row]:
    t = TraceBuilder()
    t.subscribe("s", "a")
    for number in range(1, 5):
        t.publish(f"c:{number}", "a", "causal")
    t.deliver("s", "c:1", "c:3", "c:4")
    if told:
        t.add("s", "session_lost", detail="nobody could carry it on")
    return t.quiescent()


def test_what_is_missing_is_a_share_and_no_violation_where_probability_is_promised() -> None:
    verdict = judge(one_of_four_missing(), promise=PROBABLE)
    assert not verdict.violated and verdict.reliability == 0.75
    check = verdict.check("lost")
    assert (check.status, check.anomalies) == (MEASURED, 0)
    assert check.reason == "reliability 0.750000: 3 of 4 owed deliveries came"
    assert verdict.check("causal").status == CLEAN, "what depends on it came without it, which may be"
    text = lines(verdict)
    assert any(line.startswith("lost ") and "measured" in line and "3 of 4" in line for line in text)
    assert text[-1].endswith("; reliability 0.750000")
    assert next(c for c in as_dict(verdict)["checks"] if c["rule"] == "lost")["share"] == 0.75
    assert judge(one_of_four_missing()).check("lost").status == VIOLATED


def test_the_order_of_what_came_is_judged_all_the_same() -> None:
    assert broken(swapped("a", "a", "fifo"), PROBABLE) == ["fifo"]


def test_a_run_that_did_not_come_to_rest_has_no_reliability() -> None:
    verdict = judge(one_of_four_missing()[:-1], promise=PROBABLE)
    assert verdict.check("lost").status == NOT_JUDGED and verdict.reliability is None


def test_nothing_owed_is_perfectly_reliable() -> None:
    assert judge(TraceBuilder().quiescent(), promise=PROBABLE).reliability == 1.0


# -- losses that clients are told of ----------------------------------------------------------------------------------


def test_a_loss_that_the_client_was_told_of_is_not_a_silent_one() -> None:
    verdict = judge(one_of_four_missing(told=True))
    assert [a.rule for a in verdict.anomalies if a.rule.startswith("lost")] == ["lost_told"]
    assert verdict.counts["owed"] == 4 and verdict.counts["came"] == 3 and verdict.counts["told"] == 1
    [told] = [a.explanation for a in verdict.anomalies if a.rule == "lost_told"]
    assert told == (
        "s never delivered c:2, published on a at 0.000003 s, and was told at 0.000009 s that deliveries may be missing"
    )


def test_one_that_was_told_counts_for_the_reliability_and_is_named_there() -> None:
    verdict = judge(one_of_four_missing(told=True), promise=PROBABLE)
    assert not verdict.violated
    assert verdict.check("lost").reason == (
        "reliability 0.750000: 3 of 4 owed deliveries came; of 1 the client was told"
    )


def test_a_lost_session_owes_nothing_until_its_subscriptions_are_confirmed_anew() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.add("s", "session_lost")
    t.publish("c:1", "a")
    t.publish("c:2", "a")
    t.deliver("s", "c:2")
    assert judge([*t.rows, Row(time_us=9, node="world", kind="quiescent")]).anomalies == [], "asked for again, at once"
    t.add("s", "subscribed", filter="a")
    t.publish("c:3", "a")
    assert [a.messages for a in judge(t.quiescent()).anomalies if a.rule == "lost"] == [("c:3",)]


def test_what_was_asked_to_end_before_is_no_loss() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    t.add("s", "unsubscribe", filter="a")
    t.add("s", "session_lost")
    assert judge(t.quiescent()).anomalies == []


# -- receipts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "rules"),
    [(("accepted",), []), (("accepted", "safe"), ["receipt"]), (("accepted", "delivered"), ["receipt"])],
)
def test_only_a_receipt_that_is_promised_is_missed(given: tuple[str, ...], rules: list[str]) -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a")
    t.deliver("s", "c:1")
    t.receipt("c:1", "accepted")
    assert broken(t.quiescent(), Promises(receipts=given)) == rules
