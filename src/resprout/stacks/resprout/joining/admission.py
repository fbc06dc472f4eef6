"""How a broker takes in others.

It first has its own new place known within reach, so that whoever may have to repair the tree knows of the newcomer;
then `Welcome` hands over what that must know, and is the first message of the new link. Several newcomers that ask at
once are taken together. A broker without room offers other places instead (`offers`). Before any of that the name is
looked for in the whole tree (`claims`).
"""

from functools import partial
from itertools import chain

import msgspec

from resprout.core.contract import Locate
from resprout.core.seen import Seen
from resprout.edge.broker.ghosts import Ghosts
from resprout.order.clock import Clock
from resprout.order.link import Link
from resprout.order.reports import Retained
from resprout.order.totals.handover import Handover, joined, newcomer_locks
from resprout.order.totals.totals import Totals
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced
from resprout.overlay.waves import Waves
from resprout.spread.interest import Interest
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.joining.claims import Claim, Claims
from resprout.stacks.resprout.joining.offers import Offers
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import (
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Recollect,
    Settled,
    Welcome,
)
from resprout.stacks.resprout.neighbours import Copies, Neighbours
from resprout.stacks.resprout.remembered import RememberedBrokers
from resprout.stacks.resprout.repair.parcels import send_parcel, shared_rows
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.subscribing import Wishes
from resprout.stacks.resprout.values import ValueDesk


