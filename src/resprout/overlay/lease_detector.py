"""Signs of life of others, and the own lease.

Time only ever decides when to suspect (rule R4 of docs/protocol.md): a broker counts as dead when its host says that
the process is gone, or when it was silent for longer than a lease *and* our own lease was renewed after that. A broker
that is itself cut off, or that slept, has no renewed lease and therefore no right to call others dead.

A lease is renewed by the parent's answer to a ping and counts from the moment that ping was sent. The root's lease is
half of the configuration that was heard, itself included.

A sign of life is what a stack says. That a connection stands, or stands again, shows only that somebody keeps it: a
broker that hangs may go on doing that for ever. So a new connection is taken for a sign once, to give the stack the
time to speak, and not again before it has spoken. Bytes of a large message that get on are a sign, too, because on a
thin link words may be late; but words overtake bulk, so bytes alone do not stand for a stack for ever.
"""

from typing import Final

from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import CouncilOptions, Life
from resprout.overlay.view import MembershipView

STIRRING_LEASES: Final = 4
"""How long progress of a large message counts as a sign of life of a stack that says nothing."""
UNHEARD_POSTS_MAX: Final = 16
"""Words that are kept for a peer that is not heard. All of them are repeated as long as they matter, so more would only
pile up during a long partition."""


NEVER_US: Final = -(1 << 60)
"""Before everything."""


class Signs:
    """The signs of life of one peer, by the name that its lives share."""

    __slots__ = ("ended", "is_unproven", "pinged_us", "ponged_us", "posted", "received_us", "spoke_us", "stirred_us")

    def __init__(self) -> None:
        self.received_us = NEVER_US
        """When it last gave a sign of life."""
        self.spoke_us = NEVER_US
        """When a message came from it."""
        self.stirred_us = NEVER_US
        """When something large last got on, from or to it."""
        self.pinged_us = NEVER_US
        """When it pinged this broker, or answered as a voter."""
        self.ponged_us = NEVER_US
        """For the parent and the root: when the latest ping was sent that it answered."""
        self.is_unproven = False
        """Whether a new connection was the last sign of it: it has said nothing since."""
        self.posted: int | None = None
        """Messages that were posted to it since its connection broke; None while it stands."""
        self.ended = -1
        """Its highest incarnation that has certainly ended."""


_NO_SIGNS: Final = Signs()


