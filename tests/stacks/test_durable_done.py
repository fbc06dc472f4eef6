"""What brokers know to be done of a durable subscription, and what they believe of it."""

import random
from collections.abc import Iterable

import pytest

from resprout.core.errors import PeerError
from resprout.core.message_fields import MARKS_MAX, NUMBER_MAX, Mark
from resprout.edge.broker.queue_progress import SPANS_TOLD_MAX
from resprout.edge.durable_messages import NO_DROPS, Drops, Span
from resprout.stacks.resprout.durable_state import GAPS_MAX, DurableProgress, UnknownDone, check_progress


def mark(seq: int, publisher: str = "p") -> Mark:
    return Mark(publisher, "ordered", 1, seq)


def span(first: int, last: int, publisher: str = "p") -> Span:
    return Span(publisher, "ordered", 1, first, last)


def numbers(progress: DurableProgress) -> set[int]:
    spans = [(1, each.seq) for each in progress.marks()] + [(each.first, each.last) for each in progress.spans()]
    return {number for first, last in spans for number in range(first, last + 1)}


@pytest.mark.parametrize("seed", range(30))
def test_progress_is_exactly_what_was_told_in_any_order(seed: int) -> None:
    rng = random.Random(f"progress {seed}")
    progress, model, watermark = DurableProgress(), set[int](), 0
    for _ in range(60):
        if rng.random() < 0.3:
            watermark = max(watermark, seq := rng.randint(1, 80))
            told: tuple[Iterable[Mark], Iterable[Span]] = ((mark(seq),), ())
            added = set(range(1, seq + 1))
        else:
            first = rng.randint(1, 80)
            last = first + rng.randint(0, 6)
            told, added = ((), (span(first, last),)), set(range(first, last + 1))
        news = progress.add(*told)  # type: ignore[arg-type]
        assert any(news) == (bool(added - model) or bool(news[0])), "what is not new need not be written down"
        model |= added
        assert numbers(progress) == model
        assert [each.seq for each in progress.marks()] == ([watermark] if watermark else [])
        assert all(each.first > watermark for each in progress.spans())


def test_a_watermark_takes_what_lies_below_it() -> None:
    progress = DurableProgress()
    progress.add((), tuple([span(n, n) for n in range(2, 100, 2)]))
    progress.add((mark(97),))
    assert progress.spans() == (span(98, 98),)
    progress.add((mark(98),))
    assert progress.spans() == () and progress.marks() == (mark(98),)


def test_more_gaps_than_the_bound_are_not_kept_and_those_known_still_grow() -> None:
    progress = DurableProgress()
    progress.add((), tuple([span(2 * n, 2 * n) for n in range(1, GAPS_MAX + 50)]))
    assert len(progress.spans()) == GAPS_MAX
    assert progress.add((), (span(3, 3),))[1]
    assert len(progress.spans()) == GAPS_MAX - 1


@pytest.mark.parametrize(
    ("marks", "spans"),
    [
        ((), (span(0, 1),)),
        ((), (span(-5, 1),)),
        ((), (span(3, 2),)),
        ((), (span(1, NUMBER_MAX + 1),)),
        ((mark(0),), ()),
        ((mark(NUMBER_MAX + 1),), ()),
        ((mark(1),) * (MARKS_MAX + 1), ()),
        ((), (span(1, 1),) * (SPANS_TOLD_MAX + 1)),
    ],
)
def test_what_no_broker_says_is_a_fault_of_the_peer(marks: tuple[Mark, ...], spans: tuple[Span, ...]) -> None:
    check_progress((mark(1),), (span(2, 3),), Drops(3, 3))
    with pytest.raises(PeerError):
        check_progress(marks, spans, NO_DROPS)


def test_consumers_are_not_told_of_more_drops_than_there_were() -> None:
    with pytest.raises(PeerError, match="consumers were told of 4 dropped messages; 3 were dropped"):
        check_progress((), (), Drops(3, 4))


def test_what_may_not_be_known_is_remembered_for_two_turns() -> None:
    unknown = UnknownDone(0)
    unknown.note((mark(3),), (span(5, 6),))
    assert unknown.unshared() == ((mark(3),), (span(5, 6),))
    assert unknown.unshared() == ((), ())
    assert unknown.turn(10, 10) == ()
    unknown.note((mark(4),), (span(6, 8),))
    assert unknown.all() == ((mark(4),), (span(5, 8),))
    assert unknown.turn(20, 10) == (mark(3),)
    assert unknown.all() == ((mark(4),), (span(6, 8),))
