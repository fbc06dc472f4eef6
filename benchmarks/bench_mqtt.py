"""MQTT: our broker beside mosquitto and amqtt, each alone, with the same clients in Python (`clients.mqtt_load`).

Throughput in deliveries per second with 100 bytes, MQTT 3.1.1 and at most 20 publications in flight; memory per idle
client; latency at 1,000 messages per second. All servers run at the same time and do each work in turns.
"""

import asyncio
import os
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.measure import Measure
from benchmarks.net import rows
from benchmarks.net.clients.mqtt_load import connected, flood, pace
from benchmarks.net.environment import BENCH_PYTHON, find_server
from benchmarks.net.peers import OURS, left_out
from benchmarks.net.rows import Row, python_server

IDLE: Final = 1_000
RATE: Final = 1_000
FIRST_COUNT: Final = 300
SECONDS_MAX: Final = 60.0


class Load(msgspec.Struct, frozen=True):
    publishers: int
    subscribers: int
    qos: int
    goals: dict[str, str] = {}


LOADS: Final = (
    Load(1, 1, 0, {"mosquitto": "at least 0.5", "amqtt": "at least 3"}),
    Load(1, 1, 1, {"mosquitto": "at least 0.5", "amqtt": "at least 3"}),
    Load(1, 1, 2, {"amqtt": "at least 3"}),
    Load(1, 8, 0, {"mosquitto": "at least 0.5", "amqtt": "at least 3"}),
    Load(1, 8, 1, {"mosquitto": "at least 0.5", "amqtt": "at least 3"}),
    Load(50, 1, 0, {"mosquitto": "at least 0.5", "amqtt": "at least 3"}),
    Load(50, 1, 1, {"mosquitto": "at least 0.5", "amqtt": "at least 3"}),
)


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(3 if quick else 5, 0.4 if quick else 1.5))


async def _run(rounds: int, seconds: float) -> list[Measure]:
    measures: list[Measure] = []
    async with AsyncExitStack() as stack:
        servers = {name: await _started(stack, name, command) for name, command in _commands().items()}
        kilobytes = {name: await _idle(row) for name, row in servers.items()}
        for load in LOADS:
            name = f"{load.publishers} to {load.subscribers}, QoS {load.qos}"
            counts = {who: await _count(row, load, seconds) for who, row in servers.items()}

            async def once(who: str, row: Row, load: Load = load, counts: Mapping[str, int] = counts) -> float:
                return await flood(int(row.first), load.publishers, load.subscribers, load.qos, counts[who])

            measures += _beside(name, await _in_turns(servers, rounds, once), "deliveries/s", load.goals)
        latencies = await _in_turns(servers, rounds, lambda who, row: _latency(row, seconds))
        measures += _beside(f"median latency at {RATE:,}/s", latencies, "µs (less is better)", {})
    goals = {"mosquitto": "at most 3"}
    return measures + _beside("memory of an idle client", kilobytes, "KiB (less is better)", goals)


async def _started(stack: AsyncExitStack, name: str, command: rows.Command) -> Row:
    row = Row(name, command, 1)
    stack.push_async_callback(row.stop)
    await row.start()
    return row


def _commands() -> dict[str, rows.Command]:
    found: dict[str, rows.Command] = {OURS: _ours}
    mosquitto = find_server("mosquitto")
    if mosquitto is None:
        left_out("mosquitto", "it is not installed")
    else:
        found["mosquitto"] = rows.mosquitto(mosquitto)
    if BENCH_PYTHON.exists():
        found["amqtt"] = python_server("amqtt_broker")
    else:
        left_out("amqtt", "there is no environment .venv-bench (`make bench` makes it)")
    return found


def _ours(folder: Path, port: int, before: int | None) -> list[str]:
    words = [sys.executable, "-m", "resprout", "broker", "--name", "b0", "--listen", f"127.0.0.1:{port + 1}"]
    return [*words, "--mqtt", f"127.0.0.1:{port}"]


async def _in_turns(
    servers: Mapping[str, Row], rounds: int, once: Callable[[str, Row], Awaitable[float]]
) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(rounds):
        for name, row in servers.items():
            async with asyncio.timeout(SECONDS_MAX):
                found[name].append(await once(name, row))
    return {name: statistics.median(values) for name, values in found.items()}


async def _count(row: Row, load: Load, seconds: float) -> int:
    """Return how many messages take about so many seconds."""
    least = max(FIRST_COUNT, 4 * load.publishers)
    async with asyncio.timeout(SECONDS_MAX):
        rate = await flood(int(row.first), load.publishers, load.subscribers, load.qos, least)
    return max(least, round(rate * seconds / load.subscribers))


async def _latency(row: Row, seconds: float) -> float:
    return statistics.median(await pace(int(row.first), RATE, seconds)) * 1e6


async def _idle(row: Row) -> float:
    """Return the memory of one idle client in KiB."""
    pid = row.pids[0]
    async with connected(int(row.first), 50):
        before = _resident(pid)
        async with connected(int(row.first), IDLE):
            return (_resident(pid) - before) / IDLE / 1024


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _beside(name: str, values: Mapping[str, float], unit: str, goals: Mapping[str, str]) -> list[Measure]:
    others = {who: value for who, value in values.items() if who != OURS} or {"nobody else is here": values[OURS]}
    return [
        Measure(name, values[OURS], unit, who, max(value, 1e-3), goals.get(who, "")) for who, value in others.items()
    ]
