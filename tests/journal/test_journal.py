"""Records are appended, found again by position and time, and dropped when nobody needs them and they are too much."""

import errno
import os
import random
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.contract import Forget, Persist
from resprout.journal.interface import DiskError, Flush, JournalOptions, NotKeptError
from resprout.journal.journal import Records
from resprout.journal.reading import POINT_BYTES, open_reader
from resprout.sim.disk import VirtualFiles
from tests.journal.judge import proved
from tests.journal.stage import KEEPING, SMALL, contents, everything, fill, opened, records_of


def test_records_come_back_with_their_positions_and_times_across_segments_and_processes() -> None:
    files = VirtualFiles()
    journal = opened(files, KEEPING)
    expected: list[tuple[int, int, bytes]] = []
    for number in range(60):
        batch = [b"%d/%d" % (number, n) * 40 for n in range(number % 4)]
        first = journal.append(batch, 1_000 * number)
        expected += [(first + n, 1_000 * number, record) for n, record in enumerate(batch)]
    assert [position for position, _, _ in expected] == list(range(len(expected)))
    assert [(kept.position, kept.time_us, kept.record) for kept in everything(journal)] == expected
    assert len(journal.reader().indexes) > 3
    again = opened(files, KEEPING)
    assert (again.first, again.next, again.warning) == (0, len(expected), "")
    assert [(kept.position, kept.time_us, kept.record) for kept in everything(again)] == expected
    assert proved(contents(files)) == {position: record for position, _, record in expected}
    assert again.append([b"more"], 99_000) == len(expected)


def test_it_is_read_from_any_position_in_portions() -> None:
    journal = opened(VirtualFiles(), KEEPING)
    fill(journal, [[b"%3d" % (3 * n + m) * 30 for m in range(3)] for n in range(50)])
    reader = journal.reader()
    for position in range(150):
        portion = reader.read(position, 500)
        assert [kept.position for kept in portion] == list(range(position, position + len(portion)))
        assert portion[0].record == b"%3d" % position * 30
    assert reader.read(150) == []
    for position in (-1, 151):
        with pytest.raises(NotKeptError, match=f"position {position} is not kept; there are 0 to 150"):
            reader.read(position)


def test_a_reader_sees_what_was_there_when_it_was_made() -> None:
    journal = opened(VirtualFiles(), KEEPING)
    journal.append([b"a"], 1)
    reader = journal.reader()
    fill(journal, [[b"b" * 3_000]] * 5)
    assert [kept.record for kept in reader.all_from(0)] == [b"a"] and reader.end == 1


def test_it_is_read_from_a_time() -> None:
    journal = opened(VirtualFiles(), JournalOptions(segment_bytes=4 * POINT_BYTES, retain_bytes=1 << 30))
    for number in range(200):
        journal.append([bytes(5_000)], 1_000 + 10 * number)
    journal.append([], 9_000)
    reader = journal.reader()
    assert reader.position_at(0) == 0
    for number in range(200):
        assert reader.position_at(1_000 + 10 * number) == number
        assert reader.position_at(1_000 + 10 * number - 9) == number
    assert reader.position_at(3_000) == 200 and reader.position_at(1 << 60) == 200


def test_times_never_go_back_though_clocks_do() -> None:
    files = VirtualFiles()
    journal = opened(files)
    journal.append([b"a"], 500)
    journal.append([b"b"], 100)
    again = opened(files, time_us=50)
    again.append([b"c"], 60)
    assert [kept.time_us for kept in everything(again)] == [500, 500, 500]


def test_what_its_owner_needs_is_kept_and_the_rest_goes_segment_by_segment() -> None:
    files = VirtualFiles()
    journal = opened(files)
    for number in range(300):
        journal.append([bytes(200)], number, floor=max(0, number - 9))
        assert journal.first <= max(0, number - 9)
        assert journal.size < 3 * SMALL.segment_bytes
    assert journal.first > 200
    again = opened(files)
    assert (again.floor, again.next) == (290, 300)
    assert {name.partition(".")[0] for name in files.names()} == {
        f"{index.base:020}" for index in again.reader().indexes
    }
    with pytest.raises(NotKeptError):
        again.reader().read(0)


def test_what_nobody_needs_is_retained_up_to_a_size_and_an_age() -> None:
    by_size = opened(VirtualFiles(), JournalOptions(segment_bytes=4_096, retain_bytes=20_000))
    by_age = opened(VirtualFiles(), JournalOptions(segment_bytes=4_096, retain_bytes=1 << 30, retain_us=50))
    for number in range(300):
        for journal in (by_size, by_age):
            journal.append([bytes(200)], number, floor=number)
    assert 15_000 < by_size.size <= 20_000 + 4_096 + 300
    assert 200 < by_age.first <= 250
    by_age.drop(10_000)
    assert by_age.first > 280
    assert by_age.reader().read(by_age.first)


def test_somebody_elses_need_holds_what_its_owner_does_not_need() -> None:
    journal = opened(VirtualFiles())
    journal.hold("reader", 30)
    for number in range(200):
        journal.append([bytes(200)], number, floor=number + 1)
    assert journal.first <= 30 and journal.reader().read(30)[0].position == 30
    journal.hold("reader", 150)
    journal.drop(0)
    assert 30 < journal.first <= 150
    journal.hold("reader", None)
    journal.drop(0)
    assert journal.first > 180


