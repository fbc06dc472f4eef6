"""Messages that come back, and dead letters: what the judge makes of single rows, and what it leaves alone."""

from collections.abc import Callable

import pytest

from tests.audit.test_durable import Story

NOBODY_HAS_IT = "d: nobody was handed p:1 after a, which gave it back and has not acknowledged it"


class RetryStory(Story):
    """A group with a policy. Publications of `p` are numbered from 1, one per second."""

    def __init__(self, *consumers: str, **policy: int) -> None:
        super().__init__()
        self._about |= {name: str(value) for name, value in policy.items()}
        for name in consumers:
            self.begin(0, name)

    def handed_as(self, at: float, name: str, seq: int, delivery: int) -> None:
        about = {"durable": "d", **({"redelivered": "yes", "deliveries": str(delivery)} if delivery > 1 else {})}
        what = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": seq}
        self.add(at, name, "handed", topic="t", keys=(), guarantee="causal", position=0, attributes=about, **what)

    def says(self, at: float, name: str, kind: str, seq: int) -> None:
        what = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": seq}
        self.add(at, name, kind, attributes={"durable": "d"}, **what)

    def letter(self, at: float, seq: int, deliveries: int, digest: str = "x", broker: str = "b0") -> None:
        about = {"dead_subscription": "'d'", "dead_id": f"'p.1/ordered:{seq}'", "dead_deliveries": str(deliveries)}
        what = {"publisher": f"dead-letter.{digest}{seq}", "incarnation": 7, "stream": "eventual", "seq": 1}
        self.add(at, broker, "dead_letter", topic="dead/d", keys=(), guarantee="eventual", attributes=about, **what)
        if not any(row.kind == "acknowledged" or row.receipt == "delivered" for row in self.rows):
            of = {"publisher": "p", "incarnation": 1, "stream": "ordered", "seq": seq}
            self.add(at + 1, "p", "receipt", receipt="delivered", **of)


def test_a_message_that_comes_back_until_it_is_acknowledged_is_clean() -> None:
    story = RetryStory("a", "b", max_deliver=3)
    story.publish(1)
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "rejected", 1)
    story.handed_as(4, "b", 1, 2)
    story.says(5, "b", "rejected", 1)
    story.handed_as(6, "b", 1, 3)
    story.done(7, "b", 1)
    assert story.broken() == {}


def test_a_copy_that_waited_at_a_frozen_consumer_may_say_less_than_a_later_one() -> None:
    story = RetryStory("a", "b")
    story.publish(1)
    story.add(2, "a", "freeze")
    story.handed_as(7, "b", 1, 2)
    story.done(8, "b", 1)
    story.add(40, "a", "unfreeze")
    story.handed_as(40, "a", 1, 1)
    assert story.broken() == {}


def _count_too_low(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "rejected", 1)
    story.handed_as(4, "a", 1, 1)
    story.rows[-1].attributes["redelivered"] = "yes"  # type: ignore[index]
    story.done(5, "a", 1)
    return "d: a was handed p:1 at 4.000000 s, as delivery 1, after 1"


def _too_often(story: RetryStory) -> str:
    for delivery in range(1, 5):
        story.handed_as(delivery + 1, "a", 1, delivery)
        story.says(delivery + 1.5, "a", "rejected", 1)
    story.done(8, "a", 1)
    return "d: a was handed p:1 at 5.000000 s, for the 4th time; at most 3"


def _given_up_too_early(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "rejected", 1)
    story.letter(4, 1, 1)
    return "d: b0 published a dead letter of p:1 at 4.000000 s, after 1 deliveries, and no consumer had given it up"


def _handed_out_when_it_was_dead(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "terminated", 1)
    story.letter(4, 1, 1)
    story.handed_as(30, "a", 1, 2)
    story.done(31, "a", 1)
    return "d: a was handed p:1 at 30.000000 s, after its dead letter was published"


def _two_letters(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "terminated", 1)
    story.letter(4, 1, 1)
    story.letter(5, 1, 1, "y")
    return "d: b0 published a dead letter of p:1 at 5.000000 s, which is the second one"


def _of_what_was_done(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.done(3, "a", 1)
    story.letter(60, 1, 3)
    return "d: b0 published a dead letter of p:1 at 60.000000 s, which a had acknowledged at 3.000000 s"


def _of_what_nobody_published(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.done(3, "a", 1)
    story.letter(4, 9, 3)
    return "d: b0 published a dead letter of p:9 at 4.000000 s, which was not for the subscription"


def _rejected_and_forgotten(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "rejected", 1)
    return NOBODY_HAS_IT


def _given_up_without_a_letter(story: RetryStory) -> str:
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "terminated", 1)
    return NOBODY_HAS_IT


def _letter_that_never_came(story: RetryStory) -> str:
    story.add(0, "u", "subscribe", filter="dead/#")
    story.add(0, "u", "subscribed", filter="dead/#")
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "terminated", 1)
    story.letter(4, 1, 1)
    return "u never delivered dead-letter.x1:e1, published on dead/d at 4.000000 s"


@pytest.mark.parametrize(
    "spoil",
    [
        _count_too_low, _too_often, _given_up_too_early, _handed_out_when_it_was_dead, _two_letters, _of_what_was_done,
        _of_what_nobody_published, _rejected_and_forgotten, _given_up_without_a_letter, _letter_that_never_came,
    ],
)  # fmt: skip
def test_a_broken_promise_is_found(spoil: Callable[[RetryStory], str]) -> None:
    story = RetryStory("a", max_deliver=3)
    story.publish(1)
    text = spoil(story)
    found = story.broken()
    (rule,) = found
    assert rule == ("lost" if spoil is _letter_that_never_came else "durable")
    assert found[rule][0].startswith(text)


def test_what_was_not_acknowledged_in_time_and_never_comes_again_is_lost() -> None:
    story = RetryStory("a", ack_wait=5_000_000)
    story.publish(1)
    story.handed_as(2, "a", 1, 1)
    assert story.broken(200) == {"durable": [NOBODY_HAS_IT]}


@pytest.mark.parametrize("ended", [12, 200])
def test_it_is_not_lost_while_its_consumer_has_time_or_if_it_has_no_limit(ended: float) -> None:
    story = RetryStory("a", **({"ack_wait": 5_000_000} if ended == 12 else {"max_deliver": 3}))
    story.publish(1)
    story.handed_as(2, "a", 1, 1)
    assert story.broken(ended) == {}


@pytest.mark.parametrize("shaken", ["b0", "a"])
def test_a_count_may_be_lost_with_a_broker_and_not_with_a_consumer(shaken: str) -> None:
    story = RetryStory("a", "c", max_deliver=3)
    story.publish(1)
    story.handed_as(2, "a", 1, 1)
    story.add(3, shaken, "crash")
    story.handed_as(4, "c", 1, 1)
    story.rows[-1].attributes["redelivered"] = "yes"  # type: ignore[index]
    story.handed_as(40, "c", 1, 2)
    story.done(41, "c", 1)
    found = story.broken()
    assert bool(found) is (shaken == "a")


def test_a_dead_letter_may_be_published_again_by_the_next_broker() -> None:
    story = RetryStory("a", max_deliver=3)
    story.publish(1)
    story.handed_as(2, "a", 1, 1)
    story.says(3, "a", "terminated", 1)
    story.letter(4, 1, 1)
    story.add(5, "b0", "crash")
    story.letter(6, 1, 1, broker="b1")
    assert story.broken() == {}
