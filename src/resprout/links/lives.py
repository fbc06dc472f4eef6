"""What a stack may know of clients and brokers beyond its own sessions."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class KnowsLives(Protocol):
    """A stack that hears of clients that are elsewhere."""

    def latest_life(self, client: str) -> int:
        """0 for none."""
        ...


@runtime_checkable
class KnowsBrokers(Protocol):
    """A stack that knows brokers with which it has no session."""

    def knows_broker(self, name: str) -> bool:
        """Whether a broker is, or was, called so: then no client is."""
        ...
