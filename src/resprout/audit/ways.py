"""How publications came to depend on one: the chains that lead from a cause, through as few clients as possible.

What a client published or was given at any time before, in one life, is one step away. The search runs forward, once
over the publications after the cause: for each it is known how few steps lead to it from the cause, and the last of
them. So it answers for everything that depends on the cause at once. Of what a client was given the latest of each life
is enough: the later a client publishes, the shorter its way from the cause; and whether it was given the cause itself
is known at once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from resprout.audit.history import History
from resprout.audit.records import PublicationFacts

DirectCauses = list[tuple[int, ...]]
"""For each publication, the dependencies that imply all others, all of them earlier."""
Later = TypeVar("Later", bound=PublicationFacts)

SEARCHED_MIN: Final = 1_000_000
"""Publications that may be looked at in any case."""
ROUNDS: Final = 8
_FAR: Final = 1 << 60


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
