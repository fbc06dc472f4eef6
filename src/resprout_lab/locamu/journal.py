"""The persistent memory of a broker (section 3.2.3 of the thesis): everything it has processed is on disk before any
other broker can know that it has.

A record is what was processed, so that the next life processes it again; or where everybody stands; or, now and then,
all of the state at once, and what was before is forgotten.

Clients of a broker that starts again: they are given everything that they missed (section 3.2.3: nodes that return
receive all messages; here the clients of a node do, too).

A broker that starts again has a *stand-in* for the clients of its earlier lives. The stand-in is shown everything that
is in the journal, and everything that comes. A client that returns says what it wants and how far it has come, and is
handed the rest, in the order in which the broker showed it. After `return_us` the broker waits for nobody any more.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from resprout.core.bundle import from_record, to_record
from resprout.core.contract import SetTimer, Timer
from resprout.core.message_fields import Mark
from resprout.core.seen import Range
from resprout.edge.broker.ghosts import home_of
from resprout.edge.broker.owed import Owed
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend
from resprout.overlay.messages import Place
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.blocks.groups import GroupRoutes, GroupRow
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.subscriptions import Matches
from resprout_lab.locamu.algorithm import Algorithm, Copy
from resprout_lab.locamu.copies import SentMessage
from resprout_lab.locamu.past import CountedPair, CountedPath
from resprout_lab.locamu.tree import SafeTree

STAND_IN: Final = "~returning"
"""No client is called like this."""


class ReturnOver(Timer, frozen=True):
    """When to stop keeping messages for clients of earlier lives."""


class ReturningClients:
    def __init__(self, seat: BrokerSeat, step: Step, sessions: ClientSessions, return_us: int) -> None:
        self._seat = seat
        self._step = step
        self._sessions = sessions
        self._return_us = return_us
        self._unread: list[KeptItem] = []
        """Shown, and perhaps not taken by all of its readers."""

    def stand_in(self) -> None:
        """The broker has had an earlier life."""
        self._sessions.arrive(STAND_IN, 0, 0)
        self._step.out.append(SetTimer(ReturnOver(), self._step.now_us + self._return_us))

    def over(self, timer: ReturnOver) -> None:
        self._sessions.leave(STAND_IN, self._step.out)

    def readers(self, matches: Matches) -> Matches:
        """Return these, and the stand-in, which reads everything."""
        return {**matches, STAND_IN: None} if STAND_IN in self._sessions.all else matches

    def welcome(self, session: ClientSession, attend: Attend) -> None:
        home, stand_in = home_of(attend), self._sessions.all.get(STAND_IN)
        is_back = home.name == self._seat.name and home.incarnation < self._seat.incarnation
        resumed = not attend.subscriptions or (is_back and stand_in is not None)
        self._sessions.welcome(session, attend, (), resumed, self._step.out)
        if stand_in is not None and resumed and attend.subscriptions:
            owed = Owed(attend)
            for item in list(stand_in.backlog):
                if item.bundle is not None and (offsets := owed.offsets(item.bundle)):
                    self._sessions.hand_over(session, item, offsets, self._step.out)

    # -- what a next life has to know ----------------------------------------------------------------------------------

    def shown(self, item: KeptItem) -> None:
        if item.needed:
            self._unread.append(item)

    def unread(self) -> list[KeptItem]:
        """Return what a reader may not have taken."""
        self._unread = [item for item in self._unread if item.needed]
        return self._unread


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
