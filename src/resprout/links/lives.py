"""What a stack may know of clients beyond its own sessions."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class KnowsLives(Protocol):
    """A stack that hears of clients that are elsewhere."""

    def latest_life(self, client: str) -> int:
        """0 for none."""
        ...
