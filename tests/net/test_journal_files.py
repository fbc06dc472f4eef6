"""Journals in real files: kill -9, a full disk and a read-only one lose nothing that was confirmed."""

import errno
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resprout.cli.main import run as command
from resprout.core.contract import Forget, Persist
from resprout.core.errors import UsageError
from resprout.journal.interface import DamagedError, DiskError, JournalOptions
from resprout.net.data_folder import JOURNAL, open_folder
from resprout.net.process import environment
from tests.journal.judge import proved

WRITER = """
import resource, signal, sys
from pathlib import Path
from resprout.core.contract import Persist
from resprout.journal.interface import DiskError
from resprout.journal.interface import JournalOptions
from resprout.net.data_folder import open_folder

path, flush, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
folder = open_folder(path, "b1", JournalOptions(flush, segment_bytes=16_384, retain_bytes=1 << 30))
number = folder.records.journal.next
try:
    while True:
        batch = [b"%d " % n * (n % 50) for n in range(number, number + 1 + number % 5)]
        folder.records.apply([Persist(record) for record in batch], number)
        number += len(batch)
        print(number, flush=True)
except DiskError as error:
    print(error, flush=True)
"""


def on_disk(path: Path) -> dict[int, bytes]:
    return proved({file.name: file.read_bytes() for file in (path / JOURNAL).iterdir()})


def expected(count: int) -> dict[int, bytes]:
    return {n: b"%d " % n * (n % 50) for n in range(count)}


def writer(path: Path, flush: str, limit: int = 0) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-P", "-c", WRITER, str(path), flush, str(limit)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, env=environment())


def lines(process: "subprocess.Popen[bytes]", seconds: float, enough: int) -> list[str]:
    """What it says until it has said enough, or ends."""
    assert process.stdout is not None
    said = b""
    while said.count(b"\n") < enough and select.select([process.stdout], [], [], seconds)[0]:
        piece = os.read(process.stdout.fileno(), 4_096)
        if not piece:
            break
        said += piece
    return said.decode().splitlines()


@pytest.mark.parametrize("flush", ["always", "interval", "never"])
def test_a_writer_that_is_killed_again_and_again_loses_nothing_that_it_was_told_is_kept(
    flush: str, tmp_path: Path
) -> None:
    rng = random.Random(7)
    told = 0
    for _ in range(3):
        process = writer(tmp_path, flush)
        try:
            said = lines(process, 30, rng.randint(5, 60))
            process.send_signal(signal.SIGKILL)
            said += lines(process, 30, 1 << 30)
        finally:
            process.kill()
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()
        whole = [line for line in said if line.isdecimal()]
        told = max(told, int(whole[-2]))  # the last line may be cut off
        there = on_disk(tmp_path)
        assert expected(told).items() <= there.items()
        assert there.items() <= expected(len(there)).items(), "and nothing is invented"
    folder = open_folder(tmp_path, "b1")
    assert folder.records.read()[:told] == list(expected(told).values())
    folder.close()


def test_a_file_that_cannot_grow_in_the_middle_of_a_write_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    process = writer(tmp_path, "always", limit=12_345)
    try:
        *said, complaint = lines(process, 30, 1 << 30)
        process.wait(30)
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
    assert complaint.endswith(f".journal: {os.strerror(errno.EFBIG)}")
    assert expected(int(said[-1])) == on_disk(tmp_path)
    folder = open_folder(tmp_path, "b1")
    assert "a write was torn" in folder.warning
    folder.records.apply([Persist(b"more")], 0)
    assert folder.records.read()[-1] == b"more"
    folder.close()


@pytest.mark.parametrize("call", ["write", "fdatasync", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_whatever_the_disk_answers_what_was_kept_before_is_there_afterwards(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_folder(tmp_path, "b1", JournalOptions(segment_bytes=4_096))
    kept = [b"%4d" % n * 300 for n in range(4)]
    for record in kept:
        folder.records.apply([Persist(record)], 0)

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(DiskError, match=os.strerror(number)) as caught:
            folder.records.apply([Persist(b"tried")], 0)
    if caught.value.is_written:
        folder.records.journal.sync()
    else:
        folder.records.apply([Persist(b"tried")], 0)
    folder.records.apply([Persist(b"later")], 0)
    folder.close()
    assert on_disk(tmp_path) == dict(enumerate([*kept, b"tried", b"later"]))
    again = open_folder(tmp_path, "b1")
    assert again.records.read() == [*kept, b"tried", b"later"]
    again.close()


def test_a_journal_of_real_files_is_forgotten_segment_by_segment(tmp_path: Path) -> None:
    folder = open_folder(tmp_path, "b1", JournalOptions(segment_bytes=16_384))
    for n in range(600):
        folder.records.apply([Persist(b"%4d" % n * 50), Forget(3)], n)
    last = [b"%4d" % n * 50 for n in (597, 598, 599)]
    assert folder.records.read() == last
    assert sum(file.stat().st_size for file in (tmp_path / JOURNAL).iterdir()) < 3 * 16_384
    folder.close()
    again = open_folder(tmp_path, "b1")
    assert again.records.read() == last
    again.close()


def test_a_damaged_folder_is_refused_shown_and_mended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = open_folder(tmp_path, "b1")
    for n in range(5):
        folder.records.apply([Persist(bytes([65 + n]) * 20)], 1_000_000 * n)
    folder.close()
    assert command(["journal", str(tmp_path), "--verify"]) == 0
    said = capfd.readouterr().out
    assert "positions 0 to 5 in 1 segments" in said and "5 records are intact" in said
    file = next((tmp_path / JOURNAL).iterdir())
    content = file.read_bytes()
    at = content.index(b"C" * 20)
    file.write_bytes(content[:at] + b"x" + content[at + 1 :])
    with pytest.raises(DamagedError, match=f"position 2 .*`resprout mend {tmp_path}` goes on with what is intact"):
        open_folder(tmp_path, "b1")
    assert command(["journal", str(tmp_path), "--verify"]) == 2
    assert f"{file}: damaged at byte {at - 21}, position 2" in capfd.readouterr().err
    assert command(["mend", str(tmp_path)]) == 0
    said = capfd.readouterr().out
    assert said == (
        f"{tmp_path}/journal: 4 records are kept; positions that are missing: 2; damaged bytes, 41 of them, are in"
        f" {file}.damaged-1\n"
    )
    assert command(["mend", str(tmp_path)]) == 0
    assert capfd.readouterr().out == f"{tmp_path}/journal: not damaged; 4 records are kept there\n"
    folder = open_folder(tmp_path, "b1")
    assert folder.records.read() == [bytes([65 + n]) * 20 for n in (0, 1, 3, 4)]
    assert command(["mend", str(tmp_path)]) == 2
    assert "another process uses this folder" in capfd.readouterr().err
    assert command(["journal", str(tmp_path), "--json"]) == 0
    assert '"next":5' in capfd.readouterr().out
    folder.close()


def test_what_is_no_data_folder_is_said_to_be_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for verb in ("mend", "journal"):
        assert command([verb, str(tmp_path)]) == 2
        assert "no data folder of a broker" in capfd.readouterr().err
    (tmp_path / "records").write_bytes(b"resprout records 2\n")
    with pytest.raises(UsageError, match="records of an earlier version"):
        open_folder(tmp_path, "b1")
