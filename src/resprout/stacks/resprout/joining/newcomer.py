"""How a broker comes into the tree, and how it goes: the side of the one that asks (`admission` is the other).

A newcomer asks its parent, or any broker it knows, for a place, and takes what `Welcome` hands over in one step. One
that is sent elsewhere chooses among the places that it is offered (`offers`). Until its name is found to be its own
it speaks in sessions that give it no right to that name (`claims`).
"""

import random
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from resprout.core.contract import CancelTimer, SetTimer, Timer
from resprout.core.errors import transition
from resprout.core.seen import Seen
from resprout.order.clock import Clock
from resprout.order.link import Link
from resprout.order.totals.handover import accept_welcome
from resprout.order.totals.totals import Totals
from resprout.overlay.configurations import Configurations
from resprout.overlay.messages import Configuration, Probed
from resprout.overlay.waves import Waves
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.joining.offers import Balance, ChosenParent, ParentSearch, locate
from resprout.stacks.resprout.life import BrokerLife, LifeState
from resprout.stacks.resprout.messages import (
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    MoveAway,
    NameTaken,
    Settled,
    TakenIn,
    Welcome,
)
from resprout.stacks.resprout.neighbours import Neighbours
from resprout.stacks.resprout.remembered import RememberedBrokers
from resprout.stacks.resprout.repair.parcels import Parcel, learn
from resprout.stacks.resprout.subscribing import Wishes
from resprout.stacks.resprout.values import ValueDesk

FIRST_PATIENCE_US = 20_000_000
"""How long a broker that starts waits for the parent it was given, which may be waiting for its own."""
PATIENCE_US = 5_000_000
"""How long one broker is waited for that is there and has not answered: it may be looking for a place itself. Longer
each time that one is not even reached, up to `FIRST_PATIENCE_US`: it may be far to everybody."""
REFUSALS_MAX = 16
"""Answers that name nobody new before a newcomer pauses: what is known about room has yet to come around."""
FOUNDING_LEAP = 1_000
"""By so much the first configuration of a broker that is told to found a network is above what it remembers: others may
remember later ones."""
TRIED_MAX = 4_096
"""Places that one search remembers to have asked."""


class JoinAgain(Timer, frozen=True):
    """When to ask somebody else for a place, because the one asked has not answered."""


class NewcomerState(Enum):
    OUTSIDE = auto()
    """It has not asked anybody yet."""
    SEEKING = auto()
    """It remembers its network, and looks for a broker that has a place in it (`reunion`)."""
    ASKING = auto()
    """It has asked one broker, and waits for the answer."""
    CHOOSING = auto()
    """It was offered places, and measures which is best."""
    PAUSING = auto()
    """Nobody had room, and everybody named the same others: what is known about room has yet to come around."""
    PLACED = auto()
    MOVING = auto()
    """It has a place, and looks for another, because a broker above it has too many neighbours."""


NEWCOMER_STATES: Final[Mapping[NewcomerState, frozenset[NewcomerState]]] = {
    NewcomerState.OUTSIDE: frozenset({NewcomerState.SEEKING, NewcomerState.ASKING, NewcomerState.PLACED}),
    NewcomerState.SEEKING: frozenset({NewcomerState.ASKING, NewcomerState.PLACED}),
    NewcomerState.ASKING: frozenset(
        {
            NewcomerState.ASKING,
            NewcomerState.CHOOSING,
            NewcomerState.PAUSING,
            NewcomerState.PLACED,
            NewcomerState.SEEKING,
        }
    ),
    NewcomerState.CHOOSING: frozenset({NewcomerState.ASKING, NewcomerState.PLACED, NewcomerState.SEEKING}),
    NewcomerState.PAUSING: frozenset({NewcomerState.ASKING, NewcomerState.PLACED, NewcomerState.SEEKING}),
    NewcomerState.PLACED: frozenset({NewcomerState.MOVING}),
    NewcomerState.MOVING: frozenset({NewcomerState.PLACED}),
}


