"""Live: the place of a total that subscribers are told (`tseq`) is what it is said to be.

The rule is that of `audit.places`. A place is remembered as long as its total; the highest one that a subscriber was
told on a key as long as it has anything on that key.
"""

from resprout.audit.live.memory import KeptLife, KeptPublication, KeyPlace
from resprout.audit.live.view import LiveView
from resprout.audit.places import against_the_order, shared, told_differently
from resprout.audit.records import ClaimedPlace
from resprout.core.keys import Pair


def told(view: LiveView, life: KeptLife, p: KeptPublication, tseq: int, time_us: int) -> None:
    """Somebody is told the place of a total."""
    memory = view.memory
    claim = ClaimedPlace(tseq, life.name, life.node, time_us)
    if p.place is None:
        p.place = claim
        owner = memory.publications.get(memory.places.get((p.lane, tseq), -1))
        first, second = (owner, p) if owner is not None and owner.number < p.number else (p, owner)
        memory.places[p.lane, tseq] = first.number
        if second is not None and second.place is not None:
            view.tell(shared(view, second.id, second.place, first.id))
    elif p.place.tseq != tseq and not p.misplaced:
        p.misplaced = True
        view.tell(told_differently(view, p.id, claim, p.place))


def follows(view: LiveView, life: KeptLife, p: KeptPublication, pair: Pair, place: KeyPlace, tseq: int) -> bool:
    """Whether a total comes at a higher place than those that the subscriber had on the pair; the first that does not
    is told of."""
    position, _, time_us = p.had[life.number]
    placed = (tseq, p.id, position)
    if place.highest is None or tseq > place.highest[0]:
        place.highest = placed
    elif tseq < place.highest[0]:
        view.tell(against_the_order(view, life, pair, placed, time_us, place.highest))
        return False
    return True


def forget(view: LiveView, p: KeptPublication) -> None:
    if p.place is not None and view.memory.places.get((p.lane, p.place.tseq)) == p.number:
        del view.memory.places[p.lane, p.place.tseq]
