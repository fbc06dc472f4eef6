"""Messages with ids, and follow-ups: what the judge makes of single rows, and what it leaves alone."""

import random
import re

import pytest

from resprout.audit.judge import judge
from tests.audit.bruteforce_repeats import repeat_findings
from tests.audit.test_retries import RetryStory
from tests.soak import cases


class IdStory(RetryStory):
    def make(self, at: float, seq: int, id: str | None) -> None:
        what = {"publisher": "p", "incarnation": 1, "stream": "eventual", "seq": seq}
        about = {"message.id": f"'{id}'"} if id is not None else None
        self.add(at, "p", "publish", topic="t", keys=(), guarantee="eventual", attributes=about, **what)
        for receipt in ("accepted", "safe"):
            self.add(at, "p", "receipt", receipt=receipt, **what)

    def hand(self, at: float, name: str, seq: int, again: bool = False) -> None:
        what = {"publisher": "p", "incarnation": 1, "stream": "eventual", "seq": seq}
        about = {"durable": "d", **({"redelivered": "yes"} if again else {})}
        self.add(at, name, "handed", topic="t", keys=(), guarantee="eventual", position=0, attributes=about, **what)

    def ack(self, at: float, name: str, seq: int, **more: str) -> None:
        what = {"publisher": "p", "incarnation": 1, "stream": "eventual", "seq": seq}
        self.add(at, name, "acknowledged", attributes={"durable": "d", **more}, **what)

    def follow(self, at: float, seq: int, digest: str = "x", broker: str = "b1") -> None:
        about = {"follow_subscription": "'d'", "follow_id": f"'p.1/eventual:{seq}'"}
        what = {"publisher": f"follow-up.{digest}{seq}", "incarnation": 7, "stream": "eventual", "seq": 1}
        self.add(at, broker, "follow_up", topic="after/d", keys=(), guarantee="eventual", attributes=about, **what)

    def wrong(self) -> list[str]:
        self.add(1000, "", "quiescent")
        rows = sorted(self.rows, key=lambda row: row.time_us)
        return [each.explanation for each in judge(rows).anomalies if each.rule == "durable"]


def test_one_of_two_messages_with_an_id_is_enough_and_two_are_too_many() -> None:
    story = IdStory("a", "b")
    for seq, id in ((1, "x"), (2, "x"), (3, "y")):
        story.make(seq, seq, id)
    story.hand(4, "a", 1)
    story.ack(5, "a", 1)
    story.hand(6, "b", 3)
    story.ack(7, "b", 3)
    clean = list(story.rows)
    assert story.wrong() == []
    story.rows = clean
    story.hand(8, "b", 2)
    story.ack(9, "b", 2)
    assert story.wrong() == ["d: b was handed p:e2 at 8.000000 s, which repeats p:e1, handed out at 4.000000 s"]


def test_messages_that_all_have_one_id_and_of_which_none_was_handed_out_are_missing() -> None:
    story = IdStory("a")
    story.make(1, 1, "x")
    story.make(2, 2, "x")
    assert len(story.wrong()) == 2


def test_a_repeat_after_the_window_is_owed_and_may_be_handed_out() -> None:
    story = IdStory("a")
    story.make(1, 1, "x")
    story.hand(2, "a", 1)
    story.ack(3, "a", 1)
    story.make(200, 2, "x")
    missing = list(story.rows)
    assert [text[:30] for text in story.wrong()] == ["d: nobody was handed p:e2, pub"]
    story.rows = missing
    story.hand(201, "a", 2)
    story.ack(202, "a", 2)
    assert story.wrong() == []


@pytest.mark.parametrize("seed", range(cases(60, 400)))
def test_the_judge_agrees_with_the_definition(seed: int) -> None:
    """Messages are handed out and acknowledged in any way, once each or with `redelivered`, while a broker and
    consumers may die."""
    rng = random.Random(f"repeats {seed}")
    story = IdStory("a", "b", "c")
    step_s = rng.choice((1, 1, 20))
    at = 1.0
    open_to, gone = ["a", "b", "c"], set[str]()
    made: list[int] = []
    for seq in range(1, rng.randint(3, 8)):
        story.make(at, seq, rng.choice((None, "x", "x", "y")))
        made.append(seq)
        at += step_s * rng.random()
        if rng.random() < 0.2:
            story.add(at, "b0", "crash")
        if rng.random() < 0.15 and len(open_to) > 1:
            name = open_to.pop()
            gone.add(name)
            story.add(at, name, "crash")
    for seq in rng.sample(made, rng.randint(0, len(made))):
        at += step_s * rng.random()
        name = rng.choice(open_to)
        story.hand(at, name, seq, again=rng.random() < 0.5)
        story.ack(at + 0.1, name, seq)
        if rng.random() < 0.2 and len(open_to) > 1 and name == open_to[-1]:
            story.add(at + 0.2, open_to.pop(), "crash")
        if rng.random() < 0.2:
            story.add(at + 0.3, "b0", "crash")
    found = set()
    for text in story.wrong():
        if repeated := re.search(r"was handed p:e(\d+) at .*, which repeats", text):
            found.add(("repeated", int(repeated[1])))
        elif missing := re.search(r"nobody was handed p:e(\d+), published", text):
            found.add(("missing", int(missing[1])))
    assert found == repeat_findings(sorted(story.rows, key=lambda row: row.time_us))


def test_a_message_with_a_follow_up_is_processed_and_has_one() -> None:
    story = IdStory("a")
    story.make(1, 1, None)
    story.hand(2, "a", 1)
    story.follow(3, 1)
    story.ack(4, "a", 1, follow_up="yes")
    clean = list(story.rows)
    assert story.wrong() == []
    story.rows = [*clean, *story.rows[:0]]
    story.follow(5, 1, digest="other", broker="b2")
    assert story.wrong() == ["d: b2 published a second follow-up of p:e1 at 5.000000 s"]


def test_a_consumer_is_told_of_a_follow_up_that_there_is() -> None:
    story = IdStory("a")
    story.make(1, 1, None)
    story.hand(2, "a", 1)
    story.ack(4, "a", 1, follow_up="yes")
    assert story.wrong() == ["d: a was told that the follow-up of p:e1 is published; there is no follow-up"]


def test_a_follow_up_that_was_lost_with_its_broker_stands_for_nothing() -> None:
    story = IdStory("a", "b")
    story.make(1, 1, None)
    story.hand(2, "a", 1)
    story.add(2.5, "a", "crash")
    story.follow(3, 1)
    kept = list(story.rows)
    assert story.wrong() == []
    story.rows = kept
    story.add(4, "b1", "crash")
    assert story.wrong() == ["d: nobody was handed p:e1 after a, which is gone and has not acknowledged it"]


def test_a_follow_up_of_which_a_consumer_was_told_is_owed_to_others() -> None:
    story = IdStory("a")
    story.add(0, "r", "subscribe", filter="after/#")
    story.add(0, "r", "subscribed", filter="after/#")
    story.make(1, 1, None)
    story.hand(2, "a", 1)
    story.follow(3, 1)
    story.ack(4, "a", 1, follow_up="yes")
    story.add(5, "b1", "crash")
    story.add(1000, "", "quiescent")
    rows = sorted(story.rows, key=lambda row: row.time_us)
    assert "lost" in {each.rule for each in judge(rows).anomalies}
    untold = [row for row in rows if row.kind != "acknowledged"]
    assert "lost" not in {each.rule for each in judge(untold).anomalies}
