"""The links to neighbouring sites: one broker of the site is the gateway of each, the leader unless the load is shared.

A gateway tells all brokers of the neighbouring site that it speaks for its own, since which term, and what it has
received from there. The gateway there then sends what was not known to have arrived. So neighbours learn of a change of
leader whatever its reason, without an answer from the old leader. An old leader that wakes up may still send what was
decided long ago: its term is refused (correction A2).

`gateways_for` shares the load (section 7 of the seed). With `links`, one broker has the link to the parent, the others
those to the children, in turn. With `random`, each leader draws the gateways anew: the probabilistic load balancer that
the report names. A broker that the leader does not hear gets none.
"""

from collections import deque
from collections.abc import Callable
from typing import Final
from zlib import crc32

from resprout.core.bundle import unpack_attributes
from resprout.core.contract import Locate
from resprout.core.errors import PeerError, UsageError
from resprout.filters.predicate import parse_predicate
from resprout.replicas.messages import MEMBERS_MAX
from resprout.stacks.peers import Outbox, Peer, Peers
from resprout.stacks.shell import Step
from resprout_lab.blocks.subscriptions import SUBSCRIPTIONS_MAX
from resprout_lab.sites.agreement import Agreement
from resprout_lab.sites.commands import (
    Bringing,
    Conveyed,
    Freight,
    Keeping,
    Meeting,
    Noted,
    Shipment,
    SiteBroker,
    SiteWish,
    Unwanted,
    Wanted,
)
from resprout_lab.sites.messages import Shipped, SiteCarries, SiteHas, SiteLed, SiteNotes, SiteWants, SiteWantsNot
from resprout_lab.sites.state import SiteState

SITES_MAX: Final = 1_024
"""Neighbours of one site."""
KEEPING_SHIPMENTS: Final = 32
"""So many that have come are let go of together: each watermark is a command of its own in the log."""


def gateways_for(
    state: SiteState, sharing: str, is_unheard: Callable[[str], bool], leader: str
) -> tuple[tuple[str, str], ...]:
    """(site, life) for every link, as this leader would have it; none where it speaks with all of them itself."""
    if sharing == "leader":
        return ()
    lives = [one.life for one in state.brokers.values() if one.incarnation and not is_unheard(one.name)]
    if sharing == "random":  # by a checksum: a leader that looks again draws the same
        return tuple([(site, lives[crc32(f"{leader} {site}".encode()) % len(lives)]) for site in state.links])
    first, others = lives[:1], lives[1:] or lives
    children = [site for site in state.links if site != state.parent]
    ways = [(site, others[place % len(others)]) for place, site in enumerate(children)]
    return (*((state.parent, life) for life in first if state.parent), *ways)


class SiteWay:
    """To one neighbouring site, as one broker sees it."""

    __slots__ = ("arrived", "brought", "heard_term", "peer", "reached", "sent", "term", "told", "waiting")

    def __init__(self) -> None:
        self.heard_term = 0
        """The latest term of that site that was heard of."""
        self.peer: str | None = None
        """Its gateway."""
        self.term = 0
        """Since which term of its own site this broker is the gateway; 0: it is not."""
        self.told: dict[str, tuple[int, tuple[SiteBroker, ...]]] = {}
        """Broker there -> what it was told in its session."""
        self.waiting: deque[Shipment] = deque()
        """What is to be sent."""
        self.sent = 0
        """The last number that was put there."""
        self.brought = 0
        """The last number from there that was proposed here."""
        self.arrived = 0
        """The last number to there that is known to be decided there."""
        self.reached = 0
        """Of what came from there, what its gateway was told is decided."""

    def is_current(self, term: int) -> bool:
        """Of that site: nobody else has spoken for it since."""
        return term >= self.heard_term


