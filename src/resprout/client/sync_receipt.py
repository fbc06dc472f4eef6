"""A receipt for code that blocks."""

from typing import Any

from resprout.client.background import Background, within
from resprout.client.receipts import Receipt


class BlockingReceipt:
    """Of one publication. Each method blocks, and raises PublishError when that will not come."""

    __slots__ = ("_background", "_receipt")

    def __init__(self, background: Background, receipt: Receipt) -> None:
        self._background = background
        self._receipt = receipt

    def accepted(self, timeout: float | None = None) -> None:
        """Returns when the edge broker has it."""
        self._background.call(within(timeout, self._receipt.accepted))

    def safe(self, timeout: float | None = None) -> None:
        """Returns when it survives the crash of any f brokers."""
        self._background.call(within(timeout, self._receipt.safe))

    def delivered(self, timeout: float | None = None) -> None:
        """Returns when every correct subscriber that is owed it has it."""
        self._background.call(within(timeout, self._receipt.delivered))

    @property
    def seq(self) -> int:
        return self._receipt.seq

    @property
    def id(self) -> tuple[Any, ...]:
        """Equal to `Message.id` of the same publication, wherever it is delivered."""
        return self._receipt.id

    @property
    def state(self) -> str:
        """How far it has come so far: published, accepted, safe or delivered; or refused."""
        return self._receipt.state

    @property
    def copies(self) -> int:
        """On how many brokers `safe` rests; 0 as long as it is not safe. See `resprout.client.receipts.Receipt`."""
        return self._receipt.copies

    @property
    def waiting_for(self) -> str:
        """Why it takes so long, when the broker has said so; empty when nothing is known, or when it goes on."""
        return self._receipt.waiting_for

    def __repr__(self) -> str:
        return repr(self._receipt)
