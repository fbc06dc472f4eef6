"""Reading logs with several partitions: offsets of all partitions, and pages that combine one page of each.

    page = await client.read("bank/#", log="bank")        # of all partitions
    page.next                                             # log.bank@41,7,0,12

Such an offset has one number for each partition. Its `position` is their sum: how many offsets lie before it. The
offset of a message names its partition, as in `log.bank~3@12`.
"""

import asyncio
import heapq
from collections.abc import Sequence

from resprout.client.errors import ReadError
from resprout.client.past_events import (
    PAGE_BYTES,
    AskingClient,
    EventsPage,
    Offset,
    SeveralPartitionsError,
    Start,
    page_of,
    read_request,
    read_start,
)
from resprout.core.errors import UsageError
from resprout.core.partitions import partition_name
from resprout.logs.declaration import LOG_PREFIX


def offset_of_all(log: str, positions: Sequence[int]) -> Offset:
    """Return the offset that stands for these offsets in the partitions of a log."""
    return Offset(f"{LOG_PREFIX}{log}", sum(positions), positions=tuple(positions))


def starts_of(log: str, start: Start, partitions: int) -> list[Start]:
    """Return where to begin in each partition. Raises UsageError if `start` is an offset that does not name one offset
    for each."""
    if not isinstance(start, Offset):
        return [start] * partitions
    if start.journal != f"{LOG_PREFIX}{log}" or len(start.positions) != partitions:
        raise UsageError(
            f"start={start} does not name an offset in each of the {partitions} partitions of the log {log}"
        )
    return [offset_in(log, number, position) for number, position in enumerate(start.positions)]


def offset_in(log: str, partition: int, position: int) -> Offset:
    return Offset(f"{LOG_PREFIX}{partition_name(log, partition)}", position)


def combined(log: str, pages: Sequence[EventsPage]) -> EventsPage:
    """Return one page with the messages of a page of each partition, by time. The order in a partition stays."""
    messages = heapq.merge(*[page.messages for page in pages], key=lambda stored: stored.time_us)
    following = offset_of_all(log, [page.next.position for page in pages])
    gaps = tuple([gap for page in pages for gap in page.gaps])
    first, end = sum(page.first for page in pages), sum(page.end for page in pages)
    return EventsPage(f"{LOG_PREFIX}{log}", tuple(messages), following, first, end, gaps)


def check_whole(log: str, start: Start) -> None:
    """Raise ReadError if `start` names offsets of several partitions, and the log has one."""
    if isinstance(start, Offset) and start.positions:
        raise ReadError(f"{start} has offsets of {len(start.positions)} partitions, and the log {log} has one")


class PartitionClient(AskingClient):
    """The part of the client that reads pages, of journals, of logs, and of all partitions of a log."""

    async def read(
        self,
        filter: str,
        where: str | None = None,
        *,
        start: Start | str = "earliest",
        size: int = PAGE_BYTES,
        allow_gaps: bool = False,
        log: str | None = None,
    ) -> EventsPage:
        """Return a page of the events that the broker of this client stores (`keep`), or of the log named `log`, from
        any broker.

        `start` is an offset, of a message or of the page before (`page.next`), or a time. An offset belongs to the
        journal of one broker, or to a log: it stays valid for as long as that keeps it. An offset of a log is the same
        at every broker. A page covers about `size` bytes of stored events, and perhaps none of them matches: continue
        until `page.at_end`.

        Raises GapError when events are missing at `start`, because the broker was down or its disk full: a page ends
        before a gap. With `allow_gaps` pages go on behind it, and `page.gaps` names what is missing. Raises ReadError
        when the broker keeps no events, or not that position; UsageError for a filter or condition that is none.

        A page of a log with several partitions has messages of all, ordered by time (`message.partition`);
        `log="bank~3"` reads one partition.
        """
        start = read_start(start)
        try:
            page = page_of(await self.read_events(read_request(filter, where, start, size, allow_gaps, log)))
        except SeveralPartitionsError as error:
            return await self._read_parts(filter, where, start, size, allow_gaps, error)
        check_whole(log or page.journal, start)
        return page

    async def _read_parts(
        self,
        filter: str,
        where: str | None,
        start: Start,
        size: int,
        allow_gaps: bool,
        found: SeveralPartitionsError,
    ) -> EventsPage:
        portion = max(1, size // found.partitions)
        requests = [
            read_request(filter, where, place, portion, allow_gaps, partition_name(found.log, number))
            for number, place in enumerate(starts_of(found.log, start, found.partitions))
        ]
        answers = await asyncio.gather(*[self.read_events(request) for request in requests])
        return combined(found.log, [page_of(answer) for answer in answers])
