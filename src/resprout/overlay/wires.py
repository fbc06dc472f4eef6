"""What an overlay without a tree asks of its owner: to speak to members by name, time, and to be heard.

Such an overlay is a pure part. It is told what other members say, and who cannot be reached; here it says what it
wants. The owner opens sessions where a message needs one, and closes those that nobody needs.
"""

from typing import Protocol

import msgspec

from resprout.core.contract import Outcome, ProtocolMessage, Timer


class OverlayMember(msgspec.Struct, frozen=True, array_like=True):
    name: str
    address: str = ""
    """Where it listens; empty where names are enough to connect."""


class Wires(Protocol):
    def say(self, member: OverlayMember, message: ProtocolMessage) -> None:
        """In order for each; without a session one is opened. Lost when that cannot be, and then `gone` is told."""

    def wake(self, timer: Timer, after_us: int) -> None: ...
    def let_sleep(self, timer: Timer) -> None: ...
    def tell(self, outcome: Outcome) -> None: ...
