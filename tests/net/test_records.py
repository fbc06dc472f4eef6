"""What a node keeps survives its process; nothing leaves before it is kept."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

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
from resprout.journal.interface import DiskError, Flush, JournalOptions
from resprout.journal.journal import Records
from resprout.net.data_folder import open_folder
from resprout.net.durable import DurableEffects
from resprout.net.host import HostEnd, Upward
from tests.net.puppets import Puppet, host_of
from tests.net.stage import run, until
from tests.patience import PATIENCE_S

ALWAYS = JournalOptions()


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


class StubJournal:
    def __init__(self, options: JournalOptions) -> None:
        self.options = options
        self.syncs = 0

    def sync(self) -> None:
        self.syncs += 1


class SlowDisk(Records):
    """Writes when the test lets it."""

    def __init__(self, options: JournalOptions) -> None:
        self.journal = StubJournal(options)  # type: ignore[assignment]
        self.batches: list[list[bytes]] = []
        self.turn = threading.Semaphore(0)
        self.error: DiskError | None = None

    def apply(self, changes: Sequence[Persist | Forget], time_us: int) -> None:
        assert self.turn.acquire(timeout=PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.batches.append([change.record for change in changes if isinstance(change, Persist)])


class Scene:
    def __init__(self, options: JournalOptions = ALWAYS) -> None:
        self.disk = SlowDisk(options)
        self.done: list[Effect] = []
        self.errors: list[DiskError] = []
        self.writes = 0
        self.durable = DurableEffects(self.disk, self._written, self.errors.append)

    def step(self, *effects: Effect) -> None:
        self.done.extend(self.durable.pass_on(effects))

    async def write(self) -> None:
        count = self.writes
        self.disk.turn.release()
        await until(lambda: self.writes > count)

    def _written(self, effects: Sequence[Effect]) -> None:
        self.writes += 1
        self.done.extend(effects)


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


def test_with_an_interval_the_disk_is_asked_once_for_all_that_was_written_in_it() -> None:
    async def scene() -> None:
        s = Scene(JournalOptions(Flush.INTERVAL, flush_interval_us=500_000))

        def syncs() -> int:
            journal = s.disk.journal
            assert isinstance(journal, StubJournal)
            return journal.syncs

        for number in range(3):
            s.step(Persist(b"a"), Answer(number))
            s.disk.turn.release()
        await until(lambda: len(s.done) == 3)
        await until(lambda: syncs() == 1)
        await asyncio.sleep(0.1)
        assert syncs() == 1
        s.step(Persist(b"b"), Answer(3))
        s.disk.turn.release()
        await until(lambda: syncs() == 2)
        s.durable.stop()

    run(scene())


# -- a host with a disk ------------------------------------------------------------------------------------------------


def test_a_host_keeps_records_and_hands_them_to_the_next_life(tmp_path: Path) -> None:
    async def life(react: Sequence[Effect]) -> tuple[Puppet, list[Upward], list[HostEnd]]:
        folder = open_folder(tmp_path, "b1")
        said: list[Upward] = []
        ends: list[HostEnd] = []
        puppet = Puppet()
        puppet.react = lambda event: react if isinstance(event, Request) else ()
        host = host_of(puppet, records=folder.records, ended=ends.append)
        host.tell(said.append)
        host.start()
        host.handle(Request("go"))
        await until(lambda: said)
        await host.close()
        folder.close()
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
