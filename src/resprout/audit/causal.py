"""FIFO and causal order, exactly, under partial subscription.

**FIFO**: at each subscriber, the ordered publications of one client, and of one lane, come in the order of
(incarnation, seq). Every publication that comes after a later one of its client is an anomaly. The eventual stream may
overtake, and is not checked.

**Causal order**: the direct dependencies of a publication are its client's previous publication and what the client's
life was given since. `eventual` publications depend on nothing, and nothing depends on them or on anything through
them. For a subscriber s, L(x) is the latest place at s of anything that x depends on, however long the chain and
through whatever topics, also those that s does not receive:

    L(x) = max over direct dependencies d of x of max(place of d at s, L(d))

A `causal` or `total` publication m violates at s when s delivered it at a place before L(m). A dependency that s was
owed and never got has no place: it violates as long as it was due when s delivered m (see `audit.loss`), so the latest
such row is carried along like L.

Where order holds within each topic, only publications of the same topic are dependencies. A run that promises delivery
only with some probability may miss dependencies, and nothing that depends on them violates.

The check makes one pass over the publications per subscriber. Of what a client was given between two of its
publications it looks only at the latest of each client's life, since the chain through it leads to the others.

All violations are counted and the first ones are explained. The cause of m is the dependency that L(m) comes from;
`Ways` finds the chain from it by one search for each cause, however many publications depend on it.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from resprout.audit.history import History
from resprout.audit.records import ClientLife, MessageId, PublicationFacts, PublicationRecord, listed
from resprout.audit.verdict import EXPLAINED_MAX, Anomaly, NamedLife, Witness
from resprout.core.guarantee import Guarantee

Line = TypeVar("Line", bound=Hashable)
"""What keeps its order: such as a publisher and a lane."""
Delivered = tuple[MessageId, int]
"""A publication and its position at the subscriber."""
Newest = dict[tuple[str, str], Delivered]
"""The latest at a subscriber, by publisher and lane."""

DirectCauses = list[tuple[int, ...]]
"""For each publication, the dependencies that imply all others, all of them earlier."""
Later = TypeVar("Later", bound=PublicationFacts)

SEARCHED_MIN: Final = 1_000_000
"""Publications that may be looked at in any case."""
ROUNDS: Final = 8
_FAR: Final = 1 << 60


def overtaken_by(newest: dict[Line, Delivered], line: Line, id: MessageId, position: int) -> Delivered | None:
    """What came before it on this line, though it is later; None when it is in order, and then it is the newest."""
    last = newest.get(line)
    if last is None or (id[1], id[3]) > (last[0][1], last[0][3]):
        newest[line] = (id, position)
        return None
    return last


def check_delivery(
    w: Witness, life: NamedLife, newest: Newest, id: MessageId, lane: str, position: int, time_us: int
) -> Anomaly | None:
    last = overtaken_by(newest, (id[0], lane), id, position)
    if last is None:
        return None
    name, later = w.naming.message(id), w.naming.message(last[0])
    text = f"{life.name} delivered {name} at {position} after {later} at {last[1]}, though {id[0]} published it first"
    return Anomaly("fifo", time_us, life.node, (name, later), text)


def check_fifo(history: History) -> Iterator[Anomaly]:
    for life in history.lives:
        newest: Newest = {}
        for number in life.sequence:
            p = history.publications[number]
            if p.ordered:
                d = life.first[number]
                wrong = check_delivery(history, life, newest, p.id, p.lane, d.position, d.time_us)
                if wrong is not None:
                    yield wrong


class _Violation(NamedTuple):
    """In the order in which a verdict tells them."""

    time_us: int
    node: str
    name: str
    number: int
    life: int
    cause: int
    place: int
    """Of the cause at the subscriber; -1 when it never got it."""


def check_causal(history: History, owed: bytearray, explained_max: int = EXPLAINED_MAX) -> tuple[list[Anomaly], int]:
    """The first violations, explained; and how many there are in all."""
    links = direct_causes(history)
    missing = {} if history.promise.is_probable else _missing(history, owed)
    first: list[_Violation] = []
    count = 0
    for life in history.lives:
        mine = list(_violations(history, life, links, missing.get(life.number, {})))
        count += len(mine)
        first = sorted([*first, *mine])[:explained_max]
    return [*_explained(history, links, first)], count


def _violations(
    history: History, life: ClientLife, links: DirectCauses, missing: dict[int, int]
) -> Iterator[_Violation]:
    judged = [n for n in life.sequence if history.publications[n].guarantee >= Guarantee.CAUSAL]
    if not judged:
        return
    places = _places(history, life)
    latest = latest_of(links, places)
    lost = _spread(missing, len(places))
    lost_latest = latest_of(links, lost) if missing else lost
    late = {number for number in judged if latest[number] > life.first[number].position}
    without = {number for number in judged if lost_latest[number] > life.first[number].row} - late
    causes = sources_of(links, places) if late else []
    lost_causes = sources_of(links, lost) if without else []
    for number in judged:
        cause = causes[number] if number in late else lost_causes[number] if number in without else -1
        if cause >= 0:
            time_us = life.first[number].time_us
            place = places[cause] if number in late else -1
            yield _Violation(time_us, life.node, history.name(number), number, life.number, cause, place)


def _explained(history: History, links: DirectCauses, violations: Sequence[_Violation]) -> Iterator[Anomaly]:
    """Those of one cause together, as long as there are means to search."""
    last: dict[int, int] = {}
    for v in violations:
        last[v.cause] = max(last.get(v.cause, -1), v.number)
    ways = Ways(history, links)
    known = {cause: ways.search(cause, end) for cause, end in last.items()}
    for v in violations:
        if (way := known[v.cause]) is not None:
            life, place = history.lives[v.life], v.place if v.place >= 0 else None
            between = [history.publications[n] for n in way.between(v.number) or ()]
            delivered = (history.id_of(v.number), life.first[v.number].position)
            yield out_of_order(history, life, delivered, v.time_us, history.id_of(v.cause), place, between)


class _Heard:
    """What clients were given, `eventual` aside, lane by lane."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._of_life: dict[int, dict[str, tuple[list[int], list[int]]]] = {}
        """By life and lane: places in what it heard, and the publications there."""

    def before(self, p: PublicationRecord) -> list[int]:
        """What its client's life was given since its previous publication."""
        publications = self._history.publications
        places, numbers = self._lanes(p.life).get(p.lane, ([], []))
        previous = publications[p.previous] if p.previous >= 0 else None
        begin = previous.heard if previous is not None and previous.life == p.life else 0
        return numbers[bisect_left(places, begin) : bisect_left(places, p.heard)]

    def _lanes(self, life: int) -> dict[str, tuple[list[int], list[int]]]:
        known = self._of_life.get(life)
        if known is None:
            known = self._of_life[life] = {}
            for place, number in enumerate(self._history.lives[life].heard):
                p = self._history.publications[number]
                if p.ordered:
                    places, numbers = known.setdefault(p.lane, ([], []))
                    places.append(place)
                    numbers.append(number)
        return known


