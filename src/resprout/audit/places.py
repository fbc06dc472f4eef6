"""The place of a total that subscribers are told (`tseq`) is what it is said to be.

- A total has one place: whoever is told one is told the same.
- A place has one total, also where several travel together; each lane has places of its own.
- Each subscriber delivers totals that are bound to each other (`Publication.lines`) in the order of the places that it
  is told.

Totals that are not bound to each other may be delivered in any order, whatever their places. A run need not tell any.
"""

from collections.abc import Iterator

from resprout.audit.history import History
from resprout.audit.naming import MessageId, pair_name
from resprout.audit.records import ClaimedPlace
from resprout.audit.totals import TotalOrder
from resprout.audit.verdict import Anomaly
from resprout.audit.witness import NamedLife, Witness
from resprout.core.keys import Pair

PlacedTotal = tuple[int, MessageId, int]
"""A total at a subscriber: the place that was told for it, which it is, and its position."""


def check_places(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    yield from _told_differently(history)
    yield from _shared(history)
    yield from _against_the_order(history, order)


def _told_differently(history: History) -> Iterator[Anomaly]:
    for number, other in history.other_claims.items():
        yield told_differently(history, history.id_of(number), other, history.claims[number])


def _shared(history: History) -> Iterator[Anomaly]:
    """All totals at one place but the one that was published first."""
    owners: dict[tuple[str, int], int] = {}
    for number in sorted(history.claims):
        claim = history.claims[number]
        owner = owners.setdefault((history.publications[number].lane, claim.tseq), number)
        if owner != number:
            yield shared(history, history.id_of(number), claim, history.id_of(owner))


def _against_the_order(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    """Each total once that a subscriber delivered after one with a higher place."""
    if order.witnessed:
        return
    told: set[tuple[int, int]] = set()
    for pair, chains in order.chains.items():
        for life_number, chain in chains.items():
            life = history.lives[life_number]
            highest: PlacedTotal | None = None
            for number in chain:
                d = life.first[number]
                if d.tseq is None:
                    continue
                if highest is None or d.tseq > highest[0]:
                    highest = (d.tseq, d.id, d.position)
                elif d.tseq < highest[0] and (life_number, number) not in told:
                    told.add((life_number, number))
                    placed = (d.tseq, d.id, d.position)
                    yield against_the_order(history, life, pair, placed, d.time_us, highest)


def told_differently(w: Witness, id: MessageId, claim: ClaimedPlace, first: ClaimedPlace) -> Anomaly:
    name = w.naming.message(id)
    text = f"{claim.name} was told that {name} has the place {claim.tseq}, but {first.name} that it has {first.tseq}"
    return Anomaly("tseq", claim.time_us, claim.node, (name,), text)


def shared(w: Witness, id: MessageId, claim: ClaimedPlace, owner: MessageId) -> Anomaly:
    """`owner`: the total that has the place."""
    name, other = w.naming.message(id), w.naming.message(owner)
    text = f"{claim.name} was told that {name} has the place {claim.tseq}, which {other} has"
    return Anomaly("tseq", claim.time_us, claim.node, (name, other), text)


def against_the_order(
    w: Witness, life: NamedLife, pair: Pair, placed: PlacedTotal, time_us: int, highest: PlacedTotal
) -> Anomaly:
    name, other = w.naming.message(placed[1]), w.naming.message(highest[1])
    text = (
        f"{life.name} delivered {name} at {placed[2]} after {other} at {highest[2]}, though their places are "
        f"{placed[0]} and {highest[0]} (both name {pair_name(pair)})"
    )
    return Anomaly("tseq", time_us, life.node, (name, other), text)
