"""What arrives on links, in order, as far as no total holds it.

A publication that names a held pair and comes from a child waits, and everything behind it on that link: order on a
link is all that keeps FIFO and causal order. From the parent nothing ever has to wait: it held it itself.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from resprout.core.guarantee import Guarantee
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.messages import Metadata
from resprout_lab.ginger.totals import GingerTotals
from resprout_lab.ginger.window import GingerLink, WindowEntry


class Intake:
    def __init__(self, core: GingerCore, totals: GingerTotals) -> None:
        self._core = core
        self._totals = totals

    def hear(self, link: GingerLink, message: Metadata) -> None:
        entry = self._core.arrive(link, message)
        if message.bundle.guarantee is Guarantee.EVENTUAL and not self._core.options.eventual_waits:
            self._core.take_in_arrived(entry)
        else:
            link.pool.append((entry, partial(self._core.take_in_arrived, entry)))
            self.drain(link)

    def behind(self, handler: Callable[[GingerLink, Any], None]) -> Callable[[GingerLink, Any], None]:
        """What is heard in its place among the publications of its link."""

        def hear(link: GingerLink, message: Any) -> None:
            link.pool.append((None, partial(handler, link, message)))
            self.drain(link)

        return hear

    def drain(self, link: GingerLink) -> None:
        while link.pool and (link.is_parent or not self._is_held(link.pool[0][0])):
            link.pool.popleft()[1]()

    def drain_all(self) -> None:
        for link in self._core.open_links():
            self.drain(link)

    def release(self, link: GingerLink) -> None:
        """All of it, whatever is held."""
        while link.pool:
            link.pool.popleft()[1]()

    def _is_held(self, entry: WindowEntry | None) -> bool:
        if entry is None or entry.bundle.guarantee is Guarantee.EVENTUAL:
            return False
        return self._totals.holds(entry.bundle)
