"""What people and programs are told."""

import json

from resprout.audit.judge import judge
from resprout.audit.mqtt import MQTT_RULES, NO_MQTT
from resprout.audit.records import listed
from resprout.audit.timing import NO_TIMES, TIMING_RULES
from resprout.audit.values import NO_VALUES, VALUE_RULES
from resprout.audit.verdict import NOT_JUDGED, RULES, UNFINISHED, VIOLATED, as_dict, lines
from resprout.trace.schema import Row
from tests.audit.trace_builder import TraceBuilder


def spoiled() -> TraceBuilder:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a", "fifo")
    t.publish("c:2", "a", "fifo")
    t.deliver("s", "c:2", "c:1")
    t.publish("c:3", "a")
    return t


def test_the_text_names_every_rule_and_ends_with_the_conclusion() -> None:
    text = lines(judge(spoiled().quiescent()))
    assert text[0] == "3 publications, 2 deliveries to 1 subscribers, 3 owed to 1 correct ones"
    assert [line.split()[0] for line in text[1:-1] if not line.startswith(" ")] == list(RULES)
    assert "    s delivered c:1 at 1 after c:2 at 0, though c published it first" in text
    assert text[-1] == "VIOLATED: 2 anomalies (lost, fifo)"


def test_a_clean_text_says_what_was_not_judged() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a", "total", "k")
    t.deliver("s", "c:1", tseq=1)
    t.receipt("c:1", "delivered")
    assert lines(judge(t.rows))[-1] == "clean, as far as it was judged (not: lost, lost_told)"
    assert lines(judge(t.quiescent()))[-1] == "clean"


def test_a_run_that_met_its_time_limit_is_unfinished_and_not_clean() -> None:
    """A repair that never ended read as clean, as far as it was judged."""
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:1", "a", "total", "k")
    t.deliver("s", "c:1", tseq=1)
    t.receipt("c:1", "delivered")
    rows = [*t.rows, Row(time_us=t.rows[-1].time_us + 1, node="world", kind="timeout")]
    verdict = judge(rows)
    assert verdict.unfinished and verdict.status == UNFINISHED
    assert lines(verdict)[-1] == (
        "UNFINISHED: the run met its time limit before it came to rest; no violation, as far as it was judged"
        " (not: lost, lost_told)"
    )
    assert as_dict(verdict)["verdict"] == "unfinished"
    assert not judge(t.rows).unfinished, "a trace without an end is of a run that somebody broke off"
    t.deliver("s", "c:1", tseq=1)
    assert judge([*t.rows, rows[-1]]).status == VIOLATED


def test_a_rule_that_nothing_could_break_is_not_called_clean() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    t.publish("c:e1", "a", "eventual", "k")
    t.publish("c:1", "a", "total")
    t.deliver("s", "c:e1")
    verdict = judge(t.quiescent())
    unjudged = {check.rule: check.reason for check in verdict.checks if check.status == NOT_JUDGED}
    assert {rule: reason for rule, reason in unjudged.items() if not rule.startswith(("bank_", "log_"))} == {
        "fifo": "no ordered publication was delivered",
        "causal": "no causal or total publication was delivered",
        "barrier": "no total that names a key was delivered",
        "total": "no total was delivered",
        "tseq": "the run claims no order of totals",
        "receipt": "no client got a receipt",
        "durable": "the trace holds no durable subscription",
        **dict.fromkeys(TIMING_RULES, NO_TIMES),
        **dict.fromkeys(VALUE_RULES, NO_VALUES),
        **dict.fromkeys(MQTT_RULES, NO_MQTT),
    }


def test_many_anomalies_of_a_rule_are_counted_for_people() -> None:
    t = TraceBuilder()
    t.subscribe("s", "a")
    for number in range(1, 31):
        t.publish(f"c:{number}", "a")
    text = lines(judge(t.quiescent()))
    assert "    ... and 20 more" in text


def test_the_data_form_holds_everything_and_is_json() -> None:
    verdict = judge(spoiled().quiescent())
    data = as_dict(verdict)
    assert json.loads(json.dumps(data)) == data
    assert data["verdict"] == "violated"
    assert [check["rule"] for check in data["checks"]] == list(RULES)
    assert data["anomalies"][0] == {
        "rule": "lost",
        "time_us": 6,
        "subscriber": "s",
        "messages": ["c:3"],
        "explanation": "s never delivered c:3, published on a at 0.000006 s, though its subscription a was confirmed "
        "before",
    }
    assert data["counts"]["owed"] == 3


def test_long_lists_keep_their_ends() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefg")) == "a, b, 4 more and g"
