"""Holds back whoever has too much under way, and releases it at half of that.

A *source* is a neighbour or a client; what counts against it, and in which unit, the stack says. Several may share one
account.
"""

from collections.abc import Callable

from resprout.core.contract import Effect, Hold, Release


class BackPressure:
    __slots__ = ("_account", "_low", "holding", "most")

    def __init__(self, most: int, account: Callable[[str], int]) -> None:
        """`account` tells what counts against a source that is held."""
        self.most = most
        """More than that, and a source is held."""
        self._low = max(1, most // 2)
        self._account = account
        self.holding: dict[str, None] = {}
        """Who is held back now."""

    def check(self, source: str, amount: int, out: list[Effect]) -> None:
        """So much counts against it now."""
        if amount > self.most and source not in self.holding:
            self.holding[source] = None
            out.append(Hold(source))

    def forget(self, source: str) -> None:
        """The session is over, and its hold with it."""
        self.holding.pop(source, None)

    def release(self, out: list[Effect]) -> None:
        """At the end of a step in which somebody is held back."""
        for source in [source for source in self.holding if self._account(source) < self._low]:
            del self.holding[source]
            out.append(Release(source))
