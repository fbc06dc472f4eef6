"""The persistent memory of a broker (section 3.2.3 of the thesis): everything it has processed is on disk before any
other broker can know that it has.

A record is what was processed, so that the next life processes it again; or where everybody stands; or, now and then,
all of the state at once, and what was before is forgotten.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from resprout.core.bundle import from_record, to_record
from resprout.core.message_fields import Mark
from resprout.core.seen import Range
from resprout.overlay.places import Place
from resprout.stacks.shell import Step
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.blocks.groups import GroupRoutes, GroupRow
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.locamu.algorithm import Algorithm, Copy
from resprout_lab.locamu.copies import SentMessage
from resprout_lab.locamu.identifiers import CountedPath
from resprout_lab.locamu.past import CountedPair
from resprout_lab.locamu.tree import SafeTree

_NOT_SHOWN: Final = 1 << 62
"""After everything that was shown."""
RECORDS_MAX: Final = 1_024
"""Records of single messages before all of the state is written; more when more is kept."""


class _ProcessedRecord(msgspec.Struct, frozen=True, array_like=True, tag=1):
    bundle: bytes
    hops: int
    branch: str | None
    path: CountedPath
    numbers: dict[str, int]
    dependencies: Changes


class _PlacesRecord(msgspec.Struct, frozen=True, array_like=True, tag=2):
    places: tuple[Place, ...]


class _GroupsRecord(msgspec.Struct, frozen=True, array_like=True, tag=4):
    source: str
    """The neighbour that said it, or this broker itself."""
    is_all: bool
    rows: tuple[GroupRow, ...]


class _KeptCopy(msgspec.Struct, frozen=True, array_like=True):
    message: _ProcessedRecord
    depends: dict[CountedPair, int]
    toward: dict[str, dict[str, int]]
    no: int
    """Its place among what was shown here; 0: it was not."""


class _StateRecord(msgspec.Struct, frozen=True, array_like=True, tag=3):
    places: tuple[Place, ...]
    depends: dict[CountedPair, int]
    counts: dict[str, int]
    toward: dict[str, dict[str, int]]
    received: list[tuple[CountedPair, list[Range]]]
    copies: list[_KeptCopy]
    seen: list[Mark]
    unread: list[tuple[bytes, int, int]]
    """Bundles, their hops and places, of what all brokers have and readers here may not have taken."""
    groups: list[tuple[str, tuple[GroupRow, ...]]]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_ProcessedRecord | _PlacesRecord | _StateRecord | _GroupsRecord).decode


class StateJournal:
    def __init__(
        self,
        step: Step,
        algorithm: Algorithm,
        tree: SafeTree,
        groups: GroupRoutes,
        unread: Callable[[], list[KeptItem]],
    ) -> None:
        """`unread`: what readers here may not have taken."""
        self._groups = groups
        self._unread = unread
        self._step = step
        self._state = algorithm
        self._tree = tree
        self._written = 0
        """Records since all of the state was written."""
        self._places: tuple[Place, ...] = ()

    # -- to write ------------------------------------------------------------------------------------------------------

    def write_processed(self, copy: Copy, numbers: dict[str, int]) -> None:
        """Write what was processed; what the step says of it leaves after that (`stacks.shell`)."""
        if self._written >= max(RECORDS_MAX, 2 * len(self._state.sent)):
            self._write_state()
        else:
            self._persist(_record(copy.item, copy.branch, copy.path, numbers, copy.dependencies))

    def write_places(self) -> None:
        """Where everybody stands, when that has changed."""
        places = self._tree.places
        if places != self._places:
            self._places = places
            self._persist(_PlacesRecord(places))

    def write_groups(self, source: str, is_all: bool, rows: tuple[GroupRow, ...]) -> None:
        self._persist(_GroupsRecord(source, is_all, rows))

    def _persist(self, record: msgspec.Struct) -> None:
        self._written += 1
        self._step.persist(_encode(record))

    def _write_state(self) -> None:
        past = self._state.past
        copies = [
            _KeptCopy(
                _record(copy.item, copy.branch, copy.path, copy.numbers, ()), copy.depends, copy.toward, copy.item.no
            )
            for copy in self._state.sent
        ]
        received = [(pair, [(1, ranges.upto), *ranges.islands()]) for pair, ranges in past.received.items()]
        seen = list(self._state.published.marks())
        kept = {id(copy.item) for copy in self._state.sent}
        unread = [(to_record(item.bundle), item.hops, item.no) for item in self._unread() if id(item) not in kept]
        places, groups = self._tree.places, self._groups.all_rows()
        self._persist(
            _StateRecord(places, past.depends, past.counts, past.toward, received, copies, seen, unread, groups)
        )
        self._written = 0
        self._step.forget_records(1)

    # -- to read -------------------------------------------------------------------------------------------------------

    def read(self, records: Sequence[bytes]) -> list[SentMessage] | None:
        """Process all that earlier lives had processed, and return it in that order, as far as others or readers here
        may lack it. None, and nothing is done, when a part of it cannot be read: a broker that has forgotten some of
        its numbers would use them again."""
        try:
            found = [_decode(record) for record in records]
        except msgspec.DecodeError:
            return None
        processed: list[SentMessage] = []
        for one in found:
            if isinstance(one, _PlacesRecord):
                self._tree.restore(one.places)
            elif isinstance(one, _StateRecord):
                processed = self._restore(one)
            elif isinstance(one, _GroupsRecord):
                self._groups.restore(one.source, one.is_all, one.rows)
            else:
                copy = Copy(_item(one.bundle, one.hops), one.branch, one.path, one.dependencies, ("", 0), ())
                message, merged = self._state.record(copy, one.numbers)
                if merged is None:
                    processed.append(message)
        self._written = len(records)
        return processed

    def _restore(self, record: _StateRecord) -> list[SentMessage]:
        self._tree.restore(record.places)
        for source, rows in record.groups:
            self._groups.restore(source, True, rows)
        state, past = self._state, self._state.past
        past.depends.update(record.depends)
        past.counts.update(record.counts)
        past.toward.update(record.toward)
        for pair, ranges in record.received:
            for first, last in ranges:
                past.ranges(pair).add(first, last)
        processed = [(no, SentMessage(_item(bundle, hops), None, {})) for bundle, hops, no in record.unread]
        for kept in record.copies:
            said = kept.message
            item = _item(said.bundle, said.hops)
            copy = SentMessage(item, said.branch, said.path, said.numbers, kept.depends, kept.toward)
            state.sent.put(copy)
            processed.append((kept.no or _NOT_SHOWN, copy))
        for mark in record.seen:
            state.published.raise_to(mark.origin, mark.seq)
        return [message for _, message in sorted(processed, key=lambda one: one[0])]


def _record(
    item: KeptItem, branch: str | None, path: CountedPath, numbers: dict[str, int], dependencies: Changes
) -> _ProcessedRecord:
    return _ProcessedRecord(to_record(item.bundle), item.hops, branch, path, numbers, dependencies)


def _item(record: bytes, hops: int) -> KeptItem:
    bundle = from_record(record)
    assert bundle is not None, "it was written by a broker of this kind"
    return KeptItem(bundle, hops, None, False)
