"""The brokers of a site, as its configuration names them, and the lives in which they take part.

The configuration (`SiteConfig`, the seed's *config.txt*) names the brokers of each site and the site above it. So no
broker is special, and none is asked which brokers there are. Each broker opens sessions with the others of its site and
introduces itself (`SiteMember`). A broker with an empty disk waits for all others, for `FORM_US`; then a majority is
enough. If none of them knows an earlier life of it, it is one of the first members of the log. Otherwise it has
forgotten promises, and becomes another member. A broker with its disk is the member that it was.

The leader proposes to seat every life that has introduced itself (`Seating`), and keeps the members of the log up to
date. A life that does not return within `return_us` is given up (`GivingUp`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.core.contract import Close, Heard, LinkDown, LinkUp, Locate, Retire, SetTimer, Silent, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.edge.messages import Successor
from resprout.stacks.peers import Outbox, Peer, Peers
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.sites.agreement import Agreement
from resprout_lab.sites.commands import GivingUp, Seating, SiteBroker, SiteConfig, life_of, name_of
from resprout_lab.sites.messages import SiteMember
from resprout_lab.sites.options import SitesOptions

FORM_US: Final = 2_000_000
"""After this, a broker with an empty disk begins if it has heard a majority of its site."""


def read_config(seat: BrokerSeat, options: SitesOptions) -> SiteConfig:
    """Return the part of the roster that concerns this broker. UsageError if it is not a tree of sites."""
    site_of = {entry.name: entry.site or entry.name for entry in seat.roster}
    if not seat.roster and (seat.site or seat.parent is not None or seat.contacts):
        raise UsageError(f"{seat.name} has no roster; the stack 'sites' needs to know the brokers of all sites")
    site = site_of.setdefault(seat.name, seat.name)
    parents = {entry.parent for entry in seat.roster if site_of[entry.name] == site and entry.parent is not None}
    if unknown := sorted(parents - site_of.keys()):
        raise UsageError(f"the parent {unknown[0]!r} of the site {site!r} is not in the roster")
    above = sorted({site_of[parent] for parent in parents} - {site})
    if len(above) > 1:
        raise UsageError(f"the site {site!r} has two parents in the roster, {above[0]!r} and {above[1]!r}")

    def brokers_of(wanted: str) -> tuple[SiteBroker, ...]:
        return tuple([SiteBroker(one.name, 0, one.address) for one in seat.roster if site_of[one.name] == wanted])

    brokers = brokers_of(site) or (SiteBroker(seat.name, 0, seat.address),)
    if site != seat.name and len(brokers) != options.replicas:
        wanted = f"with replicas = {options.replicas} it has as many"
        raise UsageError(f"the site {site!r} has {len(brokers)} brokers in the roster; {wanted}")
    return SiteConfig(site, brokers, above[0] if above else "", brokers_of(above[0]) if above else ())


class FormDue(Timer, frozen=True):
    """When to begin with a majority of the site, if not all of it was heard."""


class LifeOverDue(Timer, frozen=True):
    """When to stop keeping anything for the clients of a broker that is gone."""

    life: str

    @property
    def background(self) -> bool:
        return True


class _SiteRecord(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """On the disk of a broker, first and with every snapshot: which member of the log it is. Records of its ledger have
    other tags."""

    birth: int


_TAG: Final = b"\0"
"""Behind the head of the array."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_SiteRecord).decode


