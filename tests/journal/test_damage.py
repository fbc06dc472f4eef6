"""A write that a crash has torn is cut off; what the disk has spoiled is refused with its place, and nothing intact is
lost."""

import random
from collections.abc import Sequence

import pytest

from resprout.journal.format import BATCH_BYTES, HEAD_BYTES, HEADER_BYTES, MAGIC, SegmentHead, survey
from resprout.journal.interface import DamagedError, DiskError, NotKeptError, segment_name
from resprout.journal.mending import mend
from resprout.sim.disk import VirtualFiles
from tests.journal.stage import KEEPING, contents, fill, opened, records_of

SIZE = 20
"""Of each record."""
WRITE = BATCH_BYTES + HEADER_BYTES + SIZE
FIRST = segment_name(0)


def record(number: int) -> bytes:
    return bytes([65 + number % 26]) * SIZE


def five_writes(records: Sequence[bytes] = tuple(map(record, range(5)))) -> VirtualFiles:
    """A journal of five records, one a write."""
    files = VirtualFiles()
    fill(opened(files), [[each] for each in records])
    return files


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("within", [0, 4, 7, 20, 21, BATCH_BYTES - 1, BATCH_BYTES, BATCH_BYTES + 5, WRITE - 1])
def test_a_flipped_byte_in_the_middle_is_refused_with_its_place_and_nothing_is_touched(
    number: int, within: int
) -> None:
    files = five_writes()
    at = HEAD_BYTES + number * WRITE
    files.spoil(FIRST, at + within, 0x10)
    before = contents(files)
    with pytest.raises(DamagedError) as raised:
        opened(files)
    is_batch = within < BATCH_BYTES
    begin, size = (at, BATCH_BYTES) if is_batch else (at + BATCH_BYTES, HEADER_BYTES + SIZE)
    behind = 5 - number if is_batch else 4 - number
    assert str(raised.value) == (
        f"disk/{FIRST}: damaged at byte {begin}, position {number} ({size} bytes); of its records, {number} before and"
        f" {behind} behind are intact"
    )
    assert contents(files) == before


@pytest.mark.parametrize("at", range(HEAD_BYTES))
def test_a_flipped_byte_in_the_head_is_no_torn_tail_either(at: int) -> None:
    files = five_writes()
    files.spoil(FIRST, at, 0x10)
    with pytest.raises(DamagedError, match="damaged at byte 0, position 0 "):
        opened(files)


def test_several_damaged_places_are_counted() -> None:
    files = five_writes()
    files.spoil(FIRST, HEAD_BYTES + WRITE + BATCH_BYTES, 1)
    files.spoil(FIRST, HEAD_BYTES + 3 * WRITE + WRITE - 1, 1)
    with pytest.raises(DamagedError, match=r"position 1, the first of 2 places .*, 1 before and 2 behind"):
        opened(files)


def test_a_torn_tail_is_cut_off_wherever_it_was_torn() -> None:
    whole = HEAD_BYTES + 5 * WRITE
    for length in range(whole, whole + WRITE):
        files = five_writes()
        opened(files).append([b"x" * SIZE], 0)
        files.truncate(FIRST, length)
        journal = opened(files)
        assert journal.next == 5
        assert (journal.warning == "") == (length == whole)
        if journal.warning:
            assert journal.warning == (
                f"disk/{FIRST}: a write was torn by a crash; its {length - whole} bytes, from {whole} on, at position"
                " 5, were cut off"
            )
        assert opened(files).warning == "", "once"
        opened(files).append([b"next"], 0)
        assert records_of(opened(files))[5] == b"next"


def test_a_torn_write_is_cut_off_also_when_a_later_part_of_it_reached_the_disk() -> None:
    """Pages of one write come to the disk in any order; nobody has relied on any of it."""
    files = five_writes()
    opened(files).append([b"a" * 50, b"b" * 50, b"c" * 50], 0)
    whole = HEAD_BYTES + 5 * WRITE
    for at in range(30):
        files.spoil(FIRST, whole + BATCH_BYTES + HEADER_BYTES + 50 + at, 0xFF)
    journal = opened(files)
    assert journal.next == 5 and f"from {whole} on" in journal.warning


def test_what_clients_publish_is_never_taken_for_a_record_behind_a_torn_one() -> None:
    """A payload may hold whole entries, of another journal or made up: their checksums have another seed."""
    other = VirtualFiles()
    rng = random.Random(3)
    from resprout.journal.interface import JournalOptions
    from resprout.journal.journal import open_journal

    fill(open_journal(other, JournalOptions(), lambda: rng.getrandbits(32), 0), [[record(n)] for n in range(5)])
    files = five_writes()
    opened(files).append([contents(other)[FIRST] * 20], 0)
    files.truncate(FIRST, files.size(FIRST) - 7)
    assert list(records_of(opened(files)).values()) == [record(number) for number in range(5)]


