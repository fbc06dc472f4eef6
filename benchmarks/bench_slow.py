"""Beside a subscriber that does not read: the rates of healthy subscribers, with it and without it in turns.

Three brokers in a row, real processes. Two publishers at the first one send at a fixed rate, well below what brokers
can carry: one on a topic that the culprit subscribed to, one on another topic. A healthy subscriber of each is at the
last broker. The culprit is at the first or at the last one. Where it blocks publishers by its own choice, only the
other topic is compared.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Measure
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, Scenario

PAYLOAD: Final = bytes(1_000)
BATCH: Final = 50
BATCHES_PER_SECOND: Final = 40
"""2,000 messages and 2 MB in a second, on each of the two topics."""
SHARE: Final = 8 << 20
OPTIONS: Final[dict[str, str | int]] = {"subscriber_bytes": SHARE, "spill_bytes": 256 << 20}
CULPRITS: Final[dict[str, dict[str, Any]]] = {
    "disconnect": {},
    "drop_oldest": {"when_full": "drop_oldest"},
    "block": {"when_full": "block"},
    "durable, spill": {"durable": "unread", "when_full": "spill", "window": 1, "manual_ack": True},
    "durable, block": {"durable": "unread", "window": 1, "manual_ack": True},
}


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(*((8.0, 1) if quick else (10.0, 3))))


async def _run(seconds: float, rounds: int) -> list[Measure]:
    measures: list[Measure] = []
    for policy, terms in CULPRITS.items():
        for at in (0, 2):
            found: dict[str, list[tuple[float, float]]] = {"data/a": [], "other/b": []}
            for _ in range(rounds):
                without = await _rates(seconds, None, at)
                beside = await _rates(seconds, terms, at)
                for topic, rates in found.items():
                    rates.append((beside[topic], without[topic]))
            where = "the publisher's broker" if at == 0 else "another broker"
            for topic, rates in found.items():
                blocks = policy.endswith("block")
                if blocks and topic == "data/a":
                    continue
                measures.append(
                    Measure(
                        f"{policy} at {where}, {'the same' if topic == 'data/a' else 'another'} topic",
                        statistics.median([beside for beside, _ in rates]),
                        "messages/s",
                        "without it",
                        statistics.median([without for _, without in rates]),
                        goal="at least 0.90",
                    )
                )
    return measures


async def _rates(seconds: float, culprit: dict[str, Any] | None, at: int) -> dict[str, float]:
    """Messages per second that healthy subscribers get; the first ones come when everything stands."""
    with tempfile.TemporaryDirectory(prefix="resprout-bench-") as folder:
        brokers = tuple(BrokerSpec(f"b{at}", f"b{at - 1}" if at else None) for at in range(3))
        tree = LocalTree(Scenario(name="a row", brokers=brokers, options=OPTIONS), data=Path(folder))
        await tree.start()
        try:
            addresses = [str(process.address) for process in tree.processes]
            clients = [await connect(addresses[place], name=name) for name, place in _places(at)]
            first, second, third, fourth, slow = clients
            inboxes = {"data/a": await third.subscribe("data/#"), "other/b": await fourth.subscribe("other/#")}
            if culprit is not None:
                await slow.subscribe("data/#", **culprit)
            counts = dict.fromkeys(inboxes, 0)
            tasks = [asyncio.create_task(_read(inbox, topic, counts)) for topic, inbox in inboxes.items()]
            tasks += [
                asyncio.create_task(_publish(first, "data/a")),
                asyncio.create_task(_publish(second, "other/b")),
            ]
            began = time.monotonic()
            await asyncio.sleep(seconds)
            passed = time.monotonic() - began
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for client in clients:
                await client.close()
        finally:
            await tree.stop()
        return {topic: count / passed for topic, count in counts.items()}


def _places(at: int) -> list[tuple[str, int]]:
    return [("p-data", 0), ("p-other", 0), ("s-data", 2), ("s-other", 2), ("unread", at)]


async def _publish(client: Client, topic: str) -> None:
    began, sent = time.monotonic(), 0
    while True:
        await client.publish_bundle(topic, [PAYLOAD] * BATCH)
        sent += 1
        ahead = began + sent / BATCHES_PER_SECOND - time.monotonic()
        if ahead > 0:
            await asyncio.sleep(ahead)


async def _read(inbox: Inbox, topic: str, counts: dict[str, int]) -> None:
    async for messages in inbox.batches():
        counts[topic] += len(messages)