class LeaseDetector:
    """The failure detector of one broker, and its own lease."""

    def __init__(self, view: MembershipView, options: CouncilOptions) -> None:
        self._view = view
        self.heartbeat_us: Final = options.heartbeat_us
        self.lease_us: Final = options.lease_us
        self.patience_us: Final = options.lease_us * 103 // 100
        """The length of a lease by the slowest clock that is allowed: how long to wait until another broker's lease
        is over."""
        self.leased = True
        self.renewed_us = 0
        """When the latest ping was sent that the parent answered."""
        self._signs: dict[str, Signs] = {}
        self._watched: dict[str, int] = {}
        """Children and voters -> since when they are expected to give signs of life."""
        self._parent: str | None = None
        self._started = False

    def follow_parent(self, now_us: int) -> bool:
        """Begin a fresh lease if the parent has changed, or this broker became the root. Return whether it did."""
        if self._started and self._parent == self._view.parent:
            return False
        self._started = True
        self._parent = self._view.parent
        self.renewed_us = now_us
        self.leased = True
        return True

    # -- signs of life -------------------------------------------------------------------------------------------------

    def heard(self, peer: str, now_us: int) -> None:
        """Note a sign of life: the stack of this peer has said something."""
        signs = self._of(peer)
        signs.received_us = signs.spoke_us = now_us
        signs.is_unproven = False
        if signs.posted is not None:
            self._not_silent(peer, signs)

    def connected(self, peer: str, now_us: int) -> None:
        """Note that a connection stands (again), on which nothing has come yet."""
        signs = self._of(peer)
        if not signs.is_unproven:
            signs.is_unproven = True
            signs.received_us = now_us
        if signs.posted is not None:
            self._not_silent(peer, signs)

    def _not_silent(self, peer: str, signs: Signs) -> None:
        signs.posted = None
        signs.ended = self._view.sessions.get(peer, self._view.incarnation_of(peer)) - 1

    def _of(self, peer: str) -> Signs:
        signs = self._signs.get(peer)
        if signs is None:
            signs = self._signs[peer] = Signs()
        return signs

    def stirred(self, peer: str, now_us: int) -> None:
        """Something large gets on, from or to it. That stands for its stack as long as it may be at work on it."""
        signs = self._of(peer)
        if now_us - max(signs.spoke_us, 0) <= STIRRING_LEASES * self.lease_us:
            signs.received_us = signs.stirred_us = now_us

    def stirred_us(self, peer: str) -> int:
        return max(self._signs.get(peer, _NO_SIGNS).stirred_us, 0)

    def is_silent(self, name: str) -> bool:
        """Whether its connection is broken, or cannot be made."""
        return self._signs.get(name, _NO_SIGNS).posted is not None

    def is_unresponsive(self, name: str, now_us: int) -> bool:
        """Whether nothing at all has come from it for a lease. A slow link brings something all the time."""
        return now_us - max(self._signs.get(name, _NO_SIGNS).received_us, 0) > self.lease_us

    def met(self, peer: str, incarnation: int, now_us: int) -> None:
        """Note that a session with this life begins: it lives, and all earlier ones have ended."""
        signs = self._of(peer)
        if incarnation != self._view.sessions.get(peer):
            signs.is_unproven = False
        self.connected(peer, now_us)
        self._view.sessions[peer] = incarnation
        signs.ended = incarnation - 1

    def lost(self, peer: str, refused: bool) -> None:
        """Note that its connection is broken, or cannot be made; `refused`: its host says that the process is gone."""
        signs = self._of(peer)
        if signs.posted is None:
            signs.posted = 0
        if refused:
            known = self._view.incarnation_of(peer)
            signs.ended = max(known, self._view.sessions.get(peer, known), signs.ended)

    def ended(self, life: Life) -> None:
        """Note that this life, and all before it, have ended."""
        signs = self._of(life.name)
        signs.ended = max(life.incarnation, signs.ended)

    def has_ended(self, name: str) -> bool:
        """Whether the life that has this name's place in the tree has certainly ended."""
        return self._signs.get(name, _NO_SIGNS).ended >= self._view.incarnation_of(name)

    def is_ended(self, life: Life) -> bool:
        """Whether this life has certainly ended, as its host said."""
        return self._signs.get(life.name, _NO_SIGNS).ended >= life.incarnation

    def liveness(self, name: str, now_us: int) -> Liveness:
        """Return the liveness of the life that has this name's place in the tree, as far as connections and messages
        tell."""
        if self.has_ended(name):
            return Liveness.ENDED
        if self.is_silent(name):
            return Liveness.SILENT
        return Liveness.UNRESPONSIVE if self.is_unresponsive(name, now_us) else Liveness.HEARD

    def may_post(self, peer: str) -> bool:
        signs = self._signs.get(peer, _NO_SIGNS)
        if signs.posted is None:
            return True
        signs.posted += 1
        return signs.posted <= UNHEARD_POSTS_MAX

    def pinged(self, peer: str, now_us: int) -> None:
        self._of(peer).pinged_us = now_us

    def watch(self, names: list[str], now_us: int) -> None:
        """From these, and no others, pings are expected from now on."""
        self._watched = {name: self._watched.get(name, now_us) for name in names}

    def silence_us(self, name: str, now_us: int) -> int:
        """Return how long nothing has come from a broker that is watched."""
        return now_us - self._last_sign(name, now_us)

    def is_overdue(self, name: str, now_us: int) -> bool:
        """One that is watched has given no sign of life for longer than a lease."""
        return self.silence_us(name, now_us) > self.patience_us

    def _last_sign(self, name: str, now_us: int) -> int:
        signs = self._signs.get(name, _NO_SIGNS)
        return max(signs.received_us, signs.pinged_us, self._watched.get(name, now_us), 0)

    # -- the own lease -------------------------------------------------------------------------------------------------

    @property
    def is_leased(self) -> bool:
        """The lease, of a broker that has a place in the tree."""
        return self.leased and (self._view.parent is not None or self._view.leads_configuration)

    def ponged(self, peer: str, sent_us: int, leased: bool, now_us: int) -> None:
        """Note an answer to the ping that was sent at `sent_us`."""
        signs = self._of(peer)
        signs.ponged_us = max(signs.ponged_us, min(sent_us, now_us), 0)
        if peer != self._view.parent:
            return
        self.renewed_us = max(self.renewed_us, min(sent_us, now_us))
        if not leased:
            self.leased = False
        elif self.hears_parent(now_us):
            self.leased = True

    def hears_parent(self, now_us: int) -> bool:
        return now_us - self.renewed_us <= self.lease_us

    def hears(self, name: str, now_us: int) -> bool:
        """The parent, or the root from one of its voters: it has answered, or something of it has come, within a
        lease."""
        if self.has_ended(name):
            return False
        signs = self._signs.get(name, _NO_SIGNS)
        is_fresh = now_us - max(signs.ponged_us, signs.received_us) <= self.lease_us
        return is_fresh or (name == self._view.parent and self.hears_parent(now_us))

    def check_root_lease(self, now_us: int) -> None:
        """At the root: leased while half of the configuration is heard, itself included: without it nobody can decide
        anything then."""
        self.leased = self.hears_half(now_us)

    def hears_half(self, now_us: int) -> bool:
        here = self._view
        heard = {voter.life for voter in here.configuration.voters if self._is_voter_heard(voter.name, now_us)}
        is_half = here.is_half_with_root(here.configuration, heard)
        return is_half or here.is_majority(here.configuration, heard, self.is_ended)

    def _is_voter_heard(self, name: str, now_us: int) -> bool:
        return name == self._view.name or now_us - self._signs.get(name, _NO_SIGNS).pinged_us <= self.lease_us

    def held_since_us(self, now_us: int) -> int:
        """When the own lease was renewed last: the latest ping that the parent answered; at the root, the time since
        which half of the configuration was heard, itself included."""
        here = self._view
        if here.parent is not None and not here.is_dead(here.parent):
            return self.renewed_us
        if here.configuration.root != here.name:
            return 0  # a candidate has no lease before the configuration follows it
        signs = [self._signs.get(name, _NO_SIGNS).pinged_us for name in here.configuration.names if name != here.name]
        return sorted([now_us, *[max(pinged_us, 0) for pinged_us in signs]])[(len(signs) + 1) // 2]

    def is_sure(self, name: str, now_us: int, since_us: int | None = None) -> bool:
        """Whether it has certainly ended; or was silent (or owed an answer, since `since_us`) for longer than its
        lease, while this broker's own lease was renewed after that moment."""
        if self.has_ended(name):
            return True
        here = self._view
        lapsed_us = (self._last_sign(name, now_us) if since_us is None else since_us) + self.patience_us
        held = self.leased or (here.parent is not None and here.is_dead(here.parent))
        return now_us > lapsed_us and held and self.held_since_us(now_us) > lapsed_us

    # -- bounds --------------------------------------------------------------------------------------------------------

    def forget_strangers(self) -> None:
        """Keep nothing about peers that are neither in view nor voters."""
        here = self._view
        if 2 * len(self._signs) + len(here.sessions) <= 4 * (len(here.places) + 64):
            return
        known = {*here.places, *here.neighbours, *here.configuration.names}
        self._signs = {name: signs for name, signs in self._signs.items() if name in known}
        for name in [name for name in here.sessions if name not in known]:
            del here.sessions[name]
