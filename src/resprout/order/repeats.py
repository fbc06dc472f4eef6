"""Publications that come a second time, because their publisher moved to another broker and published them again.

The *original* is the entry that came first. The *repeat* comes from the side to which the publisher moved, and is
stored as a copy beside it. Readers on this side take the original, never the repeat. So the reports of the repeat wait
for the original: until then the neighbour that sent the repeat keeps it, and f + 1 brokers store the publication.

A repeat takes a reach or a level when the original has it. Both wait only for lower levels of neighbours, so two
brokers that sent each other the same publication do not wait for each other. `delivered` has no levels: the repeat is
delivered when the original is stable, and delivered to everybody except those behind the neighbour that sent the
repeat. It does not wait for readers more than f hops away on the side from which the original came.
"""

from collections.abc import Callable

from resprout.core.bundle import Bundle, Origin
from resprout.order.entry import Entry
from resprout.order.link import Link


class Follower:
    """One repeat of an original, and what it has taken over from it."""

    __slots__ = ("level", "reach", "repeat")

    def __init__(self, repeat: Entry) -> None:
        self.repeat = repeat
        self.reach = 0
        self.level = 0


class Repeats:
    """Unfinished plain entries by origin, and the repeats that wait for them."""

    __slots__ = ("_by_origin", "_faults", "changed", "followers")

    def __init__(self, faults_tolerated: int) -> None:
        self._faults = faults_tolerated
        self._by_origin: dict[Origin, dict[int, Entry]] = {}
        """By place in the log: entries that are stored, or that somebody on this side is still owed."""
        self.followers: dict[Entry, list[Follower]] = {}
        """By original."""
        self.changed: dict[Entry, None] = {}
        """Originals that have come further in this step."""

    def add(self, entry: Entry) -> None:
        """Remember an entry of the log."""
        self._by_origin.setdefault(entry.origin, {})[entry.no] = entry

    def drop(self, entry: Entry) -> None:
        """Forget an entry that is stable and delivered."""
        entries = self._by_origin.get(entry.origin)
        if entries is not None and entries.pop(entry.no, None) is not None and not entries:
            del self._by_origin[entry.origin]

    def find_originals(self, bundle: Bundle) -> list[Entry]:
        """Return the entries with some of the numbers of this bundle. Totals are left out: every broker stores them by
        itself, and they are reported by name."""
        entries = self._by_origin.get(bundle.origin)
        if entries is None:
            return []
        first, last = bundle.first, bundle.last
        return [entry for entry in entries.values() if entry.first <= last and first <= entry.last and entry.tseq < 0]

    def has_unfinished(self, origin: Origin, last: int) -> bool:
        """Whether some entry of an origin up to this number is stored here, or not delivered on this side."""
        return any(entry.first <= last for entry in self._by_origin.get(origin, {}).values())

    def follow(self, repeat: Entry, originals: list[Entry]) -> None:
        """Let the reports of `repeat`, which has just come, wait for these entries."""
        for original in originals:
            self.followers.setdefault(original, []).append(Follower(repeat))
            self.changed[original] = None
            for lacking in (repeat.reach_lacking, repeat.lacking):
                for at in range(len(lacking)):
                    lacking[at] += 1
            repeat.undone += 1
            repeat.reach = repeat.level = 0

    def touch(self, original: Entry) -> None:
        """Note that an original has come further."""
        if original in self.followers:
            self.changed[original] = None

    def advance(self, settle: Callable[[Entry], None], deliver: Callable[[Entry], None]) -> None:
        """At the end of a step, let repeats come as far as their originals. `settle` is called for each repeat that may
        rise, and `deliver` once for each original of it that is delivered."""
        while self.changed:
            changed, self.changed = self.changed, {}
            for original in changed:
                followers = self.followers.pop(original, [])
                for follower in followers:
                    _catch_up(follower, original)
                    settle(follower.repeat)
                done = [one for one in followers if self._is_delivered(original, one)]
                if waiting := [one for one in followers if one not in done]:
                    self.followers[original] = waiting
                for one in done:
                    deliver(one.repeat)

    def _is_delivered(self, original: Entry, follower: Follower) -> bool:
        if original.level <= self._faults:
            return False
        return original.undone <= _owed_behind(follower.repeat.source, original)


def _catch_up(follower: Follower, original: Entry) -> None:
    repeat = follower.repeat
    for at in range(follower.reach, original.reach):
        repeat.reach_lacking[at] -= 1
    for at in range(follower.level, original.level):
        repeat.lacking[at] -= 1
    follower.reach = max(follower.reach, original.reach)
    follower.level = max(follower.level, original.level)


def _owed_behind(link: Link | None, entry: Entry) -> int:
    """Return how many of `entry.undone` wait for this neighbour."""
    if link is None:
        return 0
    if entry in link.sent.numbers:
        done = link.heard.done
        return sum(one is entry and number not in done for number, one in link.sent.entries.items())
    waits = link.cursor is not None and entry.no >= link.cursor and entry.source is not link
    return int(waits and not entry.is_backup)
