"""Key-value buckets for code that blocks: the calls of `client.kv.Bucket` without `await`."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Self, TypeVar

from resprout.client.arguments import check_seconds
from resprout.client.background import Background, within
from resprout.client.inbox import Payload
from resprout.client.kv import Bucket, KvEntry, Watch

T = TypeVar("T")

NO_WRITE: Final = "the key was not known to be written"
NO_ANSWER: Final = "the broker did not answer"


class BlockingBucket:
    """Like `resprout.Bucket`; every call has a `timeout` in seconds, None for no limit. A write that takes longer may
    still be applied."""

    def __init__(self, background: Background, bucket: Bucket) -> None:
        self.name = bucket.name
        self._background = background
        self._bucket = bucket

    def put(self, key: str, value: Payload, *, ttl: float | None = None, timeout: float | None = None) -> int:
        return self._call(timeout, NO_WRITE, lambda: self._bucket.put(key, value, ttl=ttl))

    def create(self, key: str, value: Payload, *, ttl: float | None = None, timeout: float | None = None) -> int:
        return self._call(timeout, NO_WRITE, lambda: self._bucket.create(key, value, ttl=ttl))

    def update(
        self, key: str, value: Payload, revision: int, *, ttl: float | None = None, timeout: float | None = None
    ) -> int:
        return self._call(timeout, NO_WRITE, lambda: self._bucket.update(key, value, revision, ttl=ttl))

    def delete(self, key: str, revision: int | None = None, *, timeout: float | None = None) -> None:
        self._call(timeout, NO_WRITE, lambda: self._bucket.delete(key, revision))

    def get(self, key: str, *, timeout: float | None = None) -> KvEntry | None:
        return self._call(timeout, NO_ANSWER, lambda: self._bucket.get(key))

    def keys(self, prefix: str = "", *, timeout: float | None = None) -> list[str]:
        return self._call(timeout, NO_ANSWER, lambda: self._bucket.keys(prefix))

    def entries(self, prefix: str = "", *, timeout: float | None = None) -> list[KvEntry]:
        return self._call(timeout, NO_ANSWER, lambda: self._bucket.entries(prefix))

    def watch(self, prefix: str = "", *, timeout: float | None = None) -> "BlockingWatch":
        watch = self._call(timeout, "the subscription was not confirmed", lambda: self._bucket.watch(prefix))
        return BlockingWatch(self._background, watch)

    def _call(self, timeout: float | None, failure: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._background.call(within(check_seconds(timeout), failure, work))


class BlockingWatch:
    """Like `resprout.Watch`, for a `for` loop."""

    def __init__(self, background: Background, watch: Watch) -> None:
        self._background = background
        self._watch = watch

    def __iter__(self) -> Iterator[KvEntry]:
        return self

    def __next__(self) -> KvEntry:
        entry = self._background.call(self._next_or_none())
        if entry is None:
            raise StopIteration
        return entry

    def next(self, timeout: float | None = None) -> KvEntry:
        """Return the next change. TimedOutError when none comes within `timeout` seconds."""
        return self._background.call(self._watch.next(timeout))

    def close(self) -> None:
        self._background.call(self._watch.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _next_or_none(self) -> KvEntry | None:
        """A StopAsyncIteration cannot leave a task."""
        return await anext(self._watch, None)
