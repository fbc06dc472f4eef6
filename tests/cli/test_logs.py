"""`resprout log` at a network of one broker that keeps a log."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import resprout
from resprout.cli.main import command
from resprout.logs.declaration import LogDeclaration
from tests.net.stage import run
from tests.net.test_log_changes import broker
from tests.net.test_logs import is_fed, publish, replica

LOG = LogDeclaration("ev", "ev/#", ("b0",))


async def said(*words: str, status: int | None = 0) -> str:
    done = await asyncio.to_thread(CliRunner().invoke, command, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == status, done.output
    return done.output


def test_logs_are_listed_and_described(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path, log=LOG) as b0, resprout.connect(str(b0), name="p") as p:
            await is_fed(b0)
            await publish(p, 0, 10)
            inbox = await p.subscribe("ev/#", log="ev", replay_from="earliest")
            for _ in range(10):
                await inbox.next(timeout=60)
            await p.commit("ev", "billing", 4)
            server = ("--server", str(b0))
            assert "log ev  ev/#  leader b0  offsets 0 to 9  replicas b0  fed from b0" in await said(
                "log", "list", *server
            )
            text = await said("log", "describe", "ev", *server)
            assert "position billing  4, lag 6" in text and "replica b0  leader  offsets 0 to 9, 0 behind" in text
            (view,) = msgspec.json.decode(await said("log", "list", "--json", *server))
            assert (view["leader"], view["end"], view["positions"][0]["lag"]) == ("b0", 10, 6)
            assert "log ev  ev/#" in await said("status", *server, status=1)  # `safe` has one copy here

    run(scene())


def test_partitions_are_listed_and_described(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, resprout.connect(str(b0), name="p") as p:
            server = ("--server", str(b0))
            done = await said("log", "create", "ev", "ev/#", "--replicas", "1", "--partitions", "3", *server)
            assert done == "log ev keeps ev/# at b0 in 3 partitions\n"
            for number in range(12):
                receipt = await p.publish("ev/x", b"%d" % number, keys=[f"k{number}"])
            await receipt.safe()
            inbox = await p.subscribe("ev/#", log="ev", replay_from="earliest")
            for _ in range(12):
                await inbox.next(timeout=60)
            listed = await said("log", "list", *server)
            assert [line.split()[1] for line in listed.splitlines()] == ["ev~0", "ev~1", "ev~2"]
            text = await said("log", "describe", "ev", *server)
            assert all(f"log ev~{number} keeps ev/#" in text for number in range(3))
            assert "ev~2" not in await said("log", "describe", "ev~1", *server)
            assert await said("log", "delete", "ev", *server) == "log ev is deleted\n"

    run(scene())


def test_logs_are_created_replaced_and_deleted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, broker("b1", tmp_path, b0), broker("b2", None, b0):
            server = ("--server", str(b0))
            done = await said("log", "create", "ev", "ev/#", "--replicas", "1", "--retain", "24h", *server)
            assert done == "log ev keeps ev/# at b0\n"
            assert "log ev  ev/#  leader b0  offsets none  replicas b0  fed from b0" in await said(
                "log", "list", *server
            )
            assert await said("log", "replace", "ev", "b0", "b1", *server) == "log ev moves to b1\n"
            with pytest.raises(resprout.UsageError, match="b0 keeps no replica of the log ev; its replicas are b1"):
                await said("log", "replace", "ev", "b0", "b2", *server)
            with pytest.raises(resprout.UsageError, match="3 replicas need as many brokers that run with --data"):
                await said("log", "create", "three", "three/#", *server)
            assert await said("log", "delete", "ev", *server) == "log ev is deleted\n"
            assert await said("log", "list", *server) == "no logs are declared\n"
            with pytest.raises(resprout.LogError, match="there is no log ev"):
                await said("log", "delete", "ev", *server)

    run(scene())


def test_the_journal_of_a_replica_is_shown_and_verified(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, resprout.connect(str(b0), name="p") as p:
            for _ in range(2):
                await p.create_log("ev", "ev/#", replicas=["b0"], partitions=2)
                await p.delete_log("ev")
            await p.create_log("ev", "ev/#", replicas=["b0"])
            await publish(p, 0, 10)
            inbox = await p.subscribe("ev/#", log="ev", replay_from="earliest")
            for _ in range(10):
                await inbox.next(timeout=60)
            text = await said("journal", str(tmp_path / "b0"), "--log", "ev", "--verify", status=None)
            assert "log ev: offsets 0 to 9" in text and "records are intact" in text
            facts = msgspec.json.decode(
                await said("journal", str(tmp_path / "b0"), "--log", "ev", "--json", status=None)
            )
            assert (facts["first_offset"], facts["end_offset"]) == (0, 10)
            with pytest.raises(resprout.UsageError, match="keeps no replica of the log other; it keeps: ev"):
                await said("journal", str(tmp_path / "b0"), "--log", "other")
            with pytest.raises(resprout.UsageError, match="different journals"):
                await said("journal", str(tmp_path / "b0"), "--log", "ev", "--events")

    run(scene())
