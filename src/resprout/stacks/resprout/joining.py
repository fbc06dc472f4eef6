"""How a broker comes into the tree, and how it goes.

A newcomer asks its parent, or any broker it knows, for a place. The one that takes it first has its own new place known
within reach, so that whoever may have to repair the tree knows of the newcomer; then `Welcome` hands over what it must
know, and is the first message of the new link. Several newcomers that ask at once are taken together. A broker without
room offers other places instead (`offers`), among which the newcomer chooses (`choosing`). Before any of that the name
is looked for in the whole tree (`claims`): until then a newcomer speaks in sessions that give it no right to its name.
"""

import msgspec

from resprout.core.contract import CancelTimer, Locate, SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.edge.broker.ghosts import Ghosts
from resprout.order.total_joining import accept_welcome, joined, newcomer_locks
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced, Probed
from resprout.stacks.resprout.choosing import Chosen, Search, locate
from resprout.stacks.resprout.claims import Claim, Claims
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.company import Company
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import (
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    MoveAway,
    NameTaken,
    NetworkName,
    ParcelEnd,
    Welcome,
)
from resprout.stacks.resprout.offers import Offers
from resprout.stacks.resprout.outcomes import Settled
from resprout.stacks.resprout.pack import pack_asks, pack_last_totals, pack_marks, pack_surroundings
from resprout.stacks.resprout.parcels import Parcel

FIRST_PATIENCE_US = 20_000_000
"""How long a broker that starts waits for the parent it was given, which may be waiting for its own."""
PATIENCE_US = 5_000_000
"""How long one broker is waited for that is there and has not answered: it may be looking for a place itself. Longer
each time that one is not even reached, up to `FIRST_PATIENCE_US`: it may be far to everybody."""
REFUSALS_MAX = 16
"""Answers that name nobody new before a newcomer pauses: what is known about room has yet to come around."""
TRIED_MAX = 4_096
"""Places that one search remembers to have asked."""


class JoinAgain(Timer, frozen=True):
    """When to ask somebody else for a place, because the one asked has not answered."""


