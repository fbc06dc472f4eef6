"""What a log asks of the broker that hosts it."""

from typing import Protocol

from resprout.core.contract import Effect, ProtocolMessage


class LogPort(Protocol):
    def write(self, effect: Effect) -> None:
        """Change a store, before anything that this step sends leaves the broker."""

    def send(self, broker: str, message: ProtocolMessage) -> None:
        """Say something to another broker. It may be lost, with everything that was said to it before."""

    def do(self, effect: Effect) -> None:
        """Set a timer, read a store, or note something."""
