"""Bundles whose columns lie elsewhere, on a disk, until somebody needs them.

All that is asked of a bundle again and again stays: whose it is, which messages, where it belongs. `whole` brings it
back as it was; that is what leaves a broker, and what is read. A stowed bundle itself has no columns at all: whoever
forgets to ask for the whole gets an error, and not an empty message.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from resprout.core.bundle import Bundle


class SpillStore(Protocol):
    """Where bytes lie that need not survive the process. None of it takes time as far as a machine can tell."""

    @property
    def used(self) -> int:
        """Bytes on the disk now."""

    @property
    def places(self) -> int:
        """How many things lie there."""

    @property
    def trouble(self) -> str:
        """What the disk said last, if it refused something."""

    def put(self, content: bytes) -> Any | None:
        """Where it lies from now on; None when there is no room, or the disk does not take it."""

    def get(self, place: Any) -> bytes:
        """`StoreError` when it cannot be read, or is not what was put there."""

    def forget(self, place: Any) -> None: ...


MakeStore = Callable[[int], SpillStore]
"""A store for so many bytes at most."""


STOWED_COST: Final = 64
"""Bytes that one counts with where it was put aside: the allowance for everything around its columns."""


class StowedBundle(Bundle):
    __slots__ = ("_at", "_place", "_store")

    def __init__(self, bundle: Bundle, store: SpillStore, place: Any) -> None:
        self.publisher = bundle.publisher
        self.incarnation = bundle.incarnation
        self.first = bundle.first
        self.count = bundle.count
        self.stamp = bundle.stamp
        self.topic = bundle.topic
        self.keys = bundle.keys
        self.guarantee = bundle.guarantee
        self.last = bundle.last
        self.stream = bundle.stream
        self.origin = bundle.origin
        self.cost = bundle.cost
        self.key_bytes = bundle.key_bytes
        self._at = len(bundle.attributes)
        self._store = store
        self._place = place

    def fetch(self) -> Bundle:
        content = self._store.get(self._place)
        at = self._at
        return Bundle(
            self.publisher, self.incarnation, self.first, self.count, self.stamp, self.topic, self.keys,
            self.guarantee, content[:at], content[at:],
        )  # fmt: skip

    def forget(self) -> None:
        """Nobody will ask for it any more."""
        self._store.forget(self._place)


def stow(bundle: Bundle, store: SpillStore) -> StowedBundle | None:
    """None where there is no room."""
    place = store.put(bundle.attributes + bundle.payloads)
    return StowedBundle(bundle, store, place) if place is not None else None


def whole(bundle: Bundle) -> Bundle:
    """As it was before it was stowed, if it was."""
    return bundle.fetch() if isinstance(bundle, StowedBundle) else bundle