def direct_causes(history: History) -> DirectCauses:
    """For each publication, the dependencies that imply all others."""
    publications = history.publications
    heard = _Heard(history)
    links: DirectCauses = []
    for p in publications:
        if not p.ordered:
            links.append(())
            continue
        newest: dict[int, int] = {}
        for number in heard.before(p):
            life = publications[number].life
            if newest.get(life, -1) < number:
                newest[life] = number
        links.append((p.previous, *newest.values()) if p.previous >= 0 else tuple(newest.values()))
    return links


def _places(history: History, life: ClientLife) -> list[int]:
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


def latest_of(links: DirectCauses, own: list[int]) -> list[int]:
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


def sources_of(links: DirectCauses, own: list[int]) -> list[int]:
    """For each publication, which one L comes from; the oldest where several have the same `own`, so that one that is
    missing is the cause of whatever depends on it. -1 for none."""
    sources: list[int] = []
    reach = own.copy()
    origin = list(range(len(own)))
    for number, dependencies in enumerate(links):
        bound, source = -1, -1
        for dependency in dependencies:
            value = reach[dependency]
            if value > bound or (value == bound and origin[dependency] < source):
                bound, source = value, origin[dependency]
        sources.append(source if bound >= 0 else -1)
        if bound > reach[number] or (bound == reach[number] and bound >= 0):
            reach[number], origin[number] = bound, source
    return sources


