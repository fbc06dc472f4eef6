"""What hostile, stuck and slow peers cost a process, measured from outside."""

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from resprout.client.connect import connect
from resprout.edge.messages import Attend, Subscribe
from resprout.links.options import LinkOptions
from resprout.net.connection import TcpConnection
from resprout.net.process import BrokerPlan, BrokerProcess
from resprout.wire.codec import PREAMBLE
from tests.fork_server import executed
from tests.net.stage import bare, broker, hello, let_pass, reset, run, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

MIB = 1 << 20
PAYLOAD = bytes(8_000)


def memory(pid: int) -> int:
    """Bytes that the process has had in memory at most so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmHWM")


@contextlib.asynccontextmanager
async def broker_process(log_bytes: int = 4 * MIB, **links: int) -> AsyncIterator[BrokerProcess]:
    process = BrokerProcess(
        BrokerPlan(name="b0", options={"log_bytes": log_bytes, "subscriber_bytes": log_bytes}, links=links)
    )
    with executed():  # a forked process shares pages with the fork server, which hides growth
        await process.start()
    try:
        yield process
    finally:
        await process.stop(1)


async def publish_and_count(address: str, count: int) -> None:
    """A publisher and a reader that does read."""
    async with connect(address, name="p") as publisher, connect(address, name="reader") as reader:
        inbox = await reader.subscribe("t")

        async def publish() -> None:
            for _ in range(count):
                receipt = await publisher.publish("t", PAYLOAD)
            await receipt.delivered()

        publishing = asyncio.create_task(publish())
        for _ in range(count):
            await inbox.next()
        await publishing


def test_subscribers_that_never_read_cost_the_broker_no_more_than_their_windows_and_the_log() -> None:
    """A hundred megabytes pass by two of them; one grants without end, one as much as honest clients do."""

    async def scene() -> None:
        async with (
            broker_process(heartbeat_us=300_000, silence_us=1_500_000, session_linger_us=200_000) as process,
            bare(process.address) as greedy,
            bare(process.address) as usual,
        ):
            for stuck, name, grant in ((greedy, "greedy", 1 << 60), (usual, "usual", 4 * MIB)):
                await stuck.greet(name, grant=grant)
                stuck.say_messages(1, Attend(0), Subscribe(1, "t", None), grant=grant)
                stuck.stop_reading()
            before = memory(process.pid)
            await publish_and_count(str(process.address), 100 * MIB // len(PAYLOAD))
            grown = memory(process.pid) - before
            assert grown < 60 * MIB, grown

    run(scene())


def test_frames_that_are_announced_and_greetings_that_never_end_cost_next_to_nothing() -> None:
    async def scene() -> None:
        async with broker_process() as process, contextlib.AsyncExitStack() as stack:
            await publish_and_count(str(process.address), 100)
            before = memory(process.pid)
            for number in range(300):
                peer = await stack.enter_async_context(bare(process.address))
                if number % 3 == 0:
                    peer.writer.write(PREAMBLE + b"\x40\0\0\0" + bytes(200_000))
                elif number % 3 == 1:
                    peer.writer.write(PREAMBLE + b"\0\0\x10\0" + bytes(4095))
                else:
                    await peer.greet(f"m{number}")
                    peer.writer.write(b"\x40\0\0\0" + bytes(200_000))
            await publish_and_count(str(process.address), 100)
            assert memory(process.pid) - before < 30 * MIB

    run(scene())


def test_thousands_of_greetings_from_strangers_cost_a_bounded_amount() -> None:
    async def visit(process: BrokerProcess, number: int) -> None:
        async with bare(process.address) as peer:
            peer.say(hello(f"stranger-{number}"))
            with contextlib.suppress(EOFError):  # a broker that is slow to greet makes room for others
                await peer.hear()
            reset(peer.writer)

    async def scene() -> None:
        async with broker_process(session_linger_us=1_000) as process:
            await publish_and_count(str(process.address), 100)
            grown = []
            for _ in range(3):
                before = memory(process.pid)
                for batch in range(0, 1000, 100):
                    await asyncio.gather(*(visit(process, number) for number in range(batch, batch + 100)))
                grown.append(memory(process.pid) - before)
            assert grown[-1] < 2 * MIB, grown
            await publish_and_count(str(process.address), 100)

    run(scene())


SLOW_SUBSCRIBER = """
import asyncio, sys
from resprout.client.connect import connect

async def main():
    async with connect(sys.argv[1], name="slow") as client:
        inbox = await client.subscribe("t", when_full="block")
        print("subscribed", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for number in range(int(sys.argv[2])):
            await inbox.next()
        print("all", flush=True)

asyncio.run(main())
"""


def test_a_subscriber_that_does_not_take_its_messages_does_not_grow_with_them() -> None:
    count = 60 * MIB // len(PAYLOAD)

    async def scene() -> None:
        async with broker_process() as process, connect(str(process.address), name="p") as publisher:
            slow = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SLOW_SUBSCRIBER, str(process.address), str(count),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                assert slow.stdin is not None and slow.stdout is not None
                assert await slow.stdout.readline() == b"subscribed\n"
                before, broker_before = memory(slow.pid), memory(process.pid)
                published = 0

                async def publish() -> None:
                    nonlocal published
                    for _ in range(count):
                        await publisher.publish("t", PAYLOAD)
                        published += 1

                publishing = asyncio.create_task(publish())
                reached = -1
                while reached != published:
                    reached = published
                    await let_pass(0.3)
                assert reached < count // 2, "the publisher waits"
                assert memory(slow.pid) - before < 30 * MIB
                slow.stdin.write(b"go on\n")
                assert await slow.stdout.readline() == b"all\n"
                await publishing
                assert memory(slow.pid) - before < 40 * MIB
                assert memory(process.pid) - broker_before < 40 * MIB
                await slow.wait()
            finally:
                if slow.returncode is None:
                    slow.kill()
                    await slow.wait()

    run(scene())


def test_connections_that_end_are_freed_without_the_garbage_collector() -> None:
    """Each was part of cycles, so that a broker needed full collections, which stop it for 50 to 280 ms."""

    async def scene() -> None:
        async with broker(links=LinkOptions(session_linger_us=1)) as running:

            async def come(name: str) -> None:
                async with bare(running.address) as peer:
                    await peer.greet(name)
                    peer.say_messages(1, Attend(0), Subscribe(1, "x", None))
                    await peer.hear()

            await come("first")
            await until(lambda: not running.host.all_connections())
            gc.collect()
            gc.disable()
            try:
                for number in range(3):
                    await come(f"c{number}")
                await until(lambda: not running.host.all_connections())
                await until(lambda: not [one for one in gc.get_objects() if isinstance(one, TcpConnection)])
            finally:
                gc.enable()

    run(scene(), fast_loop=True)
