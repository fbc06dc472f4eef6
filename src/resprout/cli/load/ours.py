"""Our client as a worker: `python -m resprout.cli.load.ours publisher|subscriber ADDRESS GUARANTEE [KEYS]`.

`KEYS`: how many a publisher names, one after the other, one in each message; none without it.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import Final

from resprout.cli.load.stream import Take
from resprout.cli.load.worker import run_worker
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.client.receipts import Receipt
from resprout.core.guarantee import Guarantee

TOPIC: Final = "load/1"


class OurSender:
    def __init__(self, client: Client, guarantee: Guarantee, keys: int = 0) -> None:
        self._client = client
        self._guarantee = guarantee
        self._keys: Iterator[tuple[str, ...]] = cycle([(f"k{at}",) for at in range(keys)] or [()])

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        publish, guarantee, keys = self._client.publish, self._guarantee, self._keys
        receipt: Receipt | None = None
        for block in blocks:
            for payload in block:
                receipt = await publish(TOPIC, payload, guarantee=guarantee, keys=next(keys))
            await asyncio.sleep(0)
        if receipt is not None:
            await receipt.delivered()

    async def send(self, payload: bytes) -> None:
        await self._client.publish(TOPIC, payload, guarantee=self._guarantee)

    async def begin(self, payload: bytes) -> Receipt:
        return await self._client.publish(TOPIC, payload, guarantee=self._guarantee)

    async def settle(self, payload: bytes) -> None:
        await (await self.begin(payload)).safe()

    async def close(self) -> None:
        await self._client.close()


class OurReceiver:
    def __init__(self, client: Client, inbox: Inbox) -> None:
        self._client = client
        self._inbox = inbox

    async def receive(self, take: Take, batches: bool) -> None:
        if batches:
            async for messages in self._inbox.batches():
                for message in messages:
                    if take(message.payload):
                        return
        else:
            async for message in self._inbox:
                if take(message.payload):
                    return

    async def close(self) -> None:
        await self._client.close()


async def _sender(address: str, guarantee: Guarantee, keys: int) -> OurSender:
    return OurSender(await connect(address), guarantee, keys)


async def _receiver(address: str) -> OurReceiver:
    client = await connect(address)
    return OurReceiver(client, await client.subscribe(TOPIC))


def command(role: str, address: str, guarantee: Guarantee = Guarantee.CAUSAL, keys: int = 0) -> list[str]:
    """What starts such a worker."""
    return [sys.executable, "-P", "-m", "resprout.cli.load.ours", role, address, guarantee.label, str(keys)]


def main(role: str, address: str, guarantee: str, keys: str = "0") -> None:
    run_worker(role, address, lambda to: _sender(to, Guarantee.parse(guarantee), int(keys)), _receiver)


if __name__ == "__main__":
    main(*sys.argv[1:])
