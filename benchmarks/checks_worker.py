"""The works of `bench_checks` in one version of the code: `python checks_worker.py`, with that version on its path.

Everything it needs comes from the tree that it is given, also the other benchmarks, so each version works in its own
words. A line on standard input names a work, a line on standard output is its rate: messages in a second of processor
time, which a busy machine does not change much. With `count` before it: the instructions of Python for a message.
"""

import asyncio
import contextlib
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import bench_guarded, bench_steps
from resprout.net.door import Door

MESSAGES = 5_000
COUNT = "count"
LONE = {"lone messages through one broker": 1, "lone messages through three brokers in a row": 3}
DOORS = {"a broker and two clients": bench_guarded.NOTHING, "a broker and two clients, with rules": "with rules"}


async def main() -> None:
    works: dict[str, Callable[[], Awaitable[float]]] = {}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, brokers in LONE.items():
            lives = bench_steps.record(brokers)
            works[name] = _replay(lives)
            works[f"{COUNT} {name}"] = _count(lives)
        doors = bench_guarded._doors(folder)
        for name, door in DOORS.items():
            works[name] = await _flood(stack, doors[door], folder, door)
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            gc.collect()
            gc.disable()  # when it runs is chance
            print(await works[line.strip()](), flush=True)
            gc.enable()


def _replay(lives: list[bench_steps.Recorded]) -> Callable[[], Awaitable[float]]:
    async def work() -> float:
        begin = time.process_time()
        messages = bench_steps.replay(lives)
        return messages / (time.process_time() - begin)

    return work


def _count(lives: list[bench_steps.Recorded]) -> Callable[[], Awaitable[float]]:
    async def work() -> float:
        count = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal count
            if event == "call":
                frame.f_trace_opcodes = True
                frame.f_trace_lines = False
            count += event == "opcode"
            return trace

        sys.settrace(trace)
        try:
            messages = bench_steps.replay(lives)
        finally:
            sys.settrace(None)
        return count / messages

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
