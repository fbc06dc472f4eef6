"""What waits for long waits on disk: the columns of entries that are kept for durable subscriptions that spill.

Every broker knows which topics those have (`durable_book`), so each puts aside by itself what it keeps of them: the
home of the subscription, where it waits to be handed out, and the brokers nearby, which keep copies for as long as the
home may die. An entry is put aside when the log is large and the entry is *idle*: shown, sent wherever it goes, and
taken by all who read here and do not spill. From then on it counts next to nothing, neither against the neighbour it
came from nor, where it was published here, against local clients; so nobody is held back for it. Those who do not read
are still waited for hop by hop, as ever: an entry that waits for one of them, or for a link, is not idle.

When the disk is full, the home keeps it in memory and pushes back as always. Whoever only keeps a copy counts it
against the neighbour it came from (`Log.stick`), once everybody nearby has it: then it waits for readers alone.

Totals stay in memory: every broker has a second hold on them until all have taken them (`order.totals.pending`).
"""

from collections import deque
from typing import Final

from msgspec import UNSET

from resprout.core.bundle import STOWED_COST, Bundle, StowedBundle, stow
from resprout.edge.durable_messages import WhenFull
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate
from resprout.order.entry import Entry, SpillState
from resprout.order.log import Log
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.status import Absent, SpillSeen

MEMORY_SHARE: Final = 4
"""One in so many bytes of the log is for what could be put aside: a consumer that keeps up costs no disk."""
AT_ONCE: Final = 64
"""Entries that are looked at in one step, besides those that have come in it."""
AT_ONCE_IN_VAIN: Final = 4
"""The same while the disk is full: then it is only found out what counts against its source."""
BUNDLES_MAX: Final = 200_000
"""On disk: of each, what is not its columns stays in memory, and a repair takes them all in one parcel."""
CANDIDATES_MIN: Final = 1_000
"""With more it is looked at which of them are gone."""
LOOKED_AT_ONCE: Final = 1_000
"""Entries that are looked at in one step when a filter has come after them."""
EVERY: Final = ""
"""In the index all subscriptions are one."""


