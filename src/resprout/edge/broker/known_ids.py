"""Ids of messages that a durable subscription was given lately (`core.message_ids`), each with its publication.

The broker that holds the subscription asks, and every other broker keeps the same to hold it one day. An id is known
for a time (`window_us`), counted from when the first message with it came. The oldest are forgotten where there are
too many.
"""

from collections.abc import Iterable
from typing import Final

from resprout.core.errors import PeerError
from resprout.core.message_ids import ID_BYTES
from resprout.edge.durable_messages import ID_ENTRY_BYTES, IDS_MAX, IdBatch, IdBatches

BATCH_BYTES: Final = 16
"""At most what a batch takes in a frame beside its ids."""


class KnownIds:
    __slots__ = ("_of",)

    def __init__(self, batches: Iterable[IdBatch] = ()) -> None:
        self._of: dict[bytes, tuple[int, bytes]] = {}
        """By id: when it came, in seconds since 1970, and the publication. The latest is the last, nearly."""
        self.add(batches)

    def __bool__(self) -> bool:
        return bool(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def find(self, id: bytes, since_s: int) -> bytes | None:
        """Return the publication that came with this id, at this time or later."""
        known = self._of.get(id)
        return known[1] if known is not None and known[0] >= since_s else None

    def note(self, id: bytes, publication: bytes, at_s: int) -> None:
        self._of.pop(id, None)
        self._of[id] = (at_s, publication)
        if len(self._of) > IDS_MAX:
            del self._of[next(iter(self._of))]

    def add(self, batches: Iterable[IdBatch]) -> IdBatches:
        """Take what others know, the later of two publications, and return what was new."""
        new: list[IdBatch] = []
        for batch in batches:
            fresh: list[bytes] = []
            for at in range(0, len(batch.ids) - ID_ENTRY_BYTES + 1, ID_ENTRY_BYTES):
                entry = batch.ids[at : at + ID_ENTRY_BYTES]
                known = self._of.get(entry[:ID_BYTES])
                if known is None or known[0] < batch.at_s:
                    self.note(entry[:ID_BYTES], entry[ID_BYTES:], batch.at_s)
                    fresh.append(entry)
            if fresh:
                new.append(IdBatch(batch.at_s, b"".join(fresh)))
        return tuple(new)

    def forget(self, before_s: int) -> None:
        """Forget what came before this time."""
        for id in [id for id, (at_s, _) in self._of.items() if at_s < before_s]:
            del self._of[id]

    def all(self) -> IdBatches:
        return batches_of((at_s, id + publication) for id, (at_s, publication) in self._of.items())


def batches_of(entries: Iterable[tuple[int, bytes]]) -> IdBatches:
    """Return entries in batches, by the time at which they came."""
    by_time: dict[int, list[bytes]] = {}
    for at_s, entry in entries:
        by_time.setdefault(at_s, []).append(entry)
    return tuple([IdBatch(at_s, b"".join(entries)) for at_s, entries in by_time.items()])


def check_ids(batches: IdBatches) -> None:
    """PeerError for what no honest broker says."""
    size = sum([len(batch.ids) for batch in batches])
    if size > IDS_MAX * ID_ENTRY_BYTES or any(len(batch.ids) % ID_ENTRY_BYTES for batch in batches):
        raise PeerError(f"{size} bytes of ids; at most {IDS_MAX * ID_ENTRY_BYTES}, {ID_ENTRY_BYTES} for each")


def ids_bytes(batches: IdBatches) -> int:
    """Return at most what these take in a frame."""
    return sum([len(batch.ids) + BATCH_BYTES for batch in batches])