class Admission:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        waves: Waves,
        links: dict[str, Link],
        clock: Clock,
        seen: Seen,
        interest: Interest,
        totals: Totals,
        handover: Handover,
        retained: Retained,
        speaking: Speaking,
        copies: Copies,
        neighbours: Neighbours,
        wishes: Wishes,
        council: Council,
        offers: Offers,
        ghosts: Ghosts,
        book: ClientBook,
        claims: Claims,
        remembered: RememberedBrokers,
        served: ServedClients,
        values: ValueDesk,
    ) -> None:
        self._life = life
        self._peers = peers
        self._waves = waves
        self._links = links
        self._clock = clock
        self._seen = seen
        self._interest = interest
        self._totals = totals
        self._handover = handover
        self._retained = retained
        self._speaking = speaking
        self._copies = copies
        self._neighbours = neighbours
        self._wishes = wishes
        self._council = council
        self._offers = offers
        self._ghosts = ghosts
        self._book = book
        self.claims = claims
        """Newcomers that ask for a place here."""
        self._remembered = remembered
        self._served = served
        self._values = values

    def lost(self, peer: str) -> None:
        """The session of one who asks is over, and the request with it."""
        self.claims.drop(peer)

    def withdrawn(self, peer: Peer, message: JoinWithdrawn) -> None:
        """Too late when it is a child already: then it hears the Welcome first. And in vain while it is looked for in a
        tree that is wide: another broker would have to begin again, and would not be waited for either."""
        life, name = self._life, peer.name
        if life.attached and self._room > 0 and life.is_calm and self.claims.gets_on(name):
            return
        if self.claims.drop(name) or name not in self._links:
            self._peers.post(name, JoinElsewhere(()))

    def requested(self, peer: Peer, message: JoinRequest) -> None:
        """The name of the peer is the key of its session, see `claims`."""
        key, incarnation = peer.name, peer.incarnation
        claim = Claim(key, incarnation, message.address)
        name = claim.name
        view = self._life.view
        over = max(view.tombstones.get(name, -1), view.replaced.get(name, -1))
        if incarnation <= over:  # it has no place any more, and perhaps nobody who would tell it
            self._peers.post(key, Fenced(over))
            if key != name:
                self._peers.close(key, "it was told why")
            return
        self.claims.put(claim)
        self.admit()

    def arrived(self, key: str, name: str, incarnation: int) -> None:
        """Somebody who has no right to its name, or has lost it to a later life without knowing."""
        life = self._life
        view = life.view
        latest = max(view.tombstones.get(name, 0), view.sessions.get(name, 0))
        if incarnation <= view.tombstones.get(name, -1) or incarnation < latest:
            self._peers.post(key, Fenced(latest))
            self._peers.close(key, "it was told why")

    @property
    def _room(self) -> int:
        return 0 if self._life.leaving else self._life.options.total_degree - len(self._links)

    def admit(self) -> None:
        """Take those who wait, if this is a moment for it."""
        life = self._life
        claims = self.claims
        if not life.attached or claims.admitted or not claims.waiting or not life.is_calm or life.retired:
            return
        view = life.view
        room = self._room
        for claim in claims.clear(room) if room > 0 else claims.all():
            if room <= 0:
                self._send_elsewhere(claim)
            elif not view.admits(claim.name, claim.incarnation) or claim.name in claims.admitted:
                claim.rests_until_us = life.now_us + life.options.heartbeat_us
            elif len(claims.admitted) < room:
                self._grant(claim)
            else:
                self._send_elsewhere(claim)
        if claims.admitted:
            links = tuple(self._links)
            here = view.publish_place()
            lives = [claim.incarnation for claim in claims.admitted.values()]
            foretold = msgspec.structs.replace(
                here, neighbours=(*here.neighbours, *claims.admitted), lives=(*here.lives, *lives)
            )
            view.places[here.name] = foretold
            self._waves.start(foretold, view.reach, lambda: self._take_in(links))

    def _grant(self, claim: Claim) -> None:
        """The newcomer has its name from now on."""
        life = self._life
        self.claims.admit(claim)
        self._served.give_way(claim.name)
        if claim.key != claim.name:
            self._peers.adopt(claim.key, claim.name)
            claim.key = claim.name
            self._council.connected(claim.name, life.now_us, claim.incarnation)
        if claim.address:
            life.out.append(Locate(claim.name, claim.address))

    def _send_elsewhere(self, claim: Claim) -> None:
        """To those who have room, or else to those below, who know others. What was wanted behind its earlier life is
        what its clients will want again. It waits while nobody is known: those who came before it have yet to tell
        their places."""
        offers = self._offers.make(claim.name, self._ghosts.wanted(claim.name))
        if offers:
            self.claims.drop(claim.key)
            self._peers.post(claim.key, JoinElsewhere(offers))

    def _take_in(self, links: tuple[str, ...]) -> None:
        """The new place is known. If the neighbours have changed meanwhile, it is not the place that was told."""
        life = self._life
        self._remembered.write()
        admitted, self.claims.admitted = self.claims.admitted, {}
        if tuple(self._links) != links or not life.is_calm:
            for claim in admitted.values():
                self.claims.put_back(claim)
            self.admit()
            return
        for name, claim in admitted.items():
            if self._peers.incarnation(name) == claim.incarnation and name not in self._links:
                self._welcome(name, claim.incarnation)
        view = life.view
        self._waves.start(view.publish_place(), view.reach, lambda: None)
        life.outcomes.append(Settled())

    def _welcome(self, name: str, incarnation: int) -> None:
        life = self._life
        view = life.view
        self._speaking.say_all()  # what is to be said to the others has nothing to do with the newcomer
        link = self._neighbours.begin_links({name: incarnation}, {})[name]
        base = self._retained.marks()
        asks = self._interest.standing(name)[0]
        self._wishes.presume(name, [predicate for _, predicate, _ in asks], base)
        if life.reviving:
            self._peers.post(name, Recollect())
        confirmed = [(id, predicate, True) for id, predicate, _ in asks]
        rows = shared_rows(
            view, self._seen, confirmed, newcomer_locks(self._totals), self._handover.last(), self._handover.topics()
        )
        head = Welcome(self._clock.now, view.epoch, view.configuration, view.network)
        send_parcel(partial(self._peers.post, name), head, chain(rows, self._book.rows(), self._values.rows()))
        joined(self._totals, name)
        self._neighbours.open(link)
        if not life.reviving:
            self._copies.share(link)
        self._totals.progress()
