"""What arrives on links, in order, as far as no total holds it.

A publication that names a held pair and comes from a child waits, and everything behind it on that link: order on a
link is all that keeps FIFO and causal order. From the parent nothing ever has to wait: it held it itself.
"""

from typing import Any

from resprout.core.contract import ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.messages import Metadata, Passed, TotalProcessed, TotalRequest
from resprout.stacks.ginger.totals import GingerTotals
from resprout.stacks.ginger.window import GingerLink, WindowEntry


class Intake:
    def __init__(self, core: GingerCore, totals: GingerTotals) -> None:
        self._core = core
        self._totals = totals

    def hear(self, link: GingerLink, message: Metadata | Passed | TotalRequest | TotalProcessed) -> None:
        entry = self._core.arrive(link, message) if isinstance(message, Metadata) else None
        if entry is not None and self._overtakes(entry):
            self._core.take_in_arrived(entry)
            return
        link.pool.append((message, entry))
        self.drain(link)

    def drain(self, link: GingerLink) -> None:
        while link.pool:
            message, entry = link.pool[0]
            if entry is not None and not link.is_parent and self._is_held(entry):
                return
            link.pool.popleft()
            self._handle(link, message, entry)

    def drain_all(self) -> None:
        for link in self._core.open_links():
            if link.pool:
                self.drain(link)

    def release(self, link: GingerLink) -> None:
        """All of it, whatever is held."""
        while link.pool:
            self._handle(link, *link.pool.popleft())

    def _is_held(self, entry: WindowEntry) -> bool:
        return entry.bundle.guarantee is not Guarantee.EVENTUAL and self._totals.holds(entry.bundle)

    def _overtakes(self, entry: WindowEntry) -> bool:
        return entry.bundle.guarantee is Guarantee.EVENTUAL and not self._core.options.eventual_waits

    def _handle(self, link: GingerLink, message: ProtocolMessage, entry: WindowEntry | None) -> None:
        typed: Any = message
        if entry is not None:
            self._core.take_in_arrived(entry)
        elif isinstance(message, Passed):
            for mark in message.marks:
                origin, reached = mark.origin, mark.seq
                if reached > self._core.seen.mark(origin):
                    self._core.seen.raise_to(origin, reached)
                    for other in self._core.open_links():
                        if other is not link:
                            other.skips[origin] = reached
        elif isinstance(message, TotalRequest):
            self._totals.request(message)
        else:
            self._totals.hear_processed(link, typed)
