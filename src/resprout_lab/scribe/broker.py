"""One broker: its parts, and what it does with a publication."""

from random import Random
from typing import Any, Final

from resprout.core.bundle import Bundle, pack_payloads, unpack_payloads
from resprout.core.contract import (
    CancelTimer,
    EndCode,
    Outcome,
    ProtocolMessage,
    Request,
    Retire,
    Send,
    SetTimer,
    Timer,
)
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.session import ClientSession, plain_delivery
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import TOPIC_PLACES_MAX, Attend, PlacedDelivery, Serving, TopicPlace, TopicsReached
from resprout.edge.requests import LeaveRequest
from resprout.replicas.ledger import HeartbeatDue, PatienceOver
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Shell, Step
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, TopicReaders, readers_here
from resprout_lab.blocks.retention import KeptItem, Retention
from resprout_lab.blocks.serving import ClientDesk, ReceiptsDue, SessionEvents
from resprout_lab.scribe.chord import KeyFound, KeyNotFound, RingJoined, RingMoved
from resprout_lab.scribe.clients import ReturningClients, TopicPublishing
from resprout_lab.scribe.errands import Errands, ErrandsDue
from resprout_lab.scribe.held import HeldTopic, scribed
from resprout_lab.scribe.log import PlacedAt
from resprout_lab.scribe.messages import (
    AskRange,
    AskTopic,
    ChangeReplica,
    ClaimTopic,
    FoundTopic,
    PublicationPlaced,
    PublishAt,
    RangeCeded,
    ReplicaChanged,
    TopicEnded,
    TopicGivenUp,
    TopicKnown,
    TopicLed,
    is_holder,
    name_of,
)  # fmt: skip
from resprout_lab.scribe.options import ScribeOptions
from resprout_lab.scribe.owners import ClaimsDue, TopicOwners
from resprout_lab.scribe.ranges import RangeOverdue
from resprout_lab.scribe.ring import RingSessions
from resprout_lab.scribe.tree import ScribePushing
from resprout_lab.scribe.trees import Trees
from resprout_lab.scribe.trees_messages import AskMissed, BeatDue, JoinOverdue, Scribed, TreeGrown
from resprout_lab.scribe.wishes import DIRECTORY, TopicNews, TopicWishes

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.TOTAL)
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class StandsDue(Timer, frozen=True):
    """When to say that this broker has its place: the ring around it has not changed for a while, so that those who are
    to hold its topics have been told."""


class SaidToMyself(Outcome, frozen=True):
    """This broker is the one that it wants something of."""

    message: Any


class ClientsBehind(Outcome, frozen=True):
    """These clients lack publications of the topic that no broker keeps any more."""

    topic: str
    names: tuple[str, ...]


