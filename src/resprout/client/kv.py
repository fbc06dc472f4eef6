"""Key-value buckets on last values.

    bucket = client.kv("config")
    revision = await bucket.put("limits/upload", b"10")
    await bucket.update("limits/upload", b"20", revision)     # raises RevisionError if somebody was faster
    entry = await bucket.get("limits/upload")                 # read at this client's broker
    async for change in await bucket.watch():                 # the current entries first
        ...

A key is the topic `$kv/BUCKET/KEY`, and a write is a retained publication on it (`values.rows`). So writes of a key
have one order at all brokers, and each broker decides alike which compare-and-set succeeds. A write returns when the
broker of this client has applied it. A client that moves to another broker asks there what became of its writes.
"""

import asyncio
from collections.abc import AsyncIterator
from time import time_ns
from typing import TYPE_CHECKING, Final, Self

import msgspec

from resprout.client.arguments import check_count, check_seconds, time_limit, wrong
from resprout.client.errors import ClosedError, KvError, OutcomeUnknownError, PublishError, RevisionError
from resprout.client.inbox import Inbox, Payload, payload_of
from resprout.client.retaining import expiry_of
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue, check_name, check_topic
from resprout.core.message import Message
from resprout.core.timing import EXPIRES, expires_of
from resprout.edge.requests import OutcomeAnswered, OutcomeRequest, ValuesAnswered, ValuesRequest
from resprout.values.rows import DELETES, EXPECTED, KV_PREFIX, RETAIN_KEY, KnownValue
from resprout.values.watching import KeyReplica

if TYPE_CHECKING:
    from resprout.client.client import Client

WRITES_AT_ONCE: Final = 16
"""Writes of one client that are under way. Brokers remember the outcomes of more (`store.OUTCOMES_KEPT`)."""
REVISION_MAX: Final = (1 << 62) - 1


class KvEntry(msgspec.Struct, frozen=True):
    """A key of a bucket at one revision."""

    key: str
    value: bytes | None
    """None: the key was deleted."""
    revision: int
    """The place of the write among all totals: it grows with every write of any key."""
    writer: str
    """The name of the client that wrote it."""
    is_initial: bool = False
    """In a watch: whether it was there before the watch began."""


