"""When a run in real time is over.

Nobody can look at all processes and all wires at one moment. So the run is over when every application is done and
everything that was asked has an outcome, and that has been so for a while in which nothing was observed; or, where some
outcome never comes (a broker is dead, a subscriber frozen for good), after a much longer while in which nothing at all
was observed. Then what has not been delivered is lost, and the judge will say so.

Where something went wrong, brokers act on what they do not hear: so the last fault must be longer ago than it takes
them to suspect a broker and to declare it dead, and a repair that has begun is awaited like an outcome.
"""

from typing import Final

import msgspec

from resprout.links.options import LinkOptions
from resprout.stacks.stack import WaitTimes
from resprout.trace import kinds
from resprout.trace.schema import Row

SETTLE_US: Final = 500_000
"""Longer than reports are apart: they tell that every publication was delivered, and nothing is under way then."""
UNTOLD_SETTLE_US: Final = 2_000_000
"""With a stack that gives no receipt `delivered`, what is under way is only noticed when it arrives. This is longer
than a busy machine keeps a process waiting."""

WORK: Final = frozenset((kinds.REPAIR_BEGIN, kinds.REPAIR_END, "fenced", "moved", "joined"))
"""Notes of brokers that are at work. Others (suspicions) may come again and again of one that is dead for good."""


class Patience(msgspec.Struct, frozen=True):
    """How long brokers and clients wait for each other before they act."""

    links: LinkOptions
    stack: WaitTimes

    @property
    def suspicion_us(self) -> int:
        """From the last sign of life of a broker to the beginning of its repair, at most."""
        return SETTLE_US + (self.links.silence_us or 0) + self.stack.death_us

    @property
    def patience_us(self) -> int:
        """Nobody waits longer than this before he acts again: a peer is suspected after a silence, given up some time
        later, and attempts to connect are never further apart."""
        given_up_us = (self.links.silence_us or 0) + self.links.session_linger_us
        return SETTLE_US + max(given_up_us, self.suspicion_us + self.stack.return_us, 2 * self.links.reconnect_us_max)


class Repairs:
    """What brokers say about their work."""

    def __init__(self) -> None:
        self.heard = 0
        """It stands still when nobody works."""
        self._open: dict[str, set[str]] = {}
        """By broker: the dead ones that it takes part in repairing."""

    @property
    def open(self) -> int:
        """How many brokers have begun a repair and not said that it ended."""
        return len(self._open)

    def hear(self, row: Row) -> None:
        if row.kind in WORK:
            self.heard += 1
        if row.kind == kinds.REPAIR_BEGIN:
            self._open.setdefault(row.node, set()).update((row.detail or "").split())
        elif row.kind == kinds.REPAIR_END and row.node in self._open:
            self._open[row.node].difference_update((row.detail or "").split())
            if not self._open[row.node]:
                del self._open[row.node]
        elif row.kind in (kinds.CRASH, "fenced", "moved"):
            self._open.pop(row.node, None)


class Calm:
    """`way_us`: the longest way through the network; nothing is under way for longer than that. `tells_delivered`:
    whether clients are told when everybody has what they published."""

    def __init__(self, way_us: int, patience: Patience, tells_delivered: bool = True) -> None:
        self._settle_us = (SETTLE_US if tells_delivered else UNTOLD_SETTLE_US) + 2 * way_us
        self._suspicion_us = patience.suspicion_us + 2 * way_us
        self._patience_us = patience.patience_us + 4 * way_us
        self._observed: object = None
        self._since_us = 0

    def over(self, now_us: int, observed: object, busy: bool, pending: int, fault_us: int | None = None) -> bool:
        """`observed`: a value that changes whenever anything is observed. `busy`: somebody will act of his own accord.
        `pending`: how many things have no outcome. `fault_us`: when something last went wrong."""
        if observed != self._observed or busy:
            self._observed = observed
            self._since_us = now_us
            return False
        if fault_us is not None and now_us - fault_us < self._suspicion_us:
            return False
        calm_us = now_us - self._since_us
        return calm_us >= (self._patience_us if pending else self._settle_us)
