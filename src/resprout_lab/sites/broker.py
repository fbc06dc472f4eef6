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
from resprout_lab.sites.commands import Command, Founding, GivingUp, Meeting, Seating, TakingLead, life_of, name_of
from resprout_lab.sites.forming import FormDue, LifeOverDue, SeekDue, SiteForming
from resprout_lab.sites.gateway import Gateways, gateways_for
from resprout_lab.sites.messages import (
    Proposal,
    SiteAnswer,
    SiteCarries,
    SiteFormed,
    SiteHas,
    SiteJoin,
    SiteLed,
    SiteMember,
    SiteNotes,
    SiteWants,
    SiteWantsNot,
)
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import Entered, PlacedBundle, SiteState


def status_of(name: str, site: str, state: SiteState, forming: SiteForming, is_ready: bool) -> StackStatus:
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
        parent if state.brokers else msgspec.UNSET,
        tuple(dict.fromkeys([broker.name for broker in (*mates, *beside)])),
        tuple([MemberSeen(broker.name, broker.incarnation, broker.address) for broker in (*mates, *beside)]),
        tuple([broker.name for broker in mates if forming.is_unheard(broker.name)]),
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
        self.site: Final = seat.site or seat.name
        self.agreement = agreement = Agreement(step, self.site, life_of(seat.name, seat.incarnation), options, rng)
        self.forming = forming = SiteForming(seat, self.site, options, step, outbox, agreement)
        self.gateways = gateways = Gateways(self.site, step, outbox, forming.peers, agreement)
        self.clients = clients = SiteClients(step, options, agreement, forming, gateways)
        agreement.post, agreement.applied = self._post, self._applied
        agreement.is_clear = lambda life: not outbox.waiting(name_of(life))
        agreement.restored, agreement.led = self._restored, lambda: None
        self._was_ready = False
        self._has_news = False
        """Something has changed that gateways have to look at."""
        events = SessionEvents(step, clients, self, outbox.writable)
        recovery: Table = {Recovered: lambda event: forming.recover(event.records)}
        forming_words: dict[type, Handler] = {
            SiteJoin: forming.joins, SiteAnswer: forming.answered, SiteFormed: forming.hear_formed,
            SiteMember: forming.hear_member,
        }  # fmt: skip
        mates: dict[type, Handler] = dict.fromkeys(REPLICA_MESSAGES, self._hear_replica)
        mates[Proposal] = self._hear_proposal
        neighbours: dict[type, Handler] = {
            SiteLed: gateways.hear_led, SiteHas: gateways.hear_has,
            **dict.fromkeys((SiteCarries, SiteWants, SiteWantsNot, SiteNotes), gateways.hear_shipped),
        }  # fmt: skip
        super().__init__(
            step,
            events={**events.table, **recovery},
            desks=(clients.desk(), Desk(forming.peers.find, {**forming_words, **mates, **neighbours})),
            cut_off=events.cut_off,
            timers={
                ReceiptsDue: clients.receipts_due, ClientOverDue: clients.over, ProposalsDue: agreement.again,
                HeartbeatDue: agreement.fired, PatienceOver: agreement.fired, LifeOverDue: forming.life_over,
                SeekDue: forming.seek, FormDue: forming.form_due,
            },
            outcomes={},
            at_end=(
                forming.answer, self._lead, self._look, agreement.tell, gateways.send, clients.serve,
                clients.tell, clients.tidy,
            ),
        )  # fmt: skip

    def begin(self) -> None:
        self.forming.begin()

    def status(self) -> StackStatus:
        return status_of(self.name, self.site, self.agreement.state, self.forming, self.clients.is_ready)

    def readers(self, topic: str) -> TopicReaders:
        return self.clients.readers(topic)

    # -- sessions with brokers (`BrokerSessions`) ----------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.forming.knows(name)

    def up(self, event: LinkUp) -> None:
        self.clients.forget_peer(event.peer)
        self.forming.up(event)
        self.agreement.session_began(event.peer)
        self.gateways.session_began(event.peer)

    def down(self, event: Any) -> None:
        self.clients.forget_peer(event.peer)
        self.forming.down(event)

    def silent(self, event: Any) -> None:
        self.forming.silent(event)

    def cut_off(self, name: str, reason: str) -> None:
        self.clients.forget_peer(name)
        self.forming.cut_off(name, reason)
        self._has_news = True

    def heard(self, event: Heard) -> None:
        self.forming.heard(event)

    # -- the site ------------------------------------------------------------------------------------------------------

    def _post(self, member: str, message: ProtocolMessage) -> None:
        """To this very member: another one of the name has forgotten what it promised."""
        name = name_of(member)
        if self.forming.member_of(name) == member:
            self._outbox.send(name, message)

    def _hear_replica(self, peer: Peer, message: Any) -> None:
        if message.group != self.site or (self.agreement.replica and not self.forming.is_mate(peer.name)):
            raise PeerError(f"{peer.name} is no broker of the site {self.site!r}")
        member = self.forming.member_of(peer.name)
        if member is not None:
            self.agreement.hear(member, message)

    def _hear_proposal(self, peer: Peer, message: Proposal) -> None:
        if not self.forming.is_mate(peer.name):
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
            case Founding():
                self._has_news = True
            case TakingLead():
                self._has_news = True
                if command.life == self.agreement.life:
                    self._step.note("leader", f"{command.life} leads the site {self.site} since term {state.term}")
            case Meeting():
                self._has_news = True
            case Seating():
                self.forming.seated(command.broker)
                self._has_news = True
            case GivingUp() if command.life == self.agreement.life:
                self._step.end_life(Retire(f"the site {self.site} has given it up"))
            case _:
                pass

    def _restored(self) -> None:
        self.clients.restored()
        self.gateways.restored()
        self.forming.await_old()
        self._has_news = True

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def _lead(self) -> None:
        """What is for the leader to see to."""
        agreement, state = self.agreement, self.agreement.state
        if not agreement.is_leading:
            return
        self.forming.lead()
        gateways = gateways_for(state, self._options.sharing, self.forming.is_unheard, agreement.life)
        if state.brokers and (state.leader != agreement.life or dict(gateways) != state.gateways):
            agreement.propose(TakingLead(agreement.life, gateways))

    def _look(self) -> None:
        if not self._was_ready and self.clients.is_ready:
            self._was_ready = self._has_news = True
            self._step.note("joined", self.agreement.state.parent or self.site)
        if self._has_news:
            self._has_news = False
            self.gateways.look()
