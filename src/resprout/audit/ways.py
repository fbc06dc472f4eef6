"""How publications came to depend on one: the chains that lead from a cause, through as few clients as possible.

What a client published or was given at any time before, in one life, is one step away. The search runs forward, once
over the publications after the cause: for each it is known how few steps lead to it from the cause, and the last of
them. So it answers for everything that depends on the cause at once. Of what a client was given only the latest of each
life is looked at: the later a client publishes, the shorter its way from the cause; and whether it was given the cause
itself is known at once.
"""

from typing import Final

from resprout.audit.history import History

Links = list[tuple[int, ...]]
"""For each publication, the dependencies that imply all others, all of them earlier."""

SEARCHED_MIN: Final = 1_000_000
"""Publications that may be looked at in any case."""
ROUNDS: Final = 8
_FAR: Final = 1 << 60


class Way:
    """From one cause to whatever depends on it."""

    def __init__(self, cause: int, back: list[int]) -> None:
        self._cause = cause
        self._back = back

    def between(self, number: int) -> list[int]:
        """The steps from a publication back to the cause, without both."""
        steps = []
        while (number := self._back[number - self._cause]) >= 0:
            steps.append(number)
        return steps


class Ways:
    """Searches as long as that stays in proportion to the run: at most as if from its begin to its end a few times."""

    def __init__(self, history: History, links: Links) -> None:
        self._history = history
        self._links = links
        self._means = max(SEARCHED_MIN, ROUNDS * len(links))

    def search(self, cause: int, end: int) -> Way | None:
        """From the cause up to a publication that depends on it; None when the means are used up."""
        if end - cause > self._means:
            return None
        self._means -= end - cause
        publications, lives, links = self._history.publications, self._history.lives, self._links
        direct = {life.number: life.first[cause].row for life in lives if cause in life.first}
        direct[publications[cause].life] = publications[cause].row
        lane = publications[cause].lane
        steps, back = [0], [-1]
        for number in range(cause + 1, end + 1):
            p = publications[number]
            best, via = _FAR, -1
            if p.lane == lane and (direct.get(p.life, p.row) < p.row or p.previous == cause):
                best = 0
            else:
                for dependency in links[number]:
                    if dependency < cause:
                        continue
                    far = steps[dependency - cause]
                    if dependency == p.previous and publications[dependency].life == p.life:
                        if far < best:
                            best, via = far, back[dependency - cause]
                    elif far + 1 < best:
                        best, via = far + 1, dependency
            steps.append(best)
            back.append(via)
        return Way(cause, back)
