"""How far totals have come, link by link.

Totals cross no link as bundles: every broker delivers them by itself, in the order of their places. So they are not
among the numbered bundles of a link. They are acknowledged by name, and not as ranges of places: a broker that came
later than a total can be given a copy of it behind later ones (`TotalCopy`, decision 8), so its places have gaps that
are filled. Otherwise the same ladders hold as for everything else in the log (`order.entry`).

Only the publisher's receipt waits for these reports, and it needs only `done`; the ladders let brokers forget totals.
So reports without `done` may wait long, and most are never sent: with f <= 1, `done` implies the highest level. All
brokers behind the neighbour have the total and their readers have taken it, and the receiver of the report has it too.

If the publisher waits (`Entry.prompt`), `done` is reported in the step in which it becomes true.

Reports of `done` are frequent, so they look only at totals that have changed since (`touch`). Reports of everything
look at all totals.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Annotated, Final

import msgspec

from resprout.core.contract import NeighbourMessage
from resprout.core.message_fields import BoundedNumber, Derived, Otherwise
from resprout.order.entry import Entry, RecentlyAcked
from resprout.order.log import Log
from resprout.order.messages import TotalId

REPORTED_MAX = 128
"""Totals in one message."""

LADDER: Final = Derived("the highest level of a network that tolerates f faults", Otherwise.LIMITED)


class TotalLevel(msgspec.Struct, frozen=True, array_like=True):
    """How far one total has come at the sender. The ladders are those of `order.entry`."""

    publisher: str
    incarnation: BoundedNumber
    first: BoundedNumber
    reach: Annotated[BoundedNumber, LADDER]
    level: Annotated[BoundedNumber, LADDER]
    done: bool
    """Whether all readers at and behind the sender have taken it."""


class TotalLevels(NeighbourMessage, frozen=True, tag=66):
    """Reports how far totals have come that the sender has delivered."""

    levels: tuple[TotalLevel, ...]


Said = tuple[int, int, bool]
"""(reach, level, done); -1 for a reach that was never reported."""

_NOTHING: Said = (-1, 0, False)


class TotalAcks:
    """The acknowledgements of totals: of those in the broker's log, and of those about which a neighbour still waits
    for a report."""

    def __init__(
        self,
        log: Log,
        faults_tolerated: int,
        finished: Callable[[Entry], None],
        recently_acked: RecentlyAcked | None = None,
    ) -> None:
        """`finished` is called when a total is delivered to all readers on this side. `recently_acked` is told of
        totals that all neighbours are through with."""
        self._log = log
        self._recently_acked = recently_acked if recently_acked is not None else RecentlyAcked()
        self._faults = faults_tolerated
        self._done_is_all = faults_tolerated <= 1
        """Whether `done` implies the highest reach and level."""
        self._reaches = max(1, faults_tolerated)
        self._finished = finished
        self.entries: dict[TotalId, Entry] = {}
        self.heard: dict[TotalId, dict[str, Said]] = {}
        """By total and neighbour that has to report it: what the neighbour has reported. For a total that is not
        delivered here yet: only neighbours that have reported it already."""
        self._told: dict[TotalId, dict[str, Said]] = {}
        """By total and neighbour: what the neighbour was told."""
        self._scopes: dict[TotalId, dict[str, None]] = {}
        """By total that not all neighbours know: those that do."""
        self._touched: dict[TotalId, None] = {}
        """Totals that have changed since the last reports."""
        self._looked_at: list[TotalId] = []
        """Totals that the last call of `reports` has looked at, for `forget`."""
        self.urgent = False
        """Whether the publisher of a total in `_touched` waits for it."""

    def __len__(self) -> int:
        return len(self.entries)

    def entry(self, id: TotalId) -> Entry | None:
        return self.entries.get(id)

    def add(self, entry: Entry, neighbours: Collection[str], is_scoped: bool = False) -> None:
        """Add a total that was delivered here. Each of these neighbours has to report it, as the log counts.
        `is_scoped`: no other neighbour is told anything of it."""
        id = (entry.publisher, entry.incarnation, entry.first)
        self.entries[id] = entry
        if is_scoped:
            self._scopes[id] = dict.fromkeys(neighbours)
        early = self.heard.pop(id, {})
        self.heard[id] = dict.fromkeys(neighbours, _NOTHING)
        self._told[id] = {}
        self.touch(entry)
        for name, said in early.items():
            self._take(name, id, entry, said)

    def expect_report(self, entry: Entry, name: str) -> None:
        """Expect reports about a total from a neighbour that joined after its delivery and now stores a copy; tell it
        everything again."""
        id = (entry.publisher, entry.incarnation, entry.first)
        self._told[id].pop(name, None)
        if id in self._scopes:
            self._scopes[id][name] = None
        self.touch(entry)
        if name not in self.heard[id]:
            self.heard[id][name] = _NOTHING
            self._log.await_one(entry)

    def holders(self, entry: Entry) -> int:
        """Return the number of neighbours that have reported that they have it."""
        heard = self.heard.get((entry.publisher, entry.incarnation, entry.first), {})
        return sum(said[0] >= 0 for said in heard.values())

    def is_kept_by(self, entry: Entry, name: str) -> bool:
        """Whether this neighbour has the total, or will have it: it was there at the delivery, or was sent a copy."""
        return name in self.heard.get((entry.publisher, entry.incarnation, entry.first), ())

    # -- hearing -------------------------------------------------------------------------------------------------------

    def hear(self, name: str, message: TotalLevels, is_coming: Callable[[TotalId], bool]) -> None:
        """Take a neighbour's report. `is_coming`: returns whether a total is known and not delivered here yet; reports
        about it are kept until then."""
        for item in message.levels:
            id = (item.publisher, item.incarnation, item.first)
            said = (min(item.reach, self._reaches - 1), min(item.level, self._faults), item.done)
            if item.done and self._done_is_all:
                said = (self._reaches - 1, self._faults, True)
            entry = self.entries.get(id)
            if entry is not None:
                self._take(name, id, entry, said)
            elif is_coming(id):
                self.heard.setdefault(id, {})[name] = said

    def _take(self, name: str, id: TotalId, entry: Entry, said: Said) -> None:
        before = self.heard[id].get(name)
        if before is None:  # it joined after the total was delivered, so no report is expected
            return
        self.heard[id][name] = (max(before[0], said[0]), max(before[1], said[1]), before[2] or said[2])
        self.touch(entry)
        for reach in range(before[0] + 1, said[0] + 1):
            self._log.count_reach(entry, reach)
        for level in range(before[1] + 1, said[1] + 1):
            self._log.count_level(entry, level)
        if said[2] and not before[2] and self._log.deliver_one(entry):
            self._finished(entry)

    # -- telling -------------------------------------------------------------------------------------------------------

    def touch(self, entry: Entry) -> None:
        """Note that a total has changed: look at it in the next reports."""
        id = (entry.publisher, entry.incarnation, entry.first)
        if id in self.entries:
            self._touched[id] = None
            self.urgent |= entry.prompt

    def touch_all(self) -> None:
        """Look at all totals in the next reports: a neighbour could not be told for some time, or has changed."""
        self._touched.update(dict.fromkeys(self.entries))

    def reports(self, names: Iterable[str], only_done: bool = False) -> Iterator[tuple[str, TotalLevels]]:
        """Yield the reports for these neighbours, which the caller must send. `only_done`: only about totals that are
        delivered to all readers on this side."""
        ids = self._looked_at = list(self._touched if only_done else self.entries)
        self._touched = {}
        self.urgent = False
        for name in names:
            news = [news for id in ids if (news := self._news(name, id, only_done)) is not None]
            for start in range(0, len(news), REPORTED_MAX):
                yield name, TotalLevels(tuple(news[start : start + REPORTED_MAX]))

    def report_one(self, entry: Entry, name: str) -> TotalLevels | None:
        """Return what is to be reported to a neighbour about one total now, which the caller must send."""
        news = self._news(name, (entry.publisher, entry.incarnation, entry.first), False)
        return TotalLevels((news,)) if news is not None else None

    def _news(self, name: str, id: TotalId, only_done: bool) -> TotalLevel | None:
        if (scope := self._scopes.get(id)) is not None and name not in scope:
            return None
        told = self._told[id].get(name)
        if told is not None and told[2] and self._done_is_all:
            return None
        entry = self.entries[id]
        heard = self.heard[id].get(name)
        awaited = 0 if heard is None or heard[2] else 1
        done = entry.undone <= awaited
        said = (min(entry.reach, self._reaches - 1), min(entry.level, self._faults), done)
        if said == told or (only_done and not done):
            return None
        self._told[id][name] = said
        return TotalLevel(*id, *said)

    def forget(self, neighbours: Collection[str]) -> list[TotalId]:
        """Forget and return totals that are stable and delivered everywhere, and whose last report all neighbours were
        sent. Looks only at those that the last `reports` has looked at: others are touched when they change."""
        through = [
            id
            for id in self._looked_at
            if (entry := self.entries[id]).bundle is None
            and entry.undone == 0
            and all(self._is_final(id, name) for name in self._scopes.get(id, neighbours))
        ]
        for id in through:
            self._recently_acked.note(self.entries.pop(id))
            del self.heard[id], self._told[id]
            self._scopes.pop(id, None)
            self._touched.pop(id, None)
        self._looked_at = []
        return through

    def _is_final(self, id: TotalId, name: str) -> bool:
        reach, level, done = self._told[id].get(name, _NOTHING)
        return done and (self._done_is_all or (reach, level) == (self._reaches - 1, self._faults))

    # -- when a neighbour dies -----------------------------------------------------------------------------------------

    def replace(self, dead: Iterable[str], new: Collection[str]) -> None:
        """Expect no more reports from the dead, and reports about all totals from the new neighbours. The caller
        settles the entries later."""
        self.touch_all()
        gone = list(dead)
        for scope in self._scopes.values():
            for name in gone:
                scope.pop(name, None)
            scope.update(dict.fromkeys(new))
        for id, heard in self.heard.items():
            entry = self.entries.get(id)
            for name in gone:
                said = heard.pop(name, None)
                if entry is not None and said is not None:
                    self._told[id].pop(name, None)
                    self._leave(entry, said)
            if entry is not None:
                for name in new:
                    heard[name] = _NOTHING
                    self._log.await_one(entry)

    def _leave(self, entry: Entry, said: Said) -> None:
        reach, level, done = said
        for lacking in range(max(reach + 1, 0), self._reaches):
            if lacking < self._faults:
                entry.reach_lacking[lacking] -= 1
        if reach < 0:
            entry.lacking[0] -= 1
        else:
            entry.copies -= 1
        for lacking in range(level + 1, self._faults + 1):
            entry.lacking[lacking] -= 1
        if not done:
            self._log.deliver_one(entry)
