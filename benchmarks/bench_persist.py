"""What it costs to keep records before anything leaves: through the driver's thread, next to the bare disk."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Measure, interleaved
from resprout.core.contract import Answer, Effect, Persist
from resprout.journal.journal import Records
from resprout.net.data_folder import open_folder
from resprout.net.durable import DurableEffects

RECORD = bytes(200)


def run(quick: bool = False) -> list[Measure]:
    count, rounds = (200, 3) if quick else (1_000, 7)
    with tempfile.TemporaryDirectory() as folder:
        bare = open_folder(Path(folder) / "bare", "bare")
        kept = open_folder(Path(folder) / "kept", "kept")

        def one_by_one() -> int:
            for _ in range(count):
                bare.records.apply([Persist(RECORD)], 0)
            return count

        alone, alone_kept, together_kept = interleaved(
            rounds,
            one_by_one,
            lambda: asyncio.run(_keep(kept.records, count, waiting=1)),
            lambda: asyncio.run(_keep(kept.records, count, waiting=64)),
        )
        bare.close()
        kept.close()
    yardstick = "write and fdatasync of one record after the other"
    return [
        Measure("steps that keep a record, one after the other", alone_kept, "steps/s", yardstick, alone),
        Measure("the same, 64 under way", together_kept, "steps/s", yardstick, alone),
    ]


async def _keep(records: Records, count: int, waiting: int) -> int:
    """Steps that persist a record and answer; so many are waited for at a time."""
    answered = 0
    done = asyncio.Event()
    under_way = asyncio.Semaphore(waiting)

    def execute(effects: Sequence[Effect]) -> None:
        nonlocal answered
        for _ in effects:
            answered += 1
            under_way.release()
        if answered == count:
            done.set()

    def fail(error: Exception) -> None:
        raise error

    durable = DurableEffects(records, execute, fail)
    for number in range(count):
        await under_way.acquire()
        execute(durable.pass_on([Persist(RECORD), Answer(number)]))
    await done.wait()
    durable.stop()
    return count
