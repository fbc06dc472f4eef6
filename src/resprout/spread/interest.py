"""Interest routing: who wants what, what was asked of whom, and when a wish is confirmed.

A *direction* is a neighbour or a local client. What one direction wants is asked of every neighbour but itself, so that
interest spreads through the tree against the flow of publications. A wish is confirmed to its direction when every
other neighbour has confirmed it: then each broker of the tree sends what matches, and nothing is missed.

A predicate that an asked one is seen to cover is not asked again (`spread.asked`). When a wide wish replaces narrow
ones, or goes and leaves narrow ones behind, the new is asked before the old is withdrawn; links are FIFO, so by
induction over the hops there is no moment in which a broker stops sending what somebody still wants, and what was
confirmed stays true.

A confirmation carries a *base*: how far the origins had come, of which something was still on its way when the interest
became known. What lies below it is not owed: a repair that brought it up again would bring it after its effects.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.message_fields import in_parts
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate
from resprout.spread.asked import Asked
from resprout.spread.covers import Base, Bases, Wish
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested

INTERESTS_MAX: Final = 1_000_000
"""Different interests of all directions together. A broker that knows so many takes no new ones from its clients."""
NEIGHBOUR_INTERESTS_MAX: Final = 4 * INTERESTS_MAX
"""What one neighbour may ask at a time, for all who are behind it. It only passes on what clients elsewhere asked for,
so it is not to blame for more: the rest is never confirmed."""


class TheirAsks:
    """What one neighbour asks of this broker."""

    __slots__ = ("by_id", "ids", "is_cut_short")

    def __init__(self) -> None:
        self.by_id: dict[int, Predicate] = {}
        self.ids: dict[Predicate, int] = {}
        self.is_cut_short = False
        """Some of its interests were not taken."""


class Interest:
    """The interest of all directions of one broker. Methods append what is to be said to `outbound`, in order, and
    return the wishes of local clients that became confirmed."""

    def __init__(self, retained: Callable[[], Base] = dict) -> None:
        """`retained` tells how far the origins have come of which something is still kept here."""
        self._retained = retained
        self._bases = Bases()
        self.index: MatchIndex[str] = MatchIndex()
        self._wanted: dict[Predicate, dict[str, None]] = {}
        self._asked: dict[str, Asked] = {}
        self._wishes: dict[tuple[str, Predicate], Wish] = {}
        self._wishes_made = 0
        self._theirs: dict[str, TheirAsks] = {}
        self.passed_over = 0
        """Interests of neighbours that were not taken."""

    @property
    def is_full(self) -> bool:
        return len(self._wanted) >= INTERESTS_MAX

    def knows(self, predicate: Predicate) -> bool:
        """Whether any direction wants exactly this."""
        return predicate in self._wanted

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def add_neighbour(self, name: str) -> None:
        """From now on everything wanted elsewhere is asked of this neighbour too. Say `asks(name)` once it listens."""
        asked = self._asked[name] = Asked(name, self._bases)
        self._theirs[name] = TheirAsks()
        unheard: Outbound = []
        for predicate in self._wanted:
            if self._needed(name, predicate):
                asked.need(predicate, unheard)
        for wish in self._wishes.values():
            if wish.direction != name:
                self._await(wish, name)

    def presume(self, name: str, confirmed: Iterable[Predicate], base: Base, outbound: Outbound) -> list[Wish]:
        """A new neighbour had confirmed these to the broker whose place this one takes."""
        return self._heard(self._asked[name].presume(confirmed, base), outbound)

    def remove_neighbour(self, name: str, outbound: Outbound) -> list[Wish]:
        """It is dead, and nobody takes its place under its name. What it wanted is wanted no more."""
        waited = self._asked.pop(name).waiting()
        ready = self._drop(name, self.index.predicates_of(name), outbound)
        del self._theirs[name]
        return ready + self._heard(waited, outbound)

    def replace_neighbour(self, old: str, new: str) -> None:
        """A living broker takes the place of a dead one, with what was asked of it and with what it wanted, until
        `reconcile` tells what the new one wants."""
        asked = self._asked.pop(old)
        asked.hand_to(new)
        self._asked[new] = asked
        self._theirs[new] = TheirAsks()
        del self._theirs[old]
        self.rename_direction(old, new)

    def reconcile(self, name: str, asks: Iterable[tuple[int, Predicate, bool]], outbound: Outbound) -> list[Wish]:
        """What the new neighbour wants: (id, predicate, whether it knows that nothing is missing)."""
        left = dict.fromkeys(self.index.predicates_of(name))
        ready: list[Wish] = []
        for id, predicate, confirmed in asks:
            if not self._note_ask(name, id, predicate):
                continue
            if predicate in left:
                del left[predicate]
                if not confirmed:
                    ready += self._wish(name, predicate, outbound)
            else:
                ready += self.want(name, predicate, outbound, confirmed)
        return ready + self._drop(name, tuple(left), outbound)

    def rename_direction(self, old: str, new: str) -> None:
        """What the one wanted, the other wants: a neighbour's interest outlives it in its ghost."""
        for predicate in self.index.predicates_of(old):
            self._cancel(old, predicate)
            self.index.remove(old, predicate)
            self.index.add(new, predicate)
            directions = self._wanted[predicate]
            del directions[old]
            directions[new] = None

    def standing(self, name: str) -> tuple[list[tuple[int, Predicate, bool]], list[Predicate]]:
        """What is asked of a neighbour (id, predicate, whether it is confirmed), and what of its own wishes was
        confirmed to it."""
        confirmed = [predicate for predicate in self._theirs[name].ids if (name, predicate) not in self._wishes]
        return self._asked[name].asks(), confirmed

    def owing(self, name: str) -> Callable[[Bundle], bool]:
        """Whether a neighbour owes a bundle to this side."""
        return self._asked[name].owing()

    def rebase(self, name: str, base: Base) -> None:
        self._asked[name].rebase(base)

    def _cancel(self, direction: str, predicate: Predicate) -> None:
        """Nobody is left to be told that the wish is confirmed."""
        wish = self._wishes.pop((direction, predicate), None)
        if wish is not None:
            for asked in self._asked.values():
                asked.forget(wish)

    def asks(self, name: str) -> Outbound:
        """Everything that is asked of a neighbour, for the beginning of its session."""
        return self._asked[name].all()

    def asked_by(
        self, name: str, message: Interested, predicate: Predicate, outbound: Outbound, confirmed: bool = False
    ) -> list[Wish]:
        """`confirmed`: it knows already that nothing is missing."""
        if not self._note_ask(name, message.id, predicate):
            return []
        return self.want(name, predicate, outbound, confirmed)

    def withdrawn_by(self, name: str, message: Uninterested, outbound: Outbound) -> list[Wish]:
        theirs = self._theirs[name]
        predicate = theirs.by_id.pop(message.id, None)
        if predicate is None:
            if theirs.is_cut_short:
                return []
            raise PeerError(f"interest {message.id} was never asked")
        del theirs.ids[predicate]
        return self.drop(name, predicate, outbound)

    def confirmed_by(self, name: str, message: InterestConfirmed, outbound: Outbound) -> list[Wish]:
        base = self._bases.hear(message.base)
        if message.more:
            self._asked[name].extend_base(message.id, base)
            return []
        return self._heard(self._asked[name].confirm(message.id, base), outbound)

    # -- directions ----------------------------------------------------------------------------------------------------

    def want(self, direction: str, predicate: Predicate, outbound: Outbound, confirmed: bool = False) -> list[Wish]:
        """A direction wants what matches; it must not want the same already. `confirmed`: no wish needs to wait."""
        self.index.add(direction, predicate)
        self._wanted.setdefault(predicate, {})[direction] = None
        for name, asked in self._asked.items():
            if name != direction:
                asked.need(predicate, outbound)
        return [] if confirmed else self._wish(direction, predicate, outbound)

    def drop(self, direction: str, predicate: Predicate, outbound: Outbound) -> list[Wish]:
        """A direction no longer wants it."""
        return self._drop(direction, (predicate,), outbound)

    def drop_all(self, direction: str, outbound: Outbound) -> list[Wish]:
        """A direction no longer wants anything. Nothing is asked on the way that it alone would need."""
        return self._drop(direction, self.index.predicates_of(direction), outbound)

    def drop_some(self, direction: str, predicates: Sequence[Predicate], outbound: Outbound) -> list[Wish]:
        """A direction no longer wants these."""
        return self._drop(direction, predicates, outbound)

    def directions(self, predicate: Predicate) -> tuple[str, ...]:
        return tuple(self._wanted.get(predicate, ()))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _wish(self, direction: str, predicate: Predicate, outbound: Outbound) -> list[Wish]:
        self._wishes_made += 1
        wish = self._wishes[direction, predicate] = Wish(self._wishes_made, direction, predicate)
        wish.base = self._retained()
        for name in self._asked:
            if name != direction:
                self._await(wish, name)
        return self._confirm([wish], outbound)

    def _note_ask(self, name: str, id: int, predicate: Predicate) -> bool:
        """Return whether it is taken."""
        theirs = self._theirs[name]
        if id in theirs.by_id or predicate in theirs.ids:
            raise PeerError(f"interest {id} in {predicate} was asked before")
        if len(theirs.by_id) >= NEIGHBOUR_INTERESTS_MAX:
            theirs.is_cut_short = True
            self.passed_over += 1
            return False
        theirs.by_id[id] = predicate
        theirs.ids[predicate] = id
        return True

    def _needed(self, name: str, predicate: Predicate) -> bool:
        return any(direction != name for direction in self._wanted.get(predicate, ()))

    def _await(self, wish: Wish, name: str) -> None:
        if self._asked[name].wait(wish):
            wish.missing += 1

    def _drop(self, direction: str, predicates: Sequence[Predicate], outbound: Outbound) -> list[Wish]:
        cancelled: list[Wish] = []
        for predicate in predicates:
            self.index.remove(direction, predicate)
            directions = self._wanted[predicate]
            del directions[direction]
            if not directions:
                del self._wanted[predicate]
            if (wish := self._wishes.pop((direction, predicate), None)) is not None:
                cancelled.append(wish)
        ready: list[Wish] = []
        for name, asked in self._asked.items():
            if name != direction:
                for wish in cancelled:
                    asked.forget(wish)
                unneeded = [predicate for predicate in predicates if not self._needed(name, predicate)]
                ready += self._heard(asked.unneed(unneeded, outbound), outbound)
        return ready

    def _heard(self, wishes: list[Wish], outbound: Outbound) -> list[Wish]:
        """One more neighbour has confirmed these."""
        for wish in wishes:
            wish.missing -= 1
        return self._confirm(sorted(wishes, key=attrgetter("no")), outbound)

    def _confirm(self, wishes: list[Wish], outbound: Outbound) -> list[Wish]:
        """Those for which nobody is missing."""
        ready: list[Wish] = []
        for wish in wishes:
            if wish.missing:
                continue
            del self._wishes[wish.direction, wish.predicate]
            theirs = self._theirs.get(wish.direction)
            their_id = theirs.ids.get(wish.predicate) if theirs is not None else None
            if their_id is None:
                ready.append(wish)
            else:
                for base, more in in_parts(self._bases.tell(wish.base)):
                    outbound.append((wish.direction, InterestConfirmed(their_id, base, more)))
        return ready