class Spilling:
    def __init__(
        self,
        life: BrokerLife,
        log: Log,
    ) -> None:
        self._life = life
        self._log = log
        options, make = life.options, life.seat.spill
        self._store = make(options.spill_bytes) if make is not None and options.spill_bytes else None
        self._memory = options.log_room // MEMORY_SHARE
        self.filters: dict[str, int] = {}
        """Of all durable subscriptions that spill, wherever they live, and of how many."""
        self._index: MatchIndex[str] = MatchIndex()
        """Over those filters."""
        self.unlooked: deque[Entry] = deque()
        """Entries that were in the log when a filter came, and may match it."""
        self.candidates: deque[Entry] = deque()
        """What matches one of those, and is not put aside."""
        self._fresh = 0
        self._look_at = CANDIDATES_MIN
        self._again_us = 0
        """Not before then is a disk tried that refused something."""
        self.bytes_spilled = 0
        """Ever, in this life."""
        self.refused = 0
        """How often there was no room for something."""
        self.is_full = False
        """There was none for what was to be put aside last."""

    @property
    def is_offered(self) -> bool:
        return self._store is not None

    @property
    def bytes_on_disk(self) -> int:
        return self._store.used if self._store is not None else 0

    @property
    def bundles_on_disk(self) -> int:
        return self._store.places if self._store is not None else 0

    def status(self) -> SpillSeen | Absent:
        """For people, once somebody has asked for it."""
        if not self.filters and not self.bytes_spilled:
            return UNSET
        most = self._life.options.spill_bytes
        return SpillSeen(self.bytes_on_disk, self.bundles_on_disk, most, self.bytes_spilled, self.refused)

    # -- what may be put aside -----------------------------------------------------------------------------------------

    def know(self, before: DurableState | None, after: DurableState | None) -> None:
        """A durable subscription is another than before; None: there was, or is, none."""
        came, went = _filter_of(after), _filter_of(before)
        if came == went:
            return
        if came is not None:
            self.filters[came] = self.filters.get(came, 0) + 1
            if self._index.add(EVERY, Predicate(came, None)):
                self.unlooked.clear()
                self.unlooked.extend(self._log.entries.values())
        if went is not None:
            self.filters[went] -= 1
            if not self.filters[went]:
                del self.filters[went]
                self._index.remove(EVERY, Predicate(went, None))

    def look(self) -> None:
        """At the end of a step, while there are entries that may match a filter which came after them."""
        for _ in range(min(LOOKED_AT_ONCE, len(self.unlooked))):
            self.came(self.unlooked.popleft())

    def came(self, entry: Entry) -> None:
        """It is in the log now, perhaps again: one that was dropped and is taken back may still stand in line."""
        if entry.spill is not SpillState.MEMORY or entry.bundle is None or entry.tseq >= 0:
            return
        if self._index.match_any(entry.bundle.topics, {}):  # what is put aside in vain is soon forgotten
            entry.to_spill_state(SpillState.CANDIDATE)
            self.candidates.append(entry)
            self._fresh += 1

    # -- putting aside -------------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """At the end of a step, while there are candidates."""
        log, candidates = self._log, self.candidates
        is_full = self._life.now_us < self._again_us
        count, self._fresh = self._fresh + (AT_ONCE_IN_VAIN if is_full else AT_ONCE), 0
        if log.bytes_held <= self._memory and log.local_bytes <= self._memory:
            if len(candidates) > self._look_at:
                for _ in range(len(candidates)):
                    self._keep_in_line(candidates.popleft())
                self._look_at = max(CANDIDATES_MIN, 2 * len(candidates))
            return
        for _ in range(min(count, len(candidates))):
            if log.bytes_held <= self._memory and log.local_bytes <= self._memory:
                break
            entry = candidates.popleft()
            if not (_counts(entry) and log.is_idle(entry) and self._put_aside(entry)):
                self._keep_in_line(entry)

    def _keep_in_line(self, entry: Entry) -> None:
        """At the end of the line, unless nothing would be gained by putting it on disk."""
        if _counts(entry):
            self.candidates.append(entry)
        else:
            entry.to_spill_state(SpillState.MEMORY)

    def _put_aside(self, entry: Entry) -> bool:
        log, bundle = self._log, entry.bundle
        if bundle is None:
            entry.to_spill_state(SpillState.MEMORY)
        else:
            stowed = self._stow(bundle)
            if stowed is None:
                self._stick(entry)
                return False
            log.stow(entry, stowed)
        log.weigh(entry, STOWED_COST)
        return True

    def _stow(self, bundle: Bundle) -> StowedBundle | None:
        store, life = self._store, self._life
        if life.now_us < self._again_us:
            return None
        has_room = store is not None and store.places < BUNDLES_MAX
        stowed = stow(bundle, store) if store is not None and has_room else None
        if stowed is None:
            self.refused += 1
            self._again_us = life.now_us + life.options.heartbeat_us
            if not self.is_full:
                self.is_full = True
                life.note("spill", f"no more is spilled, and publishers are held back: {self._reason(has_room)}")
            return None
        self.is_full = False
        self.bytes_spilled += bundle.cost - STOWED_COST
        return stowed

    def _reason(self, has_room: bool) -> str:
        if self._store is None:
            return "spill_bytes is 0"
        return self._store.trouble if has_room else f"{BUNDLES_MAX} bundles are the most that may be spilled"

    def _stick(self, entry: Entry) -> None:
        log = self._log
        is_copy = not entry.waits and not entry.pins and entry.reach >= self._life.faults
        if is_copy and entry not in log.stuck:
            log.stick(entry)


def _filter_of(state: DurableState | None) -> str | None:
    """Return what it asks for, if it spills."""
    spills = state is not None and state.terms.when_full is WhenFull.SPILL and not state.over
    return state.terms.filter if state is not None and spills else None


def _counts(entry: Entry) -> bool:
    """It takes room in the log, or counts against local clients."""
    return entry.bundle is not None
