"""Subscriptions that read logs. `LogClient` is the part of the client that makes them; `DurableLogInbox` is one with a
stored position.

A durable subscription to a log is a stored position with an owner. Its consumer takes the position over, which gives it
a new version, and stores its progress with that version. So an earlier consumer that does not know yet that it was
replaced cannot change the position, and gets FencedError.
"""

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final
from weakref import WeakSet

import msgspec

from resprout.client.durable import DurableInbox
from resprout.client.errors import ClosedError, CommitError, FencedError, OnEvent, TellGap
from resprout.client.following import LogFollower, LogInbox, PageBatch, page_taken
from resprout.client.inbox import Inbox
from resprout.client.log_changes import LogAdmin
from resprout.client.partitions import check_whole, starts_of
from resprout.client.past_events import PAGE_BYTES, Offset, SeveralPartitionsError, Start, read_request
from resprout.core.errors import UnsupportedSubscriptionError, UsageError
from resprout.core.limits import check_name
from resprout.core.message import Message
from resprout.core.partitions import check_log_name, partition_name, split_name
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import PositionAnswered, PositionRequest, StoredMessage
from resprout.logs.declaration import LOG_PREFIX
from resprout.logs.positions import ASK, FORGET
from resprout.net.host import Host

COMMIT_SECONDS: Final = 0.1
"""Seconds between two commits of one consumer. Acknowledgements in between are committed together."""
CLAIMS_MAX: Final = 10
"""Attempts to take a position over while other consumers do the same."""


def log_of(log: str | None, start: Start) -> str | None:
    """Return the log that a subscription reads, named by `log` or by an offset; None if it reads no log."""
    if log is not None:
        return check_log_name(log, "log: name of a log")
    if isinstance(start, Offset) and start.journal.startswith(LOG_PREFIX):
        return start.journal.removeprefix(LOG_PREFIX)
    return None


class PartProgress:
    """How far a consumer has come in one partition of a log."""

    def __init__(self, log: str, name: str, claimed: PositionAnswered, follower: LogFollower) -> None:
        """`log`: the partition, or a log that has one. `claimed`: the position when it was taken over."""
        self.log = log
        self.follower = follower
        self._name = name
        self._claimed = claimed
        self._open: OrderedDict[int, bool] = OrderedDict()
        """Uncommitted messages by offset, in order: whether each was acknowledged."""
        self.processed = self.committed = claimed.offset
        """The offset at which to continue, here and as stored."""

    def hand_out(self, stored: Sequence[StoredMessage]) -> list[Message]:
        """Return the messages of a page for the program, which will acknowledge them."""
        for each in stored:
            self._open[each.position] = False
        before = self._claimed.end if self._claimed.version > 1 else 0
        return [
            msgspec.structs.replace(each.message, redelivered=True) if each.position < before else each.message
            for each in stored
        ]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.position in self._open:
                self._open[message.position] = True
        while self._open and self._open[next(iter(self._open))]:
            position, _ = self._open.popitem(last=False)
            self.processed = position + 1
        if not self._open:  # messages that do not match are processed, too
            self.processed = max(self.processed, self.follower.position)

    @property
    def version(self) -> int:
        return self._claimed.version

    @property
    def is_behind(self) -> bool:
        """Whether there is progress to store."""
        return self.processed > self.committed

    def request(self, offset: int) -> PositionRequest:
        return PositionRequest(self.log, self._name, offset, self._claimed.version)


