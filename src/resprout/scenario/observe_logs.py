"""Trace rows about logs: declarations, the contents of replicas at the end of a run, and pages that clients read.

Offsets count messages, and a gap mark takes an offset of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from resprout.core.bundle import Bundle, unpack_attributes, unpack_payloads
from resprout.core.guarantee import Guarantee
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import CompactedPart, LogEntry, fingerprint, read_entry, read_votes
from resprout.scenario.app import PageRead
from resprout.scenario.observe_values import message_columns
from resprout.trace import kinds
from resprout.trace.schema import Row


def declared_rows(time_us: int, world: str, logs: Iterable[LogDeclaration]) -> Iterator[Row]:
    """Yield a row for each partition of the logs."""
    for log in logs:
        for number, part in enumerate(log.parts):
            about = {"log": part.name, "replicas": " ".join(part.replicas)}
            if log.compact:
                about["grace"] = str(log.compact_grace_us)
            if log.partitions > 1:
                about |= {"partition": str(number), "partitions": str(log.partitions)}
            yield Row(time_us=time_us, node=world, kind=kinds.LOG_DECLARED, filter=log.filter, attributes=about)


def stored_entries(log: LogDeclaration, read: Callable[[str], Iterable[bytes]]) -> tuple[list[LogEntry], CompactedPart]:
    """Return the entries of a replica, and its compacted part. `read` returns the records of a store."""
    part = read_votes(list(read(log.votes))).compacted if log.compact else CompactedPart()
    kept = list(read(log.compacted[part.store]))[: part.count] if part.through else []
    found = [read_entry(record) for record in (*kept, *read(log.entries))]
    entries = [entry for entry in found if entry is not None]
    return entries[: part.count] + [entry for entry in entries[part.count :] if entry.number >= part.through], part


def kept_rows(
    time_us: int, node: str, log: LogDeclaration, entries: Sequence[LogEntry], end: int, runs: bool, part: CompactedPart
) -> Iterator[Row]:
    """Yield the rows for the entries on the disk of a replica. `end`: its end offset if it has no entries. `part`: its
    compacted part."""
    about = {"log": log.name}
    for entry in entries:
        bundle = entry.messages
        if bundle is None:
            kind, at = kinds.LOG_GAP, entry.offset
            yield Row(time_us=time_us, node=node, kind=kind, position=at, attributes=about, detail=entry.gap)
        else:
            yield from message_rows(time_us, node, kinds.LOG_KEPT, log.name, entry.offset, entry.tseq, bundle)
    first, end = (entries[0].offset, entries[-1].following) if entries else (end, end)
    held = {**about, "first": str(first), "end": str(end), **({"runs": "yes"} if runs else {})}
    if log.compact:
        held |= {"first": "0", "end": str(max(end, part.end)), "compacted": str(part.end)}
    yield Row(time_us=time_us, node=node, kind=kinds.LOG_END, attributes=held)


def page_rows(time_us: int, node: str, page: PageRead) -> Iterator[Row]:
    """Yield the rows for a page that a client has read."""
    for stored in page.messages:
        message = stored.message
        yield Row(
            time_us=time_us,
            node=node,
            kind=kinds.LOG_READ,
            **message_columns(message),
            keys=message.keys,
            guarantee=message.guarantee.label,
            position=stored.position,
            tseq=message.tseq if message.tseq >= 0 else None,
            payload_bytes=len(message.payload),
            attributes={"log": page.log, "crc": fingerprint(message.payload, message.attributes)},
        )
    about = {"log": page.log, "from": str(page.begin), "until": str(page.end)}
    yield Row(time_us=time_us, node=node, kind=kinds.LOG_PAGE, filter=page.filter, attributes=about)


def message_rows(time_us: int, node: str, kind: str, log: str, offset: int, tseq: int, bundle: Bundle) -> Iterator[Row]:
    """Yield one row for each message of an entry."""
    found = zip(unpack_payloads(bundle), unpack_attributes(bundle), strict=True)
    for place, (payload, attributes) in enumerate(found):
        yield Row(
            time_us=time_us,
            node=node,
            kind=kind,
            publisher=bundle.publisher,
            incarnation=bundle.incarnation,
            stream=bundle.stream,
            seq=bundle.first + place,
            topic=bundle.topic,
            keys=bundle.keys,
            guarantee=bundle.guarantee.label,
            position=offset + place,
            tseq=tseq + place if tseq >= 0 and bundle.guarantee is Guarantee.TOTAL else None,
            payload_bytes=len(payload),
            attributes={"log": log, "crc": fingerprint(payload, attributes)},
        )
