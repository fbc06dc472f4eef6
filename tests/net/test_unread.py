"""A reader that acknowledges frames and takes nothing stops nobody (attack 7), spoken by hand over TCP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import SubscribeError
from resprout.core.contract import EndCode
from resprout.edge.durable_messages import Consume, Terms, WhenFull
from resprout.edge.messages import Attend, Delivery, Subscribe, Taken
from resprout.links.frames import Data, Goodbye, SessionWelcome
from resprout.net.door import Door
from resprout.net.identity.scram import verifier_of_token
from tests.net.stage import Bare, Running, bare, broker, hello, run, until
from tests.patience import PATIENCE_S

SHARE = 64 << 10
BODY = bytes(2 << 10)
COUNT = 200
"""Several times a share."""
OPTIONS = {"subscriber_bytes": SHARE, "slow_consumer_us": 200_000, "heartbeat_us": 100_000, "lease_us": 20_000_000}


class Unreading:
    """Acknowledges every frame at once, and says `Taken` as often as it was told to."""

    def __init__(self, peer: Bare, takes: int) -> None:
        self._peer = peer
        self._takes = takes
        self._said = 0
        self._received = 0
        self._given = 0
        self.end: Goodbye | None = None

    def say(self, *messages: Any) -> None:
        self._peer.say_messages(self._said + 1, *messages, received=self._received)
        self._said += len(messages)

    async def listen(self) -> None:
        """Until the broker ends it."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                frame = await self._peer.hear()
                if isinstance(frame, Goodbye):
                    self.end = frame
                    return
                if isinstance(frame, Data):
                    self._received += len(frame.messages)
                    self._given += sum(isinstance(message, Delivery) for message in frame.messages)
                    taken = min(self._given, self._takes)
                    self.say(*([Taken(taken)] if taken else []))


@contextlib.asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[Running, Running]]:
    async with broker("b0", options=OPTIONS) as b0, broker("b1", parent=("b0", b0.address), options=OPTIONS) as b1:
        await until(lambda: "b1" in b0.machine.parts.links and b1.machine.life.attached)
        yield b0, b1


@contextlib.asynccontextmanager
async def reader(running: Running, takes: int, *first: Any, epoch: int = 1) -> AsyncIterator[Unreading]:
    async with bare(running.address) as peer:
        peer.say(msgspec.structs.replace(hello("reader", epoch=epoch), peer=running.broker.name))
        assert isinstance(await peer.hear(), SessionWelcome)
        unreading = Unreading(peer, takes)
        unreading.say(*first)
        listening = asyncio.ensure_future(unreading.listen())
        try:
            yield unreading
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


def has_interest(running: Running, topic: str) -> bool:
    return bool(running.machine.parts.interest.index.match(topic, {}))


async def publish(client: Client, topic: str, count: int = COUNT) -> None:
    for _ in range(count):
        receipt = await client.publish(topic, BODY)
    await receipt.safe()


@pytest.mark.parametrize("takes", [0, 1], ids=["never", "one"])
def test_publishers_at_another_broker_go_on_beside_a_reader_that_takes_nothing(takes: int) -> None:
    """With any topic: it subscribes to all of them."""

    async def scene() -> None:
        async with (
            two_brokers() as (b0, b1),
            reader(b1, takes, Attend(0), Subscribe(1, "#", None)) as unreading,
            connect(str(b0), name="p", timeout=PATIENCE_S) as p,
            connect(str(b0), name="q", timeout=PATIENCE_S) as q,
        ):
            await until(lambda: has_interest(b0, "data"))
            await asyncio.gather(publish(p, "data"), publish(q, "other"))
            await until(lambda: unreading.end is not None)
            assert unreading.end is not None and unreading.end.code is EndCode.SLOW
            assert b1.machine.status().slow_consumers == 1

    run(scene())


def test_a_reader_that_comes_again_and_takes_nothing_is_not_waited_for_again() -> None:
    """Attack 7, after issue 26: each time it was cut off, publishers had waited for `slow_consumer_us`."""

    async def scene() -> None:
        async with two_brokers() as (b0, b1), connect(str(b0), name="p", timeout=PATIENCE_S) as p:
            pauses = b1.machine.parts.pauses
            begun: list[str] = []
            begin = pauses.begin

            def count(name: str, filters: Iterable[str]) -> None:
                begun.append(name)
                begin(name, filters)

            pauses.begin = count
            for time in range(3):
                async with reader(b1, 0, Attend(0), Subscribe(1, "#", None), epoch=time + 1) as unreading:
                    await until(lambda: has_interest(b0, "data"))
                    await publish(p, "data")
                    await until(lambda: unreading.end is not None)
                    assert unreading.end is not None and unreading.end.code is EndCode.SLOW
                await until(lambda: "reader" not in b1.machine.parts.sessions.all)
                if time == 0:
                    waited = len(begun)
            assert len(begun) == waited, "it was paused for once at most"
            assert b1.machine.parts.shares.slow_consumers == 3

    run(scene())


def test_a_durable_subscription_that_nobody_reads_holds_its_own_topics_and_no_others() -> None:
    """Where no rules say who may: with them, `block` has to allow it."""

    async def scene() -> None:
        consume = Consume("jobs", Terms("data/#", None, False, WhenFull.BLOCK), 1)
        async with (
            two_brokers() as (b0, b1),
            reader(b1, 0, consume),
            connect(str(b0), name="p", timeout=PATIENCE_S) as p,
            connect(str(b0), name="q", timeout=PATIENCE_S) as q,
        ):
            await until(lambda: has_interest(b0, "data/x"))
            filling = asyncio.ensure_future(publish(p, "data/x"))
            await until(lambda: b0.machine.parts.pauses.seen)
            held = asyncio.ensure_future(publish(p, "data/x", 1))
            await until(lambda: "p" in b0.machine.parts.charges.paused_for)
            await publish(q, "other")
            assert not held.done() and b0.machine.status().notices
            await q.end_subscription("jobs")
            await asyncio.gather(filling, held)

    run(scene())


RULES = f"""
[[identity]]
name = "teller"
secrets = ["{verifier_of_token("token")}"]
clients = ["teller", "teller.*"]
publish = ["#"]
subscribe = ["#"]
block = ["bank/#"]
"""


def test_whoever_may_not_block_cannot_make_publishers_wait(tmp_path: Path) -> None:
    """Attack 7 with the policy "block": with the right to subscribe alone, nobody waits for a client."""
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            given: dict[str, Any] = {"name": "teller", "login": "teller:token", "timeout": PATIENCE_S}
            async with connect(str(running), **given) as client:
                await client.subscribe("bank/a", when_full="block")
                with pytest.raises(SubscribeError, match="teller may not make publishers of # wait"):
                    await client.subscribe("#", when_full="block")
            async with connect(str(running), **given) as client:
                await client.subscribe("#")
                with pytest.raises(SubscribeError, match=r"teller\S* may not make publishers of news/# wait"):
                    await client.subscribe("news/#", durable="news")
                inbox = await client.subscribe("bank/#", durable="bank")
                await inbox.close()

    run(scene())