class Newcomer:
    """This broker, as one that looks for a place: at first, and when it has to move."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        waves: Waves,
        links: dict[str, Link],
        clock: Clock,
        seen: Seen,
        totals: Totals,
        disk: DiskLog | None,
        neighbours: Neighbours,
        remembered: RememberedBrokers,
        wishes: Wishes,
        rng: random.Random,
        configurations: Configurations,
        values: ValueDesk,
        balance: Balance,
    ) -> None:
        self._life = life
        self._peers = peers
        self._waves = waves
        self._links = links
        self._clock = clock
        self._seen = seen
        self._totals = totals
        self._disk = disk
        self._neighbours = neighbours
        self._remembered = remembered
        self._wishes = wishes
        self._rng = rng
        self._configurations = configurations
        self._values = values
        self._balance = balance
        self.state = NewcomerState.OUTSIDE
        self._candidates: list[str] = []
        self._asked: str | None = None
        self._patience_us = PATIENCE_US
        self._trips_us: dict[str, int] = {}
        """Round trips to other brokers, as the handshakes of their sessions took them."""
        self._too_far: set[str] = set()
        """Brokers that people were told are too far away."""
        self._search: ParentSearch | None = None
        """Among places that were offered."""
        self._moving_from: str | None = None
        """The parent that asked this broker to move: then the search is for another place than the one it has."""
        self._refusals = 0
        self._living_us: int | None = None
        """When the first broker answered that it has a place, while this one looks for its network."""
        self._tried: set[str] = set()
        """Who was asked since the last pause: whoever is sent to others than these comes nearer to a place."""

    def _move_to(self, state: NewcomerState) -> None:
        self.state = transition(NEWCOMER_STATES, self.state, state)

    # -- asking for a place --------------------------------------------------------------------------------------------

    def start(self) -> None:
        life = self._life
        seat = life.seat
        if seat.founds or (seat.parent is None and not seat.contacts and self._remembered.memory is None):
            self._found()
            return
        if self._remembered.memory is not None:
            self._move_to(NewcomerState.SEEKING)
            return
        self._peers.is_newcomer = True
        self._candidates = [seat.parent] if seat.parent is not None else []
        self._candidates += [name for name in seat.contacts if name not in self._candidates and name != seat.name]
        self._ask_next()

    def _found(self) -> None:
        """Nobody else goes on with what this broker remembers, as an operator says."""
        life, memory = self._life, self._remembered.memory
        if memory is not None:
            life.view.epoch = memory.epoch
            self._totals.become_root(memory.epoch + 1)
            life.view.bury([*memory.others, *[voter.life for x in memory.known for voter in x.voters]])
        version = 1 + (max(x.version for x in memory.known) + FOUNDING_LEAP if memory is not None else 0)
        life.view.found(self._rng.getrandbits(32), version)
        self.placed()
        life.outcomes.append(Settled())

    def placed(self) -> None:
        """This broker is the root."""
        life = self._life
        life.move_to(LifeState.PLACED)
        self._peers.is_newcomer = False
        life.out.append(CancelTimer(JoinAgain()))
        self._search = None
        self._move_to(NewcomerState.PLACED)

    def living(self, name: str) -> None:
        """This broker has a place, and may give one to this broker, which looks for its network."""
        if self.state is NewcomerState.PLACED or name in self._candidates:
            return
        self._candidates.append(name)
        if self._living_us is None:
            self._living_us = self._life.now_us
        if name == self._life.seat.parent:
            self.choose_living(at_once=True)

    def choose_living(self, at_once: bool = False) -> None:
        """The parent is preferred, if it is there: a little later any other will do."""
        life = self._life
        if self.state is not NewcomerState.SEEKING or not self._candidates or self._living_us is None:
            return
        if at_once or life.seat.parent is None or life.now_us - self._living_us >= life.options.heartbeat_us:
            order = list(self._remembered.sought)
            self._candidates.sort(key=lambda name: order.index(name) if name in self._remembered.sought else len(order))
            self._living_us = None
            self._ask_next()

    def _ask_next(self) -> None:
        life = self._life
        if self._asked is not None and self._remembered.memory is not None and not self._peers.is_heard(self._asked):
            self._peers.close(self._asked, f"{life.seat.name} looks for its network elsewhere")
            self._candidates = [name for name in self._candidates if name != self._asked]
            self._asked = None
            if not self._candidates:
                life.out.append(CancelTimer(JoinAgain()))
                self._move_to(NewcomerState.SEEKING)
                return
        if self._asked is not None:
            if self._candidates[0] == self._asked:
                self._candidates.append(self._candidates.pop(0))
            if len(self._candidates) > 1:
                self._peers.close(self._asked, f"{life.seat.name} asks another broker for a place")
        self._move_to(NewcomerState.ASKING)
        self._asked = self._candidates[0]
        self._tried.add(self._asked)
        if self._passes_over(self._asked):
            return
        self._peers.post(self._asked, JoinRequest(life.seat.address))
        is_first = life.seat.incarnation == 1 and self._asked == life.seat.parent
        life.out.append(SetTimer(JoinAgain(), life.now_us + (FIRST_PATIENCE_US if is_first else self._patience_us)))

    def again(self) -> None:
        """The one asked is there and has not answered: withdraw, and ask another when it agrees."""
        life = self._life
        if self.state not in (NewcomerState.ASKING, NewcomerState.PAUSING):
            return
        if self._asked is not None and self._peers.is_heard(self._asked) and len(self._candidates) > 1:
            self._peers.post(self._asked, JoinWithdrawn())
            life.out.append(SetTimer(JoinAgain(), life.now_us + PATIENCE_US))
        else:
            if self._asked is not None and not self._peers.incarnation(self._asked):
                self._patience_us = min(2 * self._patience_us, FIRST_PATIENCE_US)
            self._ask_next()

    def silent(self, peer: str) -> None:
        """The one asked is not there. A first parent that was never reached may be about to start."""
        life = self._life
        if self._search is not None:
            self._look_at(self._search.lost(peer))
        elif (
            self.state is NewcomerState.ASKING
            and peer == self._asked
            and (life.seat.incarnation > 1 or self._peers.incarnation(peer))
        ):
            self._ask_next()

    def reached(self, peer: str, trip_us: int) -> bool:
        """A session begins, whose handshake took so long, and nothing has been said in it yet. Return False if it is
        over again: this broker was to be asked for a place, and is too far away."""
        if len(self._trips_us) < TRIED_MAX or peer in self._trips_us:
            self._trips_us[peer] = trip_us
        return not (self.state is NewcomerState.ASKING and peer == self._asked and self._passes_over(peer))

    def lost(self, peer: str) -> None:
        """The session with the one asked is over, and the request with it."""
        if self._search is not None:
            self._look_at(self._search.lost(peer))
        elif self.state is NewcomerState.ASKING and peer == self._asked:
            self._ask_next()

    def sent_elsewhere(self, peer: Peer, message: JoinElsewhere) -> None:
        life = self._life
        if self.state is not NewcomerState.ASKING or peer.name != self._asked:
            return
        offers = locate(life, message.offers)
        names = [offer.name for offer in offers]
        if self._tried.issuperset(names) or len(self._tried) > TRIED_MAX:
            self._refusals += 1
        if self._refusals == REFUSALS_MAX:
            self._refusals = 0
            self._tried.clear()
            self._asked = None
            self._move_to(NewcomerState.PAUSING)
            life.out.append(SetTimer(JoinAgain(), life.now_us + PATIENCE_US))
            return
        self._candidates = [*names, *[name for name in self._candidates if name not in names]]
        if not names:
            self._ask_next()
            return
        life.out.append(CancelTimer(JoinAgain()))
        self._move_to(NewcomerState.CHOOSING)
        self._search = ParentSearch(life, self._peers, offers)
        self._look_at(self._search.begin())

    def _look_at(self, chosen: ChosenParent | None) -> None:
        """What has come of the search, if it is over."""
        if chosen is None:
            return
        self._search = None
        if self._moving_from is not None:
            parent, self._moving_from = self._moving_from, None
            self._move_to(NewcomerState.PLACED)
            self._move(parent, chosen.name)
            return
        if chosen.name is not None:
            self._candidates.remove(chosen.name)
            self._candidates.insert(0, chosen.name)
        self._ask_next()

    def probed(self, peer: Peer, message: Probed) -> None:
        if self._search is not None:
            self._look_at(self._search.probed(peer.name, message.number))

    def choose(self) -> None:
        """Those that have not answered by now are too far away."""
        if self._search is not None:
            self._look_at(self._search.end())

    def welcomed(self, peer: Peer, parcel: Parcel) -> None:
        life, parent = self._life, peer.name
        head: Welcome = parcel.head
        if life.attached or parent != self._asked:
            self._peers.close(parent, f"{life.seat.name} has asked another broker for a place")
            return
        life.move_to(LifeState.PLACED)
        self._search = None
        self._move_to(NewcomerState.PLACED)
        self._peers.settle_name(parent)
        life.out.append(CancelTimer(JoinAgain()))
        view = life.view
        view.parent = parent
        view.epoch = head.epoch
        self._follow(head.configuration, head.network)
        view.network = head.network
        link = self._neighbours.begin_links({parent: peer.incarnation}, {parent: parcel})[parent]
        learn(life, parcel)
        self._clock.raise_to(head.clock)
        for origin, reached in parcel.seen.items():
            self._seen.raise_to(origin, reached)
        self._wishes.reconcile(parent, parcel.asks)
        self._values.replace(parcel.values)
        self._totals.published.topics.take(parcel.topics)
        accept_welcome(self._totals, parcel.locks, parcel.last_totals, parent)
        self._neighbours.open(link)
        life.note("joined", parent)
        self._waves.start(view.publish_place(), view.reach, lambda: None)
        if self._disk is not None:
            life.outcomes.append(TakenIn(parent))
        life.outcomes.append(Settled())

    def _follow(self, configuration: Configuration, network: str) -> None:
        """What this broker has agreed to still counts in the network that it remembers, and in no other. That others
        are dead, it has heard from those who looked for the network, too: the network knows better."""
        view = self._life.view
        if self._remembered.memory is not None:
            view.tombstones.clear()
            view.replaced.clear()
        if self._remembered.memory is not None and self._remembered.memory.network == network:
            self._configurations.withdraw()
            view.follow(configuration)
            return
        self._remembered.memory = None
        view.own_lives = (view.incarnation,)
        self._configurations.restore(Configuration(), (), 0)
        view.configuration = configuration

    def _passes_over(self, parent: str) -> bool:
        """A child is expected to speak within a lease and two heartbeats. One whose first word comes later would be
        declared dead each time, so it does not ask for a place there, says why, and asks the next one after a while.
        It must not wait for the Welcome: a child that turns its place down is buried, and no other broker would take
        that life."""
        life, lease_us = self._life, self._life.options.lease_us
        trip_us = self._trips_us.get(parent, 0)
        if trip_us <= lease_us + 2 * life.options.heartbeat_us:
            return False
        if parent not in self._too_far and len(self._too_far) < TRIED_MAX:
            self._too_far.add(parent)
            me = life.seat.name
            life.note(
                "slow_link",
                f"a round trip to {parent} takes {trip_us / 1e6:.1f} s, and lease_us is {lease_us / 1e6:g} s: {me} does"
                f" not join there; give all brokers a lease_us of at least {2 * trip_us / 1e6:.0f} s",
            )
        self._peers.close(parent, f"a round trip of {trip_us} us is too long for a lease of {lease_us} us")
        self._trips_us.pop(parent)
        self._candidates = [*[name for name in self._candidates if name != parent], parent]
        self._asked = None
        self._move_to(NewcomerState.PAUSING)
        life.out.append(SetTimer(JoinAgain(), life.now_us + PATIENCE_US))
        return True

    def refused(self, peer: Peer, message: NameTaken) -> None:
        """Only before this broker has a place: nobody else can take its name afterwards."""
        if not self._life.attached and peer.name == self._asked:
            self._life.refuse(f"{peer.name} does not take {self._life.seat.name}: {message.reason}")

    # -- going ---------------------------------------------------------------------------------------------------------

    def move_away(self, link: Link, message: MoveAway) -> None:
        """A broker above has too many neighbours. With children, pass the request on to one of them: only leaves move.
        Without, look for another place first: nobody goes in vain."""
        life, parent = self._life, link.name
        if parent == life.view.parent and len(self._links) > 1 and life.is_calm:
            if (move := self._balance.pass_on(message)) is not None:
                self._peers.post(*move)
        elif self._may_move(parent) and self.state is NewcomerState.PLACED:
            offers = [offer for offer in locate(life, message.offers) if offer.name != parent]
            self._move_to(NewcomerState.MOVING)
            self._search = ParentSearch(life, self._peers, offers)
            self._moving_from = parent
            self._look_at(self._search.begin())

    def _move(self, parent: str, toward: str | None) -> None:
        life = self._life
        if toward is not None and self._may_move(parent):
            self._peers.post(parent, Leaving())
            life.retire(f"{parent} asked {life.seat.name} to move to {toward}", kind="moved", toward=toward)

    def _may_move(self, parent: str) -> bool:
        return parent == self._life.view.parent and len(self._links) == 1 and self._life.is_calm
