"""Repeats are found by their numbers, however they are bundled, and come no further than their originals."""

from resprout.core.bundle import Bundle
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from tests.order.examples import bundle


def log_with(*spans: tuple[int, int]) -> tuple[Log, list[Entry]]:
    """A log with f = 1, whose entries came from a client here, go to one neighbour and have one reader each."""
    log = Log(1)
    return log, [log.append(numbers(*span), None, None, 0, 1, 0, ("reader",)) for span in spans]


def numbers(first: int, last: int) -> Bundle:
    return bundle(first, last - first + 1)


def test_the_original_of_a_repeat_is_the_entry_with_its_numbers() -> None:
    log, entries = log_with((1, 1), (2, 4), (5, 5))
    assert log.repeats.find_originals(numbers(2, 4)) == [entries[1]]
    assert log.repeats.find_originals(numbers(6, 6)) == []


def test_a_repeat_that_is_bundled_in_another_way_has_several_originals() -> None:
    log, entries = log_with((1, 1), (2, 4), (5, 5))
    assert log.repeats.find_originals(numbers(3, 5)) == entries[1:]
    assert log.repeats.find_originals(numbers(3, 3)) == entries[1:2]


def test_a_repeat_takes_a_level_when_the_readers_of_the_original_have_taken_it() -> None:
    log, (original,) = log_with((1, 1))
    link = Link("b1", 1, 1, None)
    repeat = log.append(numbers(1, 1), link, None, 1, 0, 0, ())
    log.repeats.follow(repeat, [original])
    log.held_back.pop()
    log.show(repeat)
    log.advance_repeats()
    assert repeat.level == 0 and log.repeats.has_unread(repeat.origin, 1)

    log.count_reach(original, 0)
    log.show(original)
    log.took(original)
    log.advance_repeats()
    assert original.level == repeat.level == 1
    assert not log.repeats.has_unread(repeat.origin, 1)


def test_what_has_left_the_log_is_not_found() -> None:
    log, (entry,) = log_with((1, 1))
    log.count_reach(entry, 0)
    log.show(entry)
    log.took(entry)
    log.count_level(entry, 1)
    assert entry.bundle is None
    assert log.repeats.find_originals(numbers(1, 1)) == []
