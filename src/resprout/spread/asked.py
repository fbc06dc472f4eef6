"""All that is asked of one neighbour, kept small: what something asked covers is not asked as well.

It is small as far as bounded searches see and the work is worth it; what they miss is asked itself, which is always
right. Every change costs about as much as it concerns: a new need one search, a need that goes only what stood directly
under it. Asks that replace each other over and over would cost more, so every new need pays in advance for a few such
moves, and when that is spent, things are asked instead of moved.

The new is always asked before the old is withdrawn.
"""

from collections.abc import Iterable
from typing import Final

from resprout.filters.predicate import Predicate
from resprout.spread.covers import Covers, levels_of
from resprout.spread.messages import Interested, Uninterested
from resprout.spread.needs import Need, Wish
from resprout.spread.says import Says

MOVES_PER_NEED: Final = 2
"""How often, for each new need, one may come to stand under another later."""
REPLACED_MAX: Final = 10_000
"""Asks that one new ask replaces."""
HEIGHT_MAX: Final = 16
"""Needs over one another above the lowest: the way to the root is short. What is this high is not replaced."""


class Asked:
    """The needs at one link. What is to be said to the neighbour is appended to `says`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._needs: dict[Predicate, Need] = {}
        self._by_id: dict[int, Need] = {}
        self._covers: Covers[Need] = Covers()
        """Over what is asked."""
        self._last_id = 0
        self._moves = 0

    @property
    def predicates(self) -> list[Predicate]:
        """What is asked, in the order it was."""
        return [need.predicate for need in self._by_id.values()]

    def all(self) -> Says:
        """Everything that is asked, for the beginning of a session."""
        return [(self._name, _interested(need)) for need in self._by_id.values()]

    def need(self, predicate: Predicate, says: Says) -> None:
        """From now on it is asked, or something that covers it."""
        need = self._needs.get(predicate)
        if need is not None:
            need.wanted = True
            return
        self._moves += MOVES_PER_NEED
        need = self._needs[predicate] = Need(predicate)
        cover = self._covers.covering(predicate)
        if cover is not None:
            need.stand_under(cover)
        else:
            self._ask(need, False, says)

    def unneed(self, predicates: Iterable[Predicate], says: Says) -> list[Wish]:
        """Nobody has these any more. Wishes for others that turn out to be confirmed by what serves them now.

        They all go before anything is asked instead, or what goes later would be asked in vain.
        """
        withdrawn: list[Need] = []
        for predicate in predicates:
            need = self._needs[predicate]
            need.wanted = False
            if need.id:
                self._covers.remove(predicate)
                del self._by_id[need.id]
                withdrawn.append(need)
            else:
                self._tidy(need)
        heirs = [(heir, root.confirmed) for root in withdrawn for heir in self._dissolve(root)]
        heirs.sort(key=_widest_first)
        heard: list[Wish] = []
        for heir, confirmed in heirs:
            heard += self._settle(heir, confirmed, says)
        says.extend((self._name, Uninterested(need.id)) for need in withdrawn)
        return heard

    def wait(self, wish: Wish) -> bool:
        """Until what serves the wish is confirmed; False if it is."""
        need = self._needs[wish.predicate]
        if need.root.confirmed:
            return False
        need.wait(wish)
        return True

    def forget(self, wish: Wish) -> None:
        """It does not wait any more."""
        self._needs[wish.predicate].waiting.pop(wish, None)

    def confirm(self, id: int) -> list[Wish]:
        """The neighbour's answer; the wishes that waited for it."""
        need = self._by_id.get(id)
        if need is None:  # it speaks of what was withdrawn meanwhile
            return []
        need.confirmed = True
        return need.take_waiting()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask(self, need: Need, confirmed: bool, says: Says) -> None:
        most = min(self._moves, REPLACED_MAX)
        replaced = self._covers.covered(need.predicate, most, _movable) if most else []
        self._last_id += 1
        need.id = self._last_id
        need.confirmed = confirmed
        self._by_id[need.id] = need
        self._covers.add(need.predicate, need)
        says.append((self._name, _interested(need)))
        self._moves -= len(replaced)
        for narrower in replaced:
            self._covers.remove(narrower.predicate)
            del self._by_id[narrower.id]
            says.append((self._name, Uninterested(narrower.id)))
            narrower.id = 0
            narrower.stand_under(need)

    def _settle(self, heir: Need, confirmed: bool, says: Says) -> list[Wish]:
        """Find another cover for what lost its root, or ask it. If the root was confirmed, so is the heir: it was
        served through it, and there is no gap."""
        cover = self._covers.covering(heir.predicate) if self._moves else None
        if cover is not None:
            self._moves -= 1
            heir.stand_under(cover)
        else:
            self._ask(heir, confirmed, says)
        root = heir.root
        return root.take_waiting() if root.confirmed else []

    def _dissolve(self, root: Need) -> list[Need]:
        """Forget a root and what only held others together beneath it; what is left behind, without a cover."""
        heirs: list[Need] = []
        gone = [root]
        while gone:
            need = gone.pop()
            del self._needs[need.predicate]
            for under in list(need.under):
                under.step_out()
                (heirs if under.wanted else gone).append(under)
        return heirs

    def _tidy(self, need: Need) -> None:
        """Remove needs that nobody has, from here upwards, unless they hold several others together."""
        above = need.above
        while above is not None and not need.wanted and len(need.under) <= 1:
            need.step_out()
            for under in list(need.under):
                under.step_out()
                under.stand_under(above)
            del self._needs[need.predicate]
            need, above = above, above.above


def _widest_first(heir: tuple[Need, bool]) -> tuple[bool, bool, int, int, bool]:
    """A filter that covers another sorts before it, or equal to it: by `#`, then fewer levels, then more `+`."""
    predicate = heir[0].predicate
    levels = levels_of(predicate.filter)
    plus = levels.count("+")
    open_ended = levels[-1] == "#"
    return (not plus and not open_ended, not open_ended, len(levels), -plus, predicate.where is not None)


def _movable(need: Need) -> bool:
    return need.height < HEIGHT_MAX


def _interested(need: Need) -> Interested:
    return Interested(need.id, need.predicate.filter, need.predicate.where_text)