class SiteMembership:
    def __init__(
        self, seat: BrokerSeat, config: SiteConfig, options: SitesOptions, step: Step, outbox: Outbox,
        agreement: Agreement,
    ) -> None:  # fmt: skip
        self._seat = seat
        self._config = config
        self.site: Final = config.site
        self._return_us = options.return_us
        self._step = step
        self._outbox = outbox
        self._agreement = agreement
        self.peers = Peers(step, outbox)
        self._own = SiteBroker(seat.name, seat.incarnation, seat.address)
        self._has_begun = False
        """It takes part in the log."""
        self._is_form_due = False
        self._stands = False
        """It is to stand as leader as soon as a majority of the site takes part."""
        self._mates = tuple([broker.name for broker in config.brokers if broker.name != seat.name])
        self._heard: dict[str, tuple[int, SiteMember]] = {}
        """The introduction of each other broker, with its life, as long as their session lasts."""
        self._began: dict[str, int] = {}
        """The latest life of each other broker that took part."""
        self._unheard: dict[str, None] = dict.fromkeys(self._mates)

    @property
    def is_seated(self) -> bool:
        """This life is a broker of its site, and everything that was decided before that is known here."""
        return self._agreement.state.brokers[self._seat.name].incarnation == self._seat.incarnation

    @property
    def successors(self) -> tuple[Successor, ...]:
        """Where clients turn when this broker is gone: to the others of its site, the leader first. Where a site is one
        broker they turn to neighbouring sites, and are told that they may have missed something."""
        state = self._agreement.state
        others = [broker for broker in state.brokers.values() if broker.name != self._seat.name]
        others.sort(key=lambda broker: broker.life != state.leader)
        if not others:
            others = [broker for link in state.links.values() for broker in link.brokers]
        return tuple([Successor(broker.name, broker.address) for broker in others])

    def is_unheard(self, name: str) -> bool:
        return name in self._unheard

    def is_mate(self, name: str) -> bool:
        """Whether it is another broker of this site."""
        return name in self._mates

    # -- beginning -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for broker in self._config.brokers:
            if broker.name != self._seat.name:
                self._call(broker)
        self._step.out.append(SetTimer(FormDue(), self._step.now_us + FORM_US))
        self._begin_blank()

    def form_due(self, timer: FormDue) -> None:
        self._is_form_due = True
        self._begin_blank()

    def _begin_blank(self) -> None:
        """Take part with an empty disk, once enough others have said whether they know an earlier life."""
        there, size = 1 + len(self._heard), len(self._config.brokers)
        if self._has_begun or (there < size and not (self._is_form_due and 2 * there > size)):
            return
        is_known = any(message.known for _, message in self._heard.values())
        self._stands = not is_known and self._config.brokers[0].name == self._seat.name
        self._begin(self._seat.incarnation if is_known else 0)

    def _begin(self, birth: int, records: Sequence[bytes] | None = None) -> None:
        self._own = msgspec.structs.replace(self._own, birth=birth)
        self._has_begun = True
        self._agreement.member = self._own.member
        members = [broker.member for broker in self._config.brokers] if not birth else []
        is_alone = not self._mates and records is None
        self._agreement.begin(members, is_alone, identity=_encode(_SiteRecord(birth)), records=records)
        for name in self._mates:
            if self.peers.find(name) is not None:
                self._introduce(name)

    def recover(self, records: Sequence[bytes]) -> None:
        """Continue as the member that wrote these records, or end this life: they cannot be read."""
        try:
            identity = next((one for one in records if one[1:2] == _TAG), b"")
            self._begin(_decode(identity).birth, [one for one in records if one != identity])
        except (msgspec.MsgspecError, ValueError) as error:
            reason = f"what {self._seat.name} has on disk cannot be read: {error}"
            self._step.end_life(Retire(reason, again=False))
            return
        for broker in self._agreement.state.brokers.values():
            if broker.name != self._seat.name:
                self._call(broker)
        self._step.note("note", f"recovered as {self._own.member} of the site {self.site}")

    # -- sessions (`BrokerSessions`) -----------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.peers.get(name) is not None

    def up(self, event: LinkUp) -> None:
        self._heard.pop(event.peer, None)
        if self.peers.came_up(event.peer, event.incarnation, event.room) is None:
            self._step.out.append(Close(event.peer, f"{self._seat.name} takes no more brokers"))
            return
        self._unheard.pop(event.peer, None)
        if event.peer in self._mates:
            self._introduce(event.peer)

    def _introduce(self, name: str) -> None:
        """Tell a broker of this site which member this is, and which life of the other one took part before."""
        known = max(self._began.get(name, 0), self._agreement.state.brokers[name].incarnation)
        own = self._own
        self._outbox.send(name, SiteMember(self.site, own.birth, own.address, self._has_begun, known))

    def hear_member(self, peer: Peer, message: SiteMember) -> None:
        if message.site != self.site or peer.name not in self._mates:
            raise PeerError(f"{peer.name} is no broker of the site {self.site!r}, as it is configured here")
        if message.birth > peer.incarnation:
            raise PeerError(f"{peer.name} is of a life that has not begun")
        self._heard[peer.name] = (peer.incarnation, message)
        if message.address:
            self._step.out.append(Locate(peer.name, message.address))
        if message.has_begun:
            self._began[peer.name] = peer.incarnation
            self._agreement.session_began(peer.name)
        self._begin_blank()
        if self._stands and 2 * (1 + len(self._began)) > len(self._config.brokers):
            self._stands = False
            self._agreement.stand()

    def member_of(self, name: str) -> str | None:
        """Return the member of the log behind the session with this broker; None if it does not take part."""
        peer, (incarnation, message) = self.peers.find(name), self._heard.get(name, (0, None))
        if peer is None or message is None or not message.has_begun or peer.incarnation != incarnation:
            return None
        return life_of(name, message.birth)

    def down(self, event: LinkDown) -> None:
        self.peers.went_down(event.peer)
        self._heard.pop(event.peer, None)
        self._not_heard(event.peer)

    def silent(self, event: Silent) -> None:
        self._not_heard(event.peer)

    def heard(self, event: Heard) -> None:
        self._unheard.pop(event.peer, None)

    def cut_off(self, name: str, reason: str) -> None:
        self.peers.close(name, reason)
        self._heard.pop(name, None)
        if name in self._mates:
            self.peers.open(name)

    def _not_heard(self, name: str) -> None:
        if name in self._mates and name not in self._unheard:
            self._unheard[name] = None
            self.peers.open(name)  # the broker that opened the session may be gone
            self._await(self._agreement.state.brokers[name].life)

    def _call(self, broker: SiteBroker) -> None:
        if broker.address:
            self._step.out.append(Locate(broker.name, broker.address))
        self.peers.open(broker.name)

    # -- lives ---------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """As the leader: seat every life that takes part, and have the members of the log follow."""
        agreement, state = self._agreement, self._agreement.state
        if not agreement.is_leading:
            return
        self._seat_life(self._own)
        for name, (incarnation, message) in self._heard.items():
            if message.has_begun:
                self._seat_life(SiteBroker(name, incarnation, message.address, message.birth))
        if set(state.members) != set(agreement.members):
            agreement.configure(state.members)

    def _seat_life(self, broker: SiteBroker) -> None:
        if self._agreement.state.brokers[broker.name].incarnation < broker.incarnation:
            self._agreement.propose(Seating(broker))

    def seated(self, broker: SiteBroker) -> None:
        """The site has decided it: whatever life the broker had before is over."""
        if broker.name != self._seat.name:
            self._call(broker)
        self.await_old()

    def await_old(self) -> None:
        state = self._agreement.state
        lives = state.lives
        for life in state.floors:
            if life not in lives:
                self._await(life)

    def _await(self, life: str) -> None:
        self._step.out.append(SetTimer(LifeOverDue(life), self._step.now_us + self._return_us))

    def life_over(self, timer: LifeOverDue) -> None:
        state, life = self._agreement.state, timer.life
        if life in state.floors and (life not in state.lives or name_of(life) in self._unheard):
            if self._agreement.is_leading:
                self._agreement.propose(GivingUp(life))
            self._await(life)
