"""What messages that carry a bundle take, of a window and of a frame."""

from typing import Protocol

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage


class _Carrying(Protocol):
    @property
    def bundle(self) -> Bundle: ...


class BundleMessage(ProtocolMessage, frozen=True):
    """Carries a bundle, in a field of that name, at the bundle's cost; its keys come on top in the frame."""

    @property
    def cost(self: _Carrying) -> int:
        return self.bundle.cost

    @property
    def bulk(self: _Carrying) -> int:
        return self.bundle.key_bytes


class FreeBundleMessage(ProtocolMessage, frozen=True):
    """Carries a bundle that must pass where others may not: free, and as large in the frame as any."""

    @property
    def bulk(self: _Carrying) -> int:
        return self.bundle.cost + self.bundle.key_bytes
