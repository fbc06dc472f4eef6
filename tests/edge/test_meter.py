"""What is counted of what passes a broker, and what is remembered of it."""

from typing import Any

from resprout.core.bundle import Bundle
from resprout.core.contract import Effect, EndCause, Event, LinkDown, Received, Send, TimerFired
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.meter import BOUNDS_US, NAMED_MAX, TOGETHER, Meter, Passages, TrafficTally
from resprout.edge.messages import Delivery, Publish, PublishRefused, SubscribeRefused, Taken, Turned
from resprout.order.messages import Forward

SAFE, DELIVERED = ReceiptLevel.SAFE, ReceiptLevel.DELIVERED


class Scripted:
    """Answers each event with what it was told to."""

    def __init__(self) -> None:
        self.answer: list[Effect] = []

    def start(self, now_us: int) -> list[Effect]:
        return []

    def step(self, event: Event, now_us: int) -> list[Effect]:
        answer, self.answer = self.answer, []
        return answer


class Stage:
    def __init__(self, **options: Any) -> None:
        self.machine = Scripted()
        self.tally = TrafficTally()
        self.passages = Passages()
        self.meter = Meter(self.machine, self.tally, self.passages, tuple(ReceiptLevel), **options)

    def hear(self, peer: str, message: Any, now_us: int, *said: tuple[str, Any]) -> None:
        self.machine.answer = [Send(name, one) for name, one in said]
        self.meter.step(Received(peer, message), now_us)


def bundle(first: int, count: int = 1, publisher: str = "p") -> Bundle:
    return Bundle(publisher, 7, first, count, 1, "t", (), Guarantee.CAUSAL, b"", b"x" * count)


def given(one: Bundle) -> Delivery:
    return Delivery(one, 0, 0, None)


def test_messages_are_counted_wherever_they_come_from_and_go() -> None:
    stage = Stage()
    first, second = bundle(1, 5), bundle(1, 2, "q")
    stage.hear("p", Publish(first), 1_000, ("c", given(first)), ("d", given(first)), ("b1", Forward(first, 1)))
    stage.hear("b2", Forward(second, 1), 2_000, ("c", given(second)), ("c", Turned("ordered", SAFE, 1)))
    stage.hear("c", Taken(2), 3_000)
    stage.meter.fold()
    tally = stage.tally
    assert (tally.published, tally.delivered, tally.carried, tally.passed_on) == (5, 12, 2, 5)
    assert tally.published_bytes == first.cost and tally.delivered_bytes == 2 * first.cost + second.cost


def test_a_receipt_counts_all_publications_that_it_speaks_of_once() -> None:
    stage = Stage()
    stream = bundle(1).stream
    stage.hear("p", Publish(bundle(101, 10)), 0)  # what came before it was published elsewhere
    stage.hear("p", Publish(bundle(111)), 10_000, ("p", Turned(stream, SAFE, 111)))
    stage.hear("p", Publish(bundle(112)), 20_000, ("p", Turned(stream, DELIVERED, 112, first=112)))
    stage.meter.fold()
    assert (stage.tally.safe, stage.tally.spread) == (11, 0)
    stage.hear("c", Taken(1), 30_000, ("p", Turned(stream, DELIVERED, 112)), ("p", Turned(stream, DELIVERED, 112)))
    stage.meter.fold()
    assert (stage.tally.safe, stage.tally.spread) == (12, 12)
    stage.hear("c", Taken(1), 40_000, ("stranger", Turned(stream, DELIVERED, 1_000)))
    stage.meter.fold()
    assert stage.tally.spread == 12


def test_the_time_to_a_receipt_is_that_of_one_publication_in_a_while_slow_or_not() -> None:
    stage = Stage(timed_us=5_000)
    stream = bundle(1).stream
    for number, now_us in enumerate((0, 1_000, 2_000, 6_000, 7_000), 1):
        stage.hear("p", Publish(bundle(number)), now_us)
    stage.hear("c", Taken(1), 8_000, ("p", Turned(stream, SAFE, 5)))
    stage.hear("c", Taken(1), 9_000, ("p", Turned(stream, DELIVERED, 4, first=4)))
    stage.hear("c", Taken(1), 900_000, ("p", Turned(stream, DELIVERED, 5)))
    stage.meter.fold()
    assert sum(stage.tally.safe_latency.counts) == sum(stage.tally.spread_latency.counts) == 2
    assert stage.tally.safe_latency.sum_us == 8_000 + 2_000
    assert stage.tally.spread_latency.sum_us == 900_000 + 3_000
    assert stage.tally.spread_latency.counts[BOUNDS_US.index(1_000_000)] == 1


