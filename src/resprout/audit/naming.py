"""How publications, clients, keys and times are written in verdicts: the one place."""

from collections.abc import Iterable

from resprout.core.keys import Pair

MessageId = tuple[str, int, str, int]
"""(publisher, incarnation, stream, seq)."""


class Naming:
    """Writes `c1:42`; `c1:e42` when it is of the eventual stream, which counts on its own; `c1.2:42` when the client
    published under more than one incarnation."""

    def __init__(self, published: Iterable[MessageId]) -> None:
        incarnation: dict[str, int] = {}
        self._several = {p for p, i, _, _ in published if incarnation.setdefault(p, i) != i}

    def message(self, id: MessageId) -> str:
        publisher, incarnation, stream, seq = id
        life = f".{incarnation}" if publisher in self._several else ""
        return f"{publisher}{life}:{'e' if stream == 'eventual' else ''}{seq}"


def life_name(node: str, ordinal: int) -> str:
    """A client that came back after a crash is another subscriber."""
    return node if ordinal == 0 else f"{node} (life {ordinal + 1})"


def pair_name(pair: Pair) -> str:
    """As a publication would name a key of another topic; the empty one is that of totals without keys."""
    return f"{pair[0]}#{pair[1]}" if pair[1] else f"{pair[0]} and no key"


def seconds(time_us: int) -> str:
    return f"{time_us / 1_000_000:.6f} s"


def listed(items: list[str], shown_max: int = 4) -> str:
    """`a`, `a and b`, `a, b and c`; the middle of a long list is only counted."""
    if len(items) > shown_max:
        items = [*items[: shown_max - 2], f"{len(items) - shown_max + 1} more", items[-1]]
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
