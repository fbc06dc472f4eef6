"""Clients of one broker: who is served, who waits, who is sent elsewhere.

A client that lost its broker comes with the names of the brokers it tried. It is served where their ghosts are, sent
there when that is known, and held while that is still being decided. `client_answers` decides; this part finds out what
holds, and acts on the answer.
"""

from collections.abc import Callable

from resprout.core.contract import Close, EndCode, LinkUp, Send, SetTimer
from resprout.edge.broker.ghosts import Ghosts, home_of
from resprout.edge.broker.quotas import limit_reason
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, GoTo, Successor, Successors, Taken
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.totals.levels import TotalBook
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_answers import Answer, Situation, find_row
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.client_interest import PORTION_US, ClientInterest, DropMore
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import FoundSuccessor, LostBrokers
from resprout.stacks.resprout.outcomes import Superseded
from resprout.stacks.resprout.publishing import ClientPublishing
from resprout.stacks.resprout.remembered import RememberedBrokers
from resprout.stacks.resprout.unread import UnreadSearch, UnreadTold
from resprout.stacks.resprout.unsettled import SearchDue, UnsettledClient, UnsettledClients
from resprout.stacks.shell.peers import Peers


class ServedClients:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        links: dict[str, Link],
        log: Log,
        clock: Clock,
        client_interest: ClientInterest,
        sessions: ClientSessions,
        total_acks: TotalBook,
        disk: DiskLog | None,
        lost: LostBrokers,
        remembered: RememberedBrokers,
        ghosts: Ghosts,
        book: ClientBook,
        unsettled: UnsettledClients,
        publishing: ClientPublishing,
        unread: UnreadSearch,
        left: Callable[[str], None],
        looked: Callable[[], None],
    ) -> None:
        """`left` is told whose session is over, `looked` when all clients that wait were looked at again."""
        self._left = left
        self._looked = looked
        self._life = life
        self._peers = peers
        self._links = links
        self._log = log
        self._clock = clock
        self._client_interest = client_interest
        self._sessions = sessions
        self._total_acks = total_acks
        self._disk = disk
        self._lost = lost
        self._remembered = remembered
        self._ghosts = ghosts
        self._book = book
        self._unsettled = unsettled
        self._publishing = publishing
        self._unread = unread
        self._search_us: int | None = None
        """When the timer `SearchDue` is set for."""
        self._waiting: dict[str, Attend] = {}
        """Clients that came and cannot be served yet."""
        self._since: dict[str, int] = {}
        """When they came: what they say about their broker may not have reached this one."""
        self._coming: dict[str, None] = {}
        """Clients that a ghost waits for, which were told `Serving` and have not said that they have come: one that
        hears its old broker again meanwhile turns back."""
        self._successors: tuple[Successor, ...] = ()
        """As clients were told."""
        self.awaited: list[int] = []
        """Places in the log up to which everything must be shown before a client that waits is served."""

    @property
    def serving(self) -> bool:
        """Whether clients that come are served."""
        return self._life.is_settled and not self._life.leaving

    # -- coming --------------------------------------------------------------------------------------------------------

    def arrive(self, event: LinkUp) -> None:
        life, name = self._life, event.peer
        if not event.internal and self._remembered.knows(name):
            life.out.append(Close(name, f"{name} is, or was, the name of a broker", EndCode.FORBIDDEN))
        elif name in self._client_interest.leaving:
            life.out.append(Close(name, f"the subscriptions of the last session of {name} are being dropped"))
        else:
            self._sessions.arrive(name, event.incarnation, event.room, event.internal, event.identity, event.limits)

    def attend(self, session: ClientSession, message: Attend) -> None:
        self._sessions.check_held(session, message, self._life.now_us, self._life.out)
        self._clock.hear_client(message.clock)
        if self.is_superseded(session):
            return
        self._waiting[session.name] = message
        self._since[session.name] = self._life.now_us
        if self._life.leaving and not message.tried and (successors := self._life.successors()):
            self._send_to(session, successors[0].name)  # whoever has lost a broker is told when this one goes
        else:
            self._decide(session)

    def is_superseded(self, session: ClientSession) -> bool:
        """By a later life that somebody serves; then it is told, and gone."""
        if self._book.roll.latest(session.name) <= session.incarnation:
            return False
        self._end(session.name)
        return True

    def begin(self, session: ClientSession) -> None:
        """Serve somebody who asks for nothing of its own."""
        life = self._life
        self._sessions.serve(session, life.successors(), True, life.out)
        self._book.roll.learn([Life(session.name, session.incarnation)])

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        """End a session. Without a code the client comes again by itself."""
        self._life.out.append(Close(name, reason, code))
        self.leave(name)

    def give_way(self, name: str) -> None:
        """A broker of this name has a place in the tree: a client that is called so is told, and goes."""
        session = self._sessions.all.get(name)
        if session is not None:
            self._life.note("name_taken", f"client {name} is cut off: a broker of its name has come")
            self.cut_off(name, f"{name} is the name of a broker, which has come", EndCode.FORBIDDEN)

    def cut_off_overspent(self) -> None:
        """At the end of a step in which testing the conditions of some clients has cost too much."""
        life, overspent = self._life, self._sessions.quotas.overspent
        for name, reason in list(overspent.items()):
            most = self._sessions.all[name].limits.identity_steps
            self._sessions.quotas.count(name, limit_reason("identity_steps", most), life.out)
            self.cut_off(name, reason, EndCode.FORBIDDEN)
        overspent.clear()

    def leave(self, name: str) -> None:
        life = self._life
        self._left(name)
        self._waiting.pop(name, None)
        self._since.pop(name, None)
        self._coming.pop(name, None)
        self._unsettled.leave(name)
        self._publishing.leave(self._sessions.all[name])
        self._log.held_back.put_wall()  # it may go on elsewhere, and say there again what waits here
        self._client_interest.leave_slowly(name)
        self._sessions.leave(name, life.out)
        if name in self._client_interest.leaving:
            life.out.append(SetTimer(DropMore(), life.now_us + PORTION_US))
        self._book.listeners.check((name,))

    def drop_more(self) -> None:
        """Of clients that left with many subscriptions."""
        life = self._life
        self._sessions.confirm(self._client_interest.drop_more(), life.out)
        if self._client_interest.leaving:
            life.out.append(SetTimer(DropMore(), life.now_us + PORTION_US))

    def superseded(self, outcome: Superseded) -> None:
        """Earlier lives of these clients are told, and not waited for."""
        for name in outcome.names:
            session = self._sessions.all.get(name)
            if session is not None and session.incarnation < self._book.roll.latest(name):
                self._end(name)
            if self._ghosts.awaits(name) and name not in self._coming:  # which is of this life, and may lose its way
                self._ghosts.unawait(name)
                self._book.listeners.check((name,))

    def _end(self, name: str) -> None:
        """As if the later one had come to this broker."""
        self._life.out.append(Close(name, f"{name} restarted", EndCode.REPLACED))
        self.leave(name)

    def look_again(self) -> None:
        """At the end of a step, while places are awaited: perhaps what a repair brought is shown by now."""
        if self.is_shown(min(self.awaited)):
            self.decide_all()

    def decide_all(self) -> None:
        """Something has changed: look again at those that wait."""
        self.awaited.clear()
        for name in list(self._waiting):
            session = self._sessions.all.get(name)
            if session is not None:
                self._decide(session)
        self._looked()

    def settle(self) -> None:
        """With each heartbeat, ask the tree about clients whose earlier publications may be unread elsewhere."""
        for client in self._unsettled.due(self._life.now_us):
            self._ask_unread(client)

    def search(self) -> None:
        """Ask the tree about those about whom it was never asked."""
        self._search_us = None
        self.settle()
        if (due_us := self._unsettled.first_due_us) is not None:
            self._search_at(due_us)

    def _search_at(self, due_us: int) -> None:
        if self._search_us is None or due_us < self._search_us:
            self._search_us = due_us
            self._life.out.append(SetTimer(SearchDue(), due_us))

    def _ask_unread(self, client: UnsettledClient) -> None:
        life, marks = self._life, client.marks
        self._unsettled.asked(client, life.now_us, life.options.heartbeat_us)

        def answered(told: UnreadTold) -> None:
            client.is_asking = False
            if told.is_complete:
                self._unsettled.told(client, marks, told.reached, told.is_read)

        self._unread.ask(marks, client.asks > 1, answered)

    def tell_successors(self) -> None:
        """When they have changed."""
        life = self._life
        successors = life.successors()
        if successors != self._successors:
            self._successors = successors
            message = Successors(successors)
            life.out.extend(
                [Send(session.name, message) for session in self._sessions.all.values() if session.attending]
            )

    def _decide(self, session: ClientSession) -> None:
        """Answer a client that waits, or let it wait on."""
        life = self._life
        attend = self._waiting[session.name]
        waited_us = life.now_us - self._since.get(session.name, life.now_us)
        found = self._lost.find(attend, waited_us)
        answer = find_row(self._situation(attend, found, waited_us)).answer
        if answer is Answer.WAIT_FOR_LOG:
            self.awaited.append(self._ghosts.brought_upto(home_of(attend)))
        elif answer is Answer.RESUME:
            self._welcome(session, attend, True)
        elif answer is Answer.SERVE:
            self._welcome(session, attend, not attend.subscriptions)
        elif answer is Answer.SEND_ON:
            assert found.name is not None
            self._send_to(session, found.name)
        elif answer is Answer.SEND_BACK:
            self._send_to(session, life.seat.name)

    def _situation(self, attend: Attend, found: FoundSuccessor, waited_us: int) -> Situation:
        life, home = self._life, home_of(attend)
        return Situation(
            is_leaving=life.leaving,
            has_place=life.attached and life.goes_on,
            is_calm=life.is_calm,
            lost_broker=bool(attend.tried),
            has_subscriptions=bool(attend.subscriptions),
            is_given_up=self._lost.is_given_up(home),
            has_ghost=self._ghosts.knows(home),
            is_shown=self.is_shown(self._ghosts.brought_upto(home)),
            is_home=home == life.own,
            keeper_failed_lately=found.keeper_failed and waited_us < 2 * life.options.heartbeat_us,
            knows_successor=found.name is not None,
            is_successor=found.name == life.seat.name,
            keeps_ghost=found.keeps_ghost,
            insists=attend.anyhow,
        )

    def can_serve(self, ghost: str) -> bool:
        """Whether whoever comes to this ghost is served at once, and those who wait at a member have been sent here."""
        has_grants = not any(map(self._is_being_granted, self._ghosts.members(ghost).items()))
        can_answer = self._life.is_settled and not self._life.is_disk_full
        return can_answer and has_grants and self.is_shown(self._ghosts.upto(ghost))

    def _is_being_granted(self, member: tuple[Life, int]) -> bool:
        """Whether the Grant of a member is on its way: the member is heard, it has not told its place since the repair,
        and it has not restarted. The next life of a member joins and gets no Grant."""
        granted, version = member
        link, place = self._links.get(granted.name), self._life.view.places.get(granted.name)
        if link is None or place is None or not self._peers.is_heard(granted.name):
            return False
        return place.life == granted and place.version <= version

    def expects_any(self, ghost: str) -> bool:
        """Whether a client of this ghost is connected: it waits, or was told `Serving` and has not answered."""
        waiting = any(ghost in self._ghosts.of(home_of(attend)) for attend in self._waiting.values() if attend.tried)
        return waiting or any(self._ghosts.is_awaited_by(ghost, name) for name in self._coming)

    def is_shown(self, upto: int) -> bool:
        first = self._log.first_held_back
        return first is None or first > upto

    def _send_to(self, session: ClientSession, name: str) -> None:
        place = self._life.view.places.get(name)
        del self._waiting[session.name], self._since[session.name]
        successor = Successor(name, place.address if place is not None else "")
        self._life.out.append(Send(session.name, GoTo(successor)))

    def _welcome(self, session: ClientSession, attend: Attend, resumed: bool) -> None:
        life = self._life
        del self._waiting[session.name], self._since[session.name]
        self._take_in(session, attend, resumed)
        self._publishing.came(session)
        if attend.tried:
            is_certain = self._ghosts.answers_for(home_of(attend))
            is_kept = home_of(attend) in self._lost.kept_by  # until then by others, after that by nobody
            due_us = self._lost.kept_until_us if is_kept else life.now_us
            self._unsettled.adopt(session, self._answered_for(session), None if is_certain else due_us)
            if not is_certain:
                self._search_at(due_us)
        if attend.tried and resumed:
            self._give_share(session, attend)
        if attend.tried and self._ghosts.awaits(session.name):
            self._coming[session.name] = None
        else:
            self._ghosts.unawait(session.name)
        self._book.listeners.check((session.name,))
        if not session.is_internal:  # nobody else can be called like it
            self._book.roll.learn([Life(session.name, session.incarnation)])

    def welcome_inner(self, session: ClientSession, attend: Attend) -> None:
        """A durable subscription of a dead broker, as if it had come by itself."""
        self._take_in(session, attend, True)
        self._give_share(session, attend)
        self._ghosts.unawait(session.name)
        self._book.listeners.check((session.name,))

    def _take_in(self, session: ClientSession, attend: Attend, resumed: bool) -> None:
        """With the subscriptions that it brings along."""
        life = self._life
        if attend.tried and self._disk is not None:
            self._disk.moved(session.name)
        if attend.subscriptions and resumed:
            self._book.listeners.returned(session.name)
        self._sessions.welcome(session, attend, life.successors(), resumed, life.out)
        if self._disk is not None and any(held.filter.startswith("$") for held in attend.subscriptions):
            self._disk.asked()

    def _give_share(self, session: ClientSession, attend: Attend) -> None:
        """Of what was kept for it, and of what is not shown yet."""
        life = self._life
        self._ghosts.claim(session, attend, self._ghosts.of(home_of(attend)), life.out)
        self._log.held_back.put_wall()  # what the client came for may not be asked of everybody yet
        self._sessions.let_read(session, attend, [entry for entry in self._log.held_back if not entry.is_backup])

    def taken(self, session: ClientSession, message: Taken) -> None:
        """Of deliveries; and the first word of a client that has come from elsewhere."""
        if session.name in self._coming:
            del self._coming[session.name]
            self._ghosts.unawait(session.name)
            self._book.listeners.check((session.name,))
        self._sessions.taken(session, message, self._life.out)

    def _answered_for(self, session: ClientSession) -> list[Entry]:
        """Publications of the client that this broker answers for, because the broker that took them is dead."""
        me = (session.name, session.incarnation)
        entries = [*self._log.entries.values(), *self._total_acks.entries.values()]
        entries += [entry for link in self._links.values() for entry in link.sent.entries.values()]
        mine = {id(entry): entry for entry in entries if (entry.publisher, entry.incarnation) == me}
        return [entry for entry in mine.values() if entry.source is None]
