"""The works of `bench_checks` in one version of the code: `python checks_worker.py`, with that version on its path.

Everything it needs comes from the tree that it is given, also the other benchmarks, so each version works in its own
words. A line on standard input names a work, a line on standard output is its rate: messages in a second of processor
time, which a busy machine does not change much.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks import bench_guarded, bench_steps
from resprout.net.door import Door

MESSAGES = 20_000
REPLAYS = 3
LONE = {"lone messages through one broker": 1, "lone messages through three brokers in a row": 3}
DOORS = {"a broker and two clients": bench_guarded.NOTHING, "a broker and two clients, with rules": "with rules"}


async def main() -> None:
    works: dict[str, Callable[[], Awaitable[float]]] = {}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, brokers in LONE.items():
            works[name] = _replay(bench_steps.record(brokers))
        doors = bench_guarded._doors(folder)
        for name, door in DOORS.items():
            works[name] = await _flood(stack, doors[door], folder, door)
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(await works[line.strip()](), flush=True)


def _replay(lives: list[bench_steps.Recorded]) -> Callable[[], Awaitable[float]]:
    async def work() -> float:
        begin = time.process_time()
        messages = sum(bench_steps.replay(lives) for _ in range(REPLAYS))
        return messages / (time.process_time() - begin)

    return work


async def _flood(
    stack: contextlib.AsyncExitStack, door: tuple[Door, bool], folder: Path, name: str
) -> Callable[[], Awaitable[float]]:
    publisher, inbox = await stack.enter_async_context(bench_guarded._work(*door, folder, name))

    async def work() -> float:
        begin = time.process_time()
        await bench_guarded._flood(publisher, inbox, MESSAGES)
        return MESSAGES / (time.process_time() - begin)

    return work


if __name__ == "__main__":
    asyncio.run(main())
