"""What a node keeps survives its process; nothing leaves before it is kept."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.contract import (
    Answer,
    Effect,
    Forget,
    Note,
    Persist,
    Recovered,
    Request,
    Retire,
    SetTimer,
    Timer,
)
from resprout.core.errors import UsageError
from resprout.net import records as records_module
from resprout.net.data_folder import open_folder
from resprout.net.disk import DiskError
from resprout.net.durable import DurableEffects
from resprout.net.host import End, Upward
from resprout.net.record_format import HEADER_BYTES, MAGIC
from resprout.net.records import RecordFile, open_records

from .puppets import Puppet, host_of
from .stage import run, until

FORGET_BYTES = HEADER_BYTES + 8


def reopened(path: Path) -> tuple[list[bytes], str]:
    file, warning = open_records(path)
    try:
        return file.read(), warning
    finally:
        file.close()


def written(path: Path, *changes: Persist | Forget) -> int:
    """The size of the file afterwards."""
    file, _ = open_records(path)
    file.apply(changes)
    file.close()
    return path.stat().st_size


# -- the file ----------------------------------------------------------------------------------------------------------


def test_records_come_back_in_order_and_forgotten_ones_do_not(tmp_path: Path) -> None:
    path = tmp_path / "records"
    assert reopened(path) == ([], "")
    written(path, Persist(b"a"), Persist(b""), Persist(b"c" * 1000))
    assert reopened(path) == ([b"a", b"", b"c" * 1000], "")
    written(path, Forget(2), Persist(b"d"))
    assert reopened(path) == ([b"", b"c" * 1000, b"d"], "")
    written(path, Forget(0))
    assert reopened(path) == ([], "")
    written(path, Persist(b"e"), Forget(7), Forget(-1), Persist(b"f"))
    assert reopened(path) == ([b"f"], "")


def test_a_torn_tail_is_cut_off_wherever_it_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "records"
    whole = written(path, Persist(b"kept"))
    size = written(path, Persist(b"torn"), Forget(1))
    content = path.read_bytes()
    for length in range(whole, size):
        path.write_bytes(content[:length])
        records, warning = reopened(path)
        assert records in ([b"kept"], [b"kept", b"torn"])
        at_a_joint = warning == ""
        assert at_a_joint == (length in (whole, size - FORGET_BYTES))
        if not at_a_joint:
            assert warning.count("\n") == 0 and "a write was torn by a crash" in warning
        assert reopened(path) == (records, ""), "once"
        written(path, Persist(b"next"))
        assert reopened(path) == ([*records, b"next"], "")


def test_a_file_that_its_maker_did_not_finish_is_made_again_and_another_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(MAGIC[:5])
    written(path, Persist(b"x"))
    assert reopened(path) == ([b"x"], "")
    path.write_bytes(b"#!/bin/sh\nexit\n")
    with pytest.raises(UsageError, match="is no file of records"):
        open_records(path)
    with pytest.raises(DiskError, match="Is a directory"):
        open_records(tmp_path)


def test_a_file_that_is_mostly_dead_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "records"
    file, _ = open_records(path)
    largest = 0
    for n in range(3_000):
        file.apply([Persist(b"%4d" % n * 50)])
        file.apply([Forget(3)])
        largest = max(largest, path.stat().st_size)
    assert largest < 3 * records_module.COMPACT_BYTES_MIN
    expected = [b"%4d" % n * 50 for n in (2997, 2998, 2999)]
    assert file.read() == expected
    file.close()
    assert reopened(path) == (expected, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["records"]


@given(st.lists(st.one_of(st.binary(max_size=300), st.integers(0, 6)), max_size=60))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_whatever_is_kept_and_forgotten_the_file_agrees_with_a_list(changes: list[bytes | int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_module, "COMPACT_BYTES_MIN", 200)
        file, _ = open_records(Path(folder) / "records")
        model: list[bytes] = []
        for change in changes:
            if isinstance(change, int):
                file.apply([Forget(change)])
                model = model[-change:] if change else []
            else:
                file.apply([Persist(change)])
                model.append(change)
        assert file.read() == model
        file.close()
        assert reopened(file.path) == (model, "")


def test_after_an_error_nothing_more_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = open_records(tmp_path / "records")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(DiskError, match="No space left"):
            file.apply([Persist(b"x")])
    with pytest.raises(DiskError, match="no more is written after an error"):
        file.apply([Persist(b"y")])
    file.close()


# -- the folder --------------------------------------------------------------------------------------------------------


def test_a_folder_is_used_by_one_process_of_one_broker(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "deep" / "b1", "b1")
    assert folder.incarnation == 0
    with pytest.raises(UsageError, match="another process uses this folder"):
        open_folder(folder.path, "b1")
    folder.begin_life(7)
    folder.close()
    with pytest.raises(UsageError, match="belongs to the broker b1"):
        open_folder(folder.path, "b2")
    again = open_folder(folder.path, "b1")
    assert again.incarnation == 7
    again.close()
    (folder.path / "life.json").write_text("{}")
    with pytest.raises(UsageError, match="does not tell whose folder this is"):
        open_folder(folder.path, "b1")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--data"):
        open_folder(tmp_path / "file", "b1")


# -- nothing leaves too early ------------------------------------------------------------------------------------------


class Tick(Timer, frozen=True):
    """When to tick."""


class SlowDisk(RecordFile):
    """Writes when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.turn = threading.Semaphore(0)
        self.error: DiskError | None = None

    def apply(self, changes: Sequence[Persist | Forget]) -> None:
        assert self.turn.acquire(timeout=20)
        if self.error is not None:
            raise self.error
        self.batches.append([change.record for change in changes if isinstance(change, Persist)])


