"""Publications that come a second time, because their publisher moved to another broker and published them again.

The *original* is the entry that came first. The *repeat* comes from the side to which the publisher moved, and is
stored as a copy beside it. Readers on this side take the original, never the repeat. So the repeat takes a reach or a
level only when the original has it: until then the neighbour that sent the repeat keeps it, and f + 1 brokers store the
publication. Reaches and levels wait only for lower ones of neighbours, so two brokers that sent each other the same
publication do not wait for each other.

`done` does not wait for the original. The broker that serves the publisher asks the whole tree before it tells
`delivered` of what may be a repeat (`stacks.resprout.unread`).
"""

from collections.abc import Callable

from resprout.core import limits
from resprout.core.bundle import Bundle, Origin
from resprout.order.entry import Entry


class Follower:
    """One repeat of an original, and what it has taken over from it."""

    __slots__ = ("level", "reach", "repeat")

    def __init__(self, repeat: Entry) -> None:
        self.repeat = repeat
        self.reach = 0
        self.level = 0


class Repeats:
    """The entries that the log stores, by origin, and the repeats that wait for them."""

    __slots__ = ("_by_origin", "changed", "followers")

    def __init__(self) -> None:
        self._by_origin: dict[Origin, dict[int, tuple[Entry, ...]]] = {}
        """By their first number."""
        self.followers: dict[Entry, list[Follower]] = {}
        """By original."""
        self.changed: dict[Entry, None] = {}
        """Originals that have come further in this step."""

    def add(self, entry: Entry) -> None:
        """Remember an entry of the log."""
        entries = self._by_origin.setdefault(entry.origin, {})
        entries[entry.first] = (*entries.get(entry.first, ()), entry)

    def drop(self, entry: Entry) -> None:
        """Forget an entry that leaves the log."""
        entries = self._by_origin[entry.origin]
        others = tuple([other for other in entries[entry.first] if other is not entry])
        if others:
            entries[entry.first] = others
            return
        del entries[entry.first]
        if not entries:
            del self._by_origin[entry.origin]

    def find_originals(self, bundle: Bundle) -> list[Entry]:
        """Return the entries with some of the numbers of this bundle. Totals are left out: every broker stores them by
        itself, and they are reported by name."""
        entries = self._by_origin.get(bundle.origin, {})
        first, last = bundle.first, bundle.last
        same = [entry for entry in entries.get(first, ()) if entry.last == last and entry.tseq < 0]
        if same or not entries:
            return same
        firsts = range(max(1, first - limits.BUNDLE_MESSAGES + 1), last + 1)  # they are bundled in another way
        near = [entry for at in firsts for entry in entries.get(at, ())]
        return [entry for entry in near if entry.last >= first and entry.tseq < 0]

    def has_unread(self, origin: Origin, last: int) -> bool:
        """Whether readers here have not taken some entry of an origin up to this number, or a neighbour that it goes to
        has not said that it has it."""
        entries = self._by_origin.get(origin, {})
        return any(first <= last and any(not entry.level for entry in same) for first, same in entries.items())

    def follow(self, repeat: Entry, originals: list[Entry]) -> None:
        """Let the reports of `repeat`, which has just come, wait for these entries."""
        for original in originals:
            self.followers.setdefault(original, []).append(Follower(repeat))
            self.changed[original] = None
            for lacking in (repeat.reach_lacking, repeat.lacking):
                for at in range(len(lacking)):
                    lacking[at] += 1
            repeat.reach = repeat.level = 0

    def touch(self, original: Entry) -> None:
        """Note that an original has come further."""
        if original in self.followers:
            self.changed[original] = None

    def advance(self, faults_tolerated: int, settle: Callable[[Entry], None]) -> None:
        """At the end of a step, let repeats come as far as their originals. `settle` is called for each repeat that may
        rise."""
        while self.changed:
            changed, self.changed = self.changed, {}
            for original in changed:
                for follower in self.followers.get(original, ()):
                    _catch_up(follower, original)
                    settle(follower.repeat)
                if original.level > faults_tolerated:
                    self.followers.pop(original, None)


def _catch_up(follower: Follower, original: Entry) -> None:
    repeat = follower.repeat
    for at in range(follower.reach, original.reach):
        repeat.reach_lacking[at] -= 1
    for at in range(follower.level, original.level):
        repeat.lacking[at] -= 1
    follower.reach = max(follower.reach, original.reach)
    follower.level = max(follower.level, original.level)