@pytest.mark.parametrize(("flush", "synced"), [(Flush.ALWAYS, 10), (Flush.INTERVAL, 0), (Flush.NEVER, 0)])
def test_the_flush_policy_says_what_a_loss_of_power_takes_back(flush: Flush, synced: int) -> None:
    files = VirtualFiles()
    journal = opened(files, JournalOptions(flush))
    fill(journal, [[b"x"]] * 10)
    assert journal.is_synced == (flush is Flush.ALWAYS)

    class Nothing(random.Random):
        def randint(self, low: int, high: int) -> int:
            return low

    files.crash(Nothing())
    journal = opened(files, JournalOptions(flush))
    assert journal.next == synced
    fill(journal, [[b"y"]] * 3)
    journal.sync()
    files.crash(Nothing())
    assert opened(files).next == synced + 3


def test_with_never_a_hole_that_a_loss_of_power_leaves_is_torn_and_not_spoiled() -> None:
    files = VirtualFiles()
    journal = opened(files, JournalOptions(Flush.NEVER))
    fill(journal, [[b"kept" * 5]] * 3)
    journal.sync()
    before = journal.size
    fill(journal, [[b"loose" * 5]] * 5)
    name = files.names()[0]
    files.spoil(name, before + 100, 0xFF)
    again = opened(files)
    assert again.next == 3 and "a write was torn" in again.warning


def test_after_a_write_error_the_journal_goes_on_from_its_last_whole_record() -> None:
    files = VirtualFiles()
    journal = opened(files)
    journal.append([b"before"], 0)
    for room in (0, 10, 40):
        files.room = room
        with pytest.raises(DiskError, match="No space left on device") as caught:
            journal.append([b"x" * 100], 0)
        assert caught.value.is_full and not caught.value.is_written
        assert journal.next == 1
    files.room = None
    assert journal.append([b"after"], 0) == 1
    assert [kept.record for kept in opened(files).reader().all_from(0)] == [b"before", b"after"]
    assert opened(files).warning == ""


def test_a_segment_that_cannot_be_begun_is_begun_when_there_is_room() -> None:
    files = VirtualFiles()
    journal = opened(files, JournalOptions(segment_bytes=4_096, retain_bytes=1 << 20))
    journal.append([b"x" * 5_000], 0)
    for room in range(0, 200, 7):
        files.room = room
        with pytest.raises(DiskError):
            journal.append([b"y" * 300], 0)
    files.room = None
    assert journal.append([b"z"], 0) == 1
    assert [kept.record for kept in opened(files).reader().all_from(0)] == [b"x" * 5_000, b"z"]


def test_what_a_failed_sync_may_have_lost_is_written_again() -> None:
    """As Linux does it: after a failed fsync the pages count as clean, and the next one succeeds without them."""
    files = VirtualFiles()
    journal = opened(files)
    journal.append([b"kept"], 0)
    name = files.names()[0]
    synced = files.size(name)

    def refuse(what: str, file: str) -> None:
        if what == "sync":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before = refuse
    with pytest.raises(DiskError) as caught:
        journal.append([b"lost by the system"], 0)
    assert caught.value.is_written and journal.next == 2
    files.before = lambda what, file: None
    files.truncate(name, synced)
    journal.sync()
    files.crash(Random(1))
    assert [kept.record for kept in opened(files).reader().all_from(0)] == [b"kept", b"lost by the system"]


def test_forgetting_makes_room_on_a_full_disk() -> None:
    files = VirtualFiles()
    records = Records(opened(files, JournalOptions(segment_bytes=4_096)))
    for _ in range(10):
        records.apply([Persist(b"x" * 2_000)], 0)
    before = len(files.names())
    files.room = 0
    with pytest.raises(DiskError):
        records.apply([Forget(1)], 0)
    assert len(files.names()) < before


@given(st.lists(st.one_of(st.binary(max_size=300), st.integers(0, 6)), max_size=60), st.integers(0, 5))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_whatever_is_kept_and_forgotten_the_journal_agrees_with_a_list(changes: list[bytes | int], every: int) -> None:
    files = VirtualFiles()
    records = Records(opened(files))
    model: list[bytes] = []
    for number, change in enumerate(changes):
        if isinstance(change, int):
            records.apply([Forget(change)], number)
            model = model[-change:] if change else []
        else:
            records.apply([Persist(change)], number)
            model.append(change)
        if every and number % every == 0:
            records = Records(opened(files))
        assert records.read() == model and len(records) == len(model)


def test_changes_of_one_step_are_applied_in_order() -> None:
    files = VirtualFiles()
    records = Records(opened(files))
    records.apply([Persist(b"a"), Persist(b""), Persist(b"c")], 0)
    records.apply([Forget(2), Persist(b"d")], 0)
    assert records.read() == [b"", b"c", b"d"]
    records.apply([Persist(b"e"), Forget(7), Forget(-1), Persist(b"f")], 0)
    assert Records(opened(files)).read() == [b"f"]


def test_somebody_else_may_read_while_it_is_written() -> None:
    files = VirtualFiles()
    with pytest.raises(NotKeptError, match="no journal is there"):
        open_reader(files)
    journal = opened(files, KEEPING)
    for number in range(40):
        journal.append([b"%4d" % number * 50], number)
        reader = open_reader(files)
        assert reader.end == number + 1
        assert [kept.position for kept in reader.all_from(0)] == list(range(number + 1))
    files.append(files.names()[-1], b"half a batch")
    assert open_reader(files).end == 40


def test_an_index_is_no_more_than_a_short_cut() -> None:
    files = VirtualFiles()
    journal = opened(files, KEEPING)
    fill(journal, [[b"%4d" % n * 50] for n in range(80)])
    whole = records_of(journal)
    indexes = [name for name in files.names() if name.endswith(".index")]
    assert len(indexes) > 2
    files.remove(indexes[0])
    files.spoil(indexes[1], 40, 1)
    files.truncate(indexes[2], 7)
    assert records_of(opened(files, KEEPING)) == whole
    assert open_reader(files).end == 80
