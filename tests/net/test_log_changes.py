"""Logs that commands create, move and delete while brokers run."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import resprout
from resprout.client.errors import LogError, ReadError
from resprout.journal.reading import open_reader
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import read_entry
from resprout.net.broker import serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.data_folder import remembered
from resprout.net.disk import RealFiles
from resprout.net.log_stores import LOGS
from tests.net.stage import LOOPBACK, QUICK, STACK, Running, run, until
from tests.net.test_logs import bundles, publish, read_all

OPTIONS = STACK.parse_options({})


@contextlib.asynccontextmanager
async def broker(name: str, data: Path | None, root: Running | None = None, life: int = 1) -> AsyncIterator[Running]:
    """A broker without logs in its configuration; it ends as if it was killed."""
    notes: list[resprout.core.contract.Note] = []
    above, peers = ("b0", {"b0": root.address}) if root is not None else (None, {})
    folder = data / name if data is not None else None
    memory = remembered(folder).memory
    spec = BrokerToRun(name, life, LOOPBACK, above, peers, data=folder, founds=root is None, memory=memory)
    running, address = await serve(spec, STACK, OPTIONS, QUICK, notes.append)
    try:
        yield Running(running, address, notes)
    finally:
        await running.close()


def logs_of(*brokers: Running) -> list[list[LogDeclaration]]:
    return [list(each.machine.logs.table.logs) for each in brokers]


def kept(data: Path, name: str, log: LogDeclaration) -> list[bytes]:
    folder = data / name / LOGS / log.entries
    if not any(folder.glob("*.journal")):
        return []
    reader = open_reader(RealFiles(folder))
    found = [read_entry(each.record) for each in reader.all_from(reader.first)]
    return bundles([entry for entry in found if entry is not None])


def test_a_log_is_created_while_brokers_run_and_keeps_every_later_message(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            broker("b0", tmp_path) as b0,
            broker("b1", tmp_path, b0) as b1,
            broker("b2", tmp_path, b0) as b2,
            broker("b3", None, b0) as b3,
            resprout.connect(str(b3), name="p") as p,
        ):
            await p.create_log("ev", "ev/#", replicas=["b0", "b1", "b2"])
            sent = await publish(p, 0, 50)
            with pytest.raises(LogError, match="there is a log ev already"):
                await p.create_log("ev", "ev/#", replicas=["b0"])
            with pytest.raises(LogError, match="living brokers of the network: b9"):
                await p.create_log("other", "other/#", replicas=["b9"])
            (log,) = b0.machine.logs.table.logs
            await until(lambda: all(kept(tmp_path, name, log) == sent for name in log.replicas))
            await until(lambda: logs_of(b0, b1, b2, b3) == [[log]] * 4)
            for number, each in enumerate((b0, b1, b2, b3)):
                async with resprout.connect(str(each), name=f"r{number}") as r:
                    assert [one.message.payload for one in await read_all(r)] == sent

    run(scene())


def test_a_deleted_log_is_gone_at_every_broker_and_its_name_can_be_used_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            broker("b0", tmp_path) as b0,
            broker("b1", tmp_path, b0) as b1,
            resprout.connect(str(b1), name="p") as p,
        ):
            await p.create_log("ev", "ev/#", replicas=["b0"])
            await publish(p, 0, 5)
            (first,) = b0.machine.logs.table.logs
            await until(lambda: len(kept(tmp_path, "b0", first)) == 5)
            await p.delete_log("ev")
            await until(lambda: logs_of(b0, b1) == [[], []] and not kept(tmp_path, "b0", first))
            with pytest.raises(ReadError, match="there is no log ev"):
                await p.read("ev/#", log="ev")
            with pytest.raises(LogError, match="there is no log ev"):
                await p.delete_log("ev")
            for each in (b0, b1):  # its feed holds back no publisher
                states = each.machine.parts.client_book.durables.states
                await until(lambda states=states: all(state.over for state in states.values()))
            await p.create_log("ev", "ev/#", replicas=["b1"])
            later = await publish(p, 5, 10)
            (second,) = b0.machine.logs.table.logs
            await until(lambda: kept(tmp_path, "b1", second) == later)
            assert [one.message.payload for one in await read_all(p)] == later

    run(scene())


def test_logs_that_commands_created_survive_a_restart_of_all_brokers(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, resprout.connect(str(b0), name="p") as p:
            await p.create_log("ev", "ev/#", replicas=["b0"])
            await p.create_log("gone", "gone/#", replicas=["b0"])
            await p.delete_log("gone")
            sent = await publish(p, 0, 5)
            (log,) = b0.machine.logs.table.logs
            await until(lambda: kept(tmp_path, "b0", log) == sent)
        async with broker("b0", tmp_path, life=2) as b0, resprout.connect(str(b0), name="q") as q:
            assert logs_of(b0) == [[log]]
            await until(lambda: b0.machine.logs.replicas[log.key].can_read)
            assert [one.message.payload for one in (await q.read("ev/#", log="ev")).messages] == sent

    run(scene())


def test_a_broker_that_was_away_learns_what_commands_declared_meanwhile(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, resprout.connect(str(b0), name="p") as p:
            await p.create_log("ev", "ev/#", replicas=["b0"])
            async with broker("b1", None, b0) as b1:
                await until(lambda: logs_of(b1) == logs_of(b0))
                async with resprout.connect(str(b1), name="q") as q:
                    sent = await publish(q, 0, 5)
                    await until(lambda: kept(tmp_path, "b0", b0.machine.logs.table.logs[0]) == sent)
                    assert [one.message.payload for one in await read_all(q)] == sent

    run(scene())


def test_a_replica_that_is_gone_for_good_is_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, broker("b1", tmp_path, b0) as b1, broker("b3", tmp_path, b0) as b3:
            async with broker("b2", tmp_path, b0), resprout.connect(str(b1), name="p") as p:
                await p.create_log("ev", "ev/#", replicas=["b0", "b1", "b2"])
                sent = await publish(p, 0, 20)
                (log,) = b0.machine.logs.table.logs
                await until(lambda: all(kept(tmp_path, name, log) == sent for name in log.replicas))
            async with resprout.connect(str(b3), name="q") as q:
                await q.move_log("ev", ["b0", "b1", "b3"])
                sent += await publish(q, 20, 40)
                await until(lambda: all(kept(tmp_path, name, log) == sent for name in ("b0", "b1", "b3")))
                members = [each.machine.logs.replicas[log.key] for each in (b0, b1, b3)]
                brokers = {"b0", "b1", "b3"}
                await until(lambda: all({one.split(".")[0] for one in each.members} == brokers for each in members))
                assert [one.message.payload for one in await read_all(q)] == sent

    run(scene())


def test_a_log_at_a_broker_without_a_data_folder_does_not_run_and_says_why(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", None) as b0, resprout.connect(str(b0), name="p") as p:
            with pytest.raises(resprout.TimedOutError, match="is declared, and does not run"):
                await p.create_log("ev", "ev/#", replicas=["b0"], timeout=1)
            (notice,) = [each for each in b0.machine.status().notices if "log ev" in each]
            assert "needs a data folder" in notice
            await p.delete_log("ev")
            await until(lambda: not b0.machine.status().logs)

    run(scene())
