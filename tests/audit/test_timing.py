"""Delayed messages, and messages that expire, as the judge sees them."""

from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, NOT_JUDGED, VIOLATED
from resprout.core.timing import DUE, EXPIRES, PUBLISHED
from resprout.trace.schema import Row
from tests.audit.trace_builder import TraceBuilder

WALL = 1_800_000_000_000_000
RULES = ("early", "expired", "lost", "receipt", "durable", "twice")


class Story(TraceBuilder):
    """Each row is at a time of its own."""

    def at(self, time_us: int) -> "Story":
        self._time_us = time_us
        return self

    def add(self, node: str, kind: str, **columns: Any) -> Row:
        row = Row(time_us=self._time_us, node=node, kind=kind, **columns)
        self.rows.append(row)
        return row

    def consumer(self, kind: str, name: str = "", **attributes: str) -> None:
        columns = {**self.identity(name), "topic": "t"} if name else {"filter": "t"}
        self.add("w", kind, attributes={"durable": "d", **attributes}, **columns)


def begun(guarantee: str = "eventual", /, **times: int) -> Story:
    """A message that `p` publishes at 100, for a plain subscriber and a durable subscription."""
    story = Story().at(10)
    story.subscribe("s", "t")
    story.consumer("consume")
    story.consumer("consuming")
    name = "p:e1" if guarantee == "eventual" else "p:1"
    attributes: dict[str, Any] = {PUBLISHED: WALL, **{key: WALL + us - 100 for key, us in times.items()}}
    story.at(100).publish(name, "t", guarantee, **attributes)
    return story


def broken(story: Story, clocks_us: int = 0) -> set[str]:
    rows = sorted([*story.rows, *story.at(20_000_000).quiescent()[-1:]], key=lambda row: row.time_us)
    return {anomaly.rule for anomaly in judge(rows, clocks_us=clocks_us).anomalies}


@pytest.mark.parametrize(("time_us", "rules"), [(499, {"early"}), (500, set()), (900, set())])
def test_a_delayed_message_is_not_delivered_before_its_time(time_us: int, rules: set[str]) -> None:
    story = begun(**{DUE: 500})
    story.at(time_us).deliver("s", "p:e1")
    story.consumer("handed", "p:e1")
    story.consumer("acknowledged", "p:e1")
    assert broken(story) == rules


@pytest.mark.parametrize(("time_us", "rules"), [(499, set()), (500, {"expired"})])
def test_an_expired_message_is_not_delivered(time_us: int, rules: set[str]) -> None:
    story = begun(**{EXPIRES: 500})
    story.at(time_us).deliver("s", "p:e1")
    story.consumer("handed", "p:e1")
    story.consumer("acknowledged", "p:e1")
    assert broken(story) == rules
    assert broken(story, clocks_us=1) == set()


@pytest.mark.parametrize(("time_us", "rules"), [(499, {"expired"}), (500, set())])
def test_an_expired_message_is_not_owed_where_the_client_was_told(time_us: int, rules: set[str]) -> None:
    story = begun(**{EXPIRES: 500})
    story.at(time_us).add("s", "expired", **story.identity("p:e1"))
    assert broken(story) == rules


def test_a_client_must_not_leave_out_a_message_without_expiry() -> None:
    story = begun()
    story.at(200).add("s", "expired", **story.identity("p:e1"))
    assert broken(story) == {"expired", "durable"}
    checks = {check.rule: check.status for check in judge(story.quiescent()).checks}
    assert checks["expired"] == VIOLATED


def test_a_message_is_not_delivered_after_the_client_said_that_it_expired() -> None:
    story = begun(**{EXPIRES: 500})
    story.at(500).add("s", "expired", **story.identity("p:e1"))
    story.at(501).deliver("s", "p:e1")
    assert broken(story, clocks_us=5) == {"twice"}


def test_delivered_may_not_come_before_an_ordered_message_whatever_it_says_when_it_is_due() -> None:
    story = begun("causal", **{DUE: 500})
    story.at(200).receipt("p:1", "delivered")
    story.at(500).deliver("s", "p:1")
    story.consumer("handed", "p:1")
    story.consumer("acknowledged", "p:1")
    assert broken(story) == {"receipt"}


def test_a_message_that_is_missing_without_a_word_is_lost_whatever_its_expiry() -> None:
    assert broken(begun(**{EXPIRES: 500})) == {"lost"}, "the durable subscription may leave it out"
    assert broken(begun(**{DUE: 500})) == {"lost", "durable"}
    assert broken(begun(**{EXPIRES: 30_000_000})) == {"lost", "durable"}


def test_delivered_may_come_before_a_delayed_message() -> None:
    story = begun(**{DUE: 500})
    story.at(200).receipt("p:e1", "delivered")
    story.at(500).deliver("s", "p:e1")
    story.consumer("handed", "p:e1")
    story.consumer("acknowledged", "p:e1")
    assert broken(story) == set()


def test_an_ordered_message_is_not_delayed() -> None:
    story = begun("causal", **{DUE: 500})
    story.at(200).deliver("s", "p:1")
    story.consumer("handed", "p:1")
    story.consumer("acknowledged", "p:1")
    assert broken(story) == set()


def test_a_trace_without_times_says_so() -> None:
    for story, status in ((begun(), NOT_JUDGED), (begun(**{DUE: 500}), CLEAN)):
        checks = {check.rule: check.status for check in judge(story.quiescent()).checks}
        assert checks["early"] == checks["expired"] == status
