"""What gossiping brokers say to each other. Tags 280 to 283 of the wire belong to this file."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.message_fields import BundleMessage
from resprout.core.seen import Range

RANGES_MAX: Final = 4_096
"""In one message, of all origins together: that fits a frame whatever their names are."""
_OFFER_BYTES: Final = 96
_RANGE_BYTES: Final = 19


class OfferedRanges(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications of one origin, by number."""

    publisher: str
    stream: str
    incarnation: int
    ranges: tuple[tuple[int, int], ...]
    """(first, last), rising, with gaps between them."""

    @property
    def origin(self) -> Origin:
        return (self.publisher, self.stream, self.incarnation)


OfferList = tuple[OfferedRanges, ...]


class Gossiped(BundleMessage, frozen=True, tag=280):
    """A publication."""

    bundle: Bundle
    hops: int
    asked: bool = False
    """In answer to `Graft`."""


class IHave(ProtocolMessage, frozen=True, tag=281):
    """These can be asked for here."""

    offers: OfferList
    settled: bool
    """The sender serves clients: a newcomer is not owed what it is offered by such a one before it does."""
    more: bool = False
    """The next message goes on with it."""
    routine: bool = False
    """Told now and then, whatever happens: nobody waits for it."""

    @property
    def bulk(self) -> int:
        return bytes_of(self.offers)

    @property
    def background(self) -> bool:
        return self.routine


class Graft(ProtocolMessage, frozen=True, tag=282):
    """Send these; and with lazy push, whatever comes of their publishers from now on."""

    offers: OfferList

    @property
    def bulk(self) -> int:
        return bytes_of(self.offers)


class Prune(ProtocolMessage, frozen=True, tag=283):
    """What you push of this publisher comes another way: tell me of it, and do not send it."""

    publisher: str


GOSSIP_MESSAGES: Final = (Gossiped, IHave, Graft, Prune)


def bytes_of(offers: OfferList) -> int:
    return sum(_OFFER_BYTES + _RANGE_BYTES * len(offer.ranges) for offer in offers)


def check_offers(offers: OfferList) -> None:
    """PeerError for what no honest peer offers or asks for."""
    if sum(len(offer.ranges) for offer in offers) > RANGES_MAX or len(offers) > RANGES_MAX:
        raise PeerError(f"more than {RANGES_MAX} ranges in one message")
    for offer in offers:
        end = -1
        for first, last in offer.ranges:
            if not max(end + 2, 1) <= first <= last:
                raise PeerError(f"{first} to {last} after {end} is no range of publications")
            end = last


def in_parts(offered: Mapping[Origin, Iterable[Range]]) -> list[OfferList]:
    """Each part fits into a message; none where nothing is offered."""
    parts: list[OfferList] = []
    part: list[OfferedRanges] = []
    left = RANGES_MAX
    for origin, given in offered.items():
        ranges = list(given)
        while ranges:
            part.append(OfferedRanges(*origin, tuple(ranges[:left])))
            taken = len(part[-1].ranges)
            left -= taken
            ranges = ranges[taken:]
            if not left:
                parts.append(tuple(part))
                part, left = [], RANGES_MAX
    return [*parts, tuple(part)] if part else parts
