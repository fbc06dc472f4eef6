"""What tasks read of a journal, and what a query is told that cannot have all of it."""

import re

import pytest

from resprout.client.past_events import Offset
from resprout.edge.messages import EventGap
from resprout.spark.journal import JournalView, must_not_lose
from resprout.spark.options import (
    DataLossError,
    JournalOffset,
    JournalRange,
    SourceError,
    SourceOptions,
    ranges_between,
    source_options,
    split,
)
from resprout.spark.reading import StreamProgress, batch_ranges
from tests.spark.shelf import Shelf, event, of_lives


def test_a_new_life_is_a_range_of_its_own() -> None:
    start, end = JournalOffset("j", ((7, 40),)), JournalOffset("j", ((7, 45), (9, 52)))
    assert ranges_between(start, end) == [JournalRange("j", 7, 40, 45), JournalRange("j", 9, 45, 52)]
    assert ranges_between(end, end) == []


@pytest.mark.parametrize("least", [1, 2, 3, 7, 50])
def test_parts_of_ranges_are_the_whole_and_never_empty(least: int) -> None:
    ranges = [JournalRange("j", 7, 10, 15), JournalRange("j", 9, 15, 16)]
    parts = split(ranges, least)
    assert [position for part in parts for position in range(part.start, part.end)] == list(range(10, 16))
    assert all(part.size for part in parts) and len(parts) >= min(least, 6)
    assert all(part.life == (7 if part.start < 15 else 9) for part in parts)
    assert split(parts[:0], least) == []


@pytest.mark.parametrize("lives", [(1,), (1, 1), (1, 2), (1, 2, 2, 2, 5, 5), (1, 2, 3, 4), (3,) * 40 + (4,) + (6,) * 9])
def test_lives_are_found_without_reading_everything(lives: tuple[int, ...]) -> None:
    shelf = Shelf(of_lives(*lives))
    found = JournalView(shelf, ("nothing/of/it",), None).lives("tap.1", 0, len(lives))
    assert found == tuple((life, lives.index(life) + lives.count(life)) for life in dict.fromkeys(lives))
    assert len(shelf.asked) <= 2 + 8 * len(set(lives))


def test_a_range_is_read_page_by_page_and_not_beyond_its_end() -> None:
    shelf = Shelf([event(position, topic="ab"[position % 2]) for position in range(20)])
    view = JournalView(shelf, ("b",), None)
    pages = list(view.pages(JournalRange("tap.1", 7, 4, 13), must_not_lose))
    assert [each.position for page in pages for each in page] == [5, 7, 9, 11]
    assert [request.position for request in shelf.asked] == [4, 7, 10]


def test_what_retention_took_is_named_and_the_rest_is_read_if_that_is_wanted() -> None:
    shelf = Shelf([event(position) for position in range(20)])
    shelf.drop(10)
    view = JournalView(shelf, ("#",), None)
    wanted = JournalRange("tap.1", 7, 4, 13)
    complaint = "positions 4 to 9 of tap.1 are not kept any more, and were not read; there are 10 to 19"
    with pytest.raises(DataLossError, match=re.escape(complaint)):
        list(view.pages(wanted, must_not_lose))
    said: list[str] = []
    assert [each.position for page in view.pages(wanted, said.append) for each in page] == [10, 11, 12]
    assert said == [complaint]
    assert list(view.pages(JournalRange("tap.1", 7, 2, 4), said.append)) == [] and "positions 2 to 3" in said[1]
    with pytest.raises(DataLossError, match=r"positions 20 to 24 of tap\.1 are gone"):
        list(view.pages(JournalRange("tap.1", 7, 19, 25), must_not_lose))


OPTIONS = {"servers": "b0", "subscribe": "#"}


def options(**more: str) -> SourceOptions:
    return source_options(OPTIONS | more, is_stream="endingOffsets" not in more)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf(of_lives(*(7,) * 6))
    monkeypatch.setattr(
        "resprout.spark.reading.view_of", lambda options: JournalView(shelf, options.filters, options.where)
    )
    return shelf


def test_a_stream_begins_where_it_is_told_and_takes_no_more_than_it_may(shelf: Shelf) -> None:
    assert StreamProgress(options()).begin() == {"tap.1": {"7": 6}}
    assert StreamProgress(options(startingOffsets="1970-01-01T00:00:03Z")).begin() == {"tap.1": {"7": 3}}
    assert StreamProgress(options(startingOffsets="1971-01-01")).begin() == {"tap.1": {"7": 6}}
    assert StreamProgress(options(startingOffsets="tap.1@2")).begin() == {"tap.1": {"7": 2}}
    progress = StreamProgress(options(startingOffsets="earliest"))
    at = progress.begin()
    ends = [at := progress.advance(at, 4), at := progress.advance(at, 4), progress.advance(at, None)]
    assert ends == [{"tap.1": {"7": 4}}, {"tap.1": {"7": 6}}, {"tap.1": {"7": 6}}]
    assert progress.latest == {"tap.1": {"7": 6}}


