"""Live: how publications came to depend on one that is missing, through as few clients as possible.

As `audit.ways`, over what is remembered: one search forward from the cause answers for everything that depends on it.
"""

from collections.abc import Mapping

from resprout.audit.live.memory import KeptPublication


class LiveWay:
    """From one cause to all that is remembered and depends on it."""

    def __init__(self, publications: Mapping[int, KeptPublication], cause: KeptPublication, end: int) -> None:
        """`end`: the latest publication there is."""
        self.cause = cause.number
        self.end = end
        self._publications = publications
        self._back: dict[int, tuple[int, int]] = {}
        """By publication: how many others are between it and the cause, and the last of them, -1 for none."""
        for p in publications.values():
            if p.number > cause.number and p.past.get(cause.source, 0) >= cause.index:
                found = self._step(p, cause)
                if found is not None:
                    self._back[p.number] = found

    def between(self, number: int) -> list[KeptPublication] | None:
        """Nearest to the cause first; None when it cannot be told any more."""
        if number not in self._back:
            return None
        steps = []
        while (number := self._back[number][1]) >= 0:
            steps.append(self._publications[number])
        return steps[::-1]

    def _step(self, p: KeptPublication, cause: KeptPublication) -> tuple[int, int] | None:
        given = cause.had.get(p.life)
        if cause.life == p.life or cause.number == p.previous or (given is not None and given[1] < p.row):
            return 0, -1
        ways = [(self._back[number][0] + 1, number) for number in p.given if number in self._back]
        if (known := self._back.get(p.previous)) is not None:
            same_life = self._publications[p.previous].life == p.life
            ways.append(known if same_life else (known[0] + 1, p.previous))
        return min(ways, default=None)