class ScribeBroker(Shell):
    """Is what trees speak through (`TreeLines`), and the house of the topics (`OwnersHouse`)."""

    def __init__(self, seat: BrokerSeat, options: ScribeOptions, rng: Random) -> None:
        step = Step()
        self._seat = seat
        self._options = options
        self._is_said = False
        """That it has its place."""
        self._outbox = outbox = Outbox(step)
        self._kept = kept = Retention(options.buffer)
        self.sessions = sessions = RingSessions(seat, options, step, outbox)
        self.trees = trees = Trees(options.trees, self, DIRECTORY)
        self.owners = owners = TopicOwners(seat, options, step, rng, sessions, self, DIRECTORY)
        self.errands = Errands(owners.me, step, sessions, options.again_us, self.say, self._leader_here)
        self.wishes = wishes = TopicWishes(trees, self._was_elsewhere, self._read, self._say_reached)
        self.returning = returning = ReturningClients(self._read)
        self._pushing = ScribePushing(outbox, options.link_bytes, trees.catch_up)
        serving = Serving("scribe", GUARANTEES, options.faults, receipts=RECEIPTS)
        self._sessions = ClientSessions(serving, kept, wishes, delivery_of=_delivery_of)
        self._publishing = TopicPublishing(owners.me, step, self._sessions, kept, self.errands)
        self._myself = Peer(seat.name)
        self._announced = 0
        self._announcing: dict[int, TopicNews] = {}
        """Announcements that have no place yet."""
        clients = ClientDesk(
            step, self._sessions, publish=self._publishing.publish, is_ready=lambda: owners.range.is_settled,
            successors=lambda: sessions.successors, door=returning.door, welcome=self._welcome, left=self._left,
        )  # fmt: skip
        self._clients = clients
        sessions.began, sessions.ended, sessions.needed = self._began, self._ended, self._needed
        sessions.unreachable = owners.range.unreachable
        events = SessionEvents(step, clients, sessions, self._pushing.writable)
        self._spoken: dict[type, Handler] = {
            **dict.fromkeys(trees.handlers, lambda peer, message: trees.hear(peer.name, message)),
            Scribed: self._hear_scribed,
            AskMissed: self._hear_missed,
            PublishAt: self._hear_publish,
            PublicationPlaced: self._hear_placed,
            AskTopic: lambda peer, message: owners.hear_ask(peer.name, message),
            TopicLed: self._hear_led,
            FoundTopic: owners.hear_found,
            TopicKnown: owners.hear_known,
            TopicGivenUp: owners.hear_given_up,
            TopicEnded: owners.hear_ended,
            ClaimTopic: owners.hear_claim,
            ChangeReplica: self._hear_change,
            ReplicaChanged: lambda peer, message: self._publishing.changed(message),
            AskRange: owners.range.hear_ask,
            RangeCeded: owners.range.hear_ceded,
            **dict.fromkeys(REPLICA_MESSAGES, owners.hear_replica),
        }
        super().__init__(
            step,
            events={**events.table, Request: self._request},
            desks=(clients.desk(), sessions.desk(), Desk(sessions.find, self._spoken)),
            cut_off=events.cut_off,
            timers={
                ReceiptsDue: clients.receipts_due,
                BeatDue: trees.beat_due,
                JoinOverdue: trees.join_overdue,
                ErrandsDue: self._errands_due,
                ClaimsDue: owners.claims_due,
                RangeOverdue: owners.range.overdue,
                StandsDue: self._stands,
                HeartbeatDue: owners.fired,
                PatienceOver: owners.fired,
                **sessions.timers,
            },
            outcomes={
                RingJoined: lambda outcome: owners.range.joined(),
                RingMoved: self._ring_moved,
                KeyFound: self.errands.owner_found,
                KeyNotFound: self.errands.owner_not_found,
                TreeGrown: lambda outcome: None,
                ClientsBehind: self._cut_off_behind,
                SaidToMyself: self._hear_myself,
            },
            at_end=(owners.look, clients.serve, self._confirm, clients.tell, lambda: kept.push_back(step.out)),
        )

    def begin(self) -> None:
        self.trees.begin()
        self.owners.begin()
        self.sessions.ring.begin()

    def status(self) -> StackStatus:
        return self.sessions.status(self.owners.range.is_settled, self.owners.roles)

    def readers(self, topic: str) -> TopicReaders:
        here, place = readers_here(self._sessions, topic), self.trees.places.get(topic)
        onward = tuple(place.children) if place is not None else ()
        return TopicReaders(here.clients, here.conditional, onward, self.owners.roles_for(topic))

    def _request(self, event: Request) -> None:
        if isinstance(event.body, LeaveRequest):
            self._step.end_life(Retire("it leaves", again=False))

    # -- sessions with brokers -----------------------------------------------------------------------------------------

    def _began(self, name: str) -> None:
        self.trees.met(name)
        self.owners.began(name)
        self.errands.began(name)

    def _ended(self, name: str) -> None:
        self._pushing.end(name)
        self._kept.forget(name)
        self.trees.unreachable(name)
        self.owners.ended(name)
        self.errands.ended(name)

    def _needed(self) -> list[str]:
        return [*self.trees.needed, *self.owners.needed, *self.errands.needed]

    # -- what clients want ---------------------------------------------------------------------------------------------

    def _welcome(self, session: ClientSession, attend: Attend) -> None:
        places = self.returning.take(session.name)
        if places is not None:
            self.wishes.bring(session.name, places)
        resumed = places is not None or not attend.subscriptions
        self._sessions.welcome(session, attend, self.sessions.successors, resumed, self._step.out)

    def _left(self, name: str) -> None:
        self.returning.left(name)
        self._publishing.left(name)

    def _say_reached(self, client: str, places: dict[str, int]) -> None:
        if client in self._sessions.all and len(places) <= TOPIC_PLACES_MAX:
            reached = tuple([TopicPlace(topic, position) for topic, position in places.items()])
            self._step.out.append(Send(client, TopicsReached(reached)))

    def _was_elsewhere(self, client: str) -> bool:
        session = self._sessions.all.get(client)
        return session is not None and session.moved

    def _read(self, topic: str) -> None:
        self.errands.add(topic, ("look",), AskTopic(topic, True))

    def _confirm(self) -> None:
        if self.wishes.is_waiting:
            self._sessions.confirm(self.wishes.look(), self._step.out)

    def _cut_off_behind(self, outcome: ClientsBehind) -> None:
        """End the sessions of clients that lack publications which no broker keeps. Each is told its position, so the
        next broker finds that it missed messages and says so."""
        for name in outcome.names:
            if name in self._sessions.all:
                self._say_reached(name, {outcome.topic: self.wishes.reached(name, outcome.topic)})
                self._clients.cut_off(name, f"publications on {outcome.topic} have not come here")

    # -- publications --------------------------------------------------------------------------------------------------

    def _hear_publish(self, peer: Peer, message: PublishAt) -> None:
        bundle = message.bundle
        if bundle.guarantee not in GUARANTEES or len(bundle.topics) > 1:
            raise PeerError(f"{bundle!r} asks for more than this network offers")
        held = self.owners.leads(bundle.topic)
        if held is not None:
            held.publish(peer.name, message)
        else:
            self._say_led(peer.name, bundle.topic)

    def _hear_missed(self, peer: Peer, message: AskMissed) -> None:
        held = self.owners.leads(message.topic)
        if held is not None:
            held.give_missed(peer.name, message)
        else:
            self._say_led(peer.name, message.topic)

    def _hear_change(self, peer: Peer, message: ChangeReplica) -> None:
        if not is_holder(message.holder) or (message.is_added and name_of(message.holder) != peer.name):
            raise PeerError(f"{message.holder!r} is no broker that {peer.name} may add to {message.topic!r}")
        held = self.owners.leads(message.topic)
        if held is not None:
            held.change_replica(peer.name, message)
        else:
            self._say_led(peer.name, message.topic)

    def _say_led(self, name: str, topic: str) -> None:
        """Somebody was taken for the leader that is none."""
        leader = self.owners.leader_of(topic)
        if leader != self.owners.me:
            self.say(name, TopicLed(topic, leader or ""))

    def _hear_placed(self, peer: Peer, message: PublicationPlaced) -> None:
        if message.topic == DIRECTORY and message.publisher == self._seat.name:
            self._is_announced(message)
        elif message.copies < 1:
            self._outlived(message)
        else:
            self._publishing.placed(message)

    def _outlived(self, message: PublicationPlaced) -> None:
        """A later life of this client publishes elsewhere: its name belongs to that one."""
        self._publishing.answered(message)
        session = self._sessions.all.get(message.publisher)
        if session is not None and session.incarnation == message.incarnation:
            self._clients.cut_off(session.name, f"{session.name} restarted", EndCode.REPLACED)

    def _hear_led(self, peer: Peer, message: TopicLed) -> None:
        if message.position >= 0:
            self.errands.done(message.topic, ("look",))
            self.wishes.has_come(message.topic, message.position)
            self.returning.has_come(message.topic, message.position, message.kept_after)
        self.owners.hear_led(message)
        self.errands.led(peer.name, message)

    def _hear_scribed(self, peer: Peer, message: Scribed) -> None:
        if message.bundle.guarantee not in GUARANTEES:
            raise PeerError(f"{message.bundle!r} asks for more than this network offers")
        self.trees.hear(peer.name, message)

    def _hear_myself(self, outcome: SaidToMyself) -> None:
        self._spoken[type(outcome.message)](self._myself, outcome.message)

    def _errands_due(self, timer: ErrandsDue) -> None:
        missed = self.trees.missed(timer.topic)
        if missed is None:
            self.errands.done(timer.topic, ("missed",))
        else:
            self.errands.add(timer.topic, ("missed",), missed)
        self.errands.due(timer)

    # -- the house of topics -------------------------------------------------------------------------------------------

    def post_holder(self, holder: str, message: ProtocolMessage) -> None:
        self.sessions.post_holder(holder, message)

    def say(self, name: str, message: ProtocolMessage) -> None:
        if name == self._seat.name:
            self._step.outcomes.append(SaidToMyself(message))
        elif message.cost or type(message) in self.trees.handlers:
            self.sessions.send(name, message)
        else:
            self.sessions.post(name, message)

    def give(self, name: str, message: Scribed) -> None:
        self.sessions.send(name, message)

    def spread(self, placed: PlacedAt) -> None:
        self.trees.spread(scribed(placed))

    def led(self, held: HeldTopic) -> None:
        topic, log = held.topic, held.log
        self._step.note("leader", f"{topic} is led by {self._seat.name} from {log.position} on")
        reached = self.trees.root(topic, log.position, self.owners.me)
        self.trees.skip(topic, log.watermark, log.begins)
        for placed in log.after(reached):
            self.spread(placed)
        self.owners.led(held)
        if not log.is_announced and topic != DIRECTORY:
            self._announce(TopicNews(topic, held.group))

    def floor(self, topic: str) -> int | None:
        return self.trees.floor(topic)

    def has_readers(self, topic: str) -> bool:
        return self.trees.has_readers(topic)

    def ended(self, held: HeldTopic) -> None:
        if held.is_leading:
            self._step.note("topic_ended", held.topic)
            self._announce(TopicNews(held.topic, held.group, is_ended=True))
        self.owners.end(held)

    def unled(self, held: HeldTopic) -> None:
        self.trees.unroot(held.topic)
        if held.leader is not None:
            self.trees.look(held.topic)
            self.owners.led(held)

    def settled(self) -> None:
        self.trees.look_again()
        if self.sessions.is_alone:
            self._stands(StandsDue())
        else:
            self.wake(StandsDue(), self._options.suspect_us)

    def _ring_moved(self, outcome: RingMoved) -> None:
        self.owners.moved()
        self.trees.look_again()
        if self.owners.range.is_settled and not self._is_said:
            self.wake(StandsDue(), self._options.suspect_us)

    def _stands(self, timer: StandsDue) -> None:
        """For the trace: who waits for the ring to stand waits for this, too."""
        successors = self.sessions.ring.successors
        self._is_said = True
        self._step.note("joined", successors[0].name if successors else "")

    def found_leader(self, topic: str) -> None:
        self.errands.found_leader(topic)

    def _leader_here(self, topic: str) -> str | None:
        held = self.owners.held.get(topic)
        return self.owners.leader_of(topic) if held is not None and held.is_member else None

    # -- topics are announced ------------------------------------------------------------------------------------------

    def _announce(self, news: TopicNews) -> None:
        self._announced += 1
        number = self._announced
        self._announcing[number] = news
        bundle = Bundle(
            self._seat.name, self._seat.incarnation, number, 1, 0, DIRECTORY, (), Guarantee.EVENTUAL, b"",
            pack_payloads([news.encode()]),
        )  # fmt: skip
        self.errands.add(DIRECTORY, ("announce", number), PublishAt(bundle, number - 1))

    def _is_announced(self, message: PublicationPlaced) -> None:
        self.errands.done(DIRECTORY, ("announce", message.first))
        news = self._announcing.pop(message.first, None)
        held = self.owners.leads(news.topic) if news is not None and not news.is_ended else None
        if held is not None:
            held.announced()

    # -- what trees want (`TreeLines`) ---------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        return self._step.now_us

    def next_hop(self, topic: str) -> str | None:
        return self.owners.next_hop(topic) if self.owners.range.is_settled else None

    def rooted(self, topic: str, root: str) -> None:
        self.errands.rooted(topic, root)

    def push(self, name: str, message: Scribed) -> None:
        self._pushing.push(name, message)

    def ask_root(self, missed: AskMissed) -> None:
        self.errands.add(missed.topic, ("missed",), missed)

    def spread_upto(self, topic: str) -> None:
        held = self.owners.leads(topic)
        if held is not None:
            held.go_on()

    def is_sole_root(self, topic: str) -> bool:
        held = self.owners.leads(topic)
        if held is None or held.is_ending:
            return False
        if not held.replica.has_lease(self._step.now_us):
            held.wake()  # the others are asked, and whoever wants to know asks again soon
            return False
        return True

    def spread_again(self, topic: str, after: int) -> None:
        held = self.owners.leads(topic)
        assert held is not None, "this broker is the root"
        self.trees.skip(topic, held.log.watermark, held.log.begins)
        for placed in held.log.after(after):
            self.spread(placed)

    def deliver(self, message: Scribed, source: str | None) -> None:
        bundle, topic = message.bundle, message.bundle.topic
        if topic == DIRECTORY:
            held = self.owners.leads(topic)
            reached = held.log.position if held is not None else self.trees.places[topic].missing
            self.wishes.hear_news(TopicNews.decode(unpack_payloads(bundle)[0]), message.position < reached)
            return
        if self.trees.missed(topic) is None:
            self.errands.done(topic, ("missed",))
        publisher = self._sessions.publisher_of(bundle)
        item = KeptItem(bundle, message.hops, publisher.name if publisher is not None else source, False, message.tseq)
        item.position = message.position
        picks = {}
        for name, offsets in self.wishes.table.matches(bundle).items():
            if self.wishes.shows(name, topic, message.position):
                self._kept.add_reader(item, self._sessions.all[name])
                if offsets is not None:
                    picks[name] = offsets
        item.picks = picks or None
        self._kept.place(item)
        self._sessions.show(item, self._step.out)

    def skipped(self, topic: str, position: int) -> None:
        names = self.wishes.stop_behind(self._sessions.all, topic, position)
        if names:
            self._step.outcomes.append(ClientsBehind(topic, names))

    def wake(self, timer: Timer, after_us: int) -> None:
        self._step.out.append(SetTimer(timer, self._step.now_us + after_us))

    def let_sleep(self, timer: Timer) -> None:
        self._step.out.append(CancelTimer(timer))

    def tell(self, outcome: Outcome) -> None:
        self._step.outcomes.append(outcome)


def _delivery_of(item: KeptItem, session: ClientSession | None) -> PlacedDelivery:
    plain = plain_delivery(item, session)
    return PlacedDelivery(
        plain.bundle, plain.hops, plain.metadata_bytes, plain.offsets, plain.prompt, plain.tseq, item.position
    )
