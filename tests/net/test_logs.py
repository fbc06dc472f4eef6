"""Logs with real brokers: replicas on real disks, a replica that dies and returns, and all of them at once."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import resprout
from resprout.client.errors import GapError, ReadError
from resprout.core.bundle import unpack_payloads
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.edge.requests import StoredMessage
from resprout.journal.interface import FetchStore, Flush, OpenStore, ResetStore, StoreForget, StoreRecord
from resprout.journal.reading import open_reader
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import LogEntry, read_entry
from resprout.net.broker import serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.disk import RealFiles
from resprout.net.door import Door
from resprout.net.log_stores import LOGS, LogStores
from tests.net.stage import LOOPBACK, QUICK, STACK, Running, run, until

LOG = LogDeclaration("ev", "ev/#", ("b0", "b1", "b2"))
OPTIONS = STACK.parse_options({})


@contextlib.asynccontextmanager
async def replica(
    name: str,
    data: Path,
    root: Running | None = None,
    life: int = 1,
    log: LogDeclaration = LOG,
    door: Door | None = None,
) -> AsyncIterator[Running]:
    """A broker with a replica; it ends as if it was killed."""
    notes: list[Note] = []
    above, peers = ("b0", {"b0": root.address}) if root is not None and name != "b0" else (None, {})
    spec = BrokerToRun(name, life, LOOPBACK, above, peers, data=data / name, logs=(log,))
    running, address = await serve(spec, STACK, OPTIONS, QUICK, notes.append, door=door)
    try:
        yield Running(running, address, notes)
    finally:
        await running.close()


def kept(data: Path, name: str) -> list[LogEntry]:
    folder = data / name / LOGS / LOG.entries
    if not any(folder.glob("*.journal")):
        return []
    reader = open_reader(RealFiles(folder))
    found = [read_entry(each.record) for each in reader.all_from(reader.first)]
    return [entry for entry in found if entry is not None]


def bundles(entries: list[LogEntry]) -> list[bytes]:
    found = [entry.messages for entry in entries]
    return [payload for bundle in found if bundle is not None for payload in unpack_payloads(bundle)]


def payloads(entries: list[LogEntry]) -> list[bytes]:
    assert not any(entry.gap for entry in entries)
    return bundles(entries)


async def is_fed(*brokers: Running) -> None:
    await until(lambda: any(note.kind == "log_fed" for each in brokers for note in each.notes))


async def have(data: Path, names: tuple[str, ...], wanted: list[bytes]) -> None:
    await until(lambda: all(payloads(kept(data, name)) == wanted for name in names))


async def publish(client: resprout.Client, first: int, last: int) -> list[bytes]:
    sent = [b"%d" % number for number in range(first, last)]
    for payload in sent:
        receipt = await client.publish("ev/x", payload, guarantee="fifo")
    await receipt.safe()
    return sent


def test_every_replica_keeps_every_message_at_the_same_offset(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1, replica("b2", tmp_path, b0) as b2:
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b2), name="p") as p:
                await have(tmp_path, LOG.replicas, await publish(p, 0, 100))
        assert kept(tmp_path, "b0") == kept(tmp_path, "b1") == kept(tmp_path, "b2")

    run(scene())


def test_a_replica_that_died_catches_up_when_it_returns(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1:
            async with replica("b2", tmp_path, b0) as b2:
                await is_fed(b0, b1, b2)
                async with resprout.connect(str(b1), name="p") as p:
                    first = await publish(p, 0, 50)
                    await have(tmp_path, LOG.replicas, first)
            async with resprout.connect(str(b1), name="q") as q:
                second = await publish(q, 50, 100)
                await have(tmp_path, ("b0", "b1"), first + second)
            assert payloads(kept(tmp_path, "b2")) == first
            async with replica("b2", tmp_path, b0, life=2):
                await have(tmp_path, LOG.replicas, first + second)

    run(scene())


async def read_all(client: resprout.Client, size: int = 300) -> list[StoredMessage]:
    pages = [await client.read("ev/#", log="ev", size=size)]
    while not pages[-1].at_end:
        pages.append(await client.read("ev/#", log="ev", start=pages[-1].next, size=size))
    return [message for page in pages for message in page.messages]


def test_a_log_is_read_from_any_broker_with_the_same_offsets(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            replica("b0", tmp_path) as b0,
            replica("b1", tmp_path, b0) as b1,
            replica("b2", tmp_path, b0) as b2,
            replica("b3", tmp_path, b0) as b3,
        ):
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b3), name="p") as p:
                sent = await publish(p, 0, 40) + await publish(p, 40, 60)
                await have(tmp_path, LOG.replicas, sent)
            found: list[list[tuple[int, bytes]]] = []
            for number, broker in enumerate((b0, b1, b2, b3)):
                async with resprout.connect(str(broker), name=f"r{number}") as r:
                    found.append([(each.position, each.message.payload) for each in await read_all(r)])
                    latest = await r.read("ev/#", log="ev", start="latest")
                    assert latest.at_end and not latest.messages and latest.next.position == latest.end
                    with pytest.raises(ReadError, match="ends at offset"):
                        await r.read("ev/#", log="ev", start="log.ev@9999")
                    with pytest.raises(ReadError, match="keeps ev/#"):
                        await r.read("other/#", log="ev")
                    with pytest.raises(ReadError, match=r"name a log \(ev\)"):
                        await r.read("ev/#")
                    with pytest.raises(ReadError, match="there is no log other; the logs are: ev"):
                        await r.read("ev/#", log="other")
            assert [payload for _, payload in found[0]] == sent
            assert found.count(found[0]) == 4

    run(scene())


def test_an_offset_names_a_message_and_a_time_the_first_one_since(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1, replica("b2", tmp_path, b0) as b2:
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b1), name="p") as p:
                early = [b"e%d" % number for number in range(6)]
                receipt = await p.publish_bundle("ev/x", early, guarantee="total")
                await receipt.safe()
                await have(tmp_path, LOG.replicas, early)
                first = await p.read("ev/#", log="ev")
                late = [b"l%d" % number for number in range(6)]
                receipt = await p.publish_bundle("ev/x", late)
                await receipt.safe()
                await have(tmp_path, LOG.replicas, early + late)
                assert [each.position for each in first.messages] == list(range(6))
                whole = await p.read("ev/#", log="ev")
                for number in range(12):
                    page = await p.read("ev/#", log="ev", start=f"log.ev@{number}")
                    assert page.messages == whole.messages[number:]
                since = datetime.fromtimestamp(whole.messages[6].time_us / 1e6, UTC)
                page = await p.read("ev/#", log="ev", start=since)
                assert [each.message.payload for each in page.messages] == late
                assert page.offset_of(page.messages[0]).position == 6

    run(scene())


def test_a_log_is_read_while_one_of_its_replicas_is_down(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1, replica("b3", tmp_path, b0) as b3:
            async with replica("b2", tmp_path, b0) as b2:
                await is_fed(b0, b1, b2)
                async with resprout.connect(str(b3), name="p") as p:
                    sent = await publish(p, 0, 40)
                    await have(tmp_path, LOG.replicas, sent)
            async with resprout.connect(str(b3), name="r") as r:
                assert [each.message.payload for each in await read_all(r)] == sent

    run(scene())


def test_a_reader_is_told_where_a_log_has_a_gap(tmp_path: Path) -> None:
    """All brokers stop, and none of them has kept the durable subscription: what was published meanwhile is lost."""
    log = LogDeclaration("ev", "ev/#", ("b0",))

    async def life(number: int, first: int) -> list[bytes]:
        async with replica("b0", tmp_path, life=number, log=log) as b0:
            await is_fed(b0)
            async with resprout.connect(str(b0), name=f"p{number}") as p:
                sent = await publish(p, first, first + 5)
                await until(lambda: bundles(kept(tmp_path, "b0"))[-5:] == sent)
        return sent

    async def scene() -> None:
        sent = await life(1, 0) + await life(2, 5)
        async with replica("b0", tmp_path, life=3, log=log) as b0, resprout.connect(str(b0), name="r") as r:
            await is_fed(b0)
            page = await r.read("ev/#", log="ev")
            assert [each.message.payload for each in page.messages] == sent[:5] and not page.at_end
            with pytest.raises(GapError, match="the subscription of the log was lost") as caught:
                await r.read("ev/#", log="ev", start=page.next)
            assert caught.value.gap.position == page.next.position
            page = await r.read("ev/#", log="ev", allow_gaps=True)
            assert [each.message.payload for each in page.messages] == sent and page.gaps

    run(scene())


def test_a_replica_needs_a_data_folder() -> None:
    async def scene() -> None:
        spec = BrokerToRun("b0", 1, LOOPBACK, logs=(LOG,))
        with pytest.raises(UsageError, match="give --data DIR"):
            await serve(spec, STACK, OPTIONS, QUICK, lambda note: None)

    run(scene())


def test_votes_that_are_never_synced_are_kept_until_they_are_forgotten(tmp_path: Path) -> None:
    log = msgspec.structs.replace(LOG, flush=Flush.NEVER, segment_bytes=4_096)
    stores = LogStores(tmp_path)
    stores.open(OpenStore(log.votes, log.vote_options, is_read=True))
    votes = [b"%d" % n * 500 for n in range(20)]
    for record in votes:
        stores.apply([StoreRecord(log.votes, record)], 1)
    stores.close()
    again = LogStores(tmp_path)
    assert list(again.open(OpenStore(log.votes, log.vote_options, is_read=True)).records) == votes
    again.close()


def test_stores_keep_records_by_position_and_forget_votes(tmp_path: Path) -> None:
    stores = LogStores(tmp_path)
    for store, options in ((LOG.votes, LOG.vote_options), (LOG.entries, LOG.entry_options)):
        assert stores.open(OpenStore(store, options, is_read=True)).end == 0
    records = [StoreRecord(LOG.votes, b"v%d" % n) for n in range(5)]
    entries = [StoreRecord(LOG.entries, b"e%d" % n) for n in range(5)]
    stores.apply([*records, *entries, StoreForget(LOG.votes, 2), StoreRecord(LOG.votes, b"last")], 1)
    stores.close()
    again = LogStores(tmp_path)
    opened = again.open(OpenStore(LOG.votes, LOG.vote_options, is_read=True))
    assert list(opened.records) == [b"v3", b"v4", b"last"]
    assert again.open(OpenStore(LOG.entries, LOG.entry_options, is_read=False)).end == 5
    fetched = again.fetch(FetchStore(1, LOG.entries, 3, 1_000))
    assert [(each.position, each.record) for each in fetched.records] == [(3, b"e3"), (4, b"e4")]
    again.apply([ResetStore(LOG.entries, 40), StoreRecord(LOG.entries, b"e40")], 2)
    fetched = again.fetch(FetchStore(2, LOG.entries, 0, 1_000))
    assert (fetched.first, fetched.end) == (40, 41)
    again.close()