def test_what_does_not_match_makes_no_batch_until_it_has_been_long(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = StreamProgress(options(subscribe="b"))
    start = progress.begin()
    shelf.events += [event(6), event(7)]
    assert progress.advance(start, None) == start
    shelf.asked.clear()
    shelf.events.append(event(8))
    assert progress.advance(start, None) == start
    assert [request.position for request in shelf.asked] == [-2, 8], "what was looked through is not looked at again"
    shelf.events.append(event(9, topic="b"))
    assert progress.advance(start, None) == {"tap.1": {"7": 10}}
    shelf.events.append(event(10))
    monkeypatch.setattr("resprout.spark.reading.IDLE_S", 0.0)
    assert progress.advance({"tap.1": {"7": 10}}, None) == {"tap.1": {"7": 11}}


def test_a_limit_counts_from_what_matches(shelf: Shelf) -> None:
    progress = StreamProgress(options(subscribe="b", startingOffsets="earliest"))
    shelf.events += [event(position, topic="b") for position in range(6, 12)]
    at = progress.begin()
    ends = [at := progress.advance(at, 4), at := progress.advance(at, 4), progress.advance(at, 4)]
    assert [end["tap.1"]["7"] for end in ends] == [10, 12, 12]


def test_what_comes_after_the_present_is_not_of_a_query_that_stops_there(shelf: Shelf) -> None:
    progress = StreamProgress(options(startingOffsets="earliest"))
    progress.stop_at_present()
    shelf.events += [event(6), event(7)]
    assert progress.advance(progress.begin(), None) == {"tap.1": {"7": 6}}
    assert progress.advance({"tap.1": {"7": 6}}, None) == {"tap.1": {"7": 6}}


def test_a_life_that_began_after_the_query_may_have_missed_something(shelf: Shelf) -> None:
    strict, easy = StreamProgress(options()), StreamProgress(options(failOnDataLoss="false"))
    start = strict.begin()
    shelf.events += [event(6), event(7, life=9), event(8, life=9)]
    with pytest.raises(DataLossError, match=r"tap\.1 began life 9 at position 7: what was published between"):
        strict.advance(start, None)
    assert strict.advance(start, 1) == {"tap.1": {"7": 7}}, "before that nothing is missing"
    assert easy.advance(start, None) == {"tap.1": {"7": 7, "9": 9}}
    began_later = StreamProgress(options(startingOffsets="earliest")).begin()
    with pytest.raises(DataLossError, match="began life 9 at position 7"):
        strict.advance(began_later, None)
    behind = StreamProgress(options(startingOffsets="tap.1@7"))
    assert behind.advance(behind.begin(), None) == {"tap.1": {"9": 9}}, "a query that begins behind it"


def test_a_gap_is_named_by_streams_and_batches_also_where_a_query_begins_with_it(shelf: Shelf) -> None:
    shelf.events += [event(6, life=9), event(7, life=9)]
    shelf.gaps[6] = EventGap(6, 7, 0, 0, "broker tap was down")
    for start in ("earliest", "tap.1@2", "tap.1@6"):
        stream = StreamProgress(options(startingOffsets=start))
        with pytest.raises(
            DataLossError, match=r"events between position 5 and position 7 are missing in tap\.1: broker tap was"
        ):
            stream.advance(stream.begin(), None)
        with pytest.raises(
            DataLossError, match=r"events between position 5 and position 7 are missing in tap\.1: broker tap was"
        ):
            batch_ranges(options(startingOffsets=start, endingOffsets="latest"))
    assert batch_ranges(options(startingOffsets="tap.1@7", endingOffsets="latest"))
    assert batch_ranges(options(startingOffsets="tap.1@1", endingOffsets="tap.1@6"))
    easy = options(startingOffsets="earliest", endingOffsets="latest", failOnDataLoss="false")
    assert sum(part.size for part in batch_ranges(easy)) == 8


def test_a_gap_at_the_end_of_a_journal_is_a_batch_though_no_row_follows_it(shelf: Shelf) -> None:
    stream = StreamProgress(options(subscribe="b"))
    start = stream.begin()
    shelf.events.append(event(6, life=9))
    shelf.gaps[6] = EventGap(6, 7, 1, 2, "down")
    with pytest.raises(DataLossError, match=r"are missing in tap\.1: down"):
        stream.advance(start, None)


def test_a_gap_that_is_still_open_is_told_to_queries_that_begin_or_end_at_the_latest_position(shelf: Shelf) -> None:
    shelf.events.append(event(6, topic="mark"))
    shelf.gaps[6] = EventGap(6, 7, 1, 0, "no room")
    shelf.has_open_gap = True
    stream = StreamProgress(options(subscribe="a"))
    start = stream.begin()
    assert start == {"tap.1": {"7": 6}}, "before the gap, because more is left out from now on"
    with pytest.raises(DataLossError, match=r"are missing in tap\.1: no room"):
        stream.advance(start, None)
    easy = StreamProgress(options(subscribe="a", failOnDataLoss="false"))
    reached = easy.advance(easy.begin(), None)
    assert reached == {"tap.1": {"7": 7}} == easy.advance(reached, None), "told once"
    (part,) = batch_ranges(options(startingOffsets="earliest", endingOffsets="latest", minPartitions="1"))
    view = JournalView(shelf, ("a",), None)
    with pytest.raises(DataLossError, match=r"are missing in tap\.1: no room"):
        list(view.pages(part, must_not_lose))
    shelf.has_open_gap = False
    shelf.events.append(event(7, topic="a"))
    assert easy.advance(reached, None) == {"tap.1": {"7": 8}}


def test_a_stream_that_was_overtaken_by_retention_ends_or_goes_on(shelf: Shelf) -> None:
    shelf.drop(3)
    start = {"tap.1": {"7": 1}}
    with pytest.raises(DataLossError, match=r"positions 1 to 2 of tap\.1"):
        StreamProgress(options()).advance(start, None)
    assert StreamProgress(options(failOnDataLoss="false")).advance(start, None) == {"tap.1": {"7": 6}}
    with pytest.raises(DataLossError, match="ends at position 6, and 9 had been reached"):
        StreamProgress(options()).advance({"tap.1": {"7": 9}}, None)
    assert StreamProgress(options(failOnDataLoss="false")).advance({"tap.1": {"7": 9}}, None) == {"tap.1": {"7": 6}}


def test_a_batch_lies_between_two_places_of_one_journal(shelf: Shelf) -> None:
    shelf.events += [event(6, life=9)]
    with pytest.raises(DataLossError, match="began life 9 at position 6"):
        batch_ranges(options(startingOffsets="tap.1@1", endingOffsets="latest"))
    easy = options(startingOffsets="tap.1@1", endingOffsets="latest", minPartitions="3", failOnDataLoss="false")
    assert batch_ranges(easy) == [
        JournalRange("tap.1", 7, 1, 2),
        JournalRange("tap.1", 7, 2, 4),
        JournalRange("tap.1", 7, 4, 6),
        JournalRange("tap.1", 9, 6, 7),
    ]
    assert batch_ranges(options(startingOffsets="tap.1@3", endingOffsets="tap.1@3")) == []
    with pytest.raises(SourceError, match="two journals"):
        batch_ranges(options(startingOffsets="tap.1@1", endingOffsets="tap.2@1"))
    shelf.drop(2)
    with pytest.raises(DataLossError, match="positions 1 to 1 of"):
        batch_ranges(options(startingOffsets="tap.1@1", endingOffsets="latest"))
    with pytest.raises(SourceError, match=r"another journal"):
        view = JournalView(shelf, ("#",), None)
        view.position_of(Offset("tap.2", 1), view.held(), must_not_lose)


def test_a_batch_that_begins_behind_its_end_is_refused(shelf: Shelf) -> None:
    behind = f"tap.1@{shelf.end + 1}"
    for start, end in ((behind, "latest"), ("tap.1@3", "tap.1@2")):
        with pytest.raises(SourceError, match="behind its end or endingOffsets"):
            batch_ranges(options(startingOffsets=start, endingOffsets=end))
    assert batch_ranges(options(startingOffsets=f"tap.1@{shelf.end}")) == [], "nothing is there yet"


def test_a_stream_waits_for_as_many_positions_as_a_micro_batch_should_have(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = options(startingOffsets="earliest", minOffsetsPerTrigger=str(shelf.end + 1), maxTriggerDelay="10s")
    stream = StreamProgress(wanted)
    now_s = [100.0]
    monkeypatch.setattr("resprout.spark.reading.time.monotonic", lambda: now_s[0])
    start = stream.begin()
    assert stream.advance(start, None) == start
    now_s[0] += 11
    late = stream.advance(start, None)
    assert late != start and stream.advance(late, None) == late
    shelf.events += [event(shelf.end + number, topic="a") for number in range(shelf.end + 1)]
    assert stream.advance(late, None) != late, "enough have come"
