"""Where nothing passes at the moment: cut links and partitions, pure bookkeeping."""

from collections.abc import Iterable

Pair = tuple[str, str]


class Cuts:
    def __init__(self) -> None:
        self._links: set[Pair] = set()
        self._partitions: list[tuple[frozenset[str], set[Pair]]] = []
        """One side of each, and the links across it that were healed since."""

    def cut(self, one: str, other: str) -> None:
        self._links.add(_pair(one, other))

    def partition(self, side: Iterable[str]) -> None:
        """Separate these nodes from everybody else, those that join later included."""
        self._partitions.append((frozenset(side), set()))

    def heal(self, one: str, other: str) -> None:
        """This link passes again, whatever had cut it."""
        pair = _pair(one, other)
        self._links.discard(pair)
        for _, healed in self._partitions:
            healed.add(pair)

    def heal_all(self) -> None:
        self._links.clear()
        self._partitions.clear()

    def between(self, one: str, other: str) -> bool:
        """Whether nothing passes between these two."""
        if not self._links and not self._partitions:
            return False
        pair = _pair(one, other)
        return pair in self._links or any(
            (one in side) != (other in side) and pair not in healed for side, healed in self._partitions
        )


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)
