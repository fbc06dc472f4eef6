"""Creating, moving and deleting logs from a program.

    await client.create_log("bank", "bank/#", replicas=["b0", "b1", "b2"])

`LogAdmin` is the part of the client that does this. Brokers decide who may (`operate` in the rules).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from resprout.client.arguments import check_count, check_filter_and_where, check_flag, check_seconds, wrong
from resprout.client.errors import LogError, TimedOutError
from resprout.client.past_events import PAGE_BYTES, read_request
from resprout.client.positions import PositionClient
from resprout.core.errors import UsageError
from resprout.core.limits import COMPACT_BYTES, COMPACT_GRACE_US, PARTITIONS, check_name
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.position_messages import LogChange
from resprout.edge.requests import ChangeLogRequest
from resprout.journal.interface import Flush
from resprout.logs.declaration import REPLICAS_MAX, LogDeclaration, check_log

LOOK_SECONDS: Final = 0.1
"""Seconds between two looks at whether a new log is fed."""
CREATE_SECONDS: Final = 60.0


class LogAdmin(PositionClient):
    async def create_log(
        self,
        name: str,
        filter: str,
        *,
        replicas: Sequence[str],
        retain_bytes: int = 1 << 30,
        retain_us: int = 0,
        flush: str = "always",
        partitions: int = 1,
        compact: bool = False,
        compact_grace_us: int = COMPACT_GRACE_US,
        compact_bytes: int = COMPACT_BYTES,
        timeout: float = CREATE_SECONDS,
    ) -> None:
        """Create a log of the messages that match `filter`, at the brokers named in `replicas`. Returns when the log
        keeps every later message.

        With several `partitions`, messages with equal first keys stay in order, and others need not. With `compact`,
        the last message of each key is kept for ever, and earlier ones are dropped when there are `compact_bytes` of
        new messages; a message with an empty payload is dropped, too, when it is older than `compact_grace_us`
        (docs/logs.md).

        All brokers learn of the log, and remember it on their disks. Raises LogError if the broker refuses, because
        the name is taken, a replica is unknown, or this client may not `operate`. Raises TimedOutError if the log does
        not run within `timeout` seconds, because a replica does not answer or has no data folder; the log stays
        declared.
        """
        check_name(name, "name: name of a log")
        check_filter_and_where(filter, None)
        flushes = [each.value for each in Flush]
        if flush not in flushes:
            raise UsageError(f"flush={flush!r}: it is one of {', '.join(flushes)}")
        if check_seconds(timeout) is None:
            raise wrong("timeout", timeout, "a number of seconds")
        check_count(retain_bytes, "retain_bytes", 0, NUMBER_MAX)
        check_count(retain_us, "retain_us", 0, NUMBER_MAX)
        check_count(partitions, "partitions", 1, PARTITIONS)
        check_count(compact_grace_us, "compact_grace_us", 0, NUMBER_MAX)
        check_count(compact_bytes, "compact_bytes", 0, NUMBER_MAX)
        log = LogDeclaration(
            name, filter, _brokers(replicas), retain_bytes, retain_us, Flush(flush), partitions=partitions,
            compact=check_flag(compact, "compact"), compact_grace_us=compact_grace_us, compact_bytes=compact_bytes,
        )  # fmt: skip
        check_log(log)
        await self._change_log(
            ChangeLogRequest(
                LogChange.CREATE,
                name,
                filter,
                log.replicas,
                retain_bytes,
                retain_us,
                log.flush,
                partitions=partitions,
                compact=log.compact,
                compact_grace_us=compact_grace_us,
                compact_bytes=compact_bytes,
            )
        )
        reason = ""
        try:
            async with asyncio.timeout(timeout):
                for part in log.parts:
                    while reason := await self._unready(part.name, filter):
                        await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            why = f": {reason}" if reason else ""
            raise TimedOutError(f"the log {name} is declared, and does not run after {timeout:g} s{why}") from None

    async def _unready(self, name: str, filter: str) -> str:
        """Return why a partition is not fed yet, or an empty text."""
        answer = await self.read_events(read_request(filter, None, "latest", PAGE_BYTES, True, name))
        return answer.reason or ("" if answer.life else "nothing feeds it yet")

    async def move_log(self, name: str, replicas: Sequence[str]) -> None:
        """Give a log other replicas. New ones fetch its entries and become members; then those that are not named any
        more leave. Raises LogError if the broker refuses."""
        check_name(name, "name: name of a log")
        log = LogDeclaration(name, "#", _brokers(replicas))
        check_log(log)
        await self._change_log(ChangeLogRequest(LogChange.MOVE, name, replicas=log.replicas))

    async def delete_log(self, name: str) -> None:
        """Delete a log with its messages and positions, at all brokers. Raises LogError if the broker refuses."""
        check_name(name, "name: name of a log")
        await self._change_log(ChangeLogRequest(LogChange.DELETE, name))

    async def _change_log(self, request: ChangeLogRequest) -> None:
        answer = await self._ask_log(request)
        if answer.reason:
            raise LogError(answer.reason)


def _brokers(replicas: Sequence[str]) -> tuple[str, ...]:
    if isinstance(replicas, str) or not isinstance(replicas, Sequence):
        raise wrong("replicas", replicas, "a list of names of brokers")
    names = tuple([check_name(broker, "replicas: name of a broker") for broker in replicas])
    if not 0 < len(names) <= REPLICAS_MAX or len(set(names)) < len(names):
        raise wrong("replicas", replicas, f"1 to {REPLICAS_MAX} different brokers")
    return names
