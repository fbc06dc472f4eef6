"""Logs with real brokers: replicas on real disks, a replica that dies and returns, and all of them at once."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import resprout
from resprout.core.bundle import unpack_payloads
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.journal.interface import FetchStore, OpenStore, ResetStore, StoreForget, StoreRecord
from resprout.journal.reading import open_reader
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import LogEntry, read_entry
from resprout.net.broker import serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.disk import RealFiles
from resprout.net.log_stores import LOGS, LogStores
from tests.net.stage import LOOPBACK, QUICK, STACK, Running, run, until

LOG = LogDeclaration("ev", "ev/#", ("b0", "b1", "b2"))
OPTIONS = STACK.parse_options({})


@contextlib.asynccontextmanager
async def replica(name: str, data: Path, root: Running | None = None, life: int = 1) -> AsyncIterator[Running]:
    """A broker with a replica; it ends as if it was killed."""
    notes: list[Note] = []
    above, peers = ("b0", {"b0": root.address}) if root is not None and name != "b0" else (None, {})
    contacts: tuple[str, ...] = ()
    if root is not None and name == "b0":
        contacts, peers = ("b1",), {"b1": root.address}
    spec = BrokerToRun(name, life, LOOPBACK, above, peers, contacts=contacts, data=data / name, logs=(LOG,))
    running, address = await serve(spec, STACK, OPTIONS, QUICK, notes.append)
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


def payloads(entries: list[LogEntry]) -> list[bytes]:
    bundles = [entry.messages for entry in entries]
    assert not any(entry.gap for entry in entries)
    return [payload for bundle in bundles if bundle is not None for payload in unpack_payloads(bundle)]


async def is_fed(*brokers: Running) -> None:
    await until(lambda: any(note.kind == "log" for each in brokers for note in each.notes))


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


def test_a_replica_needs_a_data_folder() -> None:
    async def scene() -> None:
        spec = BrokerToRun("b0", 1, LOOPBACK, logs=(LOG,))
        with pytest.raises(UsageError, match="give --data DIR"):
            await serve(spec, STACK, OPTIONS, QUICK, lambda note: None)

    run(scene())


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
