"""Membership decisions of one broker: who is dead, who may say so, and when a repair may end.

The caller passes in the time, changes of connections (`silent`, `connected`), that a message came (`heard`) or makes
progress (`stirred`), and every message of `messages` (`take`); and it calls `tick` once per heartbeat. After each call
it acts on the outcomes. `Declared`: close the links of the dead, tell them `Fenced`, lead the repair, and let it end
only when `register` allows it. `Registered`: call `register` again. `Expelled`: stop.

This class does not repair anything, open or close sessions, or decide by time alone (see `lease_detector`).
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay import lineage
from resprout.overlay.death_checks import Election, Probes
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import (
    CouncilOptions,
    CouncilStatus,
    Enrolled,
    Expelled,
    Fenced,
    Life,
    Namesake,
    Ping,
    Pong,
)
from resprout.overlay.registry import Heir, Registry
from resprout.overlay.suspicions import Suspicions
from resprout.overlay.trust_rules import TrustRules
from resprout.overlay.view import MembershipView
from resprout.overlay.waves import Waves

Handler = Callable[[str, Any, int], None]
"""(peer, message, now_us)."""


class Council:
    """Decides about membership for one broker; the head of this file says how its owner uses it."""

    def __init__(
        self,
        view: MembershipView,
        options: CouncilOptions,
        post: Callable[[str, ProtocolMessage], None],
        outcomes: deque[Outcome],
        keep: Callable[[], None] = lambda: None,
        claims: Callable[[str], list[Namesake]] = lambda name: [],
    ) -> None:
        """`post` opens a session on demand; an attempt that fails comes back as `silent`. `keep` is called when this
        broker has agreed to a configuration, before any other broker is told. `claims` returns the newcomers that ask
        this broker for a place under a name."""
        self._view = view
        self._send = post
        self._outcomes = outcomes
        self._detector = LeaseDetector(view, options)
        self.heard = self._detector.heard
        """Called with (peer, now_us) when a message came from the peer."""
        self.stirred = self._detector.stirred
        """Called with (peer, now_us) when a part of a large message from or to the peer arrived: the peer lives, and
        may need more time to answer."""
        self._probes = Probes(view, self._detector, self._post)
        self._trust = TrustRules(view, self._detector)
        waves = self.waves = Waves(view, post, outcomes, self._trust.judge_registration, claims)
        self.believed_deaths = self._trust.believed_deaths
        self._election = Election(view, self._detector, self._probes, self._post, outcomes)
        self._registry = Registry(
            view,
            self._detector,
            waves,
            self._post,
            outcomes,
            keep,
            self._trust.believed_deaths,
            self._trust.may_follow,
        )
        self.configurations = self._registry.configurations
        self._suspicions = Suspicions(
            view, self._detector, self._probes, self._election, self._registry, waves.census, self._post, outcomes
        )
        self._handlers: dict[type, Handler] = {
            Ping: self._on_ping, Pong: self._on_pong, Fenced: self._on_fenced,
            **self._probes.handlers, **self._election.handlers,
            **self._registry.handlers, **self._suspicions.handlers,
        }  # fmt: skip
        self.messages = tuple(self._handlers)
        """The message classes that `take` handles."""

    # -- what is asked -------------------------------------------------------------------------------------------------

    @property
    def leased(self) -> bool:
        """Whether this broker is in contact with the root through living brokers; at the root, with a majority of its
        configuration."""
        return self._detector.is_leased

    @property
    def is_root(self) -> bool:
        return self._view.parent is None and self._view.leads_configuration

    @property
    def unbelieved(self) -> int:
        """Messages that were dropped because their senders had no right to send them (`TrustRules`)."""
        return self._trust.unbelieved

    def may_repair(self, peer: str, dead: tuple[Life, ...], now_us: int) -> bool:
        """Whether this broker takes part in a repair that the peer leads."""
        return self._trust.may_repair(peer, dead, now_us)

    def has_ended(self, name: str) -> bool:
        """Whether the life that has this name's place in the tree is certainly over, as its host said last. Messages
        that still come under this name are from a later life."""
        return self._detector.has_ended(name)

    def standby(self) -> tuple[str, ...]:
        """Return the brokers to keep a session with although they are no neighbours: those that would lead the repair
        of the parent (the next f ancestors, or the successors of the root), and, if this broker is a voter, the
        others."""
        here = self._view
        wanted: dict[str, None] = {}
        top = here.parent
        for _ in range(here.faults):
            above = lineage.parent_of(here, top) if top is not None else None
            if above is None:
                break
            wanted[above] = None
            top = above
        if top is not None and top in here.places and lineage.parent_of(here, top) is None:
            wanted.update(dict.fromkeys(lineage.successors(here, top, here.faults)))
        if here.configuration.holds(here.name, here.incarnation):
            wanted.update(dict.fromkeys(here.configuration.names))
        return tuple([x for x in wanted if x != here.name and x not in here.neighbours and not here.is_dead(x)])

    def overdue(self, member: str, asked_us: int, now_us: int) -> bool:
        """Whether a member of the running repair may be declared dead as well: it was asked at `asked_us` and has not
        answered."""
        detector = self._detector
        since_us = max(
            asked_us + detector.patience_us // 2, detector.stirred_us(member)
        )  # a large parcel takes long to arrive
        if not detector.is_sure(member, now_us, since_us):
            return False
        return self._detector.has_ended(member) or len(self._registry.wanted or ()) < self._view.faults

    def status(self, now_us: int) -> CouncilStatus:
        """Return what an operator is shown."""
        here = self._view
        unresponsive = self.unresponsive(now_us)
        unheard = tuple([name for name in here.neighbours if self._detector.is_silent(name) or name in unresponsive])
        return CouncilStatus(here.parent, self.leased, unheard, self._probes.partitioned_piece(now_us))

    def unresponsive(self, now_us: int) -> tuple[str, ...]:
        """Return the neighbours that have sent nothing for longer than a lease, although their connections stand."""
        here, detector = self._view, self._detector
        open_links = [name for name, is_open in here.neighbours.items() if is_open and not detector.is_silent(name)]
        return tuple(
            [
                name
                for name in open_links
                if detector.is_unresponsive(name, now_us)
                and not (name == here.parent and detector.hears_parent(now_us))
            ]
        )

    # -- what happens --------------------------------------------------------------------------------------------------

    def silent(self, peer: str, refused: bool, now_us: int) -> None:
        """A peer's connection broke or could not be made. `refused`: its own host says that the process is gone; then
        accuse it at once. Otherwise `tick` accuses it after a lease."""
        self._follow(now_us)
        self._detector.lost(peer, refused)
        if refused:
            self._look_again(peer, now_us)

    def outlived(self, life: Life, now_us: int) -> None:
        """A later life of a broker has shown that it remembers this life, which is therefore over."""
        if not self._detector.is_ended(life):
            self._detector.ended(life)
            self._look_again(life.name, now_us)

    def _look_again(self, ended: str, now_us: int) -> None:
        """Act on the certain end of a life: accuse it, and count votes and registrations again without it."""
        self._suspicions.ended(ended, now_us)
        if self._election.ballot is not None or self._election.denied:
            self._election.look_again(now_us)
        self._registry.look_again()

    def connected(self, peer: str, now_us: int, incarnation: int | None = None) -> None:
        """A peer's connection stands; `incarnation` when its session begins."""
        if incarnation is None:
            self._detector.connected(peer, now_us)
            return
        self._follow(now_us)
        self._detector.met(peer, incarnation, now_us)
        if self._detector.has_ended(peer):
            self._suspicions.ended(peer, now_us)

    def holds_lease(self, now_us: int) -> bool:
        """Whether this broker has held its lease for long enough to know that nobody has declared it dead by right."""
        return self._trust.holds_lease(now_us)

    def tick(self, now_us: int) -> None:
        """Once per heartbeat: ping the parent, accuse neighbours that were silent for longer than a lease, and repeat
        questions that were not answered."""
        here, detector = self._view, self._detector
        self._follow(now_us)
        self._trust.holds_lease(now_us)
        here.sweep()
        root = here.configuration.root
        children = [name for name, is_open in here.neighbours.items() if is_open and name != here.parent]
        detector.watch([*children, *(here.configuration.names if here.leads_configuration else ())], now_us)
        if here.parent is not None:
            self._look_up(here.parent, now_us)
        elif root is not None:
            detector.check_root_lease(now_us)
            self._registry.refresh_list(now_us)
        for name in self._pinged_besides_parent():
            self._ping(name, now_us)
        for name in children:
            if detector.is_overdue(name, now_us) or detector.has_ended(name):
                self.suspect(name, now_us)
        self._suspicions.watch_leaders(now_us)
        self._registry.tick(now_us)
        detector.forget_strangers()

    def _pinged_besides_parent(self) -> list[str]:
        """Return whom to ping besides the parent: the root, if this broker is a voter; and each coordinator that it has
        attached to, because a Grant may take longer than a lease and the coordinator hears nothing else from here."""
        here = self._view
        pinged = dict.fromkeys(here.attached.values())
        if here.configuration.root is not None and here.configuration.holds(here.name, here.incarnation):
            pinged[here.configuration.root] = None
        return [name for name in pinged if name not in (here.name, here.parent)]

    def _look_up(self, parent: str, now_us: int) -> None:
        """Ping the parent, and accuse it if it has not answered for a lease."""
        detector = self._detector
        if self._view.neighbours.get(parent):
            self._ping(parent, now_us)
        hears = detector.hears_parent(now_us)
        detector.leased = detector.leased and hears
        if (not hears and detector.is_unresponsive(parent, now_us)) or detector.has_ended(parent):
            self.suspect(parent, now_us)
        self._suspicions.seek_help(parent, now_us)

    def extend_configuration(self, now_us: int) -> None:
        """At the root: a new broker is known, which may become a voter if the configuration is too short."""
        self._registry.refresh_list(now_us)

    def _follow(self, now_us: int) -> None:
        if self._detector.follow_parent(now_us):
            self._suspicions.clear()

    def suspect(self, name: str, now_us: int, force: bool = False) -> None:
        """Accuse a broker that is not heard: its authority judges it, any other broker reports it to the authority. The
        link stays as it is. `force`: skip the checks."""
        self._suspicions.accuse(name, now_us, force)

    def forget(self, names: Iterable[str], now_us: int) -> None:
        """Declare brokers dead that never return, as the operator says: probes are skipped, and majorities do without
        them. Called at the root, or where the root's repair is stuck."""
        self._suspicions.forget(names, now_us)

    def register(self, dead: frozenset[str], now_us: int) -> bool:
        """Register these dead where rule R3 requires it, and return whether the repair may end. If not, the outcome
        `Registered` follows. Call it again when more brokers die."""
        return self._registry.register(dead, now_us)

    def drop_registration(self) -> None:
        """Forget the registration: the repair has ended, or another broker leads it."""
        self._registry.drop()

    @property
    def awaited_voters(self) -> tuple[Life, ...]:
        """Voters that are gone and without whose next lives the running registration cannot end."""
        return self._registry.missing()

    def met_heir(self, session: str, name: str, lives: Iterable[int]) -> None:
        """A later life of a broker, which remembers these, looks for a place here: it may vote for them."""
        heir = Heir(session, frozenset([Life(name, incarnation) for incarnation in lives]))
        self._registry.met_heir(heir, name)

    def heir_enrolled(self, name: str, message: Enrolled, now_us: int) -> None:
        """Such a one has answered. The life that it votes for may have been declared dead."""
        self._registry.handlers[Enrolled](name, message, now_us)

    # -- messages ------------------------------------------------------------------------------------------------------

    def take(self, peer: str, message: Any, now_us: int) -> None:
        """Handle a message of a broker; call `heard` first. A sender that was declared dead is told `Fenced`. A message
        that its sender has no right to send is dropped (`TrustRules`)."""
        if self._view.is_dead_speaker(peer) and type(message) is not Fenced:
            self._post(peer, Fenced(self._view.tombstones[peer]))
        elif self._trust.is_believed(peer, message, now_us):
            self._handlers[type(message)](peer, message, now_us)

    def _post(self, peer: str, message: ProtocolMessage) -> None:
        if self._detector.may_post(peer):
            self._send(peer, message)

    def _ping(self, peer: str, now_us: int) -> None:
        if not self._detector.is_silent(peer):
            self._send(peer, Ping(now_us, self._view.decided.version))

    def _on_ping(self, peer: str, message: Ping, now_us: int) -> None:
        here = self._view
        is_voter = here.configuration.holds(peer, here.sessions.get(peer, here.incarnation_of(peer)))
        if here.is_linked(peer) or (is_voter and here.leads_configuration):
            self._detector.pinged(peer, now_us)
            later = here.decided if here.decided.version > message.decided else None
            self._post(peer, Pong(message.sent_us, self.leased, later))

    def _on_pong(self, peer: str, message: Pong, now_us: int) -> None:
        here = self._view
        if self._detector.has_ended(peer):
            return  # a later life
        self._suspicions.answered(peer)
        if peer in (here.parent, here.configuration.root):
            if message.configuration is not None:
                here.follow_decided(message.configuration)
            self._detector.ponged(peer, message.sent_us, message.leased, now_us)

    def _on_fenced(self, peer: str, message: Fenced, now_us: int) -> None:
        self._view.mark_dead(self._view.name, message.incarnation)
        if message.incarnation >= self._view.incarnation:
            self._outcomes.append(Expelled(f"{peer} says that this broker was declared dead"))
