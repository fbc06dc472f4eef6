"""Positions of readers, stored by name in their log.

    position = await client.committed("bank", "billing") or "earliest"
    inbox = await client.subscribe("bank/#", log="bank", replay_from=position)
    async for message in inbox:
        bill(message)
        await client.commit("bank", "billing", message.position + 1)

As in Kafka, a position is the offset at which to continue: one more than that of the last processed message.
"""

import asyncio
import secrets
from typing import Final

from resprout.client.arguments import check_count, check_flag
from resprout.client.errors import ClosedError, CommitError
from resprout.client.partitions import check_whole, offset_of_all, starts_of
from resprout.client.past_events import Offset, read_offset
from resprout.client.values import ValueAnswered, ValueClient
from resprout.core.contract import Request
from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.core.message_fields import NUMBER_MAX
from resprout.core.partitions import check_log_name, partition_name
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import ChangeLogRequest, LogChangeAnswered, PositionAnswered, PositionRequest, Refused
from resprout.logs.declaration import LOG_PREFIX
from resprout.logs.positions import ASK, FORGET
from resprout.net.host import Host

TRIES_MAX: Final = 5
"""Attempts of a forced change, each with the version that the last answer named."""


class PositionClient(ValueClient):
    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        super().__init__(machine, host, copies)
        self._asking: dict[int, asyncio.Future[PositionAnswered | LogChangeAnswered | Refused]] = {}
        """Unanswered requests, by token."""

    async def commit(self, log: str, name: str, offset: Offset | str | int, *, force: bool = False) -> Offset:
        """Store under `name` the offset at which a reader of the log continues, and return the stored offset.

        A position never goes back: a lower offset changes nothing unless `force` is given. Raises CommitError, and
        stores nothing, if the log has no such offset or too many positions, or if no replica leads it.
        """
        if isinstance(offset, str):
            offset = read_offset(offset)
        check_name(name, "name of a position")
        check_flag(force, "force")
        if isinstance(offset, Offset) and offset.positions:
            return await self._commit_all(log, name, offset, force)
        return await self._commit_one(log, name, _position_of(log, offset), force)

    async def _commit_all(self, log: str, name: str, offset: Offset, force: bool) -> Offset:
        """Store an offset in each partition of a log."""
        answer = await self._ask_position_once(PositionRequest(log, name, ASK))
        if not answer.partitions:
            check_whole(log, offset)
            raise CommitError(answer.reason)
        places = enumerate(starts_of(log, offset, answer.partitions))
        storing = [
            self._commit_one(partition_name(log, number), name, place.position, force)
            for number, place in places
            if isinstance(place, Offset)
        ]
        return offset_of_all(log, [stored.position for stored in await asyncio.gather(*storing)])

    async def _commit_one(self, log: str, name: str, position: int, force: bool) -> Offset:
        if not force:
            answer = await self._ask_position(PositionRequest(log, name, position))
            return Offset(f"{LOG_PREFIX}{log}", answer.offset)
        owner = secrets.token_hex(8)
        for _ in range(TRIES_MAX - 1):
            seen = await self._ask_position(PositionRequest(log, name, ASK))
            request = PositionRequest(log, name, position, seen.version, True, owner)
            answer = await self._ask_position_once(request)
            if not answer.reason:
                return Offset(f"{LOG_PREFIX}{log}", answer.offset)
            if answer.version == seen.version or answer.retryable:
                raise CommitError(answer.reason)
        raise CommitError(
            f"the position {name!r} of the log {log} was changed by others {TRIES_MAX - 1} times meanwhile"
        )

    async def committed(self, log: str, name: str) -> Offset | None:
        """Return the position that is stored under `name`, or None. Raises CommitError if no replica leads the log.

        Of a log with several partitions it has an offset for each, 0 where none is stored.
        """
        check_log_name(log)
        check_name(name, "name of a position")
        answer = await self._ask_position_once(PositionRequest(log, name, ASK))
        if answer.partitions:
            stored = await asyncio.gather(*[self.committed(part, name) for part in _parts(log, answer)])
            offsets = [offset.position if offset is not None else 0 for offset in stored]
            return offset_of_all(log, offsets) if any(offset is not None for offset in stored) else None
        if answer.reason:
            raise CommitError(answer.reason)
        return Offset(f"{LOG_PREFIX}{log}", answer.offset) if answer.offset >= 0 else None

    async def forget_position(self, log: str, name: str) -> None:
        """Delete the position that is stored under `name`, if there is one."""
        check_log_name(log)
        check_name(name, "name of a position")
        answer = await self._ask_position_once(PositionRequest(log, name, FORGET))
        if answer.partitions:
            await asyncio.gather(*[self.forget_position(part, name) for part in _parts(log, answer)])
        elif answer.reason:
            raise CommitError(answer.reason)

    async def _ask_position(self, request: PositionRequest) -> PositionAnswered:
        """Send a request to the log and return its answer. Raises CommitError with the reason if it was refused."""
        answer = await self._ask_position_once(request)
        if answer.reason:
            raise CommitError(answer.reason)
        return answer

    async def _ask_position_once(self, request: PositionRequest) -> PositionAnswered:
        """Send a request to the log and return its answer, which holds the reason if it was refused."""
        answer = await self._ask_log(request)
        return answer if isinstance(answer, PositionAnswered) else PositionAnswered(-1, 0, 0, answer.reason)

    async def _ask_log(
        self, request: PositionRequest | ChangeLogRequest
    ) -> PositionAnswered | LogChangeAnswered | Refused:
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[PositionAnswered | LogChangeAnswered | Refused] = self._loop.create_future()
        self._asking[token] = answered
        self._host.handle(Request(request, token))
        try:
            return await answered
        finally:
            self._asking.pop(token, None)

    def _answered(self, token: int, news: ValueAnswered | PositionAnswered | LogChangeAnswered) -> None:
        asked = self._asking.get(token)
        if asked is None:
            assert not isinstance(news, PositionAnswered | LogChangeAnswered), "nobody waits for it"
            super()._answered(token, news)
        elif not asked.done():
            assert isinstance(news, PositionAnswered | LogChangeAnswered | Refused), "it answers this request"
            asked.set_result(news)

    def _answer_nothing(self, reason: str) -> None:
        super()._answer_nothing(reason)
        for asked in self._asking.values():
            if not asked.done():
                asked.set_exception(ClosedError(reason))


def _parts(log: str, answer: PositionAnswered) -> list[str]:
    return [partition_name(log, number) for number in range(answer.partitions)]


def _position_of(log: str, offset: Offset | int) -> int:
    check_log_name(log)
    if isinstance(offset, Offset):
        if offset.journal != f"{LOG_PREFIX}{log}":
            raise UsageError(f"offset={offset} is no offset of the log {log}")
        return offset.position
    return check_count(offset, "offset", 0, NUMBER_MAX)
