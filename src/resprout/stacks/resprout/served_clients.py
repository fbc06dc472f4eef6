"""Decides for each client of a broker whether it is served, waits, or is sent to another broker.

A client that lost its broker sends `Attend` with the names of the brokers that it tried. It is served by the broker
that has the ghost for the clients of its home, is sent there if that broker is known, and waits while that is not
decided. `lost_brokers` has the rules; this part collects the facts (`_situation`) and acts on the answer.
"""

from collections.abc import Callable

from resprout.core.contract import Close, EndCode, LinkUp, Send, SetTimer
from resprout.core.errors import PeerError
from resprout.core.limits import DEAD_LETTER, FOLLOW_UP
from resprout.edge.broker.ghosts import Ghosts, home_of
from resprout.edge.broker.owed import BroughtSubscriptions, Owed
from resprout.edge.broker.quotas import limit_reason, party_of
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import HELD_AT_ONCE, ClientSessions
from resprout.edge.messages import Attend, GoTo, Successor, Successors, Taken
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.totals.levels import TotalAcks
from resprout.overlay.messages import Life
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import Answer, FoundSuccessor, LostBrokers, Situation, find_row
from resprout.stacks.resprout.messages import BroughtAlong, Superseded
from resprout.stacks.resprout.publishing import ClientPublishing
from resprout.stacks.resprout.remembered import RememberedBrokers
from resprout.stacks.resprout.subscribing import DROP_PORTION_US, ClientInterest, DropMore
from resprout.stacks.resprout.unsettled import (
    HoldOver,
    SearchDue,
    UnreadSearch,
    UnreadTold,
    UnsettledClient,
    UnsettledClients,
)


