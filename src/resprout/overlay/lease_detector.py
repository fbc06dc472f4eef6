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

from resprout.overlay.liveness import Liveness
from resprout.overlay.places import Life
from resprout.overlay.status import CouncilOptions
from resprout.overlay.view import MembershipView

STIRRING_LEASES: Final = 4
"""So long bytes that move stand for a stack that says nothing."""
UNHEARD_POSTS_MAX: Final = 16
"""Words that are kept for a peer that is not heard. All of them are repeated as long as they matter, so more would only
pile up during a long partition."""


class LeaseDetector:
    def __init__(self, view: MembershipView, options: CouncilOptions) -> None:
        self._view = view
        self.heartbeat_us: Final = options.heartbeat_us
        self.lease_us: Final = options.lease_us
        self.patience_us: Final = options.lease_us * 103 // 100
        """A lease by the slowest clock that is allowed, for those who wait until another's lease is over."""
        self.leased = True
        self.renewed_us = 0
        """When the latest ping was sent that the parent answered."""
        self.silent: dict[str, int] = {}
        """Peers with a broken connection -> what was posted to them since."""
        self._ended: dict[str, int] = {}
        """Name -> highest incarnation that has certainly ended."""
        self._received: dict[str, int] = {}
        self._stirred: dict[str, int] = {}
        """Peers -> when something large last got on, from or to them."""
        self._pinged: dict[str, int] = {}
        self._ponged: dict[str, int] = {}
        """Parent and root -> when the latest ping was sent that it answered."""
        self._watched: dict[str, int] = {}
        """Children and voters -> since when they are expected to give signs of life."""
        self._spoke: dict[str, int] = {}
        """Peers -> when a message came from them."""
        self._unproven: set[str] = set()
        """Peers whose connection was the last that came from them."""
        self._parent: str | None = None
        self._started = False

    def follow_parent(self, now_us: int) -> bool:
        """A new parent (or none: we became the root) begins with a fresh lease. True when it changed."""
        if self._started and self._parent == self._view.parent:
            return False
        self._started = True
        self._parent = self._view.parent
        self.renewed_us = now_us
        self.leased = True
        return True

    # -- signs of life -------------------------------------------------------------------------------------------------

    def heard(self, peer: str, now_us: int) -> None:
        """The stack of this peer has said something: a sign of life."""
        self._received[peer] = self._spoke[peer] = now_us
        self._unproven.discard(peer)
        if peer in self.silent:
            self._not_silent(peer)

    def connected(self, peer: str, now_us: int) -> None:
        """Its connection stands (again), and nothing has come on it yet."""
        if peer not in self._unproven:
            self._unproven.add(peer)
            self._received[peer] = now_us
        if peer in self.silent:
            self._not_silent(peer)

    def _not_silent(self, peer: str) -> None:
        del self.silent[peer]
        self._began(peer, self._view.sessions.get(peer, self._view.incarnation_of(peer)))

    def stirred(self, peer: str, now_us: int) -> None:
        """Something large gets on, from or to it. That stands for its stack as long as it may be at work on it."""
        if now_us - self._spoke.get(peer, 0) <= STIRRING_LEASES * self.lease_us:
            self._received[peer] = self._stirred[peer] = now_us

    def stirred_us(self, peer: str) -> int:
        return self._stirred.get(peer, 0)

    def is_unresponsive(self, name: str, now_us: int) -> bool:
        """Nothing at all has come from it for a lease. A link that is slow brings something all the time."""
        return now_us - self._received.get(name, 0) > self.lease_us

    def met(self, peer: str, incarnation: int, now_us: int) -> None:
        """A session with this life begins: it lives, and all before it are over."""
        if incarnation != self._view.sessions.get(peer):
            self._unproven.discard(peer)
        self.connected(peer, now_us)
        self._view.sessions[peer] = incarnation
        self._began(peer, incarnation)

    def _began(self, peer: str, incarnation: int) -> None:
        self._ended[peer] = incarnation - 1

    def lost(self, peer: str, refused: bool) -> None:
        """Its connection is broken, or cannot be made; `refused`: its own host says that the process is gone."""
        self.silent.setdefault(peer, 0)
        if refused:
            known = self._view.incarnation_of(peer)
            self._ended[peer] = max(known, self._view.sessions.get(peer, known), self._ended.get(peer, 0))

    def ended(self, life: Life) -> None:
        """This life is over, and so are all before it."""
        self._ended[life.name] = max(life.incarnation, self._ended.get(life.name, 0))

    def has_ended(self, name: str) -> bool:
        """The life that stands in the tree under this name is certainly over."""
        return self._ended.get(name, -1) >= self._view.incarnation_of(name)

    def is_ended(self, life: Life) -> bool:
        """This life is certainly over, by the word of its host."""
        return self._ended.get(life.name, -1) >= life.incarnation

    def liveness(self, name: str, now_us: int) -> Liveness:
        """Of the life that stands in the tree under this name, as far as connections and words tell."""
        if self.has_ended(name):
            return Liveness.ENDED
        if name in self.silent:
            return Liveness.SILENT
        return Liveness.UNRESPONSIVE if self.is_unresponsive(name, now_us) else Liveness.HEARD

    def may_post(self, peer: str) -> bool:
        posted = self.silent.get(peer)
        if posted is None:
            return True
        self.silent[peer] = posted + 1
        return posted < UNHEARD_POSTS_MAX

    def pinged(self, peer: str, now_us: int) -> None:
        self._pinged[peer] = now_us

    def watch(self, names: list[str], now_us: int) -> None:
        """From these, and no others, pings are expected from now on."""
        self._watched = {name: self._watched.get(name, now_us) for name in names}

    def silence_us(self, name: str, now_us: int) -> int:
        """How long nothing has come from one that is watched."""
        return now_us - self._last_sign(name, now_us)

    def is_overdue(self, name: str, now_us: int) -> bool:
        """One that is watched has given no sign of life for longer than a lease."""
        return self.silence_us(name, now_us) > self.patience_us

    def _last_sign(self, name: str, now_us: int) -> int:
        return max(self._received.get(name, 0), self._pinged.get(name, 0), self._watched.get(name, now_us))

    # -- the own lease -------------------------------------------------------------------------------------------------

    @property
    def is_leased(self) -> bool:
        """The lease, of a broker that has a place in the tree."""
        return self.leased and (self._view.parent is not None or self._view.leads_configuration)

    def ponged(self, peer: str, sent_us: int, leased: bool, now_us: int) -> None:
        """It answered the ping that was sent then."""
        self._ponged[peer] = max(self._ponged.get(peer, 0), min(sent_us, now_us))
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
        long_ago_us = -self.lease_us - 1
        latest_us = max(self._ponged.get(name, long_ago_us), self._received.get(name, long_ago_us))
        is_fresh = now_us - latest_us <= self.lease_us
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
        return name == self._view.name or now_us - self._pinged.get(name, -self.lease_us - 1) <= self.lease_us

    def held_since_us(self, now_us: int) -> int:
        """When the own lease was renewed last: the latest ping that the parent answered; at the root, the time since
        which half of the configuration was heard, itself included."""
        here = self._view
        if here.parent is not None and not here.is_dead(here.parent):
            return self.renewed_us
        if here.configuration.root != here.name:
            return 0  # a candidate has no lease before the configuration follows it
        signs = sorted(
            [now_us if x == here.name else self._pinged.get(x, 0) for x in here.configuration.names], reverse=True
        )
        return signs[(len(signs) - 1) // 2]

    def is_sure(self, name: str, now_us: int, since_us: int | None = None) -> bool:
        """It is certainly gone, or was silent (or owed an answer, since then) for longer than its lease while our own
        was renewed after that moment."""
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
        if len(self._received) + len(self._ended) + len(here.sessions) <= 4 * (len(here.places) + 64):
            return
        known = {*here.places, *here.neighbours, *here.configuration.names}
        tables = (
            self.silent, self._ended, self._received, self._spoke, self._stirred, self._pinged, self._ponged,
            here.sessions,
        )  # fmt: skip
        for table in tables:
            for name in [name for name in table if name not in known]:
                del table[name]
        self._unproven &= known