def test_what_is_refused_or_left_behind_waits_for_no_receipt() -> None:
    stage = Stage(timed_us=0)
    stream = bundle(1).stream
    refused = PublishRefused(stream, 1, 1, "no")
    stage.hear("p", Publish(bundle(1)), 0, ("p", refused), ("p", SubscribeRefused(1, "no")))
    stage.hear("p", Publish(bundle(2)), 1)
    stage.meter.step(LinkDown("p", "gone", EndCause.LOST), 2)
    stage.hear("c", Taken(1), 3, ("p", Turned(stream, DELIVERED, 2)))
    stage.meter.fold()
    assert (stage.tally.refused_publications, stage.tally.refused_subscriptions) == (1, 1)
    assert sum(stage.tally.safe_latency.counts) == stage.tally.spread == 0


def test_what_was_refused_is_not_counted_by_the_receipts_that_pass_over_it() -> None:
    stage = Stage()
    stream = bundle(1).stream
    stage.hear("p", Publish(bundle(1)), 0)
    stage.hear("p", Publish(bundle(2, 3)), 1, ("p", PublishRefused(stream, 2, 3, "no")))
    stage.hear("p", Publish(bundle(5)), 2, ("p", Turned(stream, DELIVERED, 5)))
    stage.meter.fold()
    assert (stage.tally.safe, stage.tally.spread) == (2, 2)


def test_a_passage_tells_whence_to_whom_and_when() -> None:
    stage = Stage(timed_us=0)
    first = bundle(1, 3)
    stage.hear("p", Publish(first), 1_000, ("b1", Forward(first, 1)), ("b2", Forward(first, 1)))
    stage.hear("b1", Taken(1), 4_000, ("c", given(first)), ("p", Turned(first.stream, SAFE, 3)))
    stage.hear("c", Taken(1), 9_000, ("p", Turned(first.stream, DELIVERED, 3)))
    stage.meter.fold()
    found = stage.passages.find(first.origin, 2)
    assert found is not None and (found.from_peer, found.is_own, found.topic) == ("p", True, "t")
    assert (found.passed_to, found.passed_us, found.readers, found.shown_us) == (["b1", "b2"], 1_000, ["c"], 4_000)
    assert (found.seen_us, found.safe_us, found.delivered_us) == (1_000, 4_000, 9_000)
    assert stage.passages.find(first.origin, 4) is None


def test_what_is_remembered_is_bounded_and_left_out_when_there_is_too_much_of_it() -> None:
    stage = Stage(fast_us=100)
    many = bundle(1)
    stage.hear("p", Publish(many), 0, *[(f"c{number}", given(many)) for number in range(1_000)])
    stage.meter.fold()
    found = stage.passages.find(many.origin, 1)
    assert found is not None and found.given == 1_000 and len(found.readers) == NAMED_MAX
    for number in range(2, 2 + TOGETHER):
        stage.hear("p", Publish(bundle(number)), number * 10)  # without being asked, and too fast
    assert stage.tally.published == 1 + TOGETHER and stage.passages.find(many.origin, 3) is None
    for number in range(100, 6_000):
        stage.hear("p", Publish(bundle(number)), number * 1_000)
    stage.meter.fold()
    assert stage.passages.find(many.origin, 1) is None and len(stage.passages.came) <= 4_096
    assert stage.passages.find(many.origin, 5_999) is not None


def test_a_machine_is_not_changed_by_being_counted() -> None:
    stage = Stage()
    answer: list[Effect] = [Send("c", Taken(1))]
    stage.machine.answer = answer
    assert stage.meter.step(TimerFired(None), 0) is answer  # type: ignore[arg-type]
    assert stage.meter.latest_life("c") == 0
