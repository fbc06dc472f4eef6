"""All that is asked of one neighbour, kept small: what something asked covers is not asked as well.

It is small as far as bounded searches see and the work is worth it; what they miss is asked itself, which is always
right. Every change costs about as much as it concerns: a new need one search, a need that goes only what stood directly
under it. Asks that replace each other over and over would cost more, so every new need pays in advance for a few such
moves, and when that is spent, things are asked instead of moved.

The new is always asked before the old is withdrawn.
"""

from collections.abc import Callable, Iterable
from typing import Final

from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.message_fields import is_beyond
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate
from resprout.spread.covers import Base, Bases, Covers, Need, Wish, levels_of
from resprout.spread.messages import Interested, Outbound, Uninterested

MOVES_PER_NEED: Final = 2
"""How often, for each new need, one may come to stand under another later."""
REPLACED_MAX: Final = 4_096
"""Asks that one new ask replaces."""
SIZE_MAX: Final = 4_096
"""Needs that stand under one another in all. When the one that is asked goes, the others are asked in the same step."""
HEIGHT_MAX: Final = 16
"""Needs over one another above the lowest: the way to the root is short. What is this high is not replaced."""


class Asked:
    """The needs at one link. What is to be said to the neighbour is appended to `outbound`."""

    def __init__(self, name: str, bases: Bases) -> None:
        self._name = name
        self._bases = bases
        self._needs: dict[Predicate, Need] = {}
        self._by_id: dict[int, Need] = {}
        self._covers: Covers[Need] = Covers()
        """Over what is asked."""
        self._last_id = 0
        self._moves = 0
        self._unconfirmed = 0
        """How many of those that are asked."""
        self._residue: dict[Predicate, Base] = {}
        """What was confirmed and is not asked any more, with its base, while something asked is not confirmed yet: the
        wide wish that replaced a narrow one may still need what the narrow one was owed."""

    @property
    def predicates(self) -> list[Predicate]:
        """What is asked, in the order it was."""
        return [need.predicate for need in self._by_id.values()]

    def all(self) -> Outbound:
        """Everything that is asked, for the beginning of a session."""
        return [(self._name, _interested(need)) for need in self._by_id.values()]

    def need(self, predicate: Predicate, outbound: Outbound) -> None:
        """From now on it is asked, or something that covers it."""
        need = self._needs.get(predicate)
        if need is not None:
            need.wanted = True
            return
        self._moves += MOVES_PER_NEED
        need = self._needs[predicate] = Need(predicate)
        cover = self._covers.covering(predicate)
        if cover is not None and cover.size < SIZE_MAX:
            need.stand_under(cover)
        else:
            self._ask(need, outbound)

    def unneed(self, predicates: Iterable[Predicate], outbound: Outbound) -> list[Wish]:
        """Nobody has these any more. Wishes for others that turn out to be confirmed by what serves them now.

        They all go before anything is asked instead, or what goes later would be asked in vain.
        """
        withdrawn: list[Need] = []
        for predicate in predicates:
            need = self._needs[predicate]
            need.wanted = False
            if need.id:
                self._covers.remove(predicate)
                self._unask(need)
                withdrawn.append(need)
            else:
                self._tidy(need)
        successors = [(successor, root) for root in withdrawn for successor in self._dissolve(root)]
        successors.sort(key=_widest_first)
        heard: list[Wish] = []
        for successor, root in successors:
            heard += self._settle(successor, root, outbound)
        for need in withdrawn:
            self._remember(need)  # what is asked instead may not be confirmed
        outbound.extend((self._name, Uninterested(need.id)) for need in withdrawn)
        return heard

    def wait(self, wish: Wish) -> bool:
        """Until what serves the wish is confirmed; False if it is."""
        need = self._needs[wish.predicate]
        if need.root.confirmed:
            return False
        need.wait(wish)
        return True

    def forget(self, wish: Wish) -> None:
        """It does not wait any more, if it did."""
        need = self._needs.get(wish.predicate)
        if need is not None:
            need.waiting.pop(wish, None)

    def confirm(self, id: int, base: Base) -> list[Wish]:
        """The neighbour's answer; the wishes that waited for it."""
        need = self._by_id.get(id)
        if need is None:  # it speaks of what was withdrawn meanwhile
            return []
        self._confirm(need, self._bases.join(need.base, base))
        return self._served(need)

    def extend_base(self, id: int, base: Base) -> None:
        """A part of what the confirmation will bring. Nobody looks at the base of what is not confirmed."""
        need = self._by_id.get(id)
        if need is not None:
            need.base = self._bases.join(need.base, base)

    # -- when the neighbour dies ---------------------------------------------------------------------------------------

    def hand_to(self, name: str) -> None:
        """Another neighbour takes the place of this one, with everything that was asked and confirmed."""
        self._name = name

    def rebase(self, base: Base) -> None:
        """A repair has handed over everything up to here."""
        for need in self._needs.values():
            if need.confirmed:
                need.base = base
        self._residue = dict.fromkeys(self._residue, base)

    def presume(self, confirmed: Iterable[Predicate], base: Base) -> list[Wish]:
        """The neighbour had confirmed these to the broker whose place this one takes. The wishes that need not wait."""
        known: Covers[Predicate] = Covers()
        for predicate in confirmed:
            known.add(predicate, predicate)
            self._residue[predicate] = base
        heard: list[Wish] = []
        for need in list(self._by_id.values()):
            if known.covering(need.predicate) is not None:
                self._confirm(need, base)
                heard += self._served(need)
        if not self._unconfirmed:
            self._residue.clear()
        return heard

    def waiting(self) -> list[Wish]:
        """Every wish that waits for this neighbour."""
        return [wish for need in self._needs.values() for wish in need.waiting]

    def asks(self) -> list[tuple[int, Predicate, bool]]:
        """(id, predicate, whether it is confirmed) of everything that is asked."""
        return [(id, need.predicate, need.confirmed) for id, need in self._by_id.items()]

    def owing(self) -> Callable[[Bundle], bool]:
        """Whether this neighbour owes a bundle: something confirmed matches, and it lies beyond its base."""
        index: MatchIndex[str] = MatchIndex()
        bases: dict[str, Base] = {}
        facts = [(need.predicate, need.base) for need in self._needs.values() if need.confirmed]
        for number, (predicate, base) in enumerate((*facts, *self._residue.items())):
            index.add(str(number), predicate)
            bases[str(number)] = base
        return lambda bundle: _is_owed(bundle, index, bases)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask(self, need: Need, outbound: Outbound) -> None:
        most = min(self._moves, REPLACED_MAX)
        replaced = self._covers.covered(need.predicate, most, _movable) if most else []
        self._last_id += 1
        need.id = self._last_id
        self._by_id[need.id] = need
        self._unconfirmed += not need.confirmed
        self._covers.add(need.predicate, need)
        outbound.append((self._name, _interested(need)))
        self._moves -= len(replaced)
        for narrower in replaced:
            if need.size + narrower.size > SIZE_MAX:
                break
            self._covers.remove(narrower.predicate)
            self._unask(narrower)
            outbound.append((self._name, Uninterested(narrower.id)))
            narrower.id = 0
            narrower.stand_under(need)

    def _confirm(self, need: Need, base: Base) -> None:
        """Of something asked."""
        self._unconfirmed -= not need.confirmed
        need.confirmed = True
        need.base = base
        if not self._unconfirmed:
            self._residue.clear()

    def _unask(self, need: Need) -> None:
        del self._by_id[need.id]
        self._unconfirmed -= not need.confirmed

    def _served(self, root: Need) -> list[Wish]:
        """The wishes that waited for it, now that it is confirmed."""
        wishes = root.take_waiting()
        for wish in wishes:
            wish.base = self._bases.join(wish.base, root.base)
        return wishes

    def _remember(self, need: Need) -> None:
        """It is gone from here, but perhaps not what depends on it."""
        if need.confirmed and self._unconfirmed:
            self._residue[need.predicate] = self._bases.join(self._residue.get(need.predicate, {}), need.base)

    def _settle(self, successor: Need, lost: Need, outbound: Outbound) -> list[Wish]:
        """Find another cover for what lost its root, or ask it. If the root was confirmed, so is the successor: it was
        served through it, and there is no gap."""
        if lost.confirmed:
            successor.confirmed = True
            successor.base = self._bases.join(successor.base, lost.base)
        cover = self._covers.covering(successor.predicate) if self._moves else None
        if cover is not None and cover.size + successor.size <= SIZE_MAX:
            self._moves -= 1
            successor.stand_under(cover)
        else:
            self._ask(successor, outbound)
        root = successor.root
        return self._served(root) if root.confirmed else []

    def _dissolve(self, root: Need) -> list[Need]:
        """Forget a root and what only held others together beneath it; what is left behind, without a cover."""
        successors: list[Need] = []
        gone = [root]
        while gone:
            need = gone.pop()
            del self._needs[need.predicate]
            self._remember(need)
            for under in list(need.under):
                under.step_out()
                (successors if under.wanted else gone).append(under)
        return successors

    def _tidy(self, need: Need) -> None:
        """Remove needs that nobody has, from here upwards, unless they hold several others together."""
        above = need.above
        while above is not None and not need.wanted and len(need.under) <= 1:
            need.step_out()
            for under in list(need.under):
                under.step_out()
                under.stand_under(above)
            del self._needs[need.predicate]
            self._remember(need)
            need, above = above, above.above


def _is_owed(bundle: Bundle, index: MatchIndex[str], bases: dict[str, Base]) -> bool:
    rows = unpack_attributes(bundle) if bundle.attributes else [{}]
    return any(is_beyond(bundle, bases[number]) for row in rows for number in index.match_any(bundle.topics, row))


def _widest_first(successor: tuple[Need, Need]) -> tuple[bool, bool, int, int, bool]:
    """A filter that covers another sorts before it, or equal to it: by `#`, then fewer levels, then more `+`."""
    predicate = successor[0].predicate
    levels = levels_of(predicate.filter)
    plus = levels.count("+")
    open_ended = levels[-1] == "#"
    return (not plus and not open_ended, not open_ended, len(levels), -plus, predicate.where is not None)


def _movable(need: Need) -> bool:
    return need.height < HEIGHT_MAX


def _interested(need: Need) -> Interested:
    return Interested(need.id, need.predicate.filter, need.predicate.where_text)
