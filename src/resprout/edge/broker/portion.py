"""A part of a bundle, on its way from a durable subscription to one of its consumers."""

from collections.abc import Sequence

from resprout.core.bundle import Bundle
from resprout.core.keys import Pair
from resprout.edge.broker.ports import HeldBundle


class Portion:
    """Messages of one bundle that are somewhere together: waiting, or out with one consumer."""

    __slots__ = ("item", "keys", "offsets", "redelivered", "serial")

    def __init__(
        self, item: HeldBundle, serial: int, offsets: Sequence[int], keys: tuple[Pair, ...], again: bool
    ) -> None:
        self.item = item
        self.serial = serial
        self.offsets = offsets
        self.keys = keys
        self.redelivered = again

    def cut(self, offsets: Sequence[int]) -> "Portion":
        """The same, of fewer messages."""
        return Portion(self.item, self.serial, offsets, self.keys, self.redelivered)

    @property
    def bundle(self) -> Bundle:
        """Asked of the item each time: it may be put on disk while it waits."""
        bundle = self.item.bundle
        assert bundle is not None, "a reader pins the bundle"
        return bundle

    @property
    def bytes(self) -> int:
        """Its part of the bundle, roughly."""
        bundle = self.bundle
        return bundle.cost * len(self.offsets) // bundle.count

    def split(self, count: int) -> tuple["Portion", "Portion"]:
        return self.cut(self.offsets[:count]), self.cut(self.offsets[count:])
