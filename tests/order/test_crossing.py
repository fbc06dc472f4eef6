"""What crossed a link: both ends agree in counts when to forget it, and a liar is found out."""

import random

import pytest

from resprout.core.errors import PeerError
from resprout_lab.blocks.crossing import CrossedLink, Progress


class Thing:
    def __init__(self) -> None:
        self.needed_by: set[str] = set()

    def done_but_for(self, peer: str) -> bool:
        return self.needed_by <= {peer}


Link = CrossedLink[Thing]


def two_ends(count: int) -> tuple[Link, Link, list[Thing], list[Thing]]:
    """`count` things have gone from b1 to b2; neither end is through with them."""
    one, other = Link("b2"), Link("b1")
    here, there = [Thing() for _ in range(count)], [Thing() for _ in range(count)]
    for mine, theirs in zip(here, there, strict=True):
        mine.needed_by, theirs.needed_by = {"b0", "b2"}, {"b1", "reader"}
        one.sent.add(mine)
        other.received.add(theirs)
    return one, other, here, there


def test_what_has_arrived_is_told_at_once_and_only_once() -> None:
    one, other, here, _ = two_ends(2)
    report = other.report()
    assert report == Progress(2, 0, 0)
    assert one.hear(report) == (here, [])
    assert other.report() is None


def test_an_item_is_forgotten_when_both_sides_are_through_with_it_and_not_before() -> None:
    one, other, here, there = two_ends(2)
    there[0].needed_by = {"b1"}
    report = other.report()
    assert report == Progress(2, 1, 0)
    assert one.hear(report) == (here, [here[0]])
    assert list(one.sent.entries.values()) == here, "this side is not through with any"
    here[0].needed_by = {"b2"}
    told = one.report()
    assert told == Progress(0, 0, 1)
    assert other.hear(told) == ([], [there[0]])
    assert list(one.sent.entries) == list(other.received.entries) == [2]


def test_a_later_item_waits_for_those_before_it() -> None:
    _, other, _, there = two_ends(3)
    there[1].needed_by = there[2].needed_by = set()
    assert other.report() == Progress(3, 0, 0)
    there[0].needed_by = set()
    assert other.report() == Progress(3, 3, 0)


def test_nothing_is_said_of_what_has_not_left() -> None:
    one, _, here, _ = two_ends(3)
    for thing in here:
        thing.needed_by = set()
    assert one.report(left=1) == Progress(0, 0, 1)
    assert one.report(left=3) == Progress(0, 0, 3)


def test_what_the_other_end_may_not_have_is_known_when_the_link_ends() -> None:
    one, _, here, _ = two_ends(3)
    one.hear(Progress(2, 1, 0))
    assert one.sent.after(one.acknowledged) == here[2:]
    assert one.sent.after(one.sent.theirs) == here[1:]


@pytest.mark.parametrize(
    "wrong", [Progress(4, 0, 0), Progress(1, 0, 0), Progress(3, 4, 0), Progress(2, 3, 0), Progress(3, 0, 1)]
)
def test_counts_that_cannot_be_are_refused(wrong: Progress) -> None:
    one, _, _, _ = two_ends(3)
    one.hear(Progress(2, 1, 0))
    with pytest.raises(PeerError):
        one.hear(wrong)


def test_whatever_order_things_end_in_nothing_is_left_over() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        one, other, here, there = two_ends(rng.randint(1, 12))
        ends = [(thing.needed_by, name) for thing in (*here, *there) for name in sorted(thing.needed_by)]
        rng.shuffle(ends)
        for needed_by, name in ends:
            needed_by.discard(name)
            for left, right in ((one, other), (other, one)):
                if rng.random() < 0.5 and (report := left.report()) is not None:
                    right.hear(report)
        for left, right in ((one, other), (other, one), (one, other)):
            if (report := left.report()) is not None:
                right.hear(report)
        assert not one.sent.entries and not other.received.entries, seed