class DurableLogInbox(DurableInbox):
    """The inbox of a durable subscription to a log. It raises the errors of both."""

    def __init__(
        self,
        ask: Callable[[PositionRequest], Awaitable[PositionAnswered]],
        log: str,
        name: str,
        parts: Sequence[PartProgress],
        manual_ack: bool,
        loop: asyncio.AbstractEventLoop,
        on_event: OnEvent | None,
    ) -> None:
        super().__init__(name, manual_ack, on_event, loop)
        self.log = log
        self._taken = page_taken
        self._ask = ask
        self._parts = {split_name(part.log)[1] or 0: part for part in parts}
        """Progress by number of the partition."""
        self._trouble: Exception | None = None
        self._commits: asyncio.Task[None] | None = None

    # -- for the client ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for part in self._parts.values():
            part.follower.start(partial(self._put_stored, part), self.fail)

    def fail(self, error: Exception) -> None:
        if not self._over:
            self._trouble = error
            self.end(str(error))

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        super().end(failure, error)
        for part in self._parts.values():
            part.follower.stop()

    def _put_stored(self, part: PartProgress, stored: Sequence[StoredMessage]) -> None:
        self.put(PageBatch(part.follower), part.hand_out(stored))

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def _say(self) -> None:
        said, self._unsaid = self._unsaid, []
        for number, part in self._parts.items():
            part.acknowledge([message for message in said if message.partition == number])
        if self._commits is None and any(part.is_behind for part in self._parts.values()):
            self._commits = self._loop.create_task(self._commit())

    async def _commit(self) -> None:
        """Store the progress of this consumer until all of it is stored."""
        try:
            while not self._is_fenced and any(part.is_behind for part in self._parts.values()):
                await asyncio.gather(*[self._commit_part(part) for part in self._parts.values() if part.is_behind])
                await asyncio.sleep(COMMIT_SECONDS)
        except ClosedError:
            pass  # the next consumer gets the rest again
        finally:
            self._commits = None

    async def _commit_part(self, part: PartProgress) -> None:
        upto = part.processed
        answer = await self._ask(part.request(upto))
        if not answer.reason:
            part.committed = upto
        elif not answer.retryable and not self._is_fenced:
            self._fence(answer.reason)

    def _fence(self, reason: str) -> None:
        self._is_fenced = True
        self._discard()
        self.end(f"another consumer has taken over {self.name!r}: {reason}")

    # -- the end -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Release the subscription. It stays, and the next consumer begins with the first message that was not
        acknowledged."""
        self._say()
        if not self._is_fenced:
            behind = [part.request(part.processed) for part in self._parts.values() if part.is_behind]
            with contextlib.suppress(ClosedError):  # the next consumer gets these messages again
                await asyncio.gather(*map(self._ask, behind))
        self.end()

    async def unsubscribe(self) -> None:
        """End the subscription for all its consumers and delete its position."""
        self.check_ack()
        answers = await asyncio.gather(*[self._ask(part.request(FORGET)) for part in self._parts.values()])
        for answer in answers:
            if answer.reason and not answer.retryable:
                self._fence(answer.reason)
                self._raise_if_over()
            elif answer.reason:
                raise CommitError(answer.reason)
        for part in self._parts.values():
            part.processed = part.committed
        self.end()

    async def _wait(self) -> None:
        if self._over and self._trouble is not None:
            raise self._trouble
        await super()._wait()

    def _raise_if_over(self) -> None:
        if self._is_fenced:
            raise FencedError(self.failure or "")
        super()._raise_if_over()


class LogClient(LogAdmin):
    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        super().__init__(machine, host, copies)
        self._followed: WeakSet[Inbox] = WeakSet()
        """Inboxes that read logs."""
        self._durables: set[DurableInbox] = set()
        """Durable subscriptions that this program consumes."""
        self._on_event: OnEvent | None = None

    def _missing(self, filter: str) -> TellGap:
        raise NotImplementedError

    async def _follow(
        self,
        filter: str,
        where: str | None,
        log: str,
        start: Start,
        durable: str | None,
        group: str | None,
        manual_ack: bool,
        allow_gaps: bool,
    ) -> Inbox:
        self._check_open()
        if group is not None:
            raise UnsupportedSubscriptionError(
                f"group={group!r}: a group does not read a log; durable= gives a log one reader at a time"
            )
        if durable is not None:
            check_name(durable, "durable: name of a durable subscription")
            return await self._consume_log(filter, where, log, start, durable, manual_ack, allow_gaps)
        followers = await self._open_followers(filter, where, log, start, allow_gaps)
        inbox = LogInbox(self._loop, followers)
        self._followed.add(inbox)
        inbox.begin()
        return inbox

    async def _open_followers(
        self, filter: str, where: str | None, log: str, start: Start, allow_gaps: bool
    ) -> list[LogFollower]:
        """Open one follower for each partition of a log."""
        try:
            follower = await self._open_follower(filter, where, log, start, allow_gaps)
        except SeveralPartitionsError as error:
            places = starts_of(log, start, error.partitions)
            opening = [
                self._open_follower(filter, where, partition_name(log, number), place, allow_gaps)
                for number, place in enumerate(places)
            ]
            return await asyncio.gather(*opening)
        check_whole(log, start)
        return [follower]

    async def _open_follower(
        self, filter: str, where: str | None, log: str, start: Start, allow_gaps: bool
    ) -> LogFollower:
        request = read_request(filter, where, start, PAGE_BYTES, allow_gaps, log)
        follower = LogFollower(self.read_events, msgspec.structs.replace(request, whole=True), self._missing(filter))
        await follower.open()
        return follower

    async def _consume_log(
        self, filter: str, where: str | None, log: str, start: Start, durable: str, manual_ack: bool, allow_gaps: bool
    ) -> DurableInbox:
        if any(other.name == durable and not other.is_over for other in self._durables):
            raise UsageError(f"durable={durable!r}: this client consumes it already")
        names, places = [log], [start]
        seen = [await self._ask_position_once(PositionRequest(log, durable, ASK))]
        if count := seen[0].partitions:
            names, places = [partition_name(log, number) for number in range(count)], starts_of(log, start, count)
            seen = [await self._ask_position(PositionRequest(name, durable, ASK)) for name in names]
        elif seen[0].reason:
            raise CommitError(seen[0].reason)
        else:
            check_whole(log, start)
        parts: list[PartProgress] = []
        for name, place, before in zip(names, places, seen, strict=True):
            first = parts[0] if parts else None
            parts.append(await self._consume_part(filter, where, name, place, durable, before, allow_gaps, first))
        inbox = DurableLogInbox(self._ask_position_once, log, durable, parts, manual_ack, self._loop, self._on_event)
        self._followed.add(inbox)
        self._durables.add(inbox)
        inbox.begin()
        return inbox

    async def _consume_part(
        self,
        filter: str,
        where: str | None,
        log: str,
        start: Start,
        durable: str,
        seen: PositionAnswered,
        allow_gaps: bool,
        first: PartProgress | None,
    ) -> PartProgress:
        """Take over the position in one partition. `first`: the progress in the first partition, which the consumer
        must still hold."""
        if seen.offset >= 0:
            start = Offset(f"{LOG_PREFIX}{log}", seen.offset)
        follower = await self._open_follower(filter, where, log, start, allow_gaps)
        begin = follower.first.messages[0].position if follower.first.messages else follower.first.next.position
        claimed = await self._claim(log, durable, seen, begin, first)
        if seen.offset >= 0 and claimed.offset != seen.offset:  # the earlier consumer has committed more meanwhile
            start = Offset(f"{LOG_PREFIX}{log}", claimed.offset)
            follower = await self._open_follower(filter, where, log, start, allow_gaps)
        return PartProgress(log, durable, claimed, follower)

    async def _claim(
        self, log: str, name: str, seen: PositionAnswered, begin: int, first: PartProgress | None
    ) -> PositionAnswered:
        """Take the position over under a new version, which only this consumer knows. An existing position keeps its
        offset. Of consumers that do this at the same time, the last one to hold the first partition gets all of
        them."""
        owner = secrets.token_hex(8)
        for _ in range(CLAIMS_MAX):
            offset = seen.offset if seen.offset >= 0 else begin
            answer = await self._ask_position_once(PositionRequest(log, name, offset, seen.version, True, owner))
            if not answer.reason:
                return answer
            if answer.retryable or answer.version == seen.version:
                raise CommitError(answer.reason)
            if first is not None:
                held = await self._ask_position(PositionRequest(first.log, name, ASK))
                if held.version != first.version:
                    raise FencedError(f"another consumer has taken over {name!r}: {answer.reason}")
            seen = answer
        raise CommitError(f"the position {name!r} of the log {log} is taken over again and again by others")

    def _end_followed(self, failure: str | None, error: type[ClosedError]) -> None:
        """End all inboxes that read logs, because the client is closed or its session is over."""
        for inbox in list(self._followed):
            inbox.end(failure, error)
