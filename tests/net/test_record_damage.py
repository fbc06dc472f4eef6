"""A write that a crash has torn is cut off; what the disk has spoiled is refused with its place, and nothing intact is
lost."""

import random
from pathlib import Path

import pytest

from resprout.cli.main import run as command
from resprout.core.contract import Forget, Persist
from resprout.core.errors import UsageError
from resprout.net.data_folder import open_folder
from resprout.net.record_damage import DamagedError
from resprout.net.record_format import HEAD_BYTES, HEADER_BYTES, MAGIC, survey
from resprout.net.records import open_records

SIZE = 20
"""Of each record."""


def record(number: int) -> bytes:
    return bytes([65 + number]) * SIZE


def five_writes(path: Path) -> list[int]:
    """A file of five records, one a write; where each of them begins, and the end."""
    file, _ = open_records(path)
    places = [path.stat().st_size]
    for number in range(5):
        file.apply([Persist(record(number))])
        places.append(path.stat().st_size)
    file.close()
    return places


def flip(path: Path, at: int) -> bytes:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)
    return bytes(content)


def reopened(path: Path) -> tuple[list[bytes], str]:
    file, warning = open_records(path)
    try:
        return file.read(), warning
    finally:
        file.close()


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("within", [0, 3, 4, 7, 12, HEADER_BYTES, HEADER_BYTES + SIZE - 1])
def test_a_flipped_byte_in_the_middle_is_refused_with_its_place_and_nothing_is_touched(
    number: int, within: int, tmp_path: Path
) -> None:
    path = tmp_path / "records"
    places = five_writes(path)
    content = flip(path, places[number] + within)
    with pytest.raises(DamagedError) as raised:
        open_records(path)
    said = str(raised.value)
    assert said.startswith(f"{path}: damaged at byte {places[number]} ({places[1] - places[0]} bytes); ")
    assert f"{number} before and {4 - number} behind are intact" in said
    assert f"`resprout mend {tmp_path}`" in said and "\n" not in said
    assert path.read_bytes() == content


@pytest.mark.parametrize("at", range(HEAD_BYTES))
def test_a_flipped_byte_in_the_head_is_no_torn_tail_either(at: int, tmp_path: Path) -> None:
    path = tmp_path / "records"
    five_writes(path)
    content = flip(path, at)
    with pytest.raises(DamagedError, match="damaged at byte 0"):
        open_records(path)
    assert path.read_bytes() == content


def test_several_damaged_places_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "records"
    places = five_writes(path)
    flip(path, places[1] + HEADER_BYTES)
    flip(path, places[3] + 1)
    with pytest.raises(DamagedError, match=f"damaged in 2 places from byte {places[1]} on .*, 1 before and 2 behind"):
        open_records(path)


def test_a_torn_write_is_cut_off_also_when_a_later_part_of_it_reached_the_disk(tmp_path: Path) -> None:
    """Pages of one write come to the disk in any order; nobody has relied on any of it."""
    path = tmp_path / "records"
    places = five_writes(path)
    file, _ = open_records(path)
    file.apply([Persist(b"a" * 50), Persist(b"b" * 50), Persist(b"c" * 50)])
    file.close()
    content = bytearray(path.read_bytes())
    begin = places[-1] + HEADER_BYTES + 50
    content[begin : begin + 40] = bytes(40)
    path.write_bytes(content)
    records, warning = reopened(path)
    assert records == [*map(record, range(5)), b"a" * 50]
    assert f"{path}: a write was torn by a crash; its {len(content) - begin} bytes, from {begin} on" in warning
    assert reopened(path) == (records, "")


def test_what_clients_publish_is_never_taken_for_a_record_behind_a_torn_one(tmp_path: Path) -> None:
    """A payload may hold whole entries, of another file or made up: their checksums have another seed."""
    path, other = tmp_path / "records", tmp_path / "other"
    places = five_writes(path)
    five_writes(other)
    file, _ = open_records(path)
    file.apply([Persist(other.read_bytes() * 20)])
    file.close()
    path.write_bytes(path.read_bytes()[:-7])
    assert reopened(path)[0] == [record(number) for number in range(5)]
    assert path.stat().st_size == places[-1]


def test_any_flipped_bit_is_refused_or_costs_at_most_the_last_write(tmp_path: Path) -> None:
    path = tmp_path / "records"
    rng = random.Random(13)
    file, _ = open_records(path)
    last = 0
    for number in range(30):
        last = path.stat().st_size
        file.apply([Persist(rng.randbytes(rng.randrange(60))), *([Forget(3)] if number % 7 == 6 else [])])
    whole = file.read()
    file.close()
    content = path.read_bytes()
    for at in range(len(content)):
        spoiled = bytearray(content)
        spoiled[at] ^= 1 << rng.randrange(8)
        path.write_bytes(spoiled)
        if at < last:
            with pytest.raises(DamagedError):
                open_records(path)
        else:
            assert reopened(path)[0] == whole[:-1]


def test_a_file_that_was_rewritten_knows_that_all_of_it_was_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resprout.net.records.COMPACT_BYTES_MIN", 100)
    path = tmp_path / "records"
    file, _ = open_records(path)
    file.apply([Persist(b"x" * 500), *(Persist(record(number)) for number in range(4)), Forget(3)])
    assert file.read() == [record(1), record(2), record(3)] and path.stat().st_size < 500
    file.close()
    content = flip(path, HEAD_BYTES + HEADER_BYTES)
    with pytest.raises(DamagedError, match="0 before and 2 behind are intact"):
        open_records(path)
    assert path.read_bytes() == content


def test_mending_keeps_what_is_intact_and_sets_the_damaged_file_aside(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records"
    places = five_writes(path)
    content = flip(path, places[2] + HEADER_BYTES + 5)
    with pytest.raises(UsageError, match="damaged at byte"):
        open_folder(tmp_path, "b1")
    assert command(["mend", str(tmp_path)]) == 0
    aside = tmp_path / "records.damaged-1"
    said = capfd.readouterr().out
    assert said == (f"{tmp_path}: 4 records are kept; the file with {places[1] - places[0]} damaged bytes is {aside}\n")
    assert aside.read_bytes() == content
    assert reopened(path) == ([record(number) for number in (0, 1, 3, 4)], "")
    assert command(["mend", str(tmp_path)]) == 0
    assert capfd.readouterr().out == f"{tmp_path}: not damaged; 4 records are kept there\n"
    open_folder(tmp_path, "b1").close()
    flip(path, HEAD_BYTES)
    assert command(["mend", str(tmp_path)]) == 0
    assert (tmp_path / "records.damaged-2").exists() and reopened(path)[0] == [record(n) for n in (1, 3, 4)]


def test_mending_refuses_what_is_no_data_folder_and_what_is_in_use(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(["mend", str(tmp_path)]) == 2
    assert "no data folder of a broker" in capfd.readouterr().err
    folder = open_folder(tmp_path / "b1", "b1")
    assert command(["mend", str(folder.path)]) == 2
    assert "another process uses this folder" in capfd.readouterr().err
    folder.close()


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(MAGIC.replace(b"2", b"1") + bytes(40))
    with pytest.raises(UsageError, match="is no file of records of this version"):
        open_records(path)


def test_a_survey_of_noise_finds_nothing_and_ends() -> None:
    noise = random.Random(5).randbytes(50_000)
    found = survey(noise, 7)
    assert (list(found.alive), found.end, found.holes) == ([], HEAD_BYTES, [])
