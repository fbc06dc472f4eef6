"""A broker of a site: its parts, which part handles which message, and its status for users and monitors.

In a status, the tree is one of sites: the parent of a leader is a broker of the site above, the parent of the others is
their leader.
"""

from random import Random
from typing import Any, Final

import msgspec

from resprout.core.contract import Heard, LinkUp, ProtocolMessage, Recovered, Retire
from resprout.core.errors import PeerError
from resprout.replicas.ledger import HeartbeatDue, PatienceOver
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Shell, Step, Table
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import MemberSeen, StackStatus, TopicReaders
from resprout_lab.blocks.serving import ReceiptsDue, SessionEvents
from resprout_lab.sites.agreement import Agreement, ProposalsDue
from resprout_lab.sites.clients import ClientOverDue, SiteClients
from resprout_lab.sites.commands import Command, GivingUp, Meeting, Seating, TakingLead, life_of, name_of
from resprout_lab.sites.gateway import Gateways, gateways_for
from resprout_lab.sites.membership import FormDue, LifeOverDue, SiteMembership, read_config
from resprout_lab.sites.messages import (
    Proposal,
    SiteCarries,
    SiteHas,
    SiteLed,
    SiteMember,
    SiteNotes,
    SiteWants,
    SiteWantsNot,
)
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import Entered, PlacedBundle, SiteState


def status_of(name: str, site: str, state: SiteState, membership: SiteMembership, is_ready: bool) -> StackStatus:
    mates = [broker for broker in state.brokers.values() if broker.name != name]
    beside = [broker for link in state.links.values() for broker in link.brokers]
    leader = name_of(state.leader) if state.leader else None
    above = state.links.get(state.parent)
    if leader is not None and leader != name:
        parent: str | None = leader
    else:
        parent = above.brokers[0].name if above is not None and above.brokers else None
    return StackStatus(
        is_ready,
        parent,
        tuple(dict.fromkeys([broker.name for broker in (*mates, *beside)])),
        tuple(
            [
                MemberSeen(broker.name, broker.incarnation or msgspec.UNSET, broker.address)
                for broker in (*mates, *beside)
            ]
        ),
        tuple([broker.name for broker in mates if membership.is_unheard(broker.name)]),
        site=site,
        roles=_roles(name, site, state),
        log_bundles=len(state.recent),
    )


def _roles(name: str, site: str, state: SiteState) -> tuple[str, ...]:
    """As the site has decided: an old leader that was cut off does not know better."""
    if not state.leader or name_of(state.leader) != name:
        return ()
    sequences = state.is_total and not state.parent
    return (f"leads the site {site} since term {state.term}", *(["orders all publications"] if sequences else []))


class SitesBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: SitesOptions, rng: Random) -> None:
        step = Step()
        self._outbox = outbox = Outbox(step)
        self._options = options
        self.name: Final = seat.name
        config = read_config(seat, options)
        self.site: Final = config.site
        self.agreement = agreement = Agreement(step, config, life_of(seat.name, seat.incarnation), options, rng)
        self.membership = membership = SiteMembership(seat, config, options, step, outbox, agreement)
        self.gateways = gateways = Gateways(self.site, step, outbox, membership.peers, agreement)
        self.clients = clients = SiteClients(step, options, agreement, membership, gateways)
        agreement.post, agreement.applied = self._post, self._applied
        agreement.is_clear = lambda life: not outbox.waiting(name_of(life))
        agreement.restored, agreement.led = self._restored, lambda: None
        self._was_ready = False
        self._has_news = False
        """Something has changed that gateways have to look at."""
        events = SessionEvents(step, clients, self, outbox.writable)
        recovery: Table = {Recovered: lambda event: membership.recover(event.records)}
        mates: dict[type, Handler] = dict.fromkeys(REPLICA_MESSAGES, self._hear_replica)
        mates |= {Proposal: self._hear_proposal, SiteMember: membership.hear_member}
        neighbours: dict[type, Handler] = {
            SiteLed: gateways.hear_led, SiteHas: gateways.hear_has,
            **dict.fromkeys((SiteCarries, SiteWants, SiteWantsNot, SiteNotes), gateways.hear_shipped),
        }  # fmt: skip
        super().__init__(
            step,
            events={**events.table, **recovery},
            desks=(clients.desk(), Desk(membership.peers.find, {**mates, **neighbours})),
            cut_off=events.cut_off,
            timers={
                ReceiptsDue: clients.receipts_due, ClientOverDue: clients.over, ProposalsDue: agreement.again,
                HeartbeatDue: agreement.fired, PatienceOver: agreement.fired, LifeOverDue: membership.life_over,
                FormDue: membership.form_due,
            },
            outcomes={},
            at_end=(
                self._lead, self._look, agreement.tell, gateways.send, clients.serve, clients.tell, clients.tidy,
            ),
        )  # fmt: skip

    def begin(self) -> None:
        self.membership.begin()

    def status(self) -> StackStatus:
        return status_of(self.name, self.site, self.agreement.state, self.membership, self.clients.is_ready)

    def readers(self, topic: str) -> TopicReaders:
        return self.clients.readers(topic)

    # -- sessions with brokers (`BrokerSessions`) ----------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.membership.knows(name)

    def up(self, event: LinkUp) -> None:
        self.clients.forget_peer(event.peer)
        self.membership.up(event)
        self.agreement.session_began(event.peer)
        self.gateways.session_began(event.peer)

    def down(self, event: Any) -> None:
        self.clients.forget_peer(event.peer)
        self.membership.down(event)

    def silent(self, event: Any) -> None:
        self.membership.silent(event)

    def cut_off(self, name: str, reason: str) -> None:
        self.clients.forget_peer(name)
        self.membership.cut_off(name, reason)
        self._has_news = True

    def heard(self, event: Heard) -> None:
        self.membership.heard(event)

    # -- the site ------------------------------------------------------------------------------------------------------

    def _post(self, member: str, message: ProtocolMessage) -> None:
        """To this very member: another one of the name has forgotten what it promised."""
        name = name_of(member)
        if self.membership.member_of(name) == member:
            self._outbox.send(name, message)

    def _hear_replica(self, peer: Peer, message: Any) -> None:
        if message.group != self.site or not self.membership.is_mate(peer.name):
            raise PeerError(f"{peer.name} is no broker of the site {self.site!r}")
        member = self.membership.member_of(peer.name)
        if member is not None:
            self.agreement.hear(member, message)

    def _hear_proposal(self, peer: Peer, message: Proposal) -> None:
        if not self.membership.is_mate(peer.name):
            raise PeerError(f"{peer.name} is no broker of the site {self.site!r}")
        self.agreement.hear_proposal(message)

    def _applied(self, command: Command) -> None:
        state, clients = self.agreement.state, self.clients
        news, state.news = state.news, []
        for one in news:
            if isinstance(one, PlacedBundle):
                clients.placed(one)
            elif isinstance(one, Entered):
                clients.entered(one)
            else:
                clients.noted(one)
        match command:
            case TakingLead():
                self._has_news = True
                if command.life == self.agreement.life:
                    self._step.note("leader", f"{command.life} leads the site {self.site} since term {state.term}")
            case Meeting():
                self._has_news = True
            case Seating():
                self.membership.seated(command.broker)
                self._has_news = True
            case GivingUp() if command.life == self.agreement.life:
                self._step.end_life(Retire(f"the site {self.site} has given it up"))
            case _:
                pass

    def _restored(self) -> None:
        self.clients.restored()
        self.gateways.restored()
        self.membership.await_old()
        self._has_news = True

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def _lead(self) -> None:
        """What is for the leader to see to."""
        agreement, state = self.agreement, self.agreement.state
        if not agreement.is_leading:
            return
        self.membership.lead()
        if not self.membership.is_seated:
            return
        gateways = gateways_for(state, self._options.sharing, self.membership.is_unheard, agreement.life)
        if state.leader != agreement.life or dict(gateways) != state.gateways:
            agreement.propose(TakingLead(agreement.life, gateways))

    def _look(self) -> None:
        if not self._was_ready and self.clients.is_ready:
            self._was_ready = self._has_news = True
            self._step.note("joined", self.agreement.state.parent or self.site)
        if self._has_news:
            self._has_news = False
            self.gateways.look()
