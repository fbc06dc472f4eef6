"""What a replica of a compacted log must hold, and what a page of it must have, given all entries."""

from collections.abc import Mapping, Sequence

from resprout.core.bundle import unpack_payloads
from resprout.logs.declaration import LogDeclaration
from resprout.logs.reading import FoundPage
from resprout.logs.records import CompactedPart, LogEntry, read_entry

Line = dict[int, tuple[LogEntry, str, bytes]]
"""By offset: the entry, topic and payload of a message; a gap mark has no topic."""


def messages_in(record: bytes) -> Line:
    entry = read_entry(record)
    assert entry is not None
    bundle = entry.messages
    if bundle is None:
        return {entry.offset: (entry, "", entry.gap.encode())}
    return {entry.offset + n: (entry, bundle.topic, payload) for n, payload in enumerate(unpack_payloads(bundle))}


def line_of(records: Sequence[bytes]) -> Line:
    found: Line = {}
    for record in records:
        more = messages_in(record)
        assert not found or min(more) > max(found), "in order"
        found |= more
    return found


def without_entries(line: Line) -> dict[int, tuple[str, bytes]]:
    return {offset: (topic, payload) for offset, (_, topic, payload) in line.items()}


def check_page(log: LogDeclaration, kept: Mapping[int, bytes], begin: int, end: int, page: FoundPage) -> None:
    """Every message in the range of a page is in it, or may be gone. `end`: the end when it was asked for."""
    if page.reason:  # it has heard meanwhile that it lacks entries
        return
    assert page.first == 0 and page.begin == begin, page
    given = line_of(page.records)
    until = max([begin, page.covered, *[offset + 1 for offset in given]])
    assert until > begin or begin == end, f"a page from {begin} to {until} of {end}"
    line = line_of([kept[number] for number in sorted(kept)])
    time_us = max([entry.time_us for entry, _, _ in line.values()], default=0)
    for offset, (_, topic, payload) in given.items():
        assert line[offset][1:] == (topic, payload), f"another message at {offset}"
    for offset in [offset for offset in range(begin, until) if offset not in given]:
        entry, topic, payload = line[offset]
        assert topic and offset < page.compacted, f"{offset} is missing, and not by compaction"
        is_old = payload == b"" and entry.time_us + log.compact_grace_us <= time_us
        assert is_old or any(later > offset and one[1] == topic for later, one in line.items()), offset


def judge_compacted(
    log: LogDeclaration,
    kept: Mapping[int, bytes],
    part: CompactedPart,
    stores: Mapping[str, Sequence[bytes]],
    first: int,
) -> None:
    """A replica holds what is left of the entries that it has compacted, and all later ones. `first`: the number of the
    first record in its store of entries."""
    found = [*stores[log.compacted[part.store]][: part.count], *stores[log.entries][part.through - first :]]
    line = line_of([kept[number] for number in sorted(kept)])
    covered = {offset: one for offset, one in line.items() if one[0].number < part.through}
    last = {topic: offset for offset, (_, topic, _) in covered.items()}
    time_us = max([entry.time_us for entry, _, _ in covered.values()], default=0)

    def is_left(offset: int, entry: LogEntry, topic: str, payload: bytes) -> bool:
        is_old = payload == b"" and entry.time_us + log.compact_grace_us <= time_us
        return offset not in covered or not topic or (last[topic] == offset and not is_old)

    wanted = {offset: one for offset, one in line.items() if is_left(offset, *one)}
    assert without_entries(line_of(found)) == without_entries(wanted), f"compacted up to {part.through}"
    assert part.end == max([entry.following for entry, _, _ in covered.values()], default=0)