class Bucket:
    """The keys of one bucket, made by `client.kv(name)`. A bucket needs no creation."""

    def __init__(self, client: "Client", name: str) -> None:
        self.name = check_name(name, "name of a bucket")
        self._client = client
        self._prefix = f"{KV_PREFIX}{name}/"

    # -- writing -------------------------------------------------------------------------------------------------------

    async def put(self, key: str, value: Payload, *, ttl: float | None = None) -> int:
        """Write a key whatever its revision is; return the new revision. The value expires after `ttl` seconds."""
        return await self._write(key, value, None, ttl)

    async def create(self, key: str, value: Payload, *, ttl: float | None = None) -> int:
        """Write a key that does not exist; return its revision. Raises RevisionError if it exists."""
        try:
            return await self._write(key, value, 0, ttl)
        except RevisionError as error:
            # An expired key cannot be read, and keeps its revision: it is replaced at that revision.
            if error.current and await self.get(key) is None:
                return await self._write(key, value, error.current, ttl)
            raise

    async def update(self, key: str, value: Payload, revision: int, *, ttl: float | None = None) -> int:
        """Write a key if its revision is `revision`; return the new one. Raises RevisionError if it is another."""
        return await self._write(key, value, check_count(revision, "revision", 1, REVISION_MAX), ttl)

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Delete a key, if its revision is `revision` where that is given. Raises RevisionError if it is another."""
        if revision is not None:
            check_count(revision, "revision", 1, REVISION_MAX)
        await self._publish(key, b"", {DELETES: True}, revision)

    async def _write(self, key: str, value: Payload, expected: int | None, ttl: float | None) -> int:
        attributes: dict[str, AttributeValue] = {}
        if (expires_us := expiry_of(ttl)) is not None:
            attributes[EXPIRES] = expires_us
        return await self._publish(key, payload_of(value, "value"), attributes, expected)

    async def _publish(
        self, key: str, payload: bytes, attributes: dict[str, AttributeValue], expected: int | None
    ) -> int:
        """Publish a write, and return its place. Raises RevisionError if it was not applied, and KvError if it was not
        published."""
        topic = self._topic(key)
        if expected is not None:
            attributes[EXPECTED] = expected
        client = self._client
        async with client.kv_writes:
            receipt = await client.publish(
                topic, payload, guarantee=Guarantee.TOTAL, keys=(RETAIN_KEY,), attributes=attributes
            )
            accepted = asyncio.ensure_future(receipt.accepted())
            asked = asyncio.ensure_future(client.ask_values(OutcomeRequest(receipt.seq)))
            try:
                await asyncio.wait((accepted, asked), return_when=asyncio.FIRST_COMPLETED)
                if not asked.done():
                    await accepted
                outcome: OutcomeAnswered = await asked
                if outcome.place < 0:
                    await accepted
            except PublishError as error:
                raise KvError(f"{key!r} of bucket {self.name} was not written: {error}") from None
            finally:
                accepted.cancel()
                asked.cancel()
                await asyncio.gather(accepted, asked, return_exceptions=True)
        if outcome.place < 0:
            raise OutcomeUnknownError(
                f"no broker knows any more what became of the write of {key!r} in bucket {self.name}: read the key"
            )
        if not outcome.is_applied:
            raise RevisionError(self.name, key, expected or 0, outcome.current)
        return outcome.place

    # -- reading -------------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> KvEntry | None:
        """Return the entry of a key as this client's broker has it; None if it does not exist. It is never older than
        what this client has seen: its own writes, its earlier reads, its messages, and what those depend on."""
        answer = await self._ask(ValuesRequest(self._topic(key)))
        return self._entry(answer.values[0]) if answer.values else None

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys in their order: all, or `prefix` itself and the keys in the levels below it."""
        return [self._key(value.topic) async for value in self._all(prefix, payloads=False)]

    async def entries(self, prefix: str = "") -> list[KvEntry]:
        """Return the entries, as `keys` does. Many entries come in several pages, each of its own moment."""
        return [self._entry(value) async for value in self._all(prefix, payloads=True)]

    async def watch(self, prefix: str = "") -> "Watch":
        """Return an iterator over the entries that exist (`is_initial`), then over every change, in one order with all
        other watchers. A deleted key comes with the value None. That a key expires is not told."""
        inbox = await self._client.subscribe(self._filter(prefix), retained=True)
        return Watch(inbox, self._prefix)

    async def _all(self, prefix: str, payloads: bool) -> AsyncIterator[KnownValue]:
        after, more = "", True
        while more:
            answer = await self._ask(ValuesRequest(self._filter(prefix), after, payloads))
            for value in answer.values:
                yield value
                after = value.topic
            more = answer.more

    async def _ask(self, request: ValuesRequest) -> ValuesAnswered:
        answer: ValuesAnswered = await self._client.ask_values(request)
        if answer.reason:
            raise KvError(f"bucket {self.name} cannot be read: {answer.reason}")
        return answer

    def _topic(self, key: str) -> str:
        if not isinstance(key, str) or not key:
            raise wrong("key", key, "a text such as 'users/7' that is not empty")
        return check_topic(f"{self._prefix}{key}")

    def _filter(self, prefix: str) -> str:
        if not isinstance(prefix, str):
            raise wrong("prefix", prefix, "a text such as 'users'")
        return f"{self._topic(prefix.removesuffix('/'))}/#" if prefix else f"{self._prefix}#"

    def _key(self, topic: str) -> str:
        return topic.removeprefix(self._prefix)

    def _entry(self, value: KnownValue) -> KvEntry:
        return KvEntry(self._key(value.topic), value.payload, value.revision, value.publisher)


class Watch:
    """The entries of a bucket and their changes: an asynchronous iterator, and a context manager that ends it. It
    ends with the client, and raises ClosedError when changes may have been missed: begin another one then."""

    def __init__(self, inbox: Inbox, prefix: str) -> None:
        self._inbox = inbox
        self._prefix = prefix
        self._replica = KeyReplica(prefix)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> KvEntry:
        while True:
            message = await self._inbox.__anext__()
            if (entry := self._apply(message)) is not None:
                return entry

    async def next(self, timeout: float | None = None) -> KvEntry:
        """Return the next change. TimedOutError when none comes within `timeout` seconds, ClosedError when the watch is
        over."""
        try:
            async with time_limit(check_seconds(timeout), "no change came"):
                return await self.__anext__()
        except StopAsyncIteration:
            raise ClosedError("the watch is over") from None

    async def close(self) -> None:
        await self._inbox.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _apply(self, message: Message) -> KvEntry | None:
        """Return the change that a message makes; None for a write that no broker has applied."""
        if not self._replica.apply(message):
            return None
        expires_us = expires_of(message.attributes)
        if message.retained and 0 < expires_us <= time_ns() // 1000:
            return None
        value = None if message.attributes.get(DELETES) is True else message.payload
        key = message.topic.removeprefix(self._prefix)
        return KvEntry(key, value, message.tseq, message.publisher, message.retained)
