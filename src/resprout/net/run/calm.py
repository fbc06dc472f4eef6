"""When a run in real time is over.

Nobody can look at all processes and all wires at one moment. So the run is over when every application is done and
everything that was asked has an outcome, and that has been so for a while in which nothing was observed; or, where some
outcome never comes (a broker is dead, a subscriber frozen for good), after a much longer while in which nothing at all
was observed. Then what has not been delivered is lost, and the judge will say so.
"""

from typing import Final

from resprout.links.options import LinkOptions

SETTLE_US: Final = 500_000
"""Longer than a busy machine keeps a process waiting, and than reports are apart."""


def patience_us(links: LinkOptions) -> int:
    """Nobody waits longer than this before he acts again: a peer is suspected after a silence, its session given up
    some time later, and attempts to connect are never further apart."""
    return SETTLE_US + max((links.silence_us or 0) + links.session_linger_us, 2 * links.reconnect_us_max)


class Calm:
    """`way_us`: the longest way through the network; nothing is under way for longer than that."""

    def __init__(self, way_us: int, links: LinkOptions) -> None:
        self._settle_us = SETTLE_US + 2 * way_us
        self._patience_us = patience_us(links) + 4 * way_us
        self._observed: object = None
        self._since_us = 0

    def over(self, now_us: int, observed: object, busy: bool, pending: int) -> bool:
        """`observed`: a value that changes whenever anything is observed. `busy`: somebody will act of his own accord.
        `pending`: how many things have no outcome."""
        if observed != self._observed or busy:
            self._observed = observed
            self._since_us = now_us
            return False
        calm_us = now_us - self._since_us
        return calm_us >= (self._patience_us if pending else self._settle_us)
