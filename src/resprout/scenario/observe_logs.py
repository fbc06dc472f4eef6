"""Trace rows about logs: declarations, the contents of replicas at the end of a run, and pages that clients read.

Offsets count messages, and a gap mark takes an offset of its own.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle, unpack_attributes, unpack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import LogEntry
from resprout.scenario.app import PageRead
from resprout.scenario.observe_values import message_columns
from resprout.trace import kinds
from resprout.trace.schema import Row

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def declared_rows(time_us: int, world: str, logs: Iterable[LogDeclaration]) -> Iterator[Row]:
    """Yield a row for each partition of the logs."""
    for log in logs:
        for number, part in enumerate(log.parts):
            about = {"log": part.name, "replicas": " ".join(part.replicas)}
            if log.partitions > 1:
                about |= {"partition": str(number), "partitions": str(log.partitions)}
            yield Row(time_us=time_us, node=world, kind=kinds.LOG_DECLARED, filter=log.filter, attributes=about)


def kept_rows(time_us: int, node: str, log: str, entries: Sequence[LogEntry], end: int, runs: bool) -> Iterator[Row]:
    """Yield the rows for the entries on the disk of a replica. `end`: its end offset if it has no entries."""
    about = {"log": log}
    for entry in entries:
        bundle = entry.messages
        if bundle is None:
            kind, at = kinds.LOG_GAP, entry.offset
            yield Row(time_us=time_us, node=node, kind=kind, position=at, attributes=about, detail=entry.gap)
        else:
            yield from message_rows(time_us, node, kinds.LOG_KEPT, log, entry.offset, entry.tseq, bundle)
    first, end = (entries[0].offset, entries[-1].following) if entries else (end, end)
    held = {**about, "first": str(first), "end": str(end), **({"runs": "yes"} if runs else {})}
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


def fingerprint(payload: bytes, attributes: Attributes | Mapping[str, Any]) -> str:
    """Return a checksum of a message. Equal messages have equal checksums."""
    return f"{zlib.crc32(_encode(dict(attributes)), zlib.crc32(payload)):08x}"
