"""Broker processes and trees of them: started, frozen, killed, started again, and none left behind."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.core.errors import UsageError
from resprout.net.address import Address
from resprout.net.orders import Announcement, Said, SaidNote, announcement_line
from resprout.net.process import BrokerPlan, BrokerProcess, ProcessError
from resprout.net.tree import LocalTree, delays_of
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import BrokerSpec, Scenario
from tests.patience import PATIENCE_S

CHAIN = Scenario("a chain", (BrokerSpec("b0"), BrokerSpec("b1", "b0"), BrokerSpec("b2", "b1")))


def bounded(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_announces_its_address_and_ends_in_good_order() -> None:
    async def run() -> None:
        process = BrokerProcess(BrokerPlan(name="b0", incarnation=7))
        address = await process.start()
        assert address.port and process.address == address
        assert process.running and process.incarnation == 7
        async with connect(str(address)) as client:
            await (await client.publish("t", b"x")).accepted()
        await process.stop()
        assert (process.running, process.status, process.deliberate) == (False, 0, True)

    bounded(run())


def test_a_broker_that_notes_something_before_it_listens_is_understood() -> None:
    """A broker that remembers its network notes `reunited`, perhaps before the line with its address."""
    said: list[Said] = [SaidNote("reunited", 1, {}), Announcement("b0", "127.0.0.1:7450", 1), SaidNote("joined", 2, {})]

    class Talking(BrokerPlan, frozen=True):
        def command(self) -> list[str]:
            return [sys.executable, "-c", f"print({chr(10).join(map(announcement_line, said))!r}, flush=True)"]

    async def run() -> None:
        notes: list[str] = []
        process = BrokerProcess(Talking(name="b0"), on_note=lambda _, note: notes.append(note.kind))
        assert await process.start() == Address("127.0.0.1", 7450)
        await process.wait()
        assert notes == ["reunited", "joined"]

    bounded(run())


def test_a_plan_that_the_broker_refuses_is_a_usage_error_and_leaves_no_process() -> None:
    async def run() -> None:
        process = BrokerProcess(BrokerPlan(name="b0", options={"fault_tolerated": 1}))
        with pytest.raises(UsageError, match="did you mean 'faults_tolerated'"):
            await process.start()
        assert not process.running and not is_alive(process.pid)

    bounded(run())


def test_a_process_that_does_not_listen_in_time_is_killed() -> None:
    async def run() -> None:
        process = BrokerProcess(BrokerPlan(name="b1", parent=Address("127.0.0.1", 1)))
        with pytest.raises(ProcessError, match=r"b1 did not listen within 0\.2 s"):
            await process.start(0.2)
        assert not is_alive(process.pid)

    bounded(run())


def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    async def run() -> None:
        process = BrokerProcess(BrokerPlan(name="b1", parent=Address("127.0.0.1", 1)))
        start = asyncio.create_task(process.start())
        while not process.running:
            await asyncio.sleep(0.01)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert not is_alive(process.pid)

    bounded(run())


def test_options_of_every_kind_reach_the_broker() -> None:
    async def run() -> None:
        plan = BrokerPlan(
            name="b0", options={"faults_tolerated": 0}, links={"window_bytes": 65_536}, delays_us={"c0": 60_000}
        )
        process = BrokerProcess(plan)
        address = await process.start()
        try:
            async with connect(str(address), name="c0") as client:
                assert client.faults_tolerated == 0
                began = time.monotonic()
                await (await client.publish("t", b"x")).accepted()
                assert time.monotonic() - began > 0.05  # never less, however fast the machine is
        finally:
            await process.stop()

    bounded(run())


def test_a_frozen_process_says_nothing_until_it_is_unfrozen() -> None:
    async def run() -> None:
        process = BrokerProcess(BrokerPlan(name="b0"))
        address = await process.start()
        try:
            async with connect(str(address)) as client:
                process.freeze()
                receipt = await client.publish("t", b"x")
                await asyncio.sleep(0.3)
                assert receipt.state == "published"
                process.unfreeze()
                await receipt.accepted()
                process.freeze()
        finally:
            await process.stop()
        assert process.status == 0, "it was woken to say goodbye"

    bounded(run())


def test_a_tree_carries_messages_from_end_to_end() -> None:
    async def run() -> None:
        async with LocalTree(CHAIN) as tree:
            pids = [process.pid for process in tree.processes]
            assert [process.name for process in tree.processes] == ["b0", "b1", "b2"]
            async with connect(str(tree.address("b0"))) as reader, connect(str(tree.address("b2"))) as writer:
                inbox = await reader.subscribe("t")
                await (await writer.publish("t", b"x")).accepted()
                assert (await inbox.next()).hops == 2
        assert not any(is_alive(pid) for pid in pids)

    bounded(run())


def test_latencies_are_emulated_in_both_directions() -> None:
    async def run() -> None:
        brokers = (BrokerSpec("b0"), BrokerSpec("b1", "b0", latency_us=50_000))
        tree = LocalTree(Scenario("far", brokers), emulate_latency=True)
        async with tree, connect(str(tree.address("b1"))) as writer:
            began = time.monotonic()
            await (await writer.publish("t", b"x")).safe()  # there and back
            assert time.monotonic() - began > 0.09  # never less, however fast the machine is

    bounded(run())


def test_a_tree_with_a_broker_that_cannot_start_leaves_none(tmp_path: Path) -> None:
    async def run() -> None:
        tree = LocalTree(CHAIN, rules=tmp_path / "missing.toml")
        with pytest.raises(UsageError, match=r"missing\.toml"):
            await tree.start()
        assert not any(process.running for process in tree.processes)

    bounded(run())


def test_only_an_end_that_nobody_asked_for_is_unexpected() -> None:
    async def run() -> None:
        async with LocalTree(CHAIN) as tree:
            fallen = asyncio.create_task(tree.unexpected_end())
            tree.process("b2").kill()
            assert await tree.process("b2").wait() == -signal.SIGKILL
            assert not fallen.done()
            os.kill(tree.process("b1").pid, signal.SIGKILL)
            assert (await fallen).name == "b1"
            assert "was killed by SIGKILL" in tree.process("b1").epitaph

    bounded(run())


def test_a_broker_starts_again_at_the_same_address_in_its_next_life() -> None:
    async def run() -> None:
        async with LocalTree(CHAIN) as tree:
            address = tree.address("b2")
            with pytest.raises(ProcessError, match="still running"):
                await tree.restart("b2")
            tree.process("b2").kill()
            await tree.process("b2").wait()
            assert await tree.restart("b2") == address
            assert tree.process("b2").incarnation == 2
            assert await tree.join(BrokerSpec("b3", "b2")) == tree.address("b3")

    bounded(run())


def test_a_tree_passes_on_what_its_brokers_note() -> None:
    async def run() -> None:
        notes: asyncio.Queue[tuple[str, SaidNote]] = asyncio.Queue()
        tree = LocalTree(CHAIN, on_note=lambda process, note: notes.put_nowait((process.name, note)))
        async with tree:
            while (said := await notes.get())[1].kind != "joined":
                pass
            name, note = said
            assert name in ("b1", "b2") and note.columns["detail"] in ("b0", "b1")
            assert 0 <= time.monotonic_ns() // 1_000 - note.time_us < PATIENCE_S * 1e6

    bounded(run())


def test_latencies_of_links_that_a_repair_may_make_follow_the_tree() -> None:
    scenario = parse_scenario(
        """
        [[broker]]
        name = "b0"
        [[broker]]
        name = "b1"
        parent = "b0"
        latency = "10ms"
        [[broker]]
        name = "b2"
        parent = "b0"
        latency = "30ms"
        [[client]]
        name = "c0"
        broker = "b1"
        latency = "5ms"
        [[client]]
        name = "c1"
        broker = "b1"
        [[fault]]
        at = "1s"
        kind = "join"
        nodes = ["b3"]
        parent = "b2"
        latency = "7ms"
        """
    )
    assert delays_of(scenario) == {
        "b0": {"b1": 10_000, "b2": 30_000, "b3": 37_000, "c0": 15_000, "c1": 10_100},
        "b1": {"b0": 10_000, "b2": 40_000, "b3": 47_000, "c0": 5_000},
        "b2": {"b0": 30_000, "b1": 40_000, "b3": 7_000, "c0": 45_000, "c1": 40_100},
        "b3": {"b0": 37_000, "b1": 47_000, "b2": 7_000, "c0": 52_000, "c1": 47_100},
        "c0": {"b0": 15_000, "b1": 5_000, "b2": 45_000, "b3": 52_000},
        "c1": {"b0": 10_100, "b2": 40_100, "b3": 47_100},
    }