class Joining:
    def __init__(
        self,
        core: Core,
        council: Council,
        offers: Offers,
        ghosts: Ghosts,
        book: ClientBook,
        company: Company,
    ) -> None:
        self._core = core
        self._council = council
        self._offers = offers
        self._ghosts = ghosts
        self._book = book
        self._company = company
        self._candidates: list[str] = []
        self._asked: str | None = None
        self._patience_us = PATIENCE_US
        self._search: Search | None = None
        """Among places that were offered."""
        self._moving_from: str | None = None
        """The parent that asked this broker to move: then the search is for another place than the one it has."""
        self._refusals = 0
        self._tried: set[str] = set()
        """Who was asked since the last pause: whoever is sent to others than these comes nearer to a place."""
        self._claims = Claims(core)
        """Newcomers that ask for a place here."""

    @property
    def admitting(self) -> bool:
        """Newcomers are being told of."""
        return bool(self._claims.admitted)

    # -- asking for a place --------------------------------------------------------------------------------------------

    def start(self) -> None:
        core = self._core
        seat = core.seat
        if seat.parent is None and not seat.contacts:
            core.standing.found(core.rng.getrandbits(32))
            core.attached = True
            core.outcomes.append(Settled())
            return
        core.peers.is_newcomer = True
        self._candidates = [seat.parent] if seat.parent is not None else []
        self._candidates += [name for name in seat.contacts if name not in self._candidates and name != seat.name]
        self._ask_next()

    def _ask_next(self) -> None:
        core = self._core
        if self._asked is not None:
            if self._candidates[0] == self._asked:
                self._candidates.append(self._candidates.pop(0))
            if len(self._candidates) > 1:
                core.peers.close(self._asked, f"{core.seat.name} asks somebody else for a place")
        self._asked = self._candidates[0]
        self._tried.add(self._asked)
        core.peers.post(self._asked, JoinRequest(core.seat.address))
        is_first = core.seat.incarnation == 1 and self._asked == core.seat.parent
        core.out.append(SetTimer(JoinAgain(), core.now_us + (FIRST_PATIENCE_US if is_first else self._patience_us)))

    def again(self) -> None:
        """The one asked is there and has not answered: withdraw, and ask another when it agrees."""
        core = self._core
        if self._core.attached or self._search is not None:
            return
        if self._asked is not None and not core.peers.is_silent(self._asked) and len(self._candidates) > 1:
            core.outbox.send(self._asked, JoinWithdrawn())
            core.out.append(SetTimer(JoinAgain(), core.now_us + PATIENCE_US))
        else:
            if self._asked is not None and not core.peers.incarnation(self._asked):
                self._patience_us = min(2 * self._patience_us, FIRST_PATIENCE_US)
            self._ask_next()

    def silent(self, peer: str) -> None:
        """The one asked is not there. A first parent that was never reached may be about to start."""
        core = self._core
        if self._search is not None:
            self._look_at(self._search.lost(peer))
        elif (
            not self._core.attached
            and peer == self._asked
            and (core.seat.incarnation > 1 or core.peers.incarnation(peer))
        ):
            self._ask_next()

    def lost(self, peer: str) -> None:
        """The session with the one asked is over, and the request with it; or that of one who asks."""
        self._claims.drop(peer)
        if self._search is not None:
            self._look_at(self._search.lost(peer))
        elif not self._core.attached and peer == self._asked:
            self._ask_next()

    def sent_elsewhere(self, peer: str, message: JoinElsewhere) -> None:
        core = self._core
        if self._core.attached or peer != self._asked or self._search is not None:
            return
        offers = locate(core, message.offers)
        names = [offer.name for offer in offers]
        if self._tried.issuperset(names) or len(self._tried) > TRIED_MAX:
            self._refusals += 1
        if self._refusals == REFUSALS_MAX:
            self._refusals = 0
            self._tried.clear()
            self._asked = None
            core.out.append(SetTimer(JoinAgain(), core.now_us + PATIENCE_US))
            return
        self._candidates = [*names, *[name for name in self._candidates if name not in names]]
        if not names:
            self._ask_next()
            return
        core.out.append(CancelTimer(JoinAgain()))
        self._search = Search(core, offers)
        self._look_at(self._search.begin())

    def _look_at(self, chosen: Chosen | None) -> None:
        """What has come of the search, if it is over."""
        if chosen is None:
            return
        self._search = None
        if self._moving_from is not None:
            parent, self._moving_from = self._moving_from, None
            self._move(parent, chosen.name)
            return
        if chosen.name is not None:
            self._candidates.remove(chosen.name)
            self._candidates.insert(0, chosen.name)
        self._ask_next()

    def probed(self, peer: str, message: Probed) -> None:
        if self._search is not None:
            self._look_at(self._search.probed(peer, message.number))

    def choose(self) -> None:
        """Those that have not answered by now are too far away."""
        if self._search is not None:
            self._look_at(self._search.end())

    def welcomed(self, parent: str, incarnation: int, parcel: Parcel) -> None:
        core = self._core
        head: Welcome = parcel.head
        if self._core.attached or parent != self._asked:
            core.peers.close(parent, f"{core.seat.name} has asked somebody else for a place")
            return
        core.attached = True
        core.peers.settle_name(parent)
        core.out.append(CancelTimer(JoinAgain()))
        standing = core.standing
        standing.parent = parent
        standing.epoch = head.epoch
        standing.succession = head.succession
        standing.network = parcel.network
        link = core.neighbours.add(parent, incarnation)
        self._book.meet(parent, parcel)
        learn(core, parcel)
        core.clock.raise_to(head.clock)
        for origin, reached in parcel.seen.items():
            core.seen.raise_to(origin, reached)
        core.interest.add_neighbour(parent)
        core.confirmed(core.interest.reconcile(parent, parcel.asks, core.says))
        accept_welcome(core.totals, parcel.welcome_locks, parcel.last_totals, parent)
        core.neighbours.open(link)
        core.note("joined", parent)
        core.waves.start(standing.publish_place(), standing.reach, lambda: None)
        core.outcomes.append(Settled())

    # -- giving a place ------------------------------------------------------------------------------------------------

    def withdrawn(self, name: str, message: JoinWithdrawn) -> None:
        """Too late when it is a child already: then it hears the Welcome first. And in vain while it is looked for in a
        tree that is wide: another broker would have to begin again, and would not be waited for either."""
        core = self._core
        if self._core.attached and self._room > 0 and self._core.is_calm and self._claims.gets_on(name):
            return
        if self._claims.drop(name) or name not in core.links:
            core.outbox.send(name, JoinElsewhere(()))

    def refused(self, peer: str, message: NameTaken) -> None:
        """Only before this broker has a place: nobody else can take its name afterwards."""
        if not self._core.attached and peer == self._asked:
            self._core.refuse(f"{peer} does not take {self._core.seat.name}: {message.reason}")

    def requested(self, key: str, incarnation: int, message: JoinRequest) -> None:
        """`key`: of the session, see `claims`."""
        core = self._core
        claim = Claim(key, incarnation, message.address)
        name = claim.name
        if name in core.sessions.all:
            raise PeerError(f"{name!r} is the name of a client")
        standing = core.standing
        over = max(standing.graves.get(name, -1), standing.gone.get(name, -1))
        if incarnation <= over:  # it has no place any more, and perhaps nobody who would tell it
            core.peers.post(key, Fenced(over))
            if key != name:
                core.peers.close(key, "it was told why")
            return
        self._claims.put(claim)
        self.admit()

    def arrived(self, key: str, name: str, incarnation: int) -> None:
        """Somebody who has no right to its name, or has lost it to a later life without knowing."""
        core = self._core
        standing = core.standing
        latest = max(standing.graves.get(name, 0), standing.sessions.get(name, 0))
        if incarnation <= standing.graves.get(name, -1) or incarnation < latest:
            core.outbox.send(key, Fenced(latest))
            core.peers.close(key, "it was told why")

    @property
    def _room(self) -> int:
        return self._core.options.total_degree - len(self._core.links)

    def admit(self) -> None:
        """Take those who wait, if this is a moment for it."""
        core = self._core
        claims = self._claims
        if not self._core.attached or claims.admitted or not claims or not self._core.is_calm or core.retired:
            return
        standing = core.standing
        room = self._room
        for claim in claims.clear(room) if room > 0 else claims.all():
            if room <= 0:
                self._send_elsewhere(claim)
            elif not standing.admits(claim.name, claim.incarnation) or claim.name in claims.admitted:
                claim.rests_until_us = core.now_us + core.options.heartbeat_us
            elif len(claims.admitted) < room:
                self._grant(claim)
            else:
                self._send_elsewhere(claim)
        if claims.admitted:
            links = tuple(core.links)
            here = standing.publish_place()
            lives = [claim.incarnation for claim in claims.admitted.values()]
            foretold = msgspec.structs.replace(
                here, neighbours=(*here.neighbours, *claims.admitted), lives=(*here.lives, *lives)
            )
            standing.places[here.name] = foretold
            core.waves.start(foretold, standing.reach, lambda: self._take_in(links))

    @property
    def admitted(self) -> tuple[str, ...]:
        """Newcomers that are being taken in."""
        return tuple(self._claims.admitted)

    def _grant(self, claim: Claim) -> None:
        """The newcomer has its name from now on."""
        core = self._core
        self._claims.admit(claim)
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
            self._claims.drop(claim.key)
            core.peers.post(claim.key, JoinElsewhere(offers))

    def _take_in(self, links: tuple[str, ...]) -> None:
        """The new place is known. If the neighbours have changed meanwhile, it is not the place that was told."""
        core = self._core
        self._company.remember(self.admitted)
        admitted, self._claims.admitted = self._claims.admitted, {}
        if tuple(core.links) != links or not self._core.is_calm:
            for claim in admitted.values():
                self._claims.put_back(claim)
            self.admit()
            return
        for name, claim in admitted.items():
            if core.peers.incarnation(name) == claim.incarnation and name not in core.links:
                self._welcome(name, claim.incarnation)
        standing = core.standing
        core.waves.start(standing.publish_place(), standing.reach, lambda: None)
        core.outcomes.append(Settled())

    def _welcome(self, name: str, incarnation: int) -> None:
        core = self._core
        standing = core.standing
        core.speaking.say_all()  # what is to be said to the others has nothing to do with the newcomer
        core.interest.add_neighbour(name)
        base = core.retained.marks()
        asks = core.interest.standing(name)[0]
        core.confirmed(core.interest.presume(name, [predicate for _, predicate, _ in asks], base, core.says))
        send = core.outbox.send
        send(name, Welcome(core.clock.now, standing.epoch, standing.succession))
        send(name, NetworkName(standing.network))
        for part in (*pack_surroundings(core), *pack_marks(core.seen.marks()), *pack_asks(asks, confirmed=True)):
            send(name, part)
        for lock in (*newcomer_locks(core.totals), *pack_last_totals(core.handover.last()), *self._book.pack()):
            send(name, lock)
        send(name, ParcelEnd())
        link = core.neighbours.add(name, incarnation)
        joined(core.totals, name)
        core.peers.open(name)
        core.neighbours.open(link)
        core.totals.progress()

    # -- going ---------------------------------------------------------------------------------------------------------

    def move_away(self, parent: str, message: MoveAway) -> None:
        """Asked by the parent, which has too many neighbours. Look for another place first: nobody goes in vain."""
        core = self._core
        if self._may_move(parent) and self._search is None:
            offers = [offer for offer in locate(core, message.offers) if offer.name != parent]
            self._search = Search(core, offers)
            self._moving_from = parent
            self._look_at(self._search.begin())

    def _move(self, parent: str, toward: str | None) -> None:
        core = self._core
        if toward is not None and self._may_move(parent):
            core.outbox.send(parent, Leaving())
            core.retire(f"{parent} asked {core.seat.name} to move to {toward}", kind="moved", toward=toward)

    def _may_move(self, parent: str) -> bool:
        return parent == self._core.standing.parent and len(self._core.links) == 1 and self._core.is_calm

    def leave(self) -> None:
        """Tell the neighbours that nobody needs to wait for this broker, and end. Its parent repairs the tree, and the
        clients find another broker, as if it had crashed."""
        core = self._core
        for name in core.links:
            core.outbox.send(name, Leaving())
        core.retire(f"{core.seat.name} leaves", again=False)


def learn(core: Core, parcel: Parcel) -> None:
    """What a parcel says of the tree."""
    for grave in parcel.graves:
        core.standing.bury(grave.name, grave.incarnation)
    core.standing.learn(*parcel.places)
    core.out.extend([Locate(place.name, place.address) for place in parcel.places if place.address])
