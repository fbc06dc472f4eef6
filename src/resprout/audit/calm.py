"""When nothing happened to nodes and links for so long that what one broker knew is known to all.

Durable subscriptions are judged by what brokers must know of each other (`audit.durable`). The trace does not show what
they know. But while nothing fails, an acknowledgement reaches the broker of its subscription at once, and all others
with the next sign of life. `QUIET_US` is many times what that takes, also over slow links.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from resprout.audit.subscriptions import NEVER
from resprout.trace import kinds

QUIET_US: Final = 15_000_000
UNREST: Final = frozenset(
    (
        kinds.CRASH, kinds.RECOVER, kinds.FREEZE, kinds.UNFREEZE, kinds.HANG, kinds.UNHANG, kinds.JOIN, kinds.DOUBLE,
        kinds.LEAVE, kinds.CUT, kinds.HEAL, kinds.PARTITION, kinds.REPAIR_BEGIN, kinds.REPAIR_END, "restart", "fenced",
        "durable",
    )
)  # fmt: skip
"""Kinds of rows after which brokers may know different things for a while."""
_OVER: Final = (kinds.CRASH, kinds.LEAVE)


class Shock(NamedTuple):
    """A row about a node or a link, of a kind in `UNREST`."""

    time_us: int
    kind: str
    node: str
    detail: str


class CalmTimes:
    """The times without any such row, in which no node was frozen and no link cut."""

    def __init__(self, shocks: Iterable[Shock]) -> None:
        self._spans: list[tuple[int, int]] = []
        """(begin, end), in order. The first one begins before everything."""
        hanging: set[tuple[str, str]] = set()
        begin: int | None = -NEVER
        for shock in shocks:
            if begin is not None and shock.time_us > begin:
                self._spans.append((begin, shock.time_us))
            _note(hanging, shock)
            begin = None if hanging else shock.time_us
        if begin is not None:
            self._spans.append((begin, NEVER))

    def quiet_after(self, time_us: int, until_us: int) -> int:
        """The first moment at which it had been calm for `QUIET_US` on end, all of it between these times; or NEVER."""
        for begin, end in self._spans:
            quiet = max(begin, time_us) + QUIET_US
            if quiet <= min(end, until_us):
                return quiet
        return NEVER

    def covers(self, from_us: int, to_us: int) -> bool:
        """Whether it was calm between these times, and for `QUIET_US` before them."""
        return any(begin + QUIET_US <= from_us and to_us < end for begin, end in self._spans)


def _note(hanging: set[tuple[str, str]], shock: Shock) -> None:
    kind, node, detail = shock.kind, shock.node, shock.detail
    if kind in (kinds.FREEZE, kinds.HANG):
        hanging.add((kind, node))
    elif kind == kinds.UNFREEZE:
        hanging.discard((kinds.FREEZE, node))
    elif kind == kinds.UNHANG:
        hanging.discard((kinds.HANG, node))
    elif kind in _OVER:
        hanging.discard((kinds.FREEZE, node))
        hanging.discard((kinds.HANG, node))
    elif kind == kinds.CUT:
        hanging.add((kinds.CUT, " ".join(sorted((node, detail)))))
    elif kind == kinds.PARTITION:
        hanging.add((kinds.PARTITION, ""))
    elif kind == kinds.HEAL and detail:
        hanging.discard((kinds.CUT, " ".join(sorted((node, detail)))))
    elif kind == kinds.HEAL:
        hanging -= {each for each in hanging if each[0] in (kinds.CUT, kinds.PARTITION)}
