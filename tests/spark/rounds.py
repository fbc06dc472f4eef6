"""Rounds of: a query is killed in the middle of a batch, and brokers with it; restarted from its checkpoint, it has
read and published every message exactly once.

python -m tests.spark.rounds [--rounds 5] [--first 1] [--cluster]

The tree is b0 with b1, b2 and tap below it. A publisher goes on throughout. The query reads at tap and publishes at b1,
which is killed while the query is; b2 is killed when the query goes on. Both return.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import resprout
from tests.cli.processes import Running, broker, running
from tests.patience import PATIENCE_S
from tests.pipeline.cluster import cluster
from tests.spark.brokers import keeping

PAUSE_S = 0.01
"""Between two publications."""


class Producer:
    """Publishes numbers on `in/...` until it is told to stop."""

    def __init__(self, servers: list[str]) -> None:
        self.count = 0
        self._over = threading.Event()
        self._servers = servers
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with resprout.sync.connect(self._servers, name="producer", timeout=PATIENCE_S) as client:
            receipt = None
            while not self._over.is_set():
                receipt = client.publish(f"in/{self.count % 3}", b"%d" % self.count, keys=(f"k{self.count // 9 % 4}",))
                self.count += 1
                time.sleep(PAUSE_S)
            assert receipt is not None
            receipt.delivered(timeout=PATIENCE_S)

    def stop(self) -> int:
        """How many there were; all of them are where they are kept."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "not everything was delivered"
        return self.count


class Query:
    """The process, with its Java process."""

    def __init__(self, tap: str, servers: list[str], folder: Path, master: str | None) -> None:
        words = [tap, ",".join(servers), str(folder / "checkpoint"), *([master] if master else [])]
        self._words = (folder / "query.log").open("ab")
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.query_process", *words],
            stdout=self._words, stderr=self._words, start_new_session=True,
        )  # fmt: skip

    def await_middle_of_batch(self, rng: random.Random) -> None:
        """Rows are put down, and not all of them are published."""
        ledger = self.folder / "checkpoint" / "resprout-sink"
        deadline = time.monotonic() + PATIENCE_S
        skip = rng.randrange(4)
        seen: set[str] = set()
        while len(seen) <= skip:
            assert time.monotonic() < deadline and self.process.poll() is None, (self.folder / "query.log").read_text()
            seen |= {path.name for path in ledger.glob("*/*.rows")}
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._words.close()

    def end(self) -> None:
        """When it has done what there is to do."""
        (self.folder / "checkpoint.stop").touch()
        status = self.process.wait(PATIENCE_S)
        self._words.close()
        assert status == 0, (self.folder / "query.log").read_text()


@contextlib.contextmanager
def mortal(name: str, parent: str) -> Iterator[tuple[Running, str]]:
    with broker(name, "--join", parent) as started:
        yield started


def one_round(seed: int, folder: Path, master: str | None = None) -> str:
    rng = random.Random(seed)
    with (
        broker("b0") as (_, b0),
        mortal("b1", b0) as (b1, first),
        mortal("b2", b0) as (b2, second),
        keeping("tap", folder / "tap", "--join", b0) as (_, tap),
        contextlib.ExitStack() as returned,
    ):
        producer = Producer([second, b0])
        query = Query(tap, [first, second, b0], folder, master)
        try:
            query.await_middle_of_batch(rng)
            if rng.random() < 0.5:
                b1.end(signal.SIGKILL)
                query.kill()
            else:
                query.kill()
                b1.end(signal.SIGKILL)
            returned.enter_context(_back("b1", first, b0))
            before = len(published(tap))
            query = Query(tap, [first, second, b0], folder, master)
            query.await_middle_of_batch(rng)
            b2.end(signal.SIGKILL)
            returned.enter_context(_back("b2", second, b0))
            count = producer.stop()
            query.end()
        finally:
            if query.process.poll() is None:
                query.kill()
        rows = Counter(published(tap))
        missing = [n for n in range(count) if rows[b"%d" % n] == 0]
        double = [value for value, times in rows.items() if times > 1]
        assert not missing and not double and rows.total() == count, f"seed {seed}: {missing=} {double=}"
        return f"seed {seed}: {count} messages, each once; {before} were published when the query was killed"


@contextlib.contextmanager
def _back(name: str, address: str, parent: str) -> Iterator[Running]:
    """The same broker again, at its address."""
    with running("broker", "--name", name, "--listen", address, "--json", "--join", parent) as process:
        yield process


def published(tap: str) -> list[bytes]:
    """What the query has published, as the tap has kept it."""
    found: list[bytes] = []
    with resprout.sync.connect(tap, timeout=PATIENCE_S) as client:
        page = client.read("out", timeout=PATIENCE_S)
        while True:
            found += [stored.message.payload for stored in page.messages]
            if page.at_end:
                return found
            page = client.read("out", start=page.next, timeout=PATIENCE_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--cluster", action="store_true", help="on a standalone master and worker of this machine")
    wanted = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        master = stack.enter_context(cluster(place / "cluster")) if wanted.cluster else None
        for seed in range(wanted.first, wanted.first + wanted.rounds):
            (place / str(seed)).mkdir()
            sys.stdout.write(one_round(seed, place / str(seed), master) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
