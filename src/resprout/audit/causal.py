"""Causal order, exactly, under partial subscription.

The direct dependencies of a publication are its client's previous publication and what the client's life was given
since. `eventual` publications are no part of this: they depend on nothing, and nothing depends on them or on anything
through them. For a subscriber s, L(x) is the latest place at s of anything that x depends on, however long the chain
and through whatever topics, also those that s does not receive:

    L(x) = max over direct dependencies d of x of max(place of d at s, L(d))

A `causal` or `total` publication m violates at s when s delivered it at a place before L(m). A dependency that s was
owed and never got has no place: it violates as long as it was due when s delivered m (see `audit.owed`), and so the
latest such row is carried along like L.

One pass over the publications per subscriber. Of what a client was given between two of its publications only the
latest of each client's life is kept for this pass, since the chain through it leads to the others; explanations look
at all of it.
"""

from collections.abc import Iterator, Sequence

from resprout.audit.history import History
from resprout.audit.naming import listed
from resprout.audit.owed import Due
from resprout.audit.records import Life, Publication
from resprout.audit.verdict import Anomaly
from resprout.core.guarantee import Guarantee


def check_causal(history: History, due: Sequence[tuple[Due, ...]], owed: bytearray) -> Iterator[Anomaly]:
    links = _links(history)
    missing = _missing(history, due, owed)
    for life in history.lives:
        judged = [n for n in life.sequence if history.publications[n].guarantee >= Guarantee.CAUSAL]
        if not judged:
            continue
        places = _places(history, life)
        latest = _latest(links, places)
        lost = _spread(missing.get(life.number, {}), len(places))
        lost_latest = _latest(links, lost) if life.number in missing else lost
        for number in judged:
            d = life.first[number]
            if latest[number] > d.position:
                path = _path(history, places, latest, number, d.position)
                cause = f"before {history.name(path[-1])} at {places[path[-1]]}"
                yield _anomaly(history, life, path, cause)
            elif lost_latest[number] > d.row:
                path = _path(history, lost, lost_latest, number, d.row)
                yield _anomaly(history, life, path, f"but never {history.name(path[-1])}")


def window(history: History, p: Publication) -> list[int]:
    """What its client's life was given since its previous publication, `eventual` aside."""
    life = history.lives[p.life]
    previous = history.publications[p.previous] if p.previous >= 0 else None
    begin = previous.heard if previous is not None and previous.life == p.life else 0
    return [number for number in life.heard[begin : p.heard] if history.publications[number].ordered]


def _links(history: History) -> list[tuple[int, ...]]:
    """For each publication, the dependencies that imply all others."""
    publications = history.publications
    links: list[tuple[int, ...]] = []
    for p in publications:
        if not p.ordered:
            links.append(())
            continue
        newest: dict[int, int] = {}
        for number in window(history, p):
            life = publications[number].life
            if newest.get(life, -1) < number:
                newest[life] = number
        links.append((p.previous, *newest.values()) if p.previous >= 0 else tuple(newest.values()))
    return links


def _places(history: History, life: Life) -> list[int]:
    places = [-1] * len(history.publications)
    for number, d in life.first.items():
        if history.publications[number].ordered:
            places[number] = d.position
    return places


def _spread(sparse: dict[int, int], size: int) -> list[int]:
    full = [-1] * size
    for number, value in sparse.items():
        full[number] = value
    return full


def _latest(links: list[tuple[int, ...]], own: list[int]) -> list[int]:
    """L: for each publication the highest `own` of anything it depends on, -1 when there is none."""
    latest: list[int] = []
    reach = own.copy()
    """The larger of `own` and L, for what depends on it."""
    for number, dependencies in enumerate(links):
        bound = -1
        for dependency in dependencies:
            if reach[dependency] > bound:
                bound = reach[dependency]
        latest.append(bound)
        if bound > reach[number]:
            reach[number] = bound
    return latest


def _missing(history: History, due: Sequence[tuple[Due, ...]], owed: bytearray) -> dict[int, dict[int, int]]:
    """By life, the ordered publications that it was owed and never got, each with the row until which it was due."""
    missing: dict[int, dict[int, int]] = {}
    for p in history.publications:
        if p.ordered and owed[p.number]:
            for life, until in due[p.number]:
                if not history.lives[life].has(p.number):
                    missing.setdefault(life, {})[p.number] = until
    return missing


def _anomaly(history: History, life: Life, path: list[int], cause_words: str) -> Anomaly:
    """`path` leads from the violation back to its cause."""
    number, between, cause = path[0], path[-2:0:-1], path[-1]
    d, name = life.first[number], history.name(number)
    steps = [f"{history.name(n)} on topic {history.publications[n].topic}" for n in between]
    how = f"through {listed(steps)}" if steps else "directly"
    text = f"{life.name} delivered {name} at {d.position} {cause_words}, on which it depends {how}"
    messages = (name, history.name(cause), *(history.name(n) for n in between))
    return Anomaly("causal", d.time_us, life.node, messages, text)


def _path(history: History, own: list[int], latest: list[int], number: int, bound: int) -> list[int]:
    """The way from a publication back to something beyond the bound that it depends on, through as few clients as
    possible: what a client published or was given at any time before, in one life, is one step away. Only what leads
    beyond the bound is followed, which L tells."""
    back = {number: number}
    level = [number]
    while level:
        following: list[int] = []
        for start in level:
            here = start
            while True:
                p = history.publications[here]
                given = window(history, p)
                for there in [p.previous, *given] if p.previous >= 0 else given:
                    if own[there] > bound:
                        return [*_way(back, start), there]
                for there in given:
                    if there not in back and latest[there] > bound:
                        back[there] = start
                        following.append(there)
                if p.previous < 0 or p.previous in back or latest[p.previous] <= bound:
                    break
                here, life = p.previous, p.life
                back[here] = start
                if history.publications[here].life != life:
                    following.append(here)
                    break
        level = following
    raise AssertionError(f"{history.name(number)} depends on nothing beyond {bound}")


def _way(back: dict[int, int], end: int) -> list[int]:
    way = [end]
    while back[way[-1]] != way[-1]:
        way.append(back[way[-1]])
    return way[::-1]
