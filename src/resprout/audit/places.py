"""The place of a total that subscribers are told (`tseq`) is what it is said to be.

- A total has one place: whoever is told one is told the same.
- A place has one total, also where several travel together; each lane has places of its own.
- Each subscriber delivers totals that are bound to each other (`Publication.lines`) in the order of the places that it
  is told.

Totals that are not bound to each other may be delivered in any order, whatever their places. A run need not tell any.
"""

from collections.abc import Iterator

from resprout.audit.history import History
from resprout.audit.naming import pair_name
from resprout.audit.totals import TotalOrder
from resprout.audit.verdict import Anomaly


def check_places(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    yield from _told_differently(history)
    yield from _shared(history)
    yield from _against_the_order(history, order)


def _told_differently(history: History) -> Iterator[Anomaly]:
    for number, other in history.other_claims.items():
        first = history.claims[number]
        here, there, name = history.lives[other.life], history.lives[first.life], history.name(number)
        text = f"{here.name} was told that {name} has the place {other.tseq}, but {there.name} that it has {first.tseq}"
        yield Anomaly("tseq", other.time_us, here.node, (name,), text)


def _shared(history: History) -> Iterator[Anomaly]:
    """All totals at one place but the one that was published first."""
    owners: dict[tuple[str, int], int] = {}
    for number in sorted(history.claims):
        claim = history.claims[number]
        owner = owners.setdefault((history.publications[number].lane, claim.tseq), number)
        if owner != number:
            life, name, other = history.lives[claim.life], history.name(number), history.name(owner)
            text = f"{life.name} was told that {name} has the place {claim.tseq}, which {other} has"
            yield Anomaly("tseq", claim.time_us, life.node, (name, other), text)


def _against_the_order(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    """Each total once that a subscriber delivered after one with a higher place."""
    if order.witnessed:
        return
    told: set[tuple[int, int]] = set()
    for pair, chains in order.chains.items():
        for life_number, chain in chains.items():
            life = history.lives[life_number]
            highest, last = -1, -1
            for number in chain:
                tseq = life.first[number].tseq
                if tseq is None:
                    continue
                if tseq > highest or last < 0:
                    highest, last = tseq, number
                elif tseq < highest and (life_number, number) not in told:
                    told.add((life_number, number))
                    name, other = history.name(number), history.name(last)
                    text = (
                        f"{life.name} delivered {name} at {life.first[number].position} after {other} at "
                        f"{life.first[last].position}, though their places are {tseq} and {highest} "
                        f"(both name {pair_name(pair)})"
                    )
                    yield Anomaly("tseq", life.first[number].time_us, life.node, (name, other), text)
