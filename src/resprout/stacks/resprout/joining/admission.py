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
from resprout.edge.broker.ghosts import Ghosts
from resprout.order.totals.newcomers import joined, newcomer_locks
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.company import Company
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.joining.claims import Claim, Claims
from resprout.stacks.resprout.joining.offers import Offers
from resprout.stacks.resprout.messages import (
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Recollect,
    Welcome,
)
from resprout.stacks.resprout.outcomes import Settled
from resprout.stacks.resprout.repair.parcels import send_parcel, shared_rows
from resprout.stacks.resprout.served_clients import ServedClients


class Admission:
    def __init__(
        self,
        core: Core,
        council: Council,
        offers: Offers,
        ghosts: Ghosts,
        book: ClientBook,
        company: Company,
        served: ServedClients,
    ) -> None:
        self._core = core
        self._council = council
        self._offers = offers
        self._ghosts = ghosts
        self._book = book
        self._company = company
        self._served = served
        self.claims = Claims(core)
        """Newcomers that ask for a place here."""

    def lost(self, peer: str) -> None:
        """The session of one who asks is over, and the request with it."""
        self.claims.drop(peer)

    def withdrawn(self, name: str, message: JoinWithdrawn) -> None:
        """Too late when it is a child already: then it hears the Welcome first. And in vain while it is looked for in a
        tree that is wide: another broker would have to begin again, and would not be waited for either."""
        core = self._core
        if self._core.attached and self._room > 0 and self._core.is_calm and self.claims.gets_on(name):
            return
        if self.claims.drop(name) or name not in core.links:
            core.outbox.send(name, JoinElsewhere(()))

    def requested(self, key: str, incarnation: int, message: JoinRequest) -> None:
        """`key`: of the session, see `claims`."""
        core = self._core
        claim = Claim(key, incarnation, message.address)
        name = claim.name
        view = core.view
        over = max(view.tombstones.get(name, -1), view.replaced.get(name, -1))
        if incarnation <= over:  # it has no place any more, and perhaps nobody who would tell it
            core.peers.post(key, Fenced(over))
            if key != name:
                core.peers.close(key, "it was told why")
            return
        self.claims.put(claim)
        self.admit()

    def arrived(self, key: str, name: str, incarnation: int) -> None:
        """Somebody who has no right to its name, or has lost it to a later life without knowing."""
        core = self._core
        view = core.view
        latest = max(view.tombstones.get(name, 0), view.sessions.get(name, 0))
        if incarnation <= view.tombstones.get(name, -1) or incarnation < latest:
            core.outbox.send(key, Fenced(latest))
            core.peers.close(key, "it was told why")

    @property
    def _room(self) -> int:
        return 0 if self._core.leaving else self._core.options.total_degree - len(self._core.links)

    def admit(self) -> None:
        """Take those who wait, if this is a moment for it."""
        core = self._core
        claims = self.claims
        if not self._core.attached or claims.admitted or not claims.waiting or not self._core.is_calm or core.retired:
            return
        view = core.view
        room = self._room
        for claim in claims.clear(room) if room > 0 else claims.all():
            if room <= 0:
                self._send_elsewhere(claim)
            elif not view.admits(claim.name, claim.incarnation) or claim.name in claims.admitted:
                claim.rests_until_us = core.now_us + core.options.heartbeat_us
            elif len(claims.admitted) < room:
                self._grant(claim)
            else:
                self._send_elsewhere(claim)
        if claims.admitted:
            links = tuple(core.links)
            here = view.publish_place()
            lives = [claim.incarnation for claim in claims.admitted.values()]
            foretold = msgspec.structs.replace(
                here, neighbours=(*here.neighbours, *claims.admitted), lives=(*here.lives, *lives)
            )
            view.places[here.name] = foretold
            core.waves.start(foretold, view.reach, lambda: self._take_in(links))

    def _grant(self, claim: Claim) -> None:
        """The newcomer has its name from now on."""
        core = self._core
        self.claims.admit(claim)
        self._served.give_way(claim.name)
        if claim.key != claim.name:
            core.peers.adopt(claim.key, claim.name)
            claim.key = claim.name
            self._council.connected(claim.name, core.now_us, claim.incarnation)
        if claim.address:
            core.out.append(Locate(claim.name, claim.address))

    def _send_elsewhere(self, claim: Claim) -> None:
        """To those who have room, or else to those below, who know others. What was wanted behind its earlier life is
        what its clients will want again. It waits while nobody is known: those who came before it have yet to tell
        their places."""
        core = self._core
        offers = self._offers.make(claim.name, self._ghosts.wanted(claim.name))
        if offers:
            self.claims.drop(claim.key)
            core.peers.post(claim.key, JoinElsewhere(offers))

    def _take_in(self, links: tuple[str, ...]) -> None:
        """The new place is known. If the neighbours have changed meanwhile, it is not the place that was told."""
        core = self._core
        self._company.remember(self.claims.admitted)
        admitted, self.claims.admitted = self.claims.admitted, {}
        if tuple(core.links) != links or not self._core.is_calm:
            for claim in admitted.values():
                self.claims.put_back(claim)
            self.admit()
            return
        for name, claim in admitted.items():
            if core.peers.incarnation(name) == claim.incarnation and name not in core.links:
                self._welcome(name, claim.incarnation)
        view = core.view
        core.waves.start(view.publish_place(), view.reach, lambda: None)
        core.outcomes.append(Settled())

    def _welcome(self, name: str, incarnation: int) -> None:
        core = self._core
        view = core.view
        core.speaking.say_all()  # what is to be said to the others has nothing to do with the newcomer
        core.interest.add_neighbour(name)
        base = core.retained.marks()
        asks = core.interest.standing(name)[0]
        core.confirmed(core.interest.presume(name, [predicate for _, predicate, _ in asks], base, core.outbound))
        if core.reviving:
            core.outbox.send(name, Recollect())
        confirmed = [(id, predicate, True) for id, predicate, _ in asks]
        rows = shared_rows(core, confirmed, newcomer_locks(core.totals), core.handover.last())
        head = Welcome(core.clock.now, view.epoch, view.configuration, view.network)
        send_parcel(partial(core.outbox.send, name), head, chain(rows, self._book.rows()))
        link = core.neighbours.add(name, incarnation)
        joined(core.totals, name)
        core.peers.open(name)
        core.neighbours.open(link)
        if not core.reviving:
            core.copies.share(link)
        core.totals.progress()
