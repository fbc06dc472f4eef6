"""The state of a site as bytes, for snapshots: a broker that begins another life goes on from those of the others."""

from collections import deque
from typing import Final

import msgspec

from resprout.core.bundle import Origin, from_fields, to_fields
from resprout_lab.sites.commands import Shipment, SiteBroker, SiteWish
from resprout_lab.sites.intake import Early
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import LinkBook, PlacedBundle, SiteState
from resprout_lab.sites.wishes import AskedSite


class _Link(msgspec.Struct, array_like=True):
    site: str
    brokers: tuple[SiteBroker, ...]
    out: list[Shipment]
    last: int
    heard: int
    asked: list[tuple[SiteWish, AskedSite]]
    theirs: dict[int, SiteWish]


class _Image(msgspec.Struct, array_like=True):
    brokers: list[SiteBroker]
    parent: str
    in_from: int | None
    links: list[_Link]
    leader: str
    term: int
    gateways: dict[str, str]
    reached: list[tuple[Origin, int]]
    early: list[Early]
    marks: list[tuple[Origin, int]]
    position: int
    next_tseq: int
    recent: list[PlacedBundle]
    floors: dict[str, int]
    nos: dict[str, int]
    given_up: dict[str, str]
    numbers: int
    holders: list[tuple[SiteWish, dict[str, int]]]
    open: list[tuple[SiteWish, list[str]]]


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=to_fields)
_decoder: Final = msgspec.msgpack.Decoder(_Image, dec_hook=from_fields)


def dump(state: SiteState) -> bytes:
    wishes, intake = state.wishes, state.intake
    links = [
        _Link(
            site, link.brokers, list(link.out), link.last, link.heard, list(wishes.asked[site].items()),
            wishes.theirs[site],
        )
        for site, link in state.links.items()
    ]  # fmt: skip
    return _encoder.encode(
        _Image(
            list(state.brokers.values()), state.parent, state.in_from, links, state.leader, state.term, state.gateways,
            list(intake.reached.items()), [one for waiting in intake.early.values() for one in waiting.values()],
            list(state.marks.items()), state.position, state.next_tseq, list(state.recent), state.floors, state.nos,
            state.given_up, state.numbers, list(wishes.holders.items()),
            [(wish, list(waiting)) for wish, waiting in wishes.open.items()],
        )
    )  # fmt: skip


def load(data: bytes, options: SitesOptions) -> SiteState:
    """ValueError for what no honest broker keeps."""
    try:
        image = _decoder.decode(data)
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"the state of a site cannot be read: {error}") from None
    state = SiteState(options)
    wishes, intake = state.wishes, state.intake
    state.brokers = {broker.name: broker for broker in image.brokers}
    state.parent, state.in_from = image.parent, image.in_from
    state.leader, state.term, state.gateways = image.leader, image.term, image.gateways
    for one in image.links:
        link = state.links[one.site] = LinkBook(one.brokers)
        link.out, link.last, link.heard = deque(one.out), one.last, one.heard
        wishes.asked[one.site] = dict(one.asked)
        wishes.theirs[one.site] = one.theirs
    intake.reached = dict(image.reached)
    for early in image.early:
        intake.early.setdefault(early.bundle.origin, {})[early.bundle.first] = early
    state.marks = dict(image.marks)
    state.position, state.next_tseq, state.recent = image.position, image.next_tseq, deque(image.recent)
    state.floors, state.nos, state.given_up = image.floors, image.nos, image.given_up
    state.numbers = image.numbers
    wishes.holders = dict(image.holders)
    wishes.open = {wish: dict.fromkeys(waiting) for wish, waiting in image.open}
    wishes.load()
    return state