def test_mending_keeps_positions_and_sets_the_damaged_segment_aside() -> None:
    files = five_writes()
    files.spoil(FIRST, HEAD_BYTES + 2 * WRITE + BATCH_BYTES + HEADER_BYTES, 1)
    spoiled = contents(files)[FIRST]
    done = mend(files, lambda: 7)
    assert (done.records, done.damaged_bytes, done.missing) == (4, HEADER_BYTES + SIZE, ((2, 3),))
    assert done.asides == (f"{FIRST}.damaged-1",) and contents(files)[done.asides[0]] == spoiled
    journal = opened(files)
    assert records_of(journal) == {number: record(number) for number in (0, 1, 3, 4)}
    assert [kept.position for kept in journal.reader().read(2)] == [3, 4]
    assert mend(files, lambda: 7).asides == ()
    files.spoil(FIRST, HEAD_BYTES + BATCH_BYTES, 1)
    with pytest.raises(DamagedError, match="position 0"):
        opened(files)
    assert mend(files, lambda: 8).asides == (f"{FIRST}.damaged-2",)
    assert list(records_of(opened(files))) == [1, 3, 4]


def test_a_mended_segment_knows_that_all_of_it_was_on_the_disk() -> None:
    files = five_writes()
    files.spoil(FIRST, HEAD_BYTES + BATCH_BYTES, 1)
    mend(files, lambda: 7)
    files.spoil(FIRST, HEAD_BYTES + 3 * WRITE + BATCH_BYTES, 1)
    with pytest.raises(DamagedError, match="position 4 "):
        opened(files)


def three_segments() -> tuple[VirtualFiles, list[int]]:
    files = VirtualFiles()
    journal = opened(files, KEEPING)
    fill(journal, [[bytes([n]) * 900] for n in range(12)])
    return files, [index.base for index in journal.reader().indexes]


def test_damage_in_a_sealed_segment_is_found_when_it_is_read_and_the_rest_can_be_read() -> None:
    files, bases = three_segments()
    files.spoil(segment_name(bases[1]), HEAD_BYTES + 500, 1)
    reader = opened(files, KEEPING).reader()
    assert [kept.position for kept in reader.read(0, 1)] == [0]
    assert reader.read(bases[2])
    with pytest.raises(DamagedError, match=f"{segment_name(bases[1])}: damaged at byte .*, position {bases[1]} "):
        reader.read(bases[1])


def test_a_segment_that_is_missing_or_short_is_a_gap_that_is_told_and_mended() -> None:
    files, bases = three_segments()
    assert len(bases) == 3
    files.remove(segment_name(bases[1]))
    with pytest.raises(DamagedError, match=f"position {bases[1]}, and the next segment begins at position {bases[2]}"):
        opened(files, KEEPING)
    assert mend(files, lambda: 9).missing == ((bases[1], bases[2]),)
    assert list(records_of(opened(files, KEEPING))) == [*range(bases[1]), *range(bases[2], 12)]
    files, bases = three_segments()
    files.truncate(segment_name(bases[0]), files.size(segment_name(bases[0])) - 3)
    with pytest.raises(DamagedError, match=f"position {bases[1] - 1} "):
        opened(files, KEEPING)
    mend(files, lambda: 9)
    assert list(records_of(opened(files, KEEPING))) == [n for n in range(12) if n != bases[1] - 1]


def test_a_segment_of_which_nothing_can_be_read_is_set_aside_with_all_that_was_in_it() -> None:
    files, bases = three_segments()
    for at in range(len(MAGIC), HEAD_BYTES):
        files.spoil(segment_name(bases[1]), at, 0xFF)
    done = mend(files, lambda: 9)
    assert done.missing == ((bases[1], bases[2]),)
    assert list(records_of(opened(files, KEEPING))) == [*range(bases[1]), *range(bases[2], 12)]


def test_what_is_no_journal_is_refused_and_what_its_maker_did_not_finish_is_made_again() -> None:
    files = VirtualFiles()
    with pytest.raises(NotKeptError, match="no journal is there"):
        mend(files, lambda: 1)
    files.create(FIRST)
    files.append(FIRST, MAGIC[:5])
    opened(files).append([b"x"], 0)
    assert records_of(opened(files)) == {0: b"x"}
    files.create(FIRST)
    files.append(FIRST, b"#!/bin/sh\nexit\n" * 20)
    with pytest.raises(DamagedError, match="is no segment of a journal of this version"):
        opened(files)


def test_a_survey_of_noise_finds_nothing_and_ends() -> None:
    noise = random.Random(5).randbytes(50_000)
    found = survey(noise, SegmentHead(7, 0, 0, 0), is_sealed=False)
    assert (found.stretches, found.end, found.holes) == ([], HEAD_BYTES, [])


def test_mending_without_room_says_how_much_it_needs_and_changes_nothing() -> None:
    files = five_writes()
    files.spoil(FIRST, HEAD_BYTES + WRITE, 0x10)
    before = contents(files)
    with pytest.raises(DiskError, match=r"(\d+) bytes are needed .* and 10 are free: make room") as caught:
        mend(files, lambda: 1, lambda: 10)
    assert caught.value.is_full and contents(files) == before
    files.room = 10
    with pytest.raises(DiskError, match="No space left"):
        mend(files, lambda: 1)
    assert contents(files) == before, "the draft is gone"
    files.room = None
    assert mend(files, lambda: 1).records >= 3
