"""The state of a site: what each of its brokers knows after the same slots of the log.

A command changes the state, and leaves *news*: the broker delivers what is placed, the gateway of a link sends what is
shipped. Nothing leaves the site before it is decided, and the state includes what was sent on each link (corrections A1
and A3): the next leader goes on where the last one may have stopped, and neighbours drop duplicates.

Publications are *placed* in the log of the site at which they entered, or, with one order for all, in that of the root
site: the sequencer is the log. From there they go along the tree. Each shipment names the one before it on the same
link, so filtering leaves no gaps (A5).

The site that orders publications expects the next number of each publisher (`SiteIntake`); an early one waits. A leader
that dies may leave the second of two publications decided and the first one not; the broker proposes the first one
again, and without this rule it would stand behind the second (A4).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle, Origin, from_fields, to_fields
from resprout_lab.sites.commands import (
    Bringing,
    Command,
    Conveyed,
    Entering,
    Freight,
    GivingUp,
    Keeping,
    Meeting,
    Noted,
    Releasing,
    Seating,
    Shipment,
    SiteBroker,
    SiteConfig,
    SiteWish,
    TakingLead,
    Unwanted,
    Wanted,
    Wishing,
)
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.wishes import AskedSite, SiteWishes

ORIGINS_KEPT: Final = 100_000
"""Origins that are remembered, those that were met last. All brokers of a site forget the same one at the same slot."""
EARLY_MAX: Final = 4_096
"""Bundles of one origin that may wait for those before them. A client has fewer that are not known to be safe; more can
only come from a site that makes them up, and are dropped."""

GIVEN_UP_KEPT: Final = 10_000
"""Clients of which it is remembered that nothing is kept for them."""


class Early(msgspec.Struct, frozen=True, array_like=True):
    bundle: Bundle
    hops: int
    source: str


class Marks(dict[Origin, int]):
    """The last number of each origin, the latest origin last."""

    def raise_to(self, origin: Origin, last: int) -> None:
        """Forget the origin that was not met for longest where there are too many."""
        self[origin] = max(last, self.pop(origin, 0))
        if len(self) > ORIGINS_KEPT:
            del self[next(iter(self))]


class SiteIntake(msgspec.Struct, array_like=True):
    reached: Marks = msgspec.field(default_factory=Marks)
    """What was taken."""
    early: dict[Origin, dict[int, Early]] = {}
    """By first number: what waits for publications before it."""

    def has(self, bundle: Bundle) -> bool:
        """It was taken, in its turn."""
        return bundle.last <= self.reached.get(bundle.origin, 0)

    def is_repeat(self, bundle: Bundle) -> bool:
        return bundle.first <= self.reached.get(bundle.origin, 0)

    def begin(self, bundle: Bundle, marks: Mapping[Origin, int]) -> None:
        """Nothing before it is to come here: it was published at another site. `marks`: what has come from there."""
        if bundle.origin not in self.reached:
            self.reached.raise_to(bundle.origin, max(bundle.first - 1, marks.get(bundle.origin, 0)))

    def take(self, bundle: Bundle, hops: int, source: str) -> Iterator[Early]:
        """Whatever has its turn now: nothing for a repeat, or while something before it is missing."""
        origin = bundle.origin
        if self.is_repeat(bundle):
            return
        waiting = self.early.setdefault(origin, {})
        if len(waiting) < EARLY_MAX:
            waiting.setdefault(bundle.first, Early(bundle, hops, source))
        while (first := self.following(origin, waiting)) is not None:
            early = waiting.pop(first)
            self.reached.raise_to(origin, early.bundle.last)
            yield early
        if not waiting:
            del self.early[origin]

    def following(self, origin: Origin, waiting: dict[int, Early]) -> int | None:
        """The first number of the one that has its turn."""
        following = self.reached.get(origin, 0) + 1
        return following if following in waiting else None


class PlacedBundle(msgspec.Struct, frozen=True, array_like=True):
    """News: a publication has its place in the order of the site."""

    position: int
    bundle: Bundle
    hops: int
    tseq: int


class Entered(msgspec.Struct, frozen=True):
    """News: a publication of a client here is safe, and so is all that it published before."""

    bundle: Bundle


class WishNoted(msgspec.Struct, frozen=True):
    """News: what a life of a broker here wants is known wherever it must be."""

    life: str
    wish: SiteWish


class LinkBook(msgspec.Struct, array_like=True):
    """One neighbouring site."""

    brokers: tuple[SiteBroker, ...]
    out: list[Shipment] = []
    """What is not known to be there."""
    last: int = 0
    """The number of the last shipment to there."""
    heard: int = 0
    """The number of the last one from there."""
    asked: dict[SiteWish, AskedSite] = {}
    """What it was asked for."""
    theirs: dict[int, SiteWish] = {}
    """What it wants, by number."""


News = PlacedBundle | Entered | WishNoted


class SiteState(msgspec.Struct, array_like=True, dict=True):
    """The fields are what a snapshot holds. `follow` adds what follows from the configuration."""

    brokers: dict[str, SiteBroker]
    """By name, in their latest lives."""
    links: dict[str, LinkBook]
    in_from: int | None = None
    """The site is in the tree when it has heard so much from above; None while the site above has not answered."""
    leader: str = ""
    term: int = 0
    gateways: dict[str, str] = {}
    intake: SiteIntake = msgspec.field(default_factory=SiteIntake)
    marks: Marks = msgspec.field(default_factory=Marks)
    """What was placed here."""
    position: int = 0
    next_tseq: int = 0
    recent: list[PlacedBundle] = []
    """What somebody in this site may still need."""
    floors: dict[str, int] = {}
    """By life: the clients of that broker need nothing up to this position."""
    nos: dict[str, int] = {}
    """By life: how many of its numbered commands were done."""
    given_up: dict[str, str] = {}
    """Client -> the life that keeps nothing for it any more."""
    numbers: int = 0
    holders: dict[SiteWish, dict[str, int]] = {}
    """Who wants it: neighbouring sites, with the number of their wish, and lives of brokers here, with 0."""
    open: dict[SiteWish, dict[str, None]] = {}
    """Holders that wait to hear that a wish is noted."""

    def follow(self, config: SiteConfig, options: SitesOptions) -> "SiteState":
        self.parent = config.parent
        self.is_total = options.order == "total"
        self.is_filtering = options.routing == "filtering"
        self.news: list[News] = []
        noted: Callable[[str, SiteWish], None] = lambda life, wish: self.news.append(WishNoted(life, wish))  # noqa: E731
        self.wishes = SiteWishes(self.links, self.holders, self.open, self._askable, self._ship, noted)
        return self

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def is_in(self) -> bool:
        """In the tree: whatever is published anywhere from now on comes here, if it is wanted here."""
        if not self.parent:
            return True
        return self.in_from is not None and self.links[self.parent].heard >= self.in_from

    @property
    def lives(self) -> tuple[str, ...]:
        return tuple([broker.life for broker in self.brokers.values()])

    @property
    def members(self) -> tuple[str, ...]:
        """Of the log, as the site would have it."""
        return tuple([broker.member for broker in self.brokers.values()])

    def gateway(self, site: str) -> str:
        """The life that speaks with this site."""
        return self.gateways.get(site, self.leader)

    def has(self, command: Command) -> bool:
        """Nobody needs to propose it again."""
        if isinstance(command, Wishing | Releasing):
            return command.no <= self.nos.get(command.life, 0) or command.life not in self.floors
        if isinstance(command, Bringing):
            link = self.links.get(command.site)
            return link is not None and command.shipment.number <= link.heard
        return True

    # -- commands ------------------------------------------------------------------------------------------------------

    def apply(self, slot: int, command: Command) -> None:
        """The same at every broker of the site. What does not fit any more changes nothing."""
        match command:
            case Entering():
                if command.begins:
                    self.intake.begin(command.bundle, self.marks)
                for early in self.intake.take(command.bundle, 0, ""):
                    self._entered(early.bundle)
            case Bringing():
                link = self.links.get(command.site)
                if link is not None and self.follows(link, command.shipment):
                    link.heard = command.shipment.number
                    self._unpack(command.site, command.shipment.number, command.shipment.freight)
            case Keeping():
                link = self.links[command.site]
                link.out = [shipment for shipment in link.out if shipment.number > command.number]
            case Wishing() if self._is_next(command):
                if command.wanted:
                    self.wishes.want(command.life, command.wish)
                else:
                    self.wishes.drop(command.life, command.wish)
            case Releasing() if self._is_next(command):
                self.floors[command.life] = command.position
                for client in command.given_up:
                    self.given_up.pop(client, None)
                    self.given_up[client] = command.life
                    if len(self.given_up) > GIVEN_UP_KEPT:
                        del self.given_up[next(iter(self.given_up))]
                self._trim()
            case TakingLead():
                self.leader, self.term, self.gateways = command.life, slot, dict(command.gateways)
            case Meeting():
                self._meet(command)
            case Seating():
                self._seat(command.broker)
            case GivingUp():
                self.floors.pop(command.life, None)
                self.nos.pop(command.life, None)
                self.wishes.drop_all(command.life)
                self._trim()
            case _:
                pass

    def follows(self, link: LinkBook, shipment: Shipment) -> bool:
        """It is the next one of the link."""
        return shipment.previous == link.heard and shipment.number > link.heard

    def _is_next(self, command: Wishing | Releasing) -> bool:
        if command.life not in self.floors or command.no != self.nos.get(command.life, 0) + 1:
            return False
        self.nos[command.life] = command.no
        return True

    def _seat(self, broker: SiteBroker) -> None:
        before = self.brokers.get(broker.name)
        if before is not None and before.incarnation < broker.incarnation:
            self.brokers[broker.name] = broker
            self.floors[broker.life] = self.position

    def _meet(self, command: Meeting) -> None:
        link = self.links.get(command.site)
        if link is None:
            link = self.links[command.site] = LinkBook(command.brokers)
            self.wishes.meet()
        link.brokers = command.brokers
        if command.site == self.parent and self.in_from is None:
            self.in_from = command.upto

    # -- publications --------------------------------------------------------------------------------------------------

    def _entered(self, bundle: Bundle) -> None:
        self.news.append(Entered(bundle))
        if self.is_total and self.parent:
            self._ship(self.parent, Conveyed(bundle, 1, -1))
        else:
            self._place(bundle, 0, "")

    def _unpack(self, site: str, number: int, freight: Freight) -> None:
        match freight:
            case Conveyed() if not self.is_total or freight.tseq >= 0:
                self._place(freight.bundle, freight.hops, site, freight.tseq)
            case Conveyed() if self.parent:
                self._ship(self.parent, Conveyed(freight.bundle, freight.hops + 1, -1))
            case Conveyed():
                for early in self.intake.take(freight.bundle, freight.hops, site):
                    self._place(early.bundle, early.hops, early.source)
            case Wanted():
                self.wishes.want(site, freight.wish, number)
            case Unwanted():
                self.wishes.drop_ask(site, freight.ask)
            case Noted():
                self.wishes.noted(site, freight.ask)

    def _place(self, bundle: Bundle, hops: int, source: str, tseq: int = -1) -> None:
        if self.is_total and tseq < 0:
            tseq, self.next_tseq = self.next_tseq, self.next_tseq + bundle.count
        for site in self._onward(bundle, source):
            self._ship(site, Conveyed(bundle, hops + 1, tseq))
        self.position += 1
        self.marks.raise_to(bundle.origin, bundle.last)
        placed = PlacedBundle(self.position, bundle, hops, tseq)
        self.recent.append(placed)
        self.news.append(placed)

    def _onward(self, bundle: Bundle, source: str) -> list[str]:
        """What is ordered by the root goes down, also to where it came from; anything else everywhere but there."""
        not_to = self.parent if self.is_total else source
        wanted = self.wishes.sites_for(bundle) if self.is_filtering else self.links
        return [site for site in self.links if site != not_to and site in wanted]

    def _ship(self, site: str, freight: Freight) -> int:
        link = self.links[site]
        self.numbers += 1
        link.out.append(Shipment(self.numbers, link.last, freight))
        link.last = self.numbers
        return self.numbers

    def _askable(self) -> list[str]:
        if not self.is_filtering:
            return []
        return [site for site in self.links if site == self.parent] if self.is_total else list(self.links)

    def _trim(self) -> None:
        floor = min(self.floors.values(), default=self.position)
        if self.recent and self.recent[0].position <= floor:
            self.recent = [placed for placed in self.recent if placed.position > floor]


# -- snapshots ---------------------------------------------------------------------------------------------------------


def _read(kind: type, value: Any) -> Any:
    return Marks(value) if kind is Marks else from_fields(kind, value)


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=to_fields)
_decoder: Final = msgspec.msgpack.Decoder(SiteState, dec_hook=_read)


def first_state(config: SiteConfig, options: SitesOptions) -> SiteState:
    """Return the state before the first command."""
    links = {config.parent: LinkBook(config.above)} if config.parent else {}
    return SiteState({broker.name: broker for broker in config.brokers}, links).follow(config, options)


def dump(state: SiteState) -> bytes:
    return _encoder.encode(state)


def load(data: bytes, config: SiteConfig, options: SitesOptions) -> SiteState:
    """Return the state of a snapshot. ValueError for what no honest broker keeps."""
    try:
        state = _decoder.decode(data)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise ValueError(f"the state of a site cannot be read: {error}") from None
    if state.brokers.keys() != {broker.name for broker in config.brokers}:
        raise ValueError(f"the state of a site with the brokers {', '.join(state.brokers)} is no state of this one")
    return state.follow(config, options)
