"""Receipts: places in ranges of numbers.

A receipt is a reference and a number; nothing else exists per publication until a task waits. The network reports
"everything up to 4711 is safe", so one number per stream and kind tells the state of every receipt; only `delivered`
may go on behind publications that a subscriber has not read.
"""

import asyncio
import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter

import msgspec

from resprout.client.errors import PublishError
from resprout.core.errors import UnsupportedReceiptError, logger
from resprout.core.guarantee import ALL_LEVELS, ReceiptLevel
from resprout.core.message import MessageId
from resprout.core.seen import Ranges

CHANGES_KEPT = 1024
"""Changes of the number of copies that are remembered; older publications get the oldest of them."""

Waiting = list[tuple[int, int, "asyncio.Future[None]"]]

LATELY = 64
"""A level that was not waited for during this many flushes, while others were, no longer counts as awaited."""

CANCELLED_KEPT = 64
"""Cancelled waits stay in their queue until there are more than this, and more than half of the queue."""


class Receipt(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The receipt of one publication. Each method waits for a level. Raises PublishError when it will not come, and
    UnsupportedReceiptError when this network never gives it."""

    _stream: "Stream"
    seq: int

    async def accepted(self) -> None:
        """Return when the client's broker has the message."""
        await self._stream.reach(ReceiptLevel.ACCEPTED, self.seq)

    async def safe(self) -> None:
        """Return when the message survives the crash of any f brokers."""
        await self._stream.reach(ReceiptLevel.SAFE, self.seq)

    async def delivered(self) -> None:
        """Return when every correct subscriber that is owed the message has it."""
        await self._stream.reach(ReceiptLevel.DELIVERED, self.seq)

    @property
    def id(self) -> MessageId:
        """Equal to `Message.id` of the same publication, wherever it is delivered."""
        return MessageId(*self._stream.origin, self.seq)

    @property
    def state(self) -> str:
        """The level reached so far: published, accepted, safe or delivered; or refused."""
        return self._stream.state(self.seq)

    @property
    def copies(self) -> int:
        """The number of copies that `safe` means: f + 1, or fewer in a network with fewer brokers. 0 while it is not
        safe."""
        return self._stream.copies(self.seq)

    @property
    def waiting_for(self) -> str:
        """Why it takes so long, if the broker has said so: "waits for b3, which is not heard". Otherwise empty."""
        return self._stream.waiting_for(self.seq)

    def __repr__(self) -> str:
        why = self.waiting_for
        return f"<receipt {self._stream.name}:{self.seq} {self.state}{', ' if why else ''}{why}>"


class BundleReceipt(Receipt, frozen=True, eq=False, gc=False):
    """The receipt of several consecutive publications; `seq` is the number of the last."""

    first: int

    async def delivered(self) -> None:
        """Return when every correct subscriber that is owed one of them has it. Publications in different bundles
        are delivered independently of each other."""
        for seq in range(self.first, self.seq + 1):
            await self._stream.reach(ReceiptLevel.DELIVERED, seq)


class Stream:
    """The publications of one stream of a client: how far each kind of receipt has come, and who waits."""

    __slots__ = (
        "_answers",
        "_cancelled",
        "_closed",
        "_copies",
        "_count",
        "_given",
        "_hurry",
        "_last",
        "_lately",
        "_loop",
        "_reached",
        "_refused",
        "_stack",
        "_told",
        "_waiting",
        "_waits",
        "_waits_from",
        "awaited",
        "name",
        "origin",
    )

    def __init__(
        self,
        publisher: str,
        incarnation: int,
        name: str,
        loop: asyncio.AbstractEventLoop,
        hurry: Callable[[], None],
        copies: int = 1,
    ) -> None:
        """`hurry` is called when a task begins to wait. `copies`: the number of brokers that `safe` means until the
        network reports another one."""
        self.name = name
        self.origin = (publisher, incarnation, name)
        self._copies = [(0, copies)]
        """(first publication, number of copies), in order; few, because the number changes only with the size of the
        tree."""
        self._loop = loop
        self._hurry = hurry
        self._stack = ""
        self._given = tuple(ReceiptLevel)
        self._reached = [Ranges() for _ in ReceiptLevel]
        self._waiting: list[Waiting] = [[] for _ in ReceiptLevel]
        self._cancelled = [0] * len(ReceiptLevel)
        self._count = itertools.count()
        self._refused: dict[int, str] = {}
        self._closed: str | None = None
        self._waits = ""
        """Reason why this publication, and everything after it, waits."""
        self._waits_from = 0
        self.awaited = ALL_LEVELS
        """The receipts that a task has waited for since a publication left; before the first publication, all of
        them."""
        self._answers = 0
        """How many waiting tasks were told since the last flush."""
        self._last = 0
        """The number of the last publication that left."""
        self._told = 0
        """How often the broker was told that a task waits."""
        self._lately = [-LATELY] * len(ReceiptLevel)
        """By level: `_told` when a task last waited for it."""

    def offer(self, stack: str, given: tuple[ReceiptLevel, ...]) -> None:
        """Set which receipts the network gives."""
        self._stack = stack
        self._given = given

    def state(self, seq: int) -> str:
        if seq in self._refused:
            return "refused"
        for kind in reversed(ReceiptLevel):
            if seq in self._reached[kind]:
                return kind.label
        return "published"

    def copies(self, seq: int) -> int:
        if seq not in self._reached[ReceiptLevel.SAFE] or seq in self._refused:
            return 0
        return self._copies[bisect_right(self._copies, seq, key=itemgetter(0)) - 1][1]

    def count(self, first: int, copies: int) -> None:
        while len(self._copies) > 1 and self._copies[-1][0] >= first:
            self._copies.pop()
        if self._copies[-1][1] != copies:
            self._copies.append((first, copies))
            del self._copies[:-CHANGES_KEPT]

    def waiting_for(self, seq: int) -> str:
        return self._waits if seq >= self._waits_from and seq not in self._refused else ""

    def waits(self, seq: int, reason: str) -> None:
        """Note why a publication waits; told again when the reason changes."""
        if not self._waits or seq != self._waits_from:
            logger.warning("publication %s:%d %s", self.name, seq, reason)
        self._waits, self._waits_from = reason, seq

    async def reach(self, kind: ReceiptLevel, seq: int) -> None:
        if kind not in self._given:
            names = ", ".join(given.label for given in self._given) or "none"
            raise UnsupportedReceiptError(
                f"the stack {self._stack!r} does not give the receipt {kind.label!r}; it gives {names}"
            )
        self.awaited |= 1 << kind  # also where it has come already: else the next one would be told late
        if seq in self._refused:
            raise PublishError(self._refused[seq], definite=True)
        if seq in self._reached[kind]:
            return
        if self._closed is not None:
            raise PublishError(self._closed, definite=False)
        future: asyncio.Future[None] = self._loop.create_future()
        waiting = self._waiting[kind]
        heapq.heappush(waiting, (seq, next(self._count), future))
        self._hurry()
        try:
            await future
        except asyncio.CancelledError:
            self._cancelled[kind] += 1
            if self._cancelled[kind] > max(CANCELLED_KEPT, len(waiting) // 2):
                self._drop_done(kind)
            raise

    @property
    def is_awaited(self) -> bool:
        """Whether a task waits for a receipt now, or has done so since the last `take_awaited`."""
        return self.awaited != 0 or any(self._waiting)

    @property
    def is_in_flight(self) -> bool:
        """Return whether more publications are on their way, or about to be: a task waits for a receipt; several tasks
        were told at the same time, so several go on; or the publication that left last lacks a receipt of a level that
        the program waits for."""
        if self._answers > 1 or any(self._waiting):
            return True
        last = self._last
        return last not in self._refused and any(
            self.awaited >> kind & 1 and last not in reached for kind, reached in enumerate(self._reached)
        )

    def take_awaited(self, last: int) -> int:
        """Return the receipts that tasks wait for, and reset them: everything up to the number `last` leaves now.
        A program that waits for one level now and another then has both told at once."""
        self._last = last
        if not self.awaited and not any(self._waiting):
            return 0
        told = self._told = self._told + 1
        levels = 0
        for kind, waiting in enumerate(self._waiting):
            if waiting or self.awaited >> kind & 1:
                self._lately[kind] = told
            if told - self._lately[kind] < LATELY:
                levels |= 1 << kind
        self.awaited = self._answers = 0
        return levels

    def turned(self, kind: ReceiptLevel, first: int, last: int) -> None:
        reached = self._reached[kind]
        reached.add(first, last)
        if first <= self._waits_from <= last:
            self._waits = ""
        waiting = self._waiting[kind]
        while waiting and waiting[0][0] <= reached.upto:
            self._succeed(heapq.heappop(waiting)[2], kind)
        if last > reached.upto and waiting and waiting[0][0] <= last:
            for seq, _, future in waiting:
                if first <= seq <= last:
                    self._succeed(future, kind)
            self._drop_done(kind)

    def _succeed(self, future: "asyncio.Future[None]", kind: ReceiptLevel) -> None:
        if not future.done():
            future.set_result(None)
            self._answers += 1
            self.awaited |= 1 << kind  # until now: what it publishes next may leave before it can wait again

    def refused(self, first: int, last: int, reason: str) -> None:
        for seq in range(first, last + 1):
            self._refused[seq] = reason
        if first <= self._waits_from <= last:
            self._waits = ""
        self._fail(lambda seq: seq in self._refused, reason, definite=True)

    def close(self, reason: str) -> None:
        self._closed = reason
        self._waits = ""
        self._fail(lambda _: True, reason, definite=False)

    def _fail(self, concerned: Callable[[int], bool], reason: str, definite: bool) -> None:
        for kind, waiting in enumerate(self._waiting):
            for seq, _, future in waiting:
                if concerned(seq) and not future.done():
                    future.set_exception(PublishError(reason, definite))
            self._drop_done(kind)

    def _drop_done(self, kind: int) -> None:
        self._cancelled[kind] = 0
        waiting = self._waiting[kind] = [item for item in self._waiting[kind] if not item[2].done()]
        heapq.heapify(waiting)
