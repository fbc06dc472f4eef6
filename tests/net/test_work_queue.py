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
from tests.soak import cases

WORKERS = 8
JOBS = 60
POISON = (7, 23, 41)
MAX_DELIVER = 3
BROKERS = 4
ROUNDS = 3
"""In each of them, two workers are killed."""
KILLS = cases(1, 2)
"""Brokers that are killed, one in each of the last rounds."""

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
                done.write(b"%s %d\\n" % (job.payload, job.redelivered))
                job.ack()

asyncio.run(main(*sys.argv[1:]))
""".replace("MAX_DELIVER", str(MAX_DELIVER))


class Team:
    """Workers that are started again whenever one is gone."""

    def __init__(self, folder: Path, servers: list[str]) -> None:
        self._folder, self.servers = folder, servers
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
                words = (f"w{self.started}", str(self._folder / "done"), ",".join(map(str, POISON)), *self.servers)
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

    def counts(self) -> dict[int, list[bool]]:
        """By job: how often it was done, and whether it was said then that it may have been before."""
        found: dict[int, list[bool]] = {}
        for path in (self._folder / "done").iterdir():
            for line in path.read_text().splitlines():
                job, redelivered = line.split()
                found.setdefault(int(job), []).append(redelivered == "1")
        return found

    def done(self) -> Counter[int]:
        return Counter({job: len(counts) for job, counts in self.counts().items()})


class Tree:
    """Brokers of which one is killed now and then, and replaced."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._brokers: dict[str, tuple[Running, str]] = {}
        self._started = 0
        for _ in range(BROKERS):
            self.start()

    @property
    def names(self) -> list[str]:
        return list(self._brokers)

    @property
    def servers(self) -> list[str]:
        return [address for _, address in self._brokers.values()]

    def start(self) -> None:
        name = f"b{self._started}"
        self._started += 1
        join = [word for address in self.servers[:2] for word in ("--join", address)]
        self._brokers[name] = self._stack.enter_context(broker(name, *join))

    def kill(self, name: str) -> None:
        process, _ = self._brokers.pop(name)
        process.process.send_signal(signal.SIGKILL)


async def home_of_workers(boss: resprout.Client, tree: Tree) -> str:
    """Return the broker that holds the group, once it is confirmed and no broker is missing: one may fail at a time."""
    while True:
        with contextlib.suppress(resprout.ReadError):  # the broker of the boss was killed
            found = await boss.subscriptions()
            for seen in found.subscriptions if not found.unanswered else ():
                if seen.name == "workers" and seen.consumers and seen.home in tree.names:
                    return seen.home
        await asyncio.sleep(0.1)


async def read_letters(boss: resprout.Client, dead: list[int]) -> None:
    letters = await boss.subscribe("dead/workers", group="workers.dead", manual_ack=True)
    async for letter in letters:
        assert letter.attributes["dead_topic"] == "jobs/eu"
        assert letter.attributes["dead_deliveries"] == MAX_DELIVER
        dead.append(int(letter.payload))
        letter.ack()


@pytest.mark.timeout(2 * PATIENCE_S + 60)
@pytest.mark.parametrize("seed", range(cases(1, 20)))
def test_every_job_is_done_or_a_dead_letter_while_workers_and_brokers_are_killed(seed: int, tmp_path: Path) -> None:
    """The home of the group is killed, too; it may be the broker of the publisher. Some jobs are delayed."""
    rng = Random(seed)

    async def scene(tree: Tree) -> None:
        team = Team(tmp_path, tree.servers)
        await team.hire()
        dead: list[int] = []
        reading: asyncio.Task[None] | None = None
        try:
            async with resprout.connect(tree.servers, name="boss") as boss:
                await home_of_workers(boss, tree)
                reading = asyncio.create_task(read_letters(boss, dead))
                for first in range(0, JOBS, JOBS // ROUNDS):
                    for job in range(first, first + JOBS // ROUNDS):
                        delay = rng.choice((None, None, 0.1, 1.0))
                        await boss.publish("jobs/eu", b"%d" % job, delay=delay, priority=rng.randrange(10))
                    for place in rng.sample(range(WORKERS), 2):
                        team.kill(place)
                    if first >= JOBS - KILLS * (JOBS // ROUNDS):
                        home = await home_of_workers(boss, tree)
                        tree.kill(home if rng.random() < 0.7 else rng.choice(tree.names))
                        tree.start()
                        team.servers = tree.servers
                    await team.hire()
                deadline = time.monotonic() + PATIENCE_S
                while set(team.done()) | set(dead) != set(range(JOBS)) and time.monotonic() < deadline:
                    await team.hire()
                    await asyncio.sleep(0.2)
                    if reading.done():
                        reading.result()
                await asyncio.sleep(0.5)
                left = set(range(JOBS)) - set(team.done()) - set(dead)
                assert not left, f"neither done nor dead letters: {left}; {await boss.subscriptions()}"
        finally:
            if reading is not None:
                reading.cancel()
            await team.dismiss()
        done = team.done()
        assert Counter(dead) == Counter(POISON), "each once, and no job that only stood beside one"
        assert set(done) == set(range(JOBS)) - set(POISON)
        for job, marked in team.counts().items():
            assert marked.count(False) <= 1, f"job {job} was done again, and its worker was not told: {marked}"

    with contextlib.ExitStack() as stack:
        run(scene(Tree(stack)), 2 * PATIENCE_S)