def _missing(history: History, owed: bytearray) -> dict[int, dict[int, int]]:
    """By life, the ordered publications that it was owed and never got, each with the row until which it was due."""
    missing: dict[int, dict[int, int]] = {}
    for p in history.publications:
        if p.ordered and owed[p.number]:
            for life, until in history.due[p.number]:
                if not history.lives[life].has(p.number):
                    missing.setdefault(life, {})[p.number] = until
    return missing


def out_of_order(
    w: Witness,
    life: NamedLife,
    delivered: Delivered,
    time_us: int,
    cause: MessageId,
    place: int | None,
    between: Sequence[PublicationFacts] | None,
) -> Anomaly:
    """`place`: of the cause at the subscriber, if it ever got it. `between`: the way from the cause to what was
    delivered before or without it; None when it cannot be told any more."""
    name, cause_name = w.naming.message(delivered[0]), w.naming.message(cause)
    words = f"but never {cause_name}" if place is None else f"before {cause_name} at {place}"
    names = [w.naming.message(p.id) for p in between or ()]
    steps = [f"{step} on topic {p.topic}" for step, p in zip(names, between or (), strict=True)]
    how = f"through {listed(steps)}" if steps else "directly"
    how = "through publications that are forgotten" if between is None else how
    text = f"{life.name} delivered {name} at {delivered[1]} {words}, on which it depends {how}"
    return Anomaly("causal", time_us, life.node, (name, cause_name, *names), text)


class Way:
    """From one cause to whatever depends on it."""

    def __init__(
        self,
        cause: PublicationFacts,
        had: Mapping[int, int],
        later: Iterable[Later],
        links: Callable[[Later], Iterable[int]],
    ) -> None:
        """`had`: by life that was given the cause, the row. `later`: what may depend on it, in order; `links`: what
        each of those depends on directly."""
        direct = {**had, cause.life: cause.row}
        self._back = {cause.number: (0, -1, cause.life)}
        """By publication: how many others are between it and the cause, the last of them, and its life."""
        back = self._back
        for p in later:
            best, via = _FAR, -1
            if p.lane == cause.lane and (direct.get(p.life, p.row) < p.row or p.previous == cause.number):
                best = 0
            else:
                for dependency in links(p):
                    if (known := back.get(dependency)) is None:
                        continue
                    if dependency == p.previous and known[2] == p.life:
                        if known[0] < best:
                            best, via = known[:2]
                    elif known[0] + 1 < best:
                        best, via = known[0] + 1, dependency
            if best < _FAR:
                back[p.number] = (best, via, p.life)

    def between(self, number: int) -> list[int] | None:
        """The steps from the cause to a publication, without both; None when no way is known."""
        if number not in self._back:
            return None
        steps = []
        while (number := self._back[number][1]) >= 0:
            steps.append(number)
        return steps[::-1]


class Ways:
    """Searches as long as that stays in proportion to the run: at most as if from its begin to its end a few times."""

    def __init__(self, history: History, links: DirectCauses) -> None:
        self._history = history
        self._links = links
        self._means = max(SEARCHED_MIN, ROUNDS * len(links))

    def search(self, cause: int, end: int) -> Way | None:
        """From the cause up to a publication that depends on it; None when the means are used up."""
        if end - cause > self._means:
            return None
        self._means -= end - cause
        publications, links = self._history.publications, self._links
        had = {life.number: life.first[cause].row for life in self._history.lives if cause in life.first}
        return Way(publications[cause], had, publications[cause + 1 : end + 1], lambda p: links[p.number])
