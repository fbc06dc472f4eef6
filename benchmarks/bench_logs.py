"""Logs next to Redis streams and NATS JetStream: appends until they are durable, and replay.

Ours is measured until a reader has the message, which is when a majority of replicas has it on disk: publishers do not
wait for logs. Redis flushes its append-only file for each command (`appendfsync always`); JetStream flushes every two
minutes, whatever is acknowledged. Redis has one copy: it cannot wait until replicas have flushed. Messages whose keys
take turns have a bundle each, in a log of one partition or of four.
"""

import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

import resprout
from benchmarks.measure import Measure
from benchmarks.net import rows
from benchmarks.net.environment import BENCH_PYTHON, find_server, worker_environment
from benchmarks.net.peers import left_out
from benchmarks.net.server import Server, free_port
from resprout.logs.declaration import LogDeclaration
from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, Scenario

IN_FLIGHT: Final = (1, 16, 256, 1_024)
SIZE: Final = 100
REPLAY_SIZES: Final = (100, 1_024)
KEYS: Final = tuple(f"k{number}" for number in range(16))
BURST: Final = 1_000
CREATE_SECONDS: Final = 60.0


class LogEffort(msgspec.Struct, frozen=True):
    rounds: int
    seconds: float
    """Of one round with one number in flight."""
    count: int
    """Messages that are replayed."""


Commands = Callable[[Path, int], dict[int, list[str]]]
"""From a folder and a port: the commands that start servers, by port."""

FULL: Final = LogEffort(rounds=5, seconds=2.0, count=1_000_000)
QUICK: Final = LogEffort(rounds=3, seconds=0.5, count=100_000)


class Rates(msgspec.Struct, frozen=True):
    append: dict[int, float]
    """Messages per second, by number in flight."""
    replay: list[float]
    """Messages per second, by size."""


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(QUICK if quick else FULL))


async def _run(effort: LogEffort) -> list[Measure]:
    ours = {
        "1 replica": await _ours(effort, 1, 1, keyed=False),
        "3 replicas": await _ours(effort, 3, 1, keyed=False),
        "3 replicas, keys in turns": await _ours(effort, 3, 1, keyed=True),
        "3 replicas, keys in turns, 4 partitions": await _ours(effort, 3, 4, keyed=True),
    }
    others = await _others(effort)
    measures = []
    for what, rates in ours.items():
        copies = what.partition(" ")[0]
        beside = {who: each for (who, count), each in others.items() if str(count) == copies} or {what: rates}
        for who, other in beside.items():
            for in_flight in IN_FLIGHT:
                name = f"{what}, {in_flight:,} in flight" if in_flight > 1 else f"{what}, one at a time"
                measures.append(Measure(name, rates.append[in_flight], "appends/s", who, other.append[in_flight]))
            for size, here, there in zip(REPLAY_SIZES, rates.replay, other.replay, strict=True):
                measures.append(Measure(f"{what}, replay of {size} B", here, "messages/s", who, there))
    return measures


# -- ours -------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _network(replicas: int, partitions: int) -> AsyncIterator[tuple[str, tuple[str, ...]]]:
    """Start brokers with a log for appends and one for each replay, and return the address of one and the logs."""
    names = tuple(f"b{number}" for number in range(replicas))
    brokers = tuple(BrokerSpec(name, "b0" if name != "b0" else None) for name in names)
    logs = tuple(
        LogDeclaration(name, f"{name}/#", names, 1 << 34, partitions=partitions)
        for name in ("append", *[f"replay{size}" for size in REPLAY_SIZES])
    )
    with tempfile.TemporaryDirectory(prefix="resprout-bench-") as folder:
        options: dict[str, int] = {"faults_tolerated": min(1, replicas - 1)}
        scenario = Scenario(name="logs", brokers=brokers, options=options, logs=logs)
        tree = LocalTree(scenario, data=Path(folder))
        await tree.start()
        try:
            yield str(tree.process("b0").address), tuple(log.name for log in logs)
        finally:
            await tree.stop()


async def _ours(effort: LogEffort, replicas: int, partitions: int, keyed: bool) -> Rates:
    async with _network(replicas, partitions) as (address, names), resprout.connect(address, name="p") as client:
        for name in names:
            await _wait_until_fed(client, name)
        inbox = await client.subscribe("append/#", log="append", replay_from="latest")
        rates: dict[int, list[float]] = {in_flight: [] for in_flight in IN_FLIGHT}
        for _ in range(effort.rounds):
            for in_flight, found in rates.items():
                found.append(await _appends_per_s(client, inbox, in_flight, effort.seconds, keyed))
        await inbox.unsubscribe()
        replay = [await _replayed_per_s(client, size, effort.count, keyed) for size in REPLAY_SIZES]
        return Rates({in_flight: statistics.median(found) for in_flight, found in rates.items()}, replay)


