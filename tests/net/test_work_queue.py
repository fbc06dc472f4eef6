"""A work queue with processes: poison and SIGKILL kill workers, SIGKILL a broker, and every job is accounted for."""

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import resprout
from tests.cli.processes import Running, broker
from tests.net.stage import run
from tests.patience import PATIENCE_S

WORKERS = 8
JOBS = 60
POISON = (7, 23, 41)
MAX_DELIVER = 3
ROUNDS = 3
"""In each of them, one worker and perhaps one broker are killed."""

WORKER = """
import asyncio, os, signal, sys
import resprout

async def main(name, folder, poison, *servers):
    policy = resprout.Redelivery(max_deliver=MAX_DELIVER, ack_wait=30.0)
    async with resprout.connect(list(servers), name=name) as client:
        inbox = await client.subscribe("jobs/#", group="workers", redelivery=policy, window=4, manual_ack=True)
        with open(f"{folder}/{name}", "ab", buffering=0) as done:
            async for job in inbox:
                if job.payload.decode() in poison.split(","):
                    os.kill(os.getpid(), signal.SIGKILL)
                done.write(b"%s %d\\n" % (job.payload, job.deliveries))
                job.ack()

asyncio.run(main(*sys.argv[1:]))
""".replace("MAX_DELIVER", str(MAX_DELIVER))


class Team:
    """Workers that are started again whenever one is gone."""

    def __init__(self, folder: Path, servers: list[str]) -> None:
        self._folder, self._servers = folder, servers
        (folder / "worker.py").write_text(WORKER)
        (folder / "done").mkdir()
        self._workers: dict[int, asyncio.subprocess.Process] = {}
        self.started = 0

    async def hire(self) -> None:
        """Start those that are missing."""
        for place in range(WORKERS):
            worker = self._workers.get(place)
            if worker is None or worker.returncode is not None:
                self.started += 1
                words = (f"w{self.started}", str(self._folder / "done"), ",".join(map(str, POISON)), *self._servers)
                self._workers[place] = await asyncio.create_subprocess_exec(
                    sys.executable, str(self._folder / "worker.py"), *words, stderr=asyncio.subprocess.DEVNULL
                )

    def kill(self, place: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._workers[place].kill()

    async def dismiss(self) -> None:
        for place, worker in self._workers.items():
            self.kill(place)
            await worker.wait()

    def done(self) -> Counter[int]:
        lines = [line for path in (self._folder / "done").iterdir() for line in path.read_text().splitlines()]
        return Counter([int(line.split()[0]) for line in lines])


@pytest.mark.timeout(PATIENCE_S + 60)
def test_every_job_is_done_or_a_dead_letter_while_workers_and_brokers_are_killed(tmp_path: Path) -> None:
    rng = Random(8)

    async def scene(servers: list[str], victim: Running) -> None:
        team = Team(tmp_path, servers[1:])
        await team.hire()
        try:
            async with resprout.connect(servers[0], name="boss") as boss:
                while sum([len(one.consumers) for one in (await boss.subscriptions()).subscriptions]) < 1:
                    await asyncio.sleep(0.1)
                letters = await boss.subscribe("dead/workers", group="workers.dead", manual_ack=True)
                dead: list[int] = []
                for first in range(0, JOBS, JOBS // ROUNDS):
                    for job in range(first, first + JOBS // ROUNDS):
                        await boss.publish("jobs/eu", b"%d" % job)
                    team.kill(rng.randrange(WORKERS))
                    if first:
                        victim.process.send_signal(signal.SIGKILL)
                    await team.hire()
                deadline = time.monotonic() + PATIENCE_S
                while set(team.done()) | set(dead) != set(range(JOBS)) and time.monotonic() < deadline:
                    await team.hire()
                    with contextlib.suppress(resprout.TimedOutError):
                        letter = await letters.next(0.5)
                        letter.ack()
                        dead.append(int(letter.payload))
                        assert letter.attributes["dead_topic"] == "jobs/eu"
                        assert letter.attributes["dead_deliveries"] == MAX_DELIVER
                await asyncio.sleep(0.5)
                assert set(team.done()) | set(dead) == set(range(JOBS))
                assert letters.next_nowait() is None
        finally:
            await team.dismiss()
        done = team.done()
        assert Counter(dead) == Counter(POISON), "each once, and no job that only stood beside one"
        assert set(done) == set(range(JOBS)) - set(POISON)

    with (
        broker("b0") as (_, root),
        broker("b1", "--join", root) as (victim, first),
        broker("b2", "--join", root) as (_, second),
    ):
        run(scene([root, first, second], victim), PATIENCE_S)
