"""Processes of clients are killed in the middle of what they do."""

import asyncio
import random
import sys

import msgspec

from resprout.client.connect import connect
from resprout.client.inbox import Inbox

from .stage import QUICK, broker, run, until

BRIEF = msgspec.structs.replace(QUICK, session_linger_us=100_000)

PUBLISHER = """
import asyncio, sys
from resprout.client.connect import connect

async def main():
    client = await connect(sys.argv[1], name="p")
    number = 0
    while True:
        receipts = []
        for number in range(number + 1, number + 51):
            receipts.append(await client.publish("t", number.to_bytes(4, "big") + bytes(100)))
        await receipts[-1].safe()
        print(number, flush=True)

asyncio.run(main())
"""

SUBSCRIBER = """
import asyncio, sys
from resprout.client.connect import connect

async def main():
    client = await connect(sys.argv[1], name="victim")
    inbox = await client.subscribe("t")
    print("subscribed", flush=True)
    async for message in inbox:
        await asyncio.sleep(0.0005)

asyncio.run(main())
"""


async def start(script: str, address: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, address, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip


async def kill(process: asyncio.subprocess.Process) -> list[bytes]:
    """What it had still said."""
    process.kill()
    said, _ = await process.communicate()
    return said.splitlines()


async def numbers_until(inbox: Inbox, mark: bytes) -> list[int]:
    got: list[int] = []
    while (message := await inbox.next()).payload != mark:
        got.append(int.from_bytes(message.payload[:4], "big"))
    return got


def test_a_publisher_that_is_killed_loses_nothing_that_was_confirmed() -> None:
    async def scene() -> None:
        rng = random.Random(3)
        async with broker(links=BRIEF) as running, connect(str(running), name="witness") as witness:
            inbox = await witness.subscribe("t")
            for life in range(4):
                process = await start(PUBLISHER, str(running))
                assert process.stdout is not None
                confirmed = [int(await process.stdout.readline())]
                await asyncio.sleep(rng.random() * 0.1)
                confirmed += map(int, await kill(process))
                await until(lambda: running.sessions == ["witness"])
                mark = b"end of life %d" % life
                await witness.publish("t", mark)
                got = await numbers_until(inbox, mark)
                assert got == list(range(1, len(got) + 1))
                assert len(got) >= confirmed[-1]

    run(scene())


def test_a_subscriber_that_is_killed_is_owed_nothing_and_the_others_miss_nothing() -> None:
    async def scene() -> None:
        async with (
            broker(links=BRIEF, options={"log_bytes": 100_000}) as running,
            connect(str(running), name="publisher") as publisher,
            connect(str(running), name="witness") as witness,
        ):
            inbox = await witness.subscribe("t")
            process = await start(SUBSCRIBER, str(running))
            assert process.stdout is not None and await process.stdout.readline() == b"subscribed\n"
            reading = asyncio.create_task(numbers_until(inbox, b"end"))
            for number in range(1, 5001):
                await publisher.publish("t", number.to_bytes(4, "big") + bytes(200))
                if number == 2000:
                    await kill(process)
            receipt = await publisher.publish("t", b"end")
            assert await reading == list(range(1, 5001))
            await receipt.delivered()
            assert running.machine.parts.log.bytes_held == 0

    run(scene())
