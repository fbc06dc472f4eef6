"""`python -m tests.logs.rounds --rounds 20`: logs with real processes, whose replicas are killed while clients publish.

Three brokers keep a log. Two clients publish 2,000 messages a second, one subscribes, and one reads the log page by
page, also while replicas catch up. The kinds of failure take turns (`FAILURES`). Each round is judged, and the messages
on the disk of each replica are counted. Exit status 1 when a round fails.
"""

import argparse
import asyncio
import sys
import time
from typing import Final

import msgspec

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.trace import kinds

COMPACTION: Final = 'compact = true\ncompact_bytes = 65_536\ncompact_grace = "2s"'
REPLICAS: Final = ("b0", "b1", "b2")
SECONDS: Final = 12
RATE: Final = 2_000
BURST: Final = 40
CLIENTS: Final = 2
FAULT_S: Final = 4
TEXT: Final = """
name = "a log whose replicas fail"
seed = {seed}
time_limit = "280s"
options = {{ ghost_us = 20_000_000, durable = "journal" }}
[[log]]
name = "ev"
filter = "ev/#"
replicas = ["b0", "b1", "b2"]
partitions = {partitions}
{compaction}
[topology]
kind = "tree"
brokers = 3
degree = 2
latency = "0s"
clients_per_broker = 0
[[client]]
name = "p0"
broker = "b0"
[[client]]
name = "p1"
broker = "b1"
[[client]]
name = "s"
broker = "b2"
subscribe = ["ev/#"]
[[client]]
name = "r"
broker = "b1"
[[reader]]
client = "r"
log = "{log}"
start = "3s"
size = 65_536
pause = "100ms"
until = "{until}s"
[[workload]]
kind = "random"
clients = ["p0", "p1"]
topics = ["ev/a", "ev/b"]
keys = {keys}
operations = {operations}
interval = "{interval_ms}ms"
burst = {burst}
mix = {{ fifo = 0.5, causal = 0.5 }}
start = "3s"
"""


def _fault(at_s: float, kind: str, *nodes: str, more: str = "") -> str:
    names = ", ".join(f'"{node}"' for node in nodes)
    return f'[[fault]]\nat = "{at_s}s"\nkind = "{kind}"\nnodes = [{names}]\n{more}\n'


def _rolling(number: int) -> str:
    return _fault(FAULT_S, "restart", *REPLICAS)


def _kill(number: int) -> str:
    """kill -9 of one broker after the other; each returns after two seconds."""
    order = [REPLICAS[(number + step) % 3] for step in range(3)]
    return "".join(
        _fault(FAULT_S + 3 * step, "crash", name) + _fault(FAULT_S + 2 + 3 * step, "recover", name)
        for step, name in enumerate(order)
    )


def _kill_all(number: int) -> str:
    return _fault(FAULT_S + 2, "crash", *REPLICAS) + _fault(FAULT_S + 4, "recover", *REPLICAS)


def _stop(number: int) -> str:
    """SIGSTOP, for longer than a lease."""
    name = REPLICAS[number % 3]
    return _fault(FAULT_S, "freeze", name) + _fault(FAULT_S + 6, "unfreeze", name)


def _lose_disk(number: int) -> str:
    """kill -9 of one broker, whose data folder is removed before it returns."""
    name = REPLICAS[1 + number % 2]
    return _fault(FAULT_S, "crash", name) + _fault(FAULT_S + 3, "recover", name, more="disk = false")


FAILURES: Final = {
    "rolling restart": _rolling,
    "kill -9": _kill,
    "all killed": _kill_all,
    "SIGSTOP": _stop,
    "disk removed": _lose_disk,
}


class Round(msgspec.Struct, frozen=True):
    failure: str
    published: int
    kept: dict[str, int]
    """Messages on the disk of each replica."""
    dropped: int
    """Messages that replicas have dropped by compaction, each counted once."""
    missing: dict[str, int]
    """Published messages that are not on the disk of a replica."""
    read: int
    """Messages that the reader got."""
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        kept = ", ".join(f"{broker} {count}" for broker, count in self.kept.items())
        missing = sum(self.missing.values())
        dropped = f"; {self.dropped} dropped" if self.dropped else ""
        return f"{self.failure}: {self.published} published; kept {kept}{dropped}; {missing} missing; {self.read} read"


def scenario(
    failure: str, number: int, seconds: int = SECONDS, rate: int = RATE, partitions: int = 1, compact: bool = False
) -> Scenario:
    """Return the scenario of a round. Its rate is in messages per second, of both clients together. `compact`: replicas
    compact the log every 64 KiB, and it has 40 keys."""
    operations = seconds * rate // CLIENTS
    interval_ms = 1_000 * BURST * CLIENTS // rate
    text = TEXT.format(
        seed=number + 1, operations=operations, interval_ms=interval_ms, burst=BURST, until=seconds + 4,
        partitions=partitions, log="ev" if partitions == 1 else f"ev~{number % partitions}",
        keys=40 if compact else 0 if partitions == 1 else 4 * partitions, compaction=COMPACTION if compact else "",
    )  # fmt: skip
    return parse_scenario(text + FAILURES[failure](number))


def run_round(
    failure: str, number: int, seconds: int = SECONDS, rate: int = RATE, partitions: int = 1, compact: bool = False
) -> Round:
    result = asyncio.run(RealRun(scenario(failure, number, seconds, rate, partitions, compact)).finish())
    rows = result.rows
    published = {(row.publisher, row.incarnation, row.stream, row.seq) for row in rows if row.kind == kinds.PUBLISH}
    kept: dict[str, list[object]] = {broker: [] for broker in REPLICAS}
    for row in rows:
        if row.kind == kinds.LOG_KEPT:
            kept[row.node].append((row.publisher, row.incarnation, row.stream, row.seq))
    complaints = [] if result.ended == kinds.QUIESCENT else [f"the run ended: {result.ended}"]
    verdict = judge(rows)
    complaints += lines(verdict) if verdict.violated else []
    complaints += [f"{row.node} has a gap mark: {row.detail}" for row in rows if row.kind == kinds.LOG_GAP]
    gone = {(row.publisher, row.incarnation, row.stream, row.seq) for row in rows if row.kind == kinds.LOG_COMPACTED}
    missing = {broker: len(published - gone - set(found)) for broker, found in kept.items()}
    complaints += [f"{broker} lacks {count} messages" for broker, count in missing.items() if count]
    read = sum(row.kind == kinds.LOG_READ for row in rows)
    counts = {broker: len(found) for broker, found in kept.items()}
    return Round(failure, len(published), counts, len(gone), missing, read, tuple(complaints))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.logs.rounds", description="Kill replicas of a log.")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each kind of failure (default 20)")
    parser.add_argument("--first", type=int, default=0, help="number of the first round (default 0)")
    parser.add_argument("--failure", choices=[*FAILURES], action="append", help="only this kind of failure")
    parser.add_argument("--partitions", type=int, default=1, help="partitions of the log (default 1)")
    parser.add_argument("--compact", action="store_true", help="let replicas compact the log meanwhile")
    wanted = parser.parse_args(arguments)
    failed = 0
    for number in range(wanted.first, wanted.first + wanted.rounds):
        for failure in wanted.failure or FAILURES:
            begun = time.monotonic()
            found = run_round(failure, number, partitions=wanted.partitions, compact=wanted.compact)
            failed += bool(found.complaints)
            sys.stdout.write(f"round {number}, {time.monotonic() - begun:.0f} s, {found}\n")
            sys.stdout.writelines(f"  {line}\n" for line in found.complaints)
            sys.stdout.flush()
    sys.stdout.write(f"{failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
