"""What it costs to count, to look at rules, and to speak TLS: the same work with and without, in turns.

First the protocol alone, with lone messages: what a broker that counts adds to its steps, at its worst. Then a broker
and two clients in one process, over the loopback, with publications of 200 bytes at full rate: all of what is paid.
"""

import asyncio
import contextlib
import copy
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.bench_steps import MESSAGES_EACH, PUBLISHERS, Recorded, record
from benchmarks.bench_steps import replay as replay_uncounted
from benchmarks.measure import Measure, interleaved
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.edge.broker.meter import Meter, Passages, TrafficTally
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.broker import serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.door import Door
from resprout.net.identity.scram import verifier_of_token
from resprout.net.tls import Keyring, tls_of_broker
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.stack import find_stack

SECRET: Final = "0123456789abcdef"
PAYLOAD: Final = b"x" * 200
PER_TURN: Final = 64
SELDOM_US: Final = 1_000_000
"""In virtual time messages are far apart. At full rate one in some hundred is timed, and none remembered by name."""
NOTHING: Final = "neither"


def run(quick: bool = False) -> list[Measure]:
    rounds = 3 if quick else 9
    measures = []
    for brokers, name in ((1, "one broker"), (3, "three brokers in a row")):
        lives = record(brokers)
        counted, uncounted = interleaved(rounds, partial(replay_counted, lives), partial(replay_uncounted, lives))
        measures.append(
            Measure(
                f"lone messages through {name}, counted", counted, "msg/s", "not counted", uncounted, "at least 0.9"
            )
        )
    return measures + asyncio.run(_whole(rounds, 2_000 if quick else 10_000))


def replay_counted(lives: list[Recorded]) -> int:
    for life in lives:
        broker = ResproutBroker(life.seat, life.options, copy.deepcopy(life.rng))
        meter = Meter(broker, TrafficTally(), Passages(), find_stack("resprout").receipts, SELDOM_US, SELDOM_US)
        meter.start(life.began_us)
        step = meter.step
        for event, now_us in life.heard:
            step(event, now_us)
        meter.fold()
    return PUBLISHERS * MESSAGES_EACH


async def _whole(rounds: int, messages: int) -> list[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        doors = _doors(Path(folder))
        async with contextlib.AsyncExitStack() as stack:
            works = {
                name: await stack.enter_async_context(_work(door, counts, Path(folder), name))
                for name, (door, counts) in doors.items()
            }
            found: dict[str, list[float]] = {name: [] for name in works}
            for _ in range(rounds):
                for name, (publisher, inbox) in works.items():
                    found[name].append(await _flood(publisher, inbox, messages))
    rates = {name: statistics.median(rates) for name, rates in found.items()}
    return [
        Measure(f"a broker and two clients, {name}", rate, "msg/s", NOTHING, rates[NOTHING])
        for name, rate in rates.items()
        if name != NOTHING
    ]


def _doors(folder: Path) -> dict[str, tuple[Door, bool]]:
    """By name: who may come in, and whether publications are counted."""
    rules = folder / "rules.toml"
    rules.write_text(
        f'[[identity]]\nname = "c"\nsecrets = ["{verifier_of_token(SECRET)}"]\npublish = ["t/#"]\nsubscribe = ["t/#"]\n'
    )
    doors = {NOTHING: (Door(), False), "counted": (Door(), True), "with rules": (Door(rules=rules), False)}
    try:
        from resprout.net.certificates import authority_of
    except ImportError:  # it takes the extra to make certificates
        return doors
    authority_of(folder).issue(folder, "broker", "b0", 1)
    doors["with TLS"] = (Door(Keyring(tls_of_broker(folder, "b0"), "b0")), False)
    return doors


@contextlib.asynccontextmanager
async def _work(door: Door, counts: bool, folder: Path, name: str) -> AsyncIterator[tuple[Client, Inbox]]:
    stack = find_stack("resprout")
    spec = BrokerToRun("b0", 1, Address("127.0.0.1", 0), metered=counts)
    options = stack.parse_options({"faults_tolerated": 0})
    broker, address = await serve(spec, stack, options, LinkOptions(), lambda note: None, door=door)
    login = f"c:{SECRET}" if door.has_rules else None
    tls = folder if door.keyring is not None else None
    try:
        async with (
            connect(str(address), tls=tls, login=login) as publisher,
            connect(str(address), tls=tls, login=login) as reader,
        ):
            yield publisher, await reader.subscribe("t/#")
    finally:
        await broker.close()


async def _flood(publisher: Client, inbox: Inbox, messages: int) -> float:
    async def publish() -> None:
        for number in range(messages):
            await publisher.publish("t/1", PAYLOAD)
            if number % PER_TURN == PER_TURN - 1:
                await asyncio.sleep(0)

    begin = time.perf_counter()
    publishing = asyncio.create_task(publish())
    for _ in range(messages):
        await inbox.next()
    await publishing
    return messages / (time.perf_counter() - begin)
