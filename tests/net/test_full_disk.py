"""Brokers on a full disk: they go on without what is optional, hold publishers for what is not, and come back by
themselves when there is room.

A small tmpfs is the disk, so most of these need root. `RLIMIT_FSIZE` of a running process does the same for one file,
for everybody.
"""

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.errors import ClientEvent
from tests.cli.processes import Running, broker, running, until_note
from tests.cli.processes import resprout as command
from tests.net.stage import run

DISK_BYTES = 24 << 20
PAYLOAD = bytes(20_000)
WINDOW = 20
SMALL_SEGMENTS = ("--set", "journal.segment_bytes=100000")
"""What is not needed any more goes segment by segment: three brokers must fit on the disk while they work."""
RESERVE = ("--set", "journal.min_free_bytes=8000000", "--set", "journal.warn_free_bytes=0", *SMALL_SEGMENTS)


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """So many bytes stay free."""
        with self._ballast.open("ab") as out, contextlib.suppress(OSError):
            while (room := self.free() - leave) > 0:
                out.write(bytes(min(room, 1 << 16)))
                out.flush()

    def clear(self) -> None:
        self._ballast.unlink()

    def free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small disk is a tmpfs, which cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextlib.contextmanager
def three(disk: Path, *words: str) -> Iterator[list[tuple[Running, str]]]:
    """A root and two others, all with their data there."""
    with contextlib.ExitStack() as stack:
        brokers: list[tuple[Running, str]] = []
        for name in ("b0", "b1", "b2"):
            parent = ("--parent", brokers[0][1]) if brokers else ()
            data = ("--data", str(disk / name), "--set", "durable=journal")
            brokers.append(stack.enter_context(broker(name, *data, *parent, *words)))
        yield brokers


@contextlib.asynccontextmanager
async def client_of(address: str, name: str) -> AsyncIterator[tuple[Client, "asyncio.Queue[ClientEvent]"]]:
    events: asyncio.Queue[ClientEvent] = asyncio.Queue()
    client = await resprout.connect(address, name=name, on_event=events.put_nowait)
    try:
        yield client, events
    finally:
        await client.close()


async def held(events: "asyncio.Queue[ClientEvent]") -> str:
    """The next thing that a publisher is told about that: why, or nothing."""
    while not isinstance(event := await events.get(), resprout.PublishingHeld):
        pass
    return event.reason


def _number(message: resprout.Message) -> int:
    return int(bytes(message.payload[:8]))


class Flood:
    """Publishes numbered messages until it is told to stop, with `WINDOW` of them under way: they fit on the disk."""

    def __init__(self, client: Client, topic: str, window: int = WINDOW) -> None:
        self._client = client
        self._window = window
        self._topic = topic
        self._is_over = False
        self.receipts: list[resprout.Receipt] = []
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while not self._is_over:
            payload = b"%8d" % len(self.receipts) + PAYLOAD
            self.receipts.append(await self._client.publish(self._topic, payload))
            if len(self.receipts) > self._window:
                await self.receipts[-self._window].delivered()
                await asyncio.sleep(
                    0.01
                )  # brokers forget from time to time: what they have written until then must fit

    async def end(self) -> int:
        """Everything that was published is safe by now; how much that is."""
        self._is_over = True
        await self._task
        for receipt in self.receipts:
            await receipt.safe()
        return len(self.receipts)


async def held_and_released(publisher: str, subscriber: str, full: "contextlib.AbstractContextManager[None]") -> str:
    """A publisher is held while the disk is full, told why, and goes on; nothing is lost. What `status` says."""
    async with client_of(publisher, "pub") as (pub, events), client_of(subscriber, "sub") as (sub, _):
        inbox = await sub.subscribe("a/#")
        numbers: list[int] = []
        reader = asyncio.create_task(_read(inbox, numbers))
        flood = Flood(pub, "a/b")
        while len(flood.receipts) < 20:
            await asyncio.sleep(0.01)
        with full:
            reason = await held(events)
            assert "no room on its disk" in reason, reason
            status = await asyncio.to_thread(command, "status", "--server", publisher)
            assert status.returncode == 1
        while reason:
            reason = await held(events)
        count = len(flood.receipts)
        while len(flood.receipts) < count + 20:
            await asyncio.sleep(0.01)
        count = await flood.end()
        while len(numbers) < count:
            await asyncio.sleep(0.01)
        reader.cancel()
        assert numbers == list(range(count))
        return status.stdout.decode()


async def _read(inbox: "resprout.Inbox", numbers: list[int]) -> None:
    while True:
        numbers.append(_number(await inbox.next()))


