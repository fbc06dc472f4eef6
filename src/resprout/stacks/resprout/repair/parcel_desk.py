"""Parcels on their way in: the parts of each sender are put together, and the whole goes to whoever waits for it."""

from collections.abc import Callable, Mapping
from typing import Any

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.overlay.council import Council
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import LOCK_PARTS, PARCELS, PARTS, ParcelEnd
from resprout.stacks.resprout.repair.parcels import Parcel
from resprout.stacks.shell.peers import Peer


class ParcelDesk:
    def __init__(self, core: Core, council: Council, whole: Mapping[type, Callable[[str, int, Parcel], None]]) -> None:
        """`whole`: by its head, who takes a parcel that is complete, from this peer in this life."""
        self._core = core
        self._council = council
        self._whole = whole
        self._coming: dict[str, Parcel] = {}
        """One from each peer at most."""
        self.handlers: dict[type, Callable[[Peer, Any], None]] = {
            **dict.fromkeys(PARCELS, self._begin),
            **dict.fromkeys((*PARTS, *LOCK_PARTS), self._add),
            ParcelEnd: self._complete,
        }

    def drop(self, peer: str) -> None:
        """The session in which it came is over."""
        self._coming.pop(peer, None)

    def _begin(self, peer: Peer, message: Any) -> None:
        self._coming[peer.name] = Parcel(message)

    def _add(self, peer: Peer, message: ProtocolMessage) -> None:
        parcel = self._coming.get(peer.name)
        if parcel is None:
            raise PeerError(f"{type(message).__name__} outside of a parcel")
        parcel.add(message)
        self._council.stirred(peer.name, self._core.now_us)

    def _complete(self, peer: Peer, message: ParcelEnd) -> None:
        parcel = self._coming.pop(peer.name, None)
        if parcel is None:
            raise PeerError("the end of a parcel that never began")
        self._whole[type(parcel.head)](peer.name, peer.incarnation, parcel)
