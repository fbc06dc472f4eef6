"""Live: the place of a total that subscribers are told (`tseq`) is what it is said to be.

The rule is that of `audit.places`. A place is remembered as long as its total; the highest one that a subscriber was
told on a key as long as it has anything on that key.
"""

from resprout.audit.live.memory import KeptLife, KeptPlace, KeptPublication, KeyPlace
from resprout.audit.live.view import LiveView
from resprout.audit.naming import pair_name
from resprout.core.keys import Pair


def told(view: LiveView, life: KeptLife, p: KeptPublication, tseq: int, time_us: int) -> None:
    """Somebody is told the place of a total."""
    memory = view.memory
    if p.place is None:
        p.place = KeptPlace(tseq, life.name, life.node, time_us)
        owner = memory.publications.get(memory.places.get((p.lane, tseq), -1))
        if owner is None:
            memory.places[p.lane, tseq] = p.number
        else:
            first, second = (owner, p) if owner.number < p.number else (p, owner)
            memory.places[p.lane, tseq] = first.number
            _tell_shared(view, first, second)
    elif p.place.tseq != tseq and not p.misplaced:
        p.misplaced = True
        name = view.name(p.id)
        text = f"{life.name} was told that {name} has the place {tseq}, but {p.place.name} that it has {p.place.tseq}"
        view.tell("tseq", time_us, life.node, (name,), text)


def follows(view: LiveView, life: KeptLife, p: KeptPublication, pair: Pair, place: KeyPlace, tseq: int) -> bool:
    """Whether a total comes at a higher place than those that the subscriber had on the pair; the first that does not
    is told of."""
    highest = place.highest
    if highest is None or tseq > highest[0]:
        place.highest = (tseq, p.id, p.had[life.number][0])
        return True
    if tseq == highest[0]:
        return True
    name, other = view.name(p.id), view.name(highest[1])
    text = (
        f"{life.name} delivered {name} at {p.had[life.number][0]} after {other} at {highest[2]}, though their places "
        f"are {tseq} and {highest[0]} (both name {pair_name(pair)})"
    )
    view.tell("tseq", p.had[life.number][2], life.node, (name, other), text)
    return False


def forget(view: LiveView, p: KeptPublication) -> None:
    if p.place is not None and view.memory.places.get((p.lane, p.place.tseq)) == p.number:
        del view.memory.places[p.lane, p.place.tseq]


def _tell_shared(view: LiveView, first: KeptPublication, second: KeptPublication) -> None:
    assert second.place is not None
    name, other, place = view.name(second.id), view.name(first.id), second.place
    text = f"{place.name} was told that {name} has the place {place.tseq}, which {other} has"
    view.tell("tseq", place.time_us, place.node, (name, other), text)
