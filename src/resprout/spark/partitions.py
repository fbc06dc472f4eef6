"""Queries of logs with several partitions: each partition is read as a log of its own, side by side with the others.

Spark keeps one offset for a query. Here it has one entry for each partition: `{"log.bank~0": {"ORIGIN": 41},
"log.bank~1": {"ORIGIN": 7}}`. A query of a journal, or of a log with one partition, is what `reading` makes of it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from resprout.client.partitions import check_whole, starts_of
from resprout.core.partitions import partition_name, split_name
from resprout.logs.declaration import LOG_PREFIX
from resprout.spark.options import JournalRange, SourceError, SourceOptions
from resprout.spark.reading import StreamProgress, batch_ranges, view_of


def parts_of(options: SourceOptions) -> list[SourceOptions]:
    """Return the options for each partition of a log; the options themselves if there is one. SourceError for
    partitions that the log does not have."""
    if options.log is None or split_name(options.log)[1] is not None:
        return [options]
    log, count = options.log, view_of(options).partitions()
    numbers = options.assigned or tuple(range(count))
    if max(numbers) >= count:
        raise SourceError(f"assign: the log {log} has {count} partitions, numbered from 0, and no {max(numbers)}")
    if count == 1:
        for place in (options.start, options.end):
            check_whole(log, place)
        return [options]
    starts, ends = starts_of(log, options.start, count), starts_of(log, options.end, count)
    return [
        msgspec.structs.replace(_part(options, partition_name(log, n), len(numbers)), start=starts[n], end=ends[n])
        for n in numbers
    ]


def _part(options: SourceOptions, log: str, count: int) -> SourceOptions:
    """Return the options for one of several partitions, with its share of the least numbers."""
    return msgspec.structs.replace(
        options, log=log, partitions_min=max(1, options.partitions_min // count),
        positions_min=options.positions_min // count,
    )  # fmt: skip


def source_ranges(options: SourceOptions) -> list[JournalRange]:
    """Return what a batch reads."""
    return [one for part in parts_of(options) for one in batch_ranges(part)]


class SourceProgress:
    """Progress of a stream in all partitions that it reads."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._parts: dict[str, StreamProgress] = {}
        """Progress by journal; the empty name stands for a journal, or a log with one partition."""
        self.latest: dict[str, Any] | None = None
        """What there was when it was last looked."""

    def _add(self, part: SourceOptions) -> StreamProgress:
        is_partition = part.log is not None and split_name(part.log)[1] is not None
        return self._parts.setdefault(part.journal if is_partition else "", StreamProgress(part))

    def _of(self, journal: str, count: int) -> StreamProgress:
        """Return the progress in a journal of an offset that names `count` journals."""
        name = journal.removeprefix(LOG_PREFIX)
        if split_name(name)[1] is None:
            return self._add(self._options)
        return self._add(_part(self._options, name, count))

    def begin(self) -> dict[str, Any]:
        """Return where a new query is."""
        return _merged([self._add(part).begin() for part in parts_of(self._options)])

    def advance(self, start: Mapping[str, Any], most: int | None) -> dict[str, Any]:
        """Return the end of the micro-batch that begins at `start`, of about `most` positions at most: partitions get
        equal shares."""
        share = max(1, most // len(start)) if most is not None else None
        parts = {journal: self._of(journal, len(start)) for journal in start}
        end = _merged([part.advance({journal: start[journal]}, share) for journal, part in parts.items()])
        self.latest = _merged([part.latest for part in parts.values() if part.latest is not None])
        return end

    def stop_at_present(self) -> None:
        """Read nothing that comes later."""
        for part in parts_of(self._options):
            self._add(part).stop_at_present()

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[JournalRange]:
        if len(start) == len(end) == 1:
            (journal,) = end
            return self._of(journal, 1).ranges(dict(start), dict(end))
        return [
            one
            for journal in end
            for one in self._of(journal, len(end)).ranges({journal: start[journal]}, {journal: end[journal]})
        ]


def _merged(offsets: list[dict[str, Any]]) -> dict[str, Any]:
    return {journal: lives for offset in offsets for journal, lives in offset.items()}