class Gateways:
    def __init__(self, site: str, step: Step, outbox: Outbox, peers: Peers, agreement: Agreement) -> None:
        self._site = site
        self._step = step
        self._outbox = outbox
        self._peers = peers
        self._agreement = agreement
        self._ways: dict[str, SiteWay] = {}
        self._callers: dict[str, SiteLed] = {}
        """Sites below that wait until this one is in the tree."""

    def site_of(self, name: str) -> str | None:
        """The neighbouring site that this broker speaks for."""
        for site, way in self._ways.items():
            if way.peer == name:
                return site
        return None

    def peer_of(self, site: str) -> str | None:
        """The gateway there, if this broker is the one here."""
        way = self._ways.get(site)
        return way.peer if way is not None and way.term else None

    # -- the state has changed -----------------------------------------------------------------------------------------

    def restored(self) -> None:
        for way in self._ways.values():
            way.term = 0
        self.look()

    def look(self) -> None:
        """Another leader, another site, other brokers of one: what this broker has to see to now."""
        state = self._agreement.state
        for site, link in state.links.items():
            way = self._ways.setdefault(site, SiteWay())
            if state.gateway(site) != self._agreement.life:
                way.term = 0
                continue
            if way.term != state.term:
                way.term = state.term
                way.told.clear()
                way.brought = link.heard
                self._begin_again(site, way, 0)
            for broker in link.brokers:
                if broker.address:
                    self._step.out.append(Locate(broker.name, broker.address))
                self._peers.open(broker.name)
                self._tell(site, way, broker.name)
        for site in [site for site in self._callers if state.is_in or site in state.links]:
            self._meet(self._callers.pop(site))

    def session_began(self, name: str) -> None:
        for site, link in self._agreement.state.links.items():
            if any(broker.name == name for broker in link.brokers):
                way = self._ways.setdefault(site, SiteWay())
                way.told.pop(name, None)
                self._tell(site, way, name)
                if name == way.peer:
                    self._begin_again(site, way, 0)

    def _tell(self, site: str, way: SiteWay, name: str) -> None:
        """Unless it knows, or this broker has nothing to say."""
        state, link = self._agreement.state, self._agreement.state.links[site]
        brokers = tuple(state.brokers.values())
        if not way.term or self._peers.find(name) is None or way.told.get(name) == (way.term, brokers):
            return
        if site != state.parent and not state.is_in:
            return
        way.told[name] = (way.term, brokers)
        self._outbox.send(name, SiteLed(self._site, way.term, brokers, state.parent, link.heard, link.last))

    # -- what a neighbouring site says ---------------------------------------------------------------------------------

    def hear_led(self, peer: Peer, message: SiteLed) -> None:
        state = self._agreement.state
        site = message.site
        if not any(broker.name == peer.name for broker in message.brokers):
            raise PeerError(f"{peer.name} is no broker of the site {site!r}")
        link = state.links.get(site)
        if link is None and message.parent_site != self._site:
            raise PeerError(f"the site {site!r} is no neighbour of {self._site!r}")
        if len(message.brokers) > MEMBERS_MAX or (link is None and len(self._ways) >= SITES_MAX):
            raise PeerError(f"there is no room for the site {site!r}, or for its brokers")
        way = self._ways.setdefault(site, SiteWay())
        if not way.is_current(message.term):
            return
        way.heard_term, way.peer = message.term, peer.name
        self._meet(message)
        if link is not None:
            way.arrived = max(way.arrived, message.heard)
            self._begin_again(site, way, message.heard)
            self._tell(site, way, peer.name)

    def _meet(self, message: SiteLed) -> None:
        state = self._agreement.state
        link = state.links.get(message.site)
        if link is None and not state.is_in:
            self._callers[message.site] = message
        elif (
            link is None or link.brokers != message.brokers or (message.site == state.parent and state.in_from is None)
        ):
            self._agreement.propose(Meeting(message.site, message.brokers, message.sent))

    def hear_shipped(self, peer: Peer, message: Shipped) -> None:
        """Something that has a number on the link."""
        site = self._site_saying(peer.name, message.term)
        if site is None or not self._ways[site].term:
            return
        state = self._agreement.state
        way, link = self._ways[site], state.links[site]
        if isinstance(message, SiteWants) and len(link.theirs) >= SUBSCRIPTIONS_MAX:
            raise PeerError(f"the site {site!r} wants more than {SUBSCRIPTIONS_MAX} things")
        shipment = Shipment(message.number, message.previous, _freight(message))
        if message.previous == max(way.brought, link.heard):
            way.brought = message.number
            self._agreement.propose(Bringing(site, shipment))
        elif message.number <= link.heard:
            way.reached = min(way.reached, message.number - 1)  # it is told again

    def hear_has(self, peer: Peer, message: SiteHas) -> None:
        site = self._site_saying(peer.name, message.term)
        if site is not None:
            self._ways[site].arrived = max(self._ways[site].arrived, message.number)

    def _site_saying(self, name: str, term: int) -> str | None:
        """None when that is no neighbouring site, or an old leader of one says so."""
        for site, link in self._agreement.state.links.items():
            if any(broker.name == name for broker in link.brokers):
                return site if self._ways.setdefault(site, SiteWay()).is_current(term) else None
        return None

    def _keep(self, site: str, way: SiteWay) -> None:
        """The watermark of the link, when it is worth a command. One at a time: while it is not decided, the next one
        grows (`key_of`)."""
        out = self._agreement.state.links[site].out
        if len(out) >= KEEPING_SHIPMENTS and out[KEEPING_SHIPMENTS - 1].number <= way.arrived:
            self._agreement.propose(Keeping(site, way.arrived))

    # -- what is sent --------------------------------------------------------------------------------------------------

    def _begin_again(self, site: str, way: SiteWay, heard: int) -> None:
        """In another session, or with another gateway there: all that is not known to have come."""
        link = self._agreement.state.links[site]
        way.waiting = deque([shipment for shipment in link.out if shipment.number > heard])
        way.sent = link.last
        way.reached = 0

    def send(self) -> None:
        """At the end of a step: what was decided and has room, and what has come."""
        for site, link in self._agreement.state.links.items():
            way = self._ways.get(site)
            if way is None or not way.term or way.peer is None or self._peers.find(way.peer) is None:
                continue
            self._keep(site, way)
            if way.sent < link.last:
                fresh: deque[Shipment] = deque()
                for shipment in reversed(link.out):
                    if shipment.number <= way.sent:
                        break
                    fresh.appendleft(shipment)
                way.waiting += fresh
                way.sent = link.last
            if way.reached < link.heard:
                way.reached = link.heard
                self._outbox.send(way.peer, SiteHas(way.term, link.heard))
            while way.waiting and self._outbox.room(way.peer) > 0:
                self._outbox.send(way.peer, _message(way.term, way.waiting.popleft()))


def _message(term: int, shipment: Shipment) -> Shipped:
    number, previous, freight = shipment.number, shipment.previous, shipment.freight
    match freight:
        case Conveyed():
            return SiteCarries(term, number, previous, freight.bundle, freight.hops, freight.tseq + 1)
        case Wanted():
            return SiteWants(term, number, previous, freight.wish.filter, freight.wish.where)
        case Unwanted():
            return SiteWantsNot(term, number, previous, freight.ask)
        case Noted():
            return SiteNotes(term, number, previous, freight.ask)


def _freight(message: Shipped) -> Freight:
    match message:
        case SiteCarries():
            unpack_attributes(message.bundle)  # now, while it is its sender that is blamed
            return Conveyed(message.bundle, message.hops, message.place - 1)
        case SiteWants():
            try:
                parse_predicate(message.filter, message.where)
            except UsageError as error:
                raise PeerError(str(error)) from None
            return Wanted(SiteWish(message.filter, message.where))
        case SiteWantsNot():
            return Unwanted(message.ask)
        case SiteNotes():
            return Noted(message.ask)
