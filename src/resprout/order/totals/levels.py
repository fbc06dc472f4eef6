"""How far totals have come, link by link.

Totals cross no link as bundles: every broker delivers them by itself, in the order of their places. So they are not
among the numbered bundles of a link. They are acknowledged by name, and not as ranges of places: a broker that came
later than a total can be given a copy of it behind later ones (`TotalCopy`, decision 8), so its places have gaps that
are filled. Otherwise the same ladders hold as for everything else in the log (`order.entry`).

Nothing but the publisher's receipt waits for these reports, and for that only `done` counts; the ladders merely let
brokers forget. So what is not `done` may wait long, and mostly need not be said at all: with f <= 1, a neighbour that
is done has the highest level, too. All behind it have the total and have taken it, and who hears so has it itself.

Where the publisher waits (`Entry.prompt`), what is done is told in the step in which it came to be so.

What is done is told often, so only totals of which something has changed are looked at for that (`touch`); all of them
only where the others are told of, too.
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
    publisher: str
    incarnation: BoundedNumber
    first: BoundedNumber
    reach: Annotated[BoundedNumber, LADDER]
    level: Annotated[BoundedNumber, LADDER]
    done: bool
    """Everybody behind the sender has it."""


class TotalLevels(NeighbourMessage, frozen=True, tag=66):
    """How far these totals have come at the sender, who has delivered them."""

    levels: tuple[TotalLevel, ...]


Said = tuple[int, int, bool]
"""(reach, level, done); -1 for a reach that was never reported."""

_NOTHING: Said = (-1, 0, False)


class TotalAcks:
    """The totals in one broker's log, and those that somebody still waits to hear of."""

    def __init__(
        self,
        log: Log,
        faults_tolerated: int,
        finished: Callable[[Entry], None],
        recently_acked: RecentlyAcked | None = None,
    ) -> None:
        """`recently_acked` is told of what everybody is through with."""
        self._log = log
        self._recently_acked = recently_acked if recently_acked is not None else RecentlyAcked()
        self._faults = faults_tolerated
        self._done_is_all = faults_tolerated <= 1
        self._reaches = max(1, faults_tolerated)
        self._finished = finished
        self.entries: dict[TotalId, Entry] = {}
        self.heard: dict[TotalId, dict[str, Said]] = {}
        """By total: the neighbours that have to report it, and what they have said; for one that is not yet delivered
        here, only who was early."""
        self._told: dict[TotalId, dict[str, Said]] = {}
        self._touched: dict[TotalId, None] = {}
        """Something has changed since they were last looked at."""
        self._looked_at: list[TotalId] = []
        self.urgent = False
        """One of those has a publisher that waits."""

    def __len__(self) -> int:
        return len(self.entries)

    def entry(self, id: TotalId) -> Entry | None:
        return self.entries.get(id)

    def add(self, entry: Entry, neighbours: Iterable[str]) -> None:
        """Delivered here; the log counts each of these neighbours as one that has to report."""
        id = (entry.publisher, entry.incarnation, entry.first)
        self.entries[id] = entry
        early = self.heard.pop(id, {})
        self.heard[id] = dict.fromkeys(neighbours, _NOTHING)
        self._told[id] = {}
        self.touch(entry)
        for name, said in early.items():
            self._take(name, id, entry, said)

    def meet(self, entry: Entry, name: str) -> None:
        """This neighbour came later than the total, and is to keep it as well: it will report, and must be told."""
        id = (entry.publisher, entry.incarnation, entry.first)
        self._told[id].pop(name, None)
        self.touch(entry)
        if name not in self.heard[id]:
            self.heard[id][name] = _NOTHING
            self._log.await_one(entry)

    def holders(self, entry: Entry) -> int:
        """Neighbours that have said that they have it."""
        heard = self.heard.get((entry.publisher, entry.incarnation, entry.first), {})
        return sum(said[0] >= 0 for said in heard.values())

    def is_kept_by(self, entry: Entry, name: str) -> bool:
        """This neighbour has it, or will: it was there when the total was delivered, or was given it later."""
        return name in self.heard.get((entry.publisher, entry.incarnation, entry.first), ())

    # -- hearing -------------------------------------------------------------------------------------------------------

    def hear(self, name: str, message: TotalLevels, is_coming: Callable[[TotalId], bool]) -> None:
        """`is_coming`: the total is known and not yet delivered here; what is said of it is kept until then."""
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
        if before is None:  # it came later than the total, and has nothing to report
            return
        self.heard[id][name] = (max(before[0], said[0]), max(before[1], said[1]), before[2] or said[2])
        self.touch(entry)
        for reach in range(before[0] + 1, said[0] + 1):
            self._log.reached(entry, reach)
        for level in range(before[1] + 1, said[1] + 1):
            self._log.firmer(entry, level)
        if said[2] and not before[2] and self._log.deliver_one(entry):
            self._finished(entry)

    # -- telling -------------------------------------------------------------------------------------------------------

    def touch(self, entry: Entry) -> None:
        """A total in the log has come further."""
        id = (entry.publisher, entry.incarnation, entry.first)
        if id in self.entries:
            self._touched[id] = None
            self.urgent |= entry.prompt

    def touch_all(self) -> None:
        """Somebody could not be told for a while."""
        self._touched.update(dict.fromkeys(self.entries))

    def reports(self, names: Iterable[str], only_done: bool = False) -> Iterator[tuple[str, TotalLevels]]:
        """News for neighbours, to be told at once; `only_done`: of totals that everybody on this side has."""
        ids = self._looked_at = list(self._touched if only_done else self.entries)
        self._touched = {}
        self.urgent = False
        for name in names:
            news = [news for id in ids if (news := self._news(name, id, only_done)) is not None]
            for start in range(0, len(news), REPORTED_MAX):
                yield name, TotalLevels(tuple(news[start : start + REPORTED_MAX]))

    def _news(self, name: str, id: TotalId, only_done: bool) -> TotalLevel | None:
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
        """Of those that `reports` has looked at: what is stable and delivered everywhere, and of which every neighbour
        has heard so. What becomes so later is touched then."""
        through = [
            id
            for id in self._looked_at
            if (entry := self.entries[id]).bundle is None
            and entry.undone == 0
            and all(self._is_final(id, name) for name in neighbours)
        ]
        for id in through:
            self._recently_acked.note(self.entries.pop(id))
            del self.heard[id], self._told[id]
            self._touched.pop(id, None)
        self._looked_at = []
        return through

    def _is_final(self, id: TotalId, name: str) -> bool:
        reach, level, done = self._told[id].get(name, _NOTHING)
        return done and (self._done_is_all or (reach, level) == (self._reaches - 1, self._faults))

    # -- when a neighbour dies -----------------------------------------------------------------------------------------

    def replace(self, dead: Iterable[str], new: Collection[str]) -> None:
        """The dead will report nothing more, and the new ones have to. What may have risen settles later."""
        self.touch_all()
        gone = list(dead)
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