class Scene:
    def __init__(self) -> None:
        self.disk = SlowDisk()
        self.done: list[Effect] = []
        self.errors: list[DiskError] = []
        self.durable = DurableEffects(self.disk, self.done.extend, self.errors.append)

    def step(self, *effects: Effect) -> None:
        self.done.extend(self.durable.pass_on(effects))

    async def write(self) -> None:
        count = len(self.disk.batches)
        self.disk.turn.release()
        await until(lambda: len(self.disk.batches) > count)
        await asyncio.sleep(0.01)


def test_what_is_listed_after_a_record_waits_for_it_and_what_cannot_be_seen_does_not() -> None:
    async def scene() -> None:
        s = Scene()
        timer, note = SetTimer(Tick(), 1), Note("note", {})
        s.step(Answer(1), Persist(b"a"), Answer(2), timer, note, Persist(b"b"), Answer(3))
        assert s.done == [Answer(1), timer, note]
        await s.write()
        assert s.disk.batches == [[b"a", b"b"]], "the records of one step share a write"
        assert s.done[3:] == [Answer(2), Answer(3)]
        s.step(Answer(4))
        assert s.done[-1] == Answer(4)
        s.durable.stop()

    run(scene())


def test_records_that_come_while_others_are_written_share_the_next_write_and_order_is_kept() -> None:
    async def scene() -> None:
        s = Scene()
        s.step(Persist(b"a"), Answer(1))
        s.step(Answer(2))
        s.step(Persist(b"b"), Answer(3))
        s.step(Answer(4), Persist(b"c"), Answer(5))
        s.step(Forget(1), Answer(6))
        assert s.done == []
        await s.write()
        assert s.done == [Answer(1), Answer(2)]
        s.step(Answer(7))
        await s.write()
        assert s.disk.batches == [[b"a"], [b"b", b"c"]]
        assert s.done == [Answer(n) for n in range(1, 8)]
        s.durable.stop()

    run(scene())


def test_forgetting_holds_nothing_up() -> None:
    async def scene() -> None:
        s = Scene()
        s.step(Forget(1), Answer(1))
        assert s.done == [Answer(1)]
        await s.write()
        s.durable.stop()

    run(scene())


def test_when_nothing_can_be_kept_nothing_leaves_any_more() -> None:
    async def scene() -> None:
        s = Scene()
        s.step(Persist(b"a"), Answer(1))
        s.step(Persist(b"b"), Answer(2))
        s.disk.error = DiskError("full")
        s.disk.turn.release(2)
        await until(lambda: s.errors)
        s.step(Answer(3))
        assert s.done == [] and len(s.errors) == 1

    run(scene())


def test_what_waits_when_a_life_ends_is_given_up() -> None:
    async def scene() -> None:
        s = Scene()
        s.step(Persist(b"a"), Answer(1))
        s.step(Persist(b"b"), Answer(2))
        s.durable.stop()
        s.disk.turn.release(2)
        await asyncio.sleep(0.05)
        assert s.done == [] and s.errors == []

    run(scene())


# -- a host with a disk ------------------------------------------------------------------------------------------------


def test_a_host_keeps_records_and_hands_them_to_the_next_life(tmp_path: Path) -> None:
    async def life(react: Sequence[Effect]) -> tuple[Puppet, list[Upward], list[End]]:
        file, _ = open_records(tmp_path / "records")
        said: list[Upward] = []
        ends: list[End] = []
        puppet = Puppet()
        puppet.react = lambda event: react if isinstance(event, Request) else ()
        host = host_of(puppet, records=file, ended=ends.append)
        host.tell(said.append)
        host.start()
        host.handle(Request("go"))
        await until(lambda: said)
        await host.close()
        file.close()
        return puppet, said, ends

    async def scene() -> None:
        first, said, _ = await life([Persist(b"one"), Persist(b"two"), Answer("kept")])
        assert said == [Answer("kept")] and not first.heard(Recovered)
        second, _, ends = await life([Forget(1), Persist(b"three"), Answer("kept"), Retire("over"), Answer("no")])
        assert second.told[0] == Recovered([b"one", b"two"])
        assert ends == [Retire("over")]
        third, said, _ = await life([Answer("x")])
        assert third.told[0] == Recovered([b"two", b"three"])

    run(scene())