class ServedClients:
    """Decides which clients this broker serves, and welcomes them."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        links: dict[str, Link],
        log: Log,
        clock: Clock,
        client_interest: ClientInterest,
        sessions: ClientSessions,
        total_acks: TotalAcks,
        disk: DiskLog | None,
        lost: LostBrokers,
        remembered: RememberedBrokers,
        ghosts: Ghosts,
        book: ClientBook,
        unsettled: UnsettledClients,
        publishing: ClientPublishing,
        unread: UnreadSearch,
        bring: Callable[[ClientSession, BroughtSubscriptions], None],
        left: Callable[[str], None],
        looked: Callable[[], None],
    ) -> None:
        """`bring` takes up a client's subscriptions a portion at a time and then emits `BroughtAlong`. `left` is
        called when a session is over, `looked` when all waiting clients were looked at again."""
        self._bring = bring
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
        """By client that came and is not answered yet: its `Attend`."""
        self._held_by: dict[str, int] = {}
        """By party: the subscriptions that its waiting clients bring along."""
        self._brought: dict[str, BroughtSubscriptions] = {}
        """By waiting client with many subscriptions: those that are taken up so far."""
        self._since: dict[str, int] = {}
        """When each waiting client came."""
        self._coming: dict[str, None] = {}
        """Clients of a ghost that were sent `Serving` and have not answered with `Taken`. The ghost waits for them
        still: a client that hears its old broker again before `Serving` arrives goes back to it."""
        self._successors: tuple[Successor, ...] = ()
        """The successors that clients were told last."""
        self.awaited: list[int] = []
        """Places in the log up to which everything must be shown before a waiting client is served."""

    @property
    def serving(self) -> bool:
        """Whether this broker serves clients now."""
        return self._life.is_settled and not self._life.leaving

    # -- coming --------------------------------------------------------------------------------------------------------

    def arrive(self, event: LinkUp) -> None:
        """A client connects. It is not served before it has sent `Attend`."""
        life, name = self._life, event.peer
        if not event.internal and self._remembered.knows(name):
            life.out.append(Close(name, f"{name} is, or was, the name of a broker", EndCode.FORBIDDEN))
        elif not event.internal and name.startswith((DEAD_LETTER, FOLLOW_UP)):
            reason = f"names that begin with {DEAD_LETTER} or {FOLLOW_UP} are those of messages that brokers publish"
            life.out.append(Close(name, reason, EndCode.FORBIDDEN))
        elif name in self._client_interest.leaving:
            life.out.append(Close(name, f"the subscriptions of the last session of {name} are being dropped"))
        else:
            session = self._sessions.arrive(
                name, event.incarnation, event.room, event.internal, event.identity, event.limits
            )
            session.held_at_once = HELD_AT_ONCE

    def attend(self, session: ClientSession, message: Attend) -> None:
        """A client asks to be served."""
        self._sessions.check_held(session, message, self._life.now_us, self._life.out)
        self._clock.hear_client(message.clock)
        if self.is_superseded(session):
            return
        self._wait(session, message)
        self._since[session.name] = self._life.now_us
        if self._life.leaving and not message.tried and (successors := self._life.successors()):
            self._send_to(session, successors[0].name)  # a client that lost its broker is told when this one goes
        else:
            self._decide(session)

    def _wait(self, session: ClientSession, message: Attend) -> None:
        """Note that a client waits. Raises PeerError when clients of its party bring along too many subscriptions."""
        party, count = party_of(session), len(message.subscriptions)
        before, most = self._held_by.get(party, 0), session.limits.identity_subscriptions
        if before and before + count > most:
            complaint = f"{party} has {before} subscriptions that wait to be taken up, and brings along {count} more"
            raise PeerError(f"{complaint} (limit identity_subscriptions)")
        self._waiting[session.name] = message
        if count:
            self._held_by[party] = before + count

    def _wait_no_more(self, session: ClientSession) -> BroughtSubscriptions | None:
        """End the waiting of a client; return what was taken up of its subscriptions, if those were too many for one
        step."""
        message = self._waiting.pop(session.name, None)
        self._since.pop(session.name, None)
        if message is not None and message.subscriptions:
            party = party_of(session)
            self._held_by[party] -= len(message.subscriptions)
            if not self._held_by[party]:
                del self._held_by[party]
        return self._brought.pop(session.name, None)

    def is_superseded(self, session: ClientSession) -> bool:
        """Whether a later life of the client is served anywhere; if so, end this session."""
        if self._book.roll.latest(session.name) <= session.incarnation:
            return False
        self._end(session.name)
        return True

    def begin(self, session: ClientSession) -> None:
        """Serve a session that brings no subscriptions along."""
        life = self._life
        self._sessions.serve(session, life.successors(), True, life.out)
        if not session.is_internal:  # nobody else can be called like it
            self._book.roll.learn([Life(session.name, session.incarnation)])

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        """End a session. Without a code the client comes again by itself."""
        self._life.out.append(Close(name, reason, code))
        self.leave(name)

    def give_way(self, name: str) -> None:
        """End the session of a client whose name is that of a broker with a place in the tree."""
        session = self._sessions.all.get(name)
        if session is not None:
            self._life.note("name_taken", f"client {name} is cut off: a broker of its name has come")
            self.cut_off(name, f"{name} is the name of a broker, which has come", EndCode.FORBIDDEN)

    def cut_off_overspent(self) -> None:
        """End the sessions of clients whose conditions cost too much in this step."""
        life, overspent = self._life, self._sessions.quotas.overspent
        for name, reason in list(overspent.items()):
            most = self._sessions.all[name].limits.identity_steps
            self._sessions.quotas.count(name, limit_reason("identity_steps", most), life.out)
            self.cut_off(name, reason, EndCode.FORBIDDEN)
        overspent.clear()

    def leave(self, name: str) -> None:
        """A client's session is over: forget it, and drop its interest."""
        life = self._life
        self._left(name)
        self._wait_no_more(self._sessions.all[name])
        self._coming.pop(name, None)
        self._unsettled.leave(name)
        self._publishing.leave(self._sessions.all[name])
        self._log.held_back.put_wall()  # it may go on elsewhere, and say there again what waits here
        self._client_interest.leave_slowly(name, life.now_us)
        self._sessions.leave(name, life.out)
        if name in self._client_interest.leaving:
            life.out.append(SetTimer(DropMore(), life.now_us + DROP_PORTION_US))
        self._book.listeners.check((name,))

    def drop_more(self) -> None:
        """Drop another portion of the interest of clients that left with many subscriptions."""
        life = self._life
        self._sessions.confirm(self._client_interest.drop_more(), life.out)
        if self._client_interest.leaving:
            life.out.append(SetTimer(DropMore(), life.now_us + DROP_PORTION_US))

    def superseded(self, outcome: Superseded) -> None:
        """End earlier lives of these clients, and let ghosts wait for them no longer."""
        for name in outcome.names:
            session = self._sessions.all.get(name)
            if session is not None and session.incarnation < self._book.roll.latest(name):
                self._end(name)
            if self._ghosts.awaits(name) and name not in self._coming:  # which is of this life, and may lose its way
                self._ghosts.unawait(name)
                self._book.listeners.check((name,))

    def _end(self, name: str) -> None:
        """End a session because a later life of the client has begun."""
        self._life.out.append(Close(name, f"{name} restarted", EndCode.REPLACED))
        self.leave(name)

    def look_again(self) -> None:
        """Decide again about waiting clients once what a repair brought is shown. Called at the end of a step."""
        if self.is_shown(min(self.awaited)):
            self.decide_all()

    def decide_all(self) -> None:
        """Decide again about all waiting clients."""
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
        """Ask the tree about clients about which it was never asked."""
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
            self._release(client)

        self._unread.ask(marks, client.asks > 1, answered)

    def hold_over(self, timer: HoldOver) -> None:
        """The tree has not answered for long: take what the client publishes, whether others have it or not."""
        if (client := self._unsettled.clients.get(timer.client)) is not None:
            self._release(client)

    def _release(self, client: UnsettledClient) -> None:
        session = client.session
        if client.is_held and self._sessions.all.get(session.name) is session:
            client.is_held = False
            self._publishing.resume(session)

    def tell_successors(self) -> None:
        """Tell all clients the successors of this broker, if they have changed."""
        life = self._life
        successors = life.successors()
        if successors != self._successors:
            self._successors = successors
            message = Successors(successors)
            life.out.extend(
                [Send(session.name, message) for session in self._sessions.all.values() if session.attending]
            )

    def _decide(self, session: ClientSession) -> None:
        """Answer a waiting client by the table in `lost_brokers`, or let it wait on."""
        life = self._life
        attend = self._waiting[session.name]
        waited_us = life.now_us - self._since.get(session.name, life.now_us)
        found = self._lost.find(attend, waited_us)
        answer = find_row(self._situation(attend, found, waited_us)).answer
        if answer is Answer.WAIT_FOR_LOG:
            self.awaited.append(self._ghosts.brought_upto(home_of(attend)))
        elif answer is Answer.RESUME:
            self._resume(session, attend)
        elif answer in (Answer.SERVE, Answer.SEND_ON, Answer.SEND_BACK) and session.name in self._brought:
            self.cut_off(session.name, f"nothing is kept any more for clients of {home_of(attend).name}")
        elif answer is Answer.SERVE:
            self._welcome(session, attend, not attend.subscriptions)
        elif answer is Answer.SEND_ON:
            assert found.name is not None
            self._send_to(session, found.name)
        elif answer is Answer.SEND_BACK:
            self._send_to(session, life.seat.name)

    def _resume(self, session: ClientSession, attend: Attend) -> None:
        """Serve a client and resume its subscriptions, at once or, if there are many, when all are taken up."""
        brought = self._brought.get(session.name)
        if brought is None and len(attend.subscriptions) > HELD_AT_ONCE:
            brought = self._brought[session.name] = BroughtSubscriptions(attend)
            self._bring(session, brought)
        elif brought is None or brought.is_whole:
            self._welcome(session, attend, True)

    def brought(self, outcome: BroughtAlong) -> None:
        """All subscriptions of a client are taken up: decide again."""
        session = self._sessions.all.get(outcome.name)
        if session is not None and outcome.name in self._brought:
            self._decide(session)

    def _situation(self, attend: Attend, found: FoundSuccessor, waited_us: int) -> Situation:
        """Collect the facts by which the table decides about a client that has waited for `waited_us`."""
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
        """Whether clients of this ghost are served at once when they come, and those that wait at a member have been
        sent here."""
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
        """Whether all entries of the log up to this place are shown."""
        first = self._log.first_held_back
        return first is None or first > upto

    def _send_to(self, session: ClientSession, name: str) -> None:
        """Tell a client to ask another broker (`GoTo`)."""
        place = self._life.view.places.get(name)
        self._wait_no_more(session)
        successor = Successor(name, place.address if place is not None else "")
        self._life.out.append(Send(session.name, GoTo(successor)))

    def _welcome(self, session: ClientSession, attend: Attend, resumed: bool) -> None:
        """Serve a client: resume its subscriptions, answer for its publications, and give it its share of what the
        ghost keeps."""
        life = self._life
        brought = self._wait_no_more(session)
        self._take_in(session, attend, resumed, brought)
        self._publishing.came(session)
        if attend.tried:
            is_certain = self._ghosts.answers_for(home_of(attend)) and not attend.unsettled
            is_kept = home_of(attend) in self._lost.kept_by  # until then by others, after that by nobody
            due_us = self._lost.kept_until_us if is_kept else life.now_us
            is_held = not is_kept and (attend.unsettled or home_of(attend) == life.own)  # it may repeat everything
            self._unsettled.adopt(session, self._answered_for(session), None if is_certain else due_us, is_held)
            if not is_certain:
                self._search_at(due_us)
                if is_held:
                    life.out.append(SetTimer(HoldOver(session.name), life.now_us + life.options.lease_us))
        if attend.tried and resumed:
            self._give_share(session, attend, brought)
        if attend.tried and self._ghosts.awaits(session.name):
            self._coming[session.name] = None
        else:
            self._ghosts.unawait(session.name)
        self._book.listeners.check((session.name,))
        if not session.is_internal:  # nobody else can be called like it
            self._book.roll.learn([Life(session.name, session.incarnation)])

    def welcome_inner(self, session: ClientSession, attend: Attend) -> None:
        """Serve a durable subscription of a dead broker like a client that returns."""
        self._take_in(session, attend, True, None)
        self._give_share(session, attend, None)
        self._ghosts.unawait(session.name)
        self._book.listeners.check((session.name,))

    def _take_in(
        self, session: ClientSession, attend: Attend, resumed: bool, brought: BroughtSubscriptions | None
    ) -> None:
        """Send `Serving`, and take over the subscriptions that the client brings along."""
        life = self._life
        if attend.tried and self._disk is not None:
            self._disk.moved(session.name)
        if attend.subscriptions and resumed:
            self._book.listeners.returned(session.name)
        self._sessions.welcome(session, attend, life.successors(), resumed, life.out, brought)
        if brought is not None:
            self._client_interest.changed()  # from here on it is shown what comes
        if self._disk is not None and attend.subscriptions:
            self._disk.asked(session.subscriptions.values())

    def _give_share(self, session: ClientSession, attend: Attend, brought: BroughtSubscriptions | None) -> None:
        """Give a client what it is owed of what ghosts keep, and of what is not shown yet."""
        life = self._life
        owed = brought.owed if brought is not None else Owed(attend)
        self._ghosts.claim(session, attend, owed, self._ghosts.of(home_of(attend)), life.out)
        self._log.held_back.put_wall()  # what the client came for may not be asked of everybody yet
        self._sessions.let_read(session, owed, [entry for entry in self._log.held_back if not entry.is_backup])

    def taken(self, session: ClientSession, message: Taken) -> None:
        """A client acknowledges deliveries. The first `Taken` of a client from elsewhere also says that it has come."""
        if session.name in self._coming:
            del self._coming[session.name]
            self._ghosts.unawait(session.name)
            self._book.listeners.check((session.name,))
        self._sessions.taken(session, message, self._life.out)

    def _answered_for(self, session: ClientSession) -> list[Entry]:
        """Return the client's publications that this broker sends receipts for, because the broker that accepted
        them is dead."""
        me = (session.name, session.incarnation)
        entries = [*self._log.entries.values(), *self._total_acks.entries.values()]
        entries += [entry for link in self._links.values() for entry in link.sent.entries.values()]
        mine = {id(entry): entry for entry in entries if (entry.publisher, entry.incarnation) == me}
        return [entry for entry in mine.values() if entry.source is None]
