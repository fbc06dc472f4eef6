"""Exactly once from queue to queue with processes: SIGKILL workers and the broker that holds the queue."""

import asyncio
import contextlib
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import resprout
from tests.net.stage import run
from tests.net.test_work_queue import Tree, home_of_workers
from tests.patience import PATIENCE_S
from tests.soak import cases

WORKERS = 3
JOBS = 60
KILLS = 6
"""Of workers; in the middle, the broker that holds the queue is killed, too."""

WORKER = """
import asyncio, sys
import resprout

async def main(name, *servers):
    async with resprout.connect(list(servers), name=name) as client:
        inbox = await client.subscribe("jobs/#", group="workers", window=8, manual_ack=True)
        async def work(job):
            await job.publish_and_ack("results", job.payload, attributes={"by": name})
        while True:
            jobs = [await inbox.next()]
            while (job := inbox.next_nowait()) is not None:
                jobs.append(job)
            await asyncio.gather(*map(work, jobs))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.timeout(2 * PATIENCE_S + 60)
@pytest.mark.parametrize("seed", range(cases(1, 20)))
def test_each_job_has_one_result_while_workers_and_their_broker_are_killed(seed: int, tmp_path: Path) -> None:
    """Each job is published twice with one id. Results are read by a durable subscription and by a plain one."""
    rng = Random(seed)
    (tmp_path / "worker.py").write_text(WORKER)
    workers: list[asyncio.subprocess.Process] = []
    started = 0

    async def hire(tree: Tree) -> None:
        nonlocal started
        started += 1
        words = (sys.executable, str(tmp_path / "worker.py"), f"w{started}", *tree.servers)
        workers.append(await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL))

    async def dismiss(worker: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()

    async def scene(tree: Tree) -> None:
        async with resprout.connect(tree.servers, name="boss") as boss:
            kept = await boss.subscribe("results", durable="kept")
            plain = await boss.subscribe("results")
            for _ in range(WORKERS):
                await hire(tree)
            await home_of_workers(boss, tree)
            for turn in range(KILLS):
                for job in range(turn * JOBS // KILLS, (turn + 1) * JOBS // KILLS):
                    for _ in range(2):
                        await boss.publish("jobs/eu", b"%d" % job, message_id=str(job))
                home = await home_of_workers(boss, tree)
                await asyncio.sleep(rng.random() / 5)
                await dismiss(workers.pop(rng.randrange(WORKERS)))
                if turn == KILLS // 2:
                    tree.kill(home)
                    tree.start()
                await hire(tree)
            results: list[Counter[int]] = []
            for inbox in (kept, plain):
                found = Counter([int((await inbox.next(PATIENCE_S)).payload) for _ in range(JOBS)])
                results.append(found)
            for inbox, found in zip((kept, plain), results, strict=True):
                with pytest.raises(resprout.TimedOutError):
                    await inbox.next(1)
                assert found == Counter(range(JOBS))

    async def whole(tree: Tree) -> None:
        try:
            await scene(tree)
        finally:
            for worker in workers:
                await dismiss(worker)

    with contextlib.ExitStack() as stack:
        run(whole(Tree(stack)), 2 * PATIENCE_S)
