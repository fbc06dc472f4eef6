"""Publishes the rows of one task, so that doing it again changes nothing.

To the network all attempts at one task are the same life of the same publisher: its name says the query and the
partition, its life the batch, and each row has its number. Brokers take nothing twice, wherever an attempt that died
has got to. What they cannot remember for ever, the ledger does.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClientError, ConnectError, PublishError
from resprout.client.receipts import Receipt
from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.edge.options import ClientOptions
from resprout.spark.errors import SinkError
from resprout.spark.options import AccessOptions
from resprout.spark.rows import RowBundle

PAUSE_S: Final = 0.5
"""Between two attempts."""
CONNECT_S: Final = 10.0
PREFIX: Final = "spark"
DIGITS: Final = 12
"""Of the query, in the names of its publishers."""


class TaskIdentity(msgspec.Struct, frozen=True):
    """Which work it is, however often it is begun."""

    prefix: str
    query: str
    batch: int
    partition: int

    @property
    def publisher(self) -> str:
        digits = hashlib.sha256(self.query.encode()).hexdigest()[:DIGITS]
        name = f"{self.prefix}.{digits}.{self.partition}"
        if len(name.encode()) > limits.NAME_BYTES:
            raise UsageError(f"publisher: {name} is longer than {limits.NAME_BYTES} bytes")
        return name

    @property
    def life(self) -> int:
        return self.batch + 1


def publish(task: TaskIdentity, access: AccessOptions, bundles: Callable[[], Iterable[RowBundle]]) -> None:
    """Returns when all of it is safe. SinkError when that is not so after `timeout`, or when a row cannot be published
    at all."""
    asyncio.run(_publish(task, access, bundles))


async def _publish(task: TaskIdentity, access: AccessOptions, bundles: Callable[[], Iterable[RowBundle]]) -> None:
    who = f"batch {task.batch}, partition {task.partition}"
    deadline = time.monotonic() + access.timeout_s
    while True:
        try:
            client = await connect(
                access.servers, name=task.publisher, timeout=min(CONNECT_S, access.timeout_s), tls=access.tls,
                login=access.login, life=task.life, options=ClientOptions(same_bundles=True),
            )  # fmt: skip
            try:
                await _say(client, bundles(), access.timeout_s)
                return
            finally:
                await client.close()
        except PublishError as error:
            if error.definite:
                raise SinkError(f"{who} was refused: {error.reason}") from None
            trouble = str(error)
        except ConnectError as error:
            if error.hopeless:
                raise SinkError(f"{who} was not published: {error}") from None
            trouble = str(error)
        except (ClientError, TimeoutError) as error:
            trouble = str(error) or f"nothing became safe for {access.timeout_s:g} s"
        if time.monotonic() >= deadline:
            raise SinkError(f"{who} was not published: {trouble}; what was, is not published again") from None
        await asyncio.sleep(PAUSE_S)


async def _say(client: Client, bundles: Iterable[RowBundle], timeout_s: float) -> None:
    """TimeoutError when so long nothing became safe."""
    last: dict[str, Receipt] = {}
    for bundle in bundles:
        async with asyncio.timeout(timeout_s):
            receipt = await client.publish_bundle(
                bundle.topic, bundle.payloads, guarantee=bundle.guarantee, keys=bundle.keys,
                attributes=bundle.attributes,
            )  # fmt: skip
        last[receipt.id[2]] = receipt
    for receipt in last.values():
        async with asyncio.timeout(timeout_s):
            await receipt.safe()