@contextlib.contextmanager
def filled(disk: SmallDisk, leave: int) -> Iterator[None]:
    disk.fill(leave)
    try:
        yield
    finally:
        disk.clear()


@pytest.mark.parametrize("leave", [6_000_000, 0], ids=["nearly full", "without a byte"])
def test_three_brokers_on_one_full_disk_hold_publishers_and_go_on_by_themselves(disk: SmallDisk, leave: int) -> None:
    with three(disk.path, *RESERVE) as brokers:
        status = run(held_and_released(brokers[1][1], brokers[2][1], filled(disk, leave)), 110)
        assert "publishers are held until there is room" in status
        assert "journal disk full" in status
        for process, _ in brokers:
            assert process.process.poll() is None


@contextlib.contextmanager
def no_more_bytes(pid: int) -> Iterator[None]:
    """None of its files may grow."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_holds_publishers_until_it_succeeds(tmp_path: Path) -> None:
    """Without a small disk: the system says "file too large" instead."""
    with three(tmp_path) as brokers:
        process, address = brokers[1]
        status = run(held_and_released(address, brokers[2][1], no_more_bytes(process.pid)), 110)
        assert "File too large" in status
        assert process.process.poll() is None


@contextlib.contextmanager
def keeper(disk: SmallDisk) -> Iterator[tuple[Running, str]]:
    """A broker b0 that keeps events."""
    settings = ("events.min_free_bytes=8000000", "events.warn_free_bytes=0", "journal.min_free_bytes=0")
    words = ["--data", str(disk.path / "b0"), "--keep", "a/#", *[word for each in settings for word in ("--set", each)]]
    with running("broker", "--name", "b0", "--listen", "127.0.0.1:0", "--log-format", "full", *words) as process:
        address = process.line().rpartition(" ")[2].strip()
        _until_line(process, "a/# is kept from here on")
        yield process, address


def test_events_that_there_is_no_room_for_are_left_out_and_the_broker_goes_on(disk: SmallDisk) -> None:
    with keeper(disk) as (process, address):

        async def work() -> None:
            async with client_of(address, "pub") as (pub, _), client_of(address, "sub") as (sub, told):
                inbox = await sub.subscribe("a/#")
                replayed = await sub.subscribe("a/+", replay_from="earliest", allow_gaps=True)
                for part in range(3):
                    if part == 1:
                        await asyncio.to_thread(disk.fill, 4_000_000)
                        await asyncio.to_thread(_until_line, process, "disk_full: disk full, events")
                    elif part == 2:
                        disk.clear()
                        await asyncio.to_thread(_until_line, process, "disk_ok: disk ok, events")
                    for n in range(10):
                        receipt = await pub.publish("a/b", b"%8d" % (10 * part + n))
                        assert _number(await inbox.next()) == 10 * part + n
                        await receipt.safe()
                    numbers = [_number(await replayed.next()) for _ in range(10)]
                    assert numbers == [*range(10 * part, 10 * part + 10)], "what is not in the journal comes live"
                    if part == 1:
                        await gap_is_told(address, r"has left out 10 bundles since \S+Z: .* \d+ bytes are free", [])
                await asyncio.to_thread(_until_line, process, "events_gap: 10 bundles of events were not kept")
                times = r"between \S+Z and \S+Z"
                await gap_is_told(address, rf"left out 10 bundles {times}: .* \d+ bytes are free", [*range(20, 30)])
                missing = [told.get_nowait() for _ in range(told.qsize())]
                assert sum(isinstance(event, resprout.EventsMissing) for event in missing) == 1, "told once"

        run(work(), 110)
        assert process.process.poll() is None


def test_a_broker_that_is_killed_while_it_leaves_events_out_marks_the_gap_in_its_next_life(disk: SmallDisk) -> None:
    async def publish(address: str, *numbers: int) -> None:
        async with client_of(address, "pub") as (pub, _):
            for number in numbers:
                await (await pub.publish("a/b", b"%8d" % number)).delivered()

    async def passed(address: str) -> resprout.EventsPage:
        async with client_of(address, "reader") as (client, _):
            return await client.read("a/#", allow_gaps=True)

    async def go_on(address: str, page: resprout.EventsPage) -> None:
        async with client_of(address, "reader") as (client, _):
            assert _numbers(await client.read("a/#", start=page.next)) == [2]
            before = await client.read("a/#")
            assert _numbers(before) == [0]
            with pytest.raises(resprout.GapError, match="broker b0 was down between its lives") as raised:
                await client.read("a/#", start=before.next)
            assert raised.value.gap.position == page.gaps[0].position

    with keeper(disk) as (process, address):
        run(publish(address, 0))
        disk.fill(4_000_000)
        _until_line(process, "disk_full: disk full, events")
        run(publish(address, 1))
        page = run(passed(address))
        assert _numbers(page) == [0] and len(page.gaps) == 1
        process.end(signal.SIGKILL)
    disk.clear()
    with keeper(disk) as (_, address):
        run(publish(address, 2))
        run(go_on(address, page))


async def gap_is_told(address: str, reason: str, behind: list[int]) -> None:
    """Everybody who reads gets 0 to 9, an error with this reason, and these if gaps are allowed."""
    pattern = rf"events between position 10 \(\S+Z\) and position 12.* are missing in b0\.\w+: broker b0 {reason}"
    async with client_of(address, "reader") as (client, events):
        page = await client.read("a/#")
        assert _numbers(page) == [*range(10)] and not page.at_end
        with pytest.raises(resprout.GapError, match=pattern) as raised:
            await client.read("a/#", start=page.next)
        page = await client.read("a/#", start=resprout.Offset(page.journal, raised.value.gap.following))
        assert _numbers(page) == behind and page.at_end
        page = await client.read("a/#", allow_gaps=True)
        assert _numbers(page) == [*range(10), *behind] and page.at_end and page.gaps == (raised.value.gap,)
        inbox = await client.subscribe("a/#", replay_from="earliest")
        assert [_number(await inbox.next()) for _ in range(10)] == [*range(10)]
        with pytest.raises(resprout.GapError, match=pattern):
            await inbox.next()
        inbox = await client.subscribe("a/b", replay_from="earliest", allow_gaps=True)
        assert [_number(await inbox.next()) for _ in range(10 + len(behind))] == [*range(10), *behind]
        while not isinstance(event := await events.get(), resprout.EventsMissing):
            pass
        assert event.gap == raised.value.gap
    done = await asyncio.to_thread(command, "read", "a/#", "--server", address)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 10 and re.search(pattern, done.stderr.decode())
    done = await asyncio.to_thread(command, "read", "a/#", "--server", address, "--allow-gaps")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 10 + len(behind)
    assert re.search(pattern, done.stderr.decode()) and done.stderr.count(b"\n") == 1


def _numbers(page: resprout.EventsPage) -> list[int]:
    return [_number(stored.message) for stored in page.messages]


def _until_line(process: Running, text: str) -> str:
    while text not in (line := process.error_line()):
        pass
    return line


def test_a_broker_that_starts_on_a_full_disk_waits_and_goes_on_when_there_is_room(disk: SmallDisk) -> None:
    disk.fill()
    words = ("--data", str(disk.path / "b0"), "--set", "durable=journal", "--log-format", "json")
    with running("broker", "--name", "b0", "--listen", "127.0.0.1:0", *words) as process:
        said = process.error_line()
        assert '"kind":"disk_full"' in said and "it waits until there is room" in said, said
        disk.clear()
        assert "b0 listens on 127.0.0.1:" in process.line()
        assert process.end() == 0


def test_a_broker_that_waits_for_room_can_be_stopped(disk: SmallDisk) -> None:
    disk.fill()
    with running("broker", "--name", "b0", "--listen", "127.0.0.1:0", "--data", str(disk.path / "b0")) as process:
        assert "it waits until there is room" in process.error_line()
        assert process.end() == 0


def test_a_full_disk_takes_no_spill_and_nothing_is_lost(disk: SmallDisk) -> None:
    limits = ("--set", "spill_bytes=16000000", "--set", "log_bytes=1000000", "--set", "events.min_free_bytes=8000000")
    with broker("b0", "--data", str(disk.path / "b0"), "--set", "journal.min_free_bytes=0", *limits) as (
        process,
        address,
    ):

        async def work() -> None:
            async with client_of(address, "pub") as (pub, _), client_of(address, "sub") as (sub, _):
                consumer = await sub.subscribe("a/#", durable="slow", when_full="spill")
                disk.fill(4_000_000)
                flood = Flood(pub, "a/b", window=1_000_000)
                await asyncio.to_thread(until_note, process, "spill")
                disk.clear()
                numbers: list[int] = []
                reader = asyncio.create_task(_read(consumer, numbers))
                count = await flood.end()
                while len(numbers) < count:
                    await asyncio.sleep(0.01)
                reader.cancel()
                assert numbers == list(range(count))

        run(work(), 110)
        assert process.process.poll() is None