async def _wait_until_fed(client: resprout.Client, log: str) -> None:
    """Wait until a message comes through each partition of a log: a log begins when it is fed."""
    deadline = time.monotonic() + CREATE_SECONDS
    missing = set(KEYS)
    while missing:
        for key in missing:
            await client.publish(f"{log}/x", b"", keys=[key])
        await asyncio.sleep(0.2)
        with contextlib.suppress(resprout.ReadError):
            page = await client.read(f"{log}/#", log=log, size=1 << 20)
            missing -= {key for stored in page.messages for key in stored.message.keys}
        if time.monotonic() > deadline:
            raise resprout.ReadError(f"the log {log} does not run after {CREATE_SECONDS:g} s")


def _keys(number: int, keyed: bool) -> tuple[str, ...]:
    return (KEYS[number % len(KEYS)],) if keyed else ()


async def _appends_per_s(
    client: resprout.Client, inbox: resprout.Inbox, in_flight: int, seconds: float, keyed: bool
) -> float:
    payload = bytes(SIZE)
    while inbox.next_nowait() is not None:
        pass
    begun = time.perf_counter()
    sent = got = 0
    while got < sent or not sent:
        while sent - got < in_flight and time.perf_counter() - begun < seconds:
            await client.publish("append/x", payload, keys=_keys(sent, keyed))
            sent += 1
        await inbox.next(timeout=CREATE_SECONDS)
        got += 1
        while inbox.next_nowait() is not None:
            got += 1
    return got / (time.perf_counter() - begun)


async def _replayed_per_s(client: resprout.Client, size: int, count: int, keyed: bool) -> float:
    """Fill a log and read it from its beginning."""
    log, payload = f"replay{size}", bytes(size)
    for first in range(0, count, BURST):
        for number in range(first, min(first + BURST, count)):
            receipt = await client.publish(f"{log}/x", payload, keys=_keys(number // BURST, keyed))
        await receipt.safe()
    while (await client.read(f"{log}/#", log=log, start="latest")).end < count:
        await asyncio.sleep(0.2)
    begun = time.perf_counter()
    found = 0
    async with await client.subscribe(f"{log}/#", log=log, replay_from="earliest") as inbox:
        async for batch in inbox.batches():
            found += len(batch)
            if found >= count:
                break
    return found / (time.perf_counter() - begun)


# -- others -----------------------------------------------------------------------------------------------------------


async def _others(effort: LogEffort) -> dict[tuple[str, int], Rates]:
    """Return the rates of others, by name and number of copies; a line on standard error for each that is not here."""
    if not BENCH_PYTHON.exists():
        left_out("everybody else", "there is no environment .venv-bench (`make bench` makes it)")
        return {}
    found: dict[tuple[str, int], Rates] = {}
    if redis := find_server("redis-server"):
        command = rows.redis(redis, "always")
        found["redis", 1] = await _other(effort, "redis", 1, lambda folder, port: {port: command(folder, port, None)})
    else:
        left_out("redis-server", "it is not installed")
    if server := find_server("nats-server"):
        for copies in (1, 3):
            found["jetstream", copies] = await _other(effort, "jetstream", copies, partial(_jetstream, server, copies))
    else:
        left_out("nats-server", "it is not installed")
    return found


def _jetstream(program: str, count: int, folder: Path, port: int) -> dict[int, list[str]]:
    """Return the commands of servers that form a cluster, by port."""
    ports = [port, *[free_port() for _ in range(count - 1)]]
    routes = [free_port() for _ in range(count)]
    commands = {}
    for at, (own, route) in enumerate(zip(ports, routes, strict=True)):
        words = [program, "-a", "127.0.0.1", "-p", str(own), "-js", "-sd", str(folder / str(at)), "-n", f"n{at}"]
        if count > 1:
            others = ",".join(f"nats://127.0.0.1:{other}" for other in routes if other != route)
            words += ["--cluster_name", "bench", "--cluster", f"nats://127.0.0.1:{route}", "--routes", others]
        commands[own] = words
    return commands


async def _other(effort: LogEffort, system: str, copies: int, commands: Commands) -> Rates:
    environment: Mapping[str, str] = worker_environment()
    with tempfile.TemporaryDirectory(prefix="resprout-bench-") as name:
        folder, port = Path(name), free_port()
        async with contextlib.AsyncExitStack() as stack:
            servers = []
            for own, words in commands(folder, port).items():
                server = Server(system, words, folder, environment)
                stack.push_async_callback(server.stop)
                servers.append((server, own))
            await asyncio.gather(*[server.start(own) for server, own in servers])
            if copies > 1:
                await asyncio.sleep(5.0)  # until the cluster has elected a leader
            order = json.dumps(
                {
                    "replicas": copies, "size": SIZE, "in_flight": IN_FLIGHT, "rounds": effort.rounds,
                    "seconds": effort.seconds, "count": effort.count, "replay_sizes": REPLAY_SIZES,
                }
            )  # fmt: skip
            words = [str(BENCH_PYTHON), "-m", "benchmarks.net.clients.log_client", system, str(port), order]
            process = await asyncio.create_subprocess_exec(
                *words, stdout=asyncio.subprocess.PIPE, env=dict(environment)
            )
            out, _ = await process.communicate()
            found = msgspec.json.decode(out)
            return Rates({int(key): rate for key, rate in found["append"].items()}, found["replay"])
