"""Parcels as they come in: the parts of each sender are put together, and the whole goes to whoever waits for it."""

from collections.abc import Callable, Mapping
from typing import Any

from resprout.core.contract import ProtocolMessage
from resprout.overlay.council import Council
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import LOCK_PARTS, PARCELS, PARTS, ParcelEnd
from resprout.stacks.resprout.repair.parcels import Parcel, Parcels
from resprout.stacks.shell.peers import Peer


class ParcelDesk:
    def __init__(self, core: Core, council: Council, whole: Mapping[type, Callable[[str, int, Parcel], None]]) -> None:
        """`whole`: by its head, who takes a parcel that is complete, from this peer in this life."""
        self._core = core
        self._council = council
        self._whole = whole
        self._parcels = Parcels()
        self.handlers: dict[type, Callable[[Peer, Any], None]] = {
            **dict.fromkeys(PARCELS, self._begin),
            **dict.fromkeys((*PARTS, *LOCK_PARTS), self._add),
            ParcelEnd: self._complete,
        }

    def drop(self, peer: str) -> None:
        """The session in which it came is over."""
        self._parcels.drop(peer)

    def _begin(self, peer: Peer, message: Any) -> None:
        self._parcels.begin(peer.name, message)

    def _add(self, peer: Peer, message: ProtocolMessage) -> None:
        self._parcels.add(peer.name, message)
        self._council.stirred(peer.name, self._core.now_us)

    def _complete(self, peer: Peer, message: ParcelEnd) -> None:
        parcel = self._parcels.complete(peer.name)
        self._whole[type(parcel.head)](peer.name, peer.incarnation, parcel)
