"""Clients of one broker: who is served, what of theirs is carried as a total, who is sent elsewhere.

What would have to wait for a total is *carried*: submitted like one, and delivered at its place in that order. That is
what comes behind something of its client that is itself under way, or behind a total that its client has delivered
elsewhere and this broker has not; and what names a key that an active total holds. So a client's queue stops only for
a bound (`backlog`), for what it says again and has overtaken itself, and once for what is heavy: every broker is
given what is carried, so a heavy bundle first waits for what is under way when it comes, and is perhaps free then.

`eventual` has no order with anything: it is accepted when it comes.

A client that lost its broker comes with the names of the brokers it tried. It is served where their ghosts are, sent
there when that is known, and held while that is still being decided.
"""

from collections.abc import Callable, Collection

import msgspec

from resprout.core.bundle import Bundle, split
from resprout.core.contract import Close, EndCode, LinkUp, Send, SetTimer
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.answering import Answering, NothingKept
from resprout.edge.broker.ghosts import Ghosts, home_of
from resprout.edge.broker.quotas import limit_reason
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, GoTo, PublicationWaits, Publish, Successor, Successors, Taken
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.totals.messages import Lock, TotalId
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.client_interest import PORTION_US, DropMore
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.disk_until_safe import DiskUntilSafe
from resprout.stacks.resprout.lost_brokers import LostBrokers
from resprout.stacks.resprout.messages import NOBODY
from resprout.stacks.resprout.outcomes import Superseded
from resprout.stacks.resprout.pauses import PauseSeen
from resprout.wire.columns import check_columns


class Clients:
    def __init__(self, core: Core, ghosts: Ghosts, book: ClientBook, until_safe: DiskUntilSafe | None) -> None:
        self._core = core
        self._ghosts = ghosts
        self._book = book
        self._until_safe = until_safe
        self.lost = LostBrokers(core)
        self._waiting: dict[str, Attend] = {}
        """Clients that came and cannot be served yet."""
        self._since: dict[str, int] = {}
        """When they came: what they say about their broker may not have reached this one."""
        self._draining: set[str] = set()
        self._late: dict[str, int] = {}
        """Clients of which something `eventual` waits in line, and the last number of that."""
        self._ahead: dict[str, dict[TotalId, None]] = {}
        """Clients that came with totals which are not delivered here yet."""
        self._coming: dict[str, None] = {}
        """Clients that a ghost waits for, which were told `Serving` and have not said that they have come: one that
        hears its old broker again meanwhile turns back."""
        self.answering = Answering(core.sessions, core.seen.mark)
        self._successors: tuple[Successor, ...] = ()
        self._turn = 0
        self.awaited: list[int] = []
        """Places in the log up to which everything must be shown before somebody who waits is served."""
        self.left: Callable[[str], None] = lambda name: None
        """Told whose session is over."""
        self.looked: Callable[[], None] = lambda: None
        """Told when all that wait were looked at again, while there is anything in `durables`."""
        self.durables: tuple[Collection[str], ...] = ()
        """Durable subscriptions that are known, and consumers that wait for one."""
        core.total_way.drain = self.drain_all
        core.pauses.changed = self.drain_all

    @property
    def serving(self) -> bool:
        """Whoever comes is served."""
        return self._is_settled and not self._core.leaving

    @property
    def _is_settled(self) -> bool:
        return self._core.attached and self._core.is_calm and self._core.goes_on

    # -- coming --------------------------------------------------------------------------------------------------------

    def arrive(self, event: LinkUp) -> None:
        core, name = self._core, event.peer
        if not event.internal and core.knows_broker(name):
            core.out.append(Close(name, f"{name} is, or was, the name of a broker", EndCode.FORBIDDEN))
        elif name in core.wishes.leaving:
            core.out.append(Close(name, f"the subscriptions of the last session of {name} are being dropped"))
        else:
            core.sessions.arrive(name, event.incarnation, event.room, event.internal, event.identity, event.limits)

    def attend(self, session: ClientSession, message: Attend) -> None:
        self._core.sessions.check_held(session, message, self._core.now_us, self._core.out)
        self._core.clock.hear_client(message.clock)
        if self.is_superseded(session):
            return
        self._waiting[session.name] = message
        self._since[session.name] = self._core.now_us
        if self._core.leaving and not message.tried and (successors := self._core.successors()):
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
        core = self._core
        core.sessions.serve(session, core.successors(), True, core.out)
        self._book.roll.learn([Life(session.name, session.incarnation)])

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        """End a session. Without a code the client comes again by itself."""
        self._core.out.append(Close(name, reason, code))
        self.leave(name)

    def give_way(self, name: str) -> None:
        """A broker of this name has a place in the tree: a client that is called so is told, and goes."""
        session = self._core.sessions.all.get(name)
        if session is not None:
            self._core.note("name_taken", f"client {name} is cut off: a broker of its name has come")
            self.cut_off(name, f"{name} is the name of a broker, which has come", EndCode.FORBIDDEN)

    def cut_off_overspent(self) -> None:
        """At the end of a step in which testing the conditions of some clients has cost too much."""
        core, overspent = self._core, self._core.sessions.quotas.overspent
        for name, reason in list(overspent.items()):
            most = core.sessions.all[name].limits.identity_steps
            core.sessions.quotas.count(name, limit_reason("identity_steps", most), core.out)
            self.cut_off(name, reason, EndCode.FORBIDDEN)
        overspent.clear()

    def leave(self, name: str) -> None:
        core = self._core
        self.left(name)
        self._waiting.pop(name, None)
        self._since.pop(name, None)
        self._coming.pop(name, None)
        self.answering.leave(name)
        self._ahead.pop(name, None)
        core.total_way.forget(name)
        session = core.sessions.all[name]
        core.log.local_bytes -= session.waiting_bytes
        session.waiting_bytes = 0
        session.waiting.clear()
        core.paused_for.pop(name, None)
        self._late.pop(name, None)
        core.pressure.forget(name)
        core.log.held_back.put_wall()  # it may go on elsewhere, and say there again what waits here
        core.wishes.leave_slowly(name)
        core.sessions.leave(name, core.out)
        if name in core.wishes.leaving:
            core.out.append(SetTimer(DropMore(), core.now_us + PORTION_US))
        self._book.listeners.check((name,))

    def drop_more(self) -> None:
        """Of clients that left with many subscriptions."""
        core = self._core
        core.sessions.confirm(core.wishes.drop_more(), core.out)
        if core.wishes.leaving:
            core.out.append(SetTimer(DropMore(), core.now_us + PORTION_US))

    def superseded(self, outcome: Superseded) -> None:
        """Earlier lives of these clients are told, and not waited for."""
        core = self._core
        for name in outcome.names:
            session = core.sessions.all.get(name)
            if session is not None and session.incarnation < self._book.roll.latest(name):
                self._end(name)
            if self._ghosts.awaits(name) and name not in self._coming:  # which is of this life, and may lose its way
                self._ghosts.unawait(name)
                self._book.listeners.check((name,))

    def _end(self, name: str) -> None:
        """As if the later one had come to this broker."""
        self._core.out.append(Close(name, f"{name} restarted", EndCode.REPLACED))
        self.leave(name)

    def look_again(self) -> None:
        """At the end of a step, while places are awaited: perhaps what a repair brought is shown by now."""
        if self.is_shown(min(self.awaited)):
            self.decide_all()

    def decide_all(self) -> None:
        """Something has changed: look again at those that wait."""
        self.awaited.clear()
        for name in list(self._waiting):
            session = self._core.sessions.all.get(name)
            if session is not None:
                self._decide(session)
        if any(self.durables):
            self.looked()

    def settle(self) -> None:
        """What a client published before it came here, and of which nothing is left here, may still be kept for others
        by a ghost elsewhere. When no ghost is left, it is delivered. A ghost within view may outlast `ghost_us`."""
        core = self._core
        if not self.answering.unsettled:
            return
        if any(place.looks_after and not core.view.is_dead(place.name) for place in core.view.places.values()):
            if min(self.answering.unsettled.values()) <= core.now_us:
                core.out.append(SetTimer(NothingKept(), core.now_us + core.options.heartbeat_us))
            return
        self.answering.settle(core.now_us)

    def tell_successors(self) -> None:
        """When they have changed."""
        core = self._core
        successors = core.successors()
        if successors != self._successors:
            self._successors = successors
            message = Successors(successors)
            core.out.extend(
                [Send(session.name, message) for session in core.sessions.all.values() if session.attending]
            )

    def _decide(self, session: ClientSession) -> None:
        core = self._core
        attend = self._waiting[session.name]
        is_new = not attend.tried and not attend.subscriptions
        if core.leaving and not (attend.tried and self._ghosts.knows(home_of(attend))):
            return  # only those whom nobody else could serve: this broker goes when they have come
        if not (
            self._is_settled or (core.attached and is_new and core.goes_on)
        ):  # a repair may wait for what an operator says
            return
        tried = attend.tried
        if not tried or core.kept_by.get(home_of(attend)) == NOBODY:
            self._welcome(session, attend, not attend.subscriptions)
        elif self._ghosts.knows(home_of(attend)):
            upto = self._ghosts.brought_upto(home_of(attend))
            if self.is_shown(upto):
                self._welcome(session, attend, True)
            else:
                self.awaited.append(upto)
        elif home_of(attend) == Life(
            core.seat.name, core.seat.incarnation
        ):  # its session was here, and is over: nobody kept more
            self._welcome(session, attend, not attend.subscriptions)
        else:
            # Who served it comes first; of those it asked, the last one kept for the others.
            waited_us = core.now_us - self._since.get(session.name, core.now_us)
            found = [self.lost.of(name, waited_us) for name in reversed(tried[1:])]
            known = [name for name in (self.lost.of_life(home_of(attend), waited_us), *found) if name is not None]
            untried = [name for name in known if name == core.seat.name or name not in tried[1:]]
            keeper = self.lost.keeper_of(home_of(attend))
            if keeper in tried and waited_us < 2 * core.options.heartbeat_us:
                return  # perhaps it has just died, and another one takes its place
            successor = keeper or next(iter(untried or known), None)
            if successor == core.seat.name:
                return
            # Who has its ghost, or will be known to, is worth asking for as long as ghosts are kept.
            asked = (keeper, *map(self.lost.latest, tried))
            is_vain = successor is None or successor not in asked
            if (attend.anyhow and is_vain) or (successor is None and not attend.subscriptions):
                self._welcome(session, attend, not attend.subscriptions)
            else:
                self._send_to(session, successor or core.seat.name)

    def can_serve(self, ghost: str) -> bool:
        """Whether whoever comes to this ghost is served at once, and those who wait at a member have been sent here."""
        has_grants = not any(map(self._is_being_granted, self._ghosts.members(ghost).items()))
        return self._is_settled and has_grants and self.is_shown(self._ghosts.upto(ghost))

    def _is_being_granted(self, member: tuple[Life, int]) -> bool:
        """Whether the Grant of a member is on its way: the member is heard, it has not told its place since the repair,
        and it has not restarted. The next life of a member joins and gets no Grant."""
        core, (life, version) = self._core, member
        link, place = core.links.get(life.name), core.view.places.get(life.name)
        if link is None or place is None or not core.peers.is_heard(life.name):
            return False
        return place.life == life and place.version <= version

    def expects_any(self, ghost: str) -> bool:
        """Whether a client of this ghost is connected: it waits, or was told `Serving` and has not answered."""
        waiting = any(ghost in self._ghosts.of(home_of(attend)) for attend in self._waiting.values() if attend.tried)
        return waiting or any(self._ghosts.is_awaited_by(ghost, name) for name in self._coming)

    def is_shown(self, upto: int) -> bool:
        first = self._core.log.first_held_back
        return first is None or first > upto

    def _send_to(self, session: ClientSession, name: str) -> None:
        place = self._core.view.places.get(name)
        del self._waiting[session.name], self._since[session.name]
        successor = Successor(name, place.address if place is not None else "")
        self._core.out.append(Send(session.name, GoTo(successor)))

    def _welcome(self, session: ClientSession, attend: Attend, resumed: bool) -> None:
        core = self._core
        del self._waiting[session.name], self._since[session.name]
        self._take_in(session, attend, resumed)
        ahead = {id: None for id, record in core.totals.locks.undelivered.items() if session.has(record.bundle)}
        if ahead:
            self._ahead[session.name] = ahead
        if attend.tried:
            is_certain = self._ghosts.answers_for(home_of(attend))
            is_kept = home_of(attend) in core.kept_by  # until then by others, after that by nobody
            last_us = core.kept_until_us if is_kept else core.now_us + core.options.ghost_us
            due_us = None if is_certain else last_us
            self.answering.adopt(session, self._answered_for(session), due_us)
            if due_us is not None:  # all are settled by then; those who are due before are settled with a heartbeat
                core.out.append(SetTimer(NothingKept(), max(self.answering.unsettled.values())))
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
        core = self._core
        if attend.tried and core.disk is not None:
            core.disk.moved(session.name)
        if attend.subscriptions and resumed:
            self._book.listeners.returned(session.name)
        core.sessions.welcome(session, attend, core.successors(), resumed, core.out)
        if core.disk is not None and any(held.filter.startswith("$") for held in attend.subscriptions):
            core.disk.asked()

    def _give_share(self, session: ClientSession, attend: Attend) -> None:
        """Of what was kept for it, and of what is not shown yet."""
        core = self._core
        self._ghosts.claim(session, attend, self._ghosts.of(home_of(attend)), core.out)
        core.log.held_back.put_wall()  # what the client came for may not be asked of everybody yet
        core.sessions.let_read(session, attend, [entry for entry in core.log.held_back if not entry.is_backup])

    def taken(self, session: ClientSession, message: Taken) -> None:
        """Of deliveries; and the first word of a client that has come from elsewhere."""
        if session.name in self._coming:
            del self._coming[session.name]
            self._ghosts.unawait(session.name)
            self._book.listeners.check((session.name,))
        self._core.sessions.taken(session, message, self._core.out)

    def _answered_for(self, session: ClientSession) -> list[Entry]:
        """Publications of the client that this broker answers for, because the broker that took them is dead."""
        core, me = self._core, (session.name, session.incarnation)
        entries = [*core.log.entries.values(), *core.book.entries.values()]
        entries += [entry for link in core.links.values() for entry in link.sent.entries.values()]
        mine = {id(entry): entry for entry in entries if (entry.publisher, entry.incarnation) == me}
        return [entry for entry in mine.values() if entry.source is None]

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, session: ClientSession, message: Publish) -> None:
        core = self._core
        bundle = message.bundle
        session.check_next(bundle)
        core.clock.check_client(bundle.stamp)
        check_columns(bundle)
        if bundle.guarantee is Guarantee.EVENTUAL and self._may_pass(session, bundle):
            for part in self._parts(session, message):
                self._take_eventual(session, part)
        else:
            if bundle.guarantee is Guarantee.EVENTUAL:
                self._late[session.name] = bundle.last
            session.waiting.append(message)
            session.waiting_bytes += bundle.cost
            core.log.local_bytes += bundle.cost
            self.drain(session)
        core.show()
        if core.log.local_bytes > core.pressure.most or session.name in core.paused_for:
            core.pressure.check(session.name, core.charged_to(session.name), core.out)

    def _may_pass(self, session: ClientSession, bundle: Bundle) -> bool:
        """Whether something `eventual` may pass what waits: not where others of its stream wait, since what is accepted
        is remembered by the last number of a stream."""
        return not self._core.leaving and session.name not in self._late and self._core.pauses.find(bundle) is None

    def _parts(self, session: ClientSession, message: Publish) -> tuple[Publish, ...]:
        """Return the message, or two: what is known here or under way as a total, and the rest. A publisher that
        returns in the same life may bundle what it repeats in another way."""
        if not session.moved:
            return (message,)
        bundle = message.bundle
        known = self._core.seen.mark(bundle.origin)
        if known < bundle.first and (under_way := self._core.totals.under_way(bundle)) is not None:
            known = under_way.last
        if not bundle.first <= known < bundle.last:
            return (message,)
        return tuple([msgspec.structs.replace(message, bundle=part) for part in split(bundle, known)])

    def _take_eventual(self, session: ClientSession, message: Publish) -> None:
        if self._core.seen.has(message.bundle):
            self._core.sessions.known(session, message.bundle, everywhere=self.answering.is_settled(session))
        else:
            self._accept(session, self._stamped(message.bundle), message)

    def drain_all(self) -> None:
        """Beginning with another one each time: there may be room for one only."""
        sessions = [session for session in self._core.sessions.all.values() if session.waiting]
        if sessions:
            self._turn += 1
            first = self._turn % len(sessions)
            for session in (*sessions[first:], *sessions[:first]):
                self.drain(session)
        self._core.show()  # a broker that is alone has at once as many copies as there can be

    def take_lock(self, link: Link, message: Lock) -> None:
        """A total has its place. If it is of a client here, that one may have one more without a place."""
        self._core.totals.handlers[Lock](link.name, message)
        session = self._core.sessions.all.get(message.bundle.publisher)
        if session is not None and session.waiting:
            self.drain(session)
            self._core.show()

    def drain(self, session: ClientSession) -> None:
        """Take what need not wait any longer."""
        core = self._core
        totals = core.totals
        if totals.held or totals.unsubmitted or core.leaving or session.name in self._draining:
            return
        self._draining.add(session.name)
        queue = session.waiting
        pause: PauseSeen | None = None
        while queue:
            message, *rest = self._parts(session, queue[0])
            bundle = message.bundle
            if rest:
                more = bundle.cost + rest[0].bundle.cost - queue.popleft().bundle.cost
                session.waiting_bytes += more
                core.log.local_bytes += more
                queue.extendleft((*rest, message))
            if core.seen.has(bundle):
                core.sessions.known(session, bundle, everywhere=self.answering.is_settled(session))
            elif core.pauses.seen and (pause := core.pauses.find(bundle)) is not None:
                break
            elif bundle.guarantee is Guarantee.EVENTUAL or (
                bundle.guarantee is not Guarantee.TOTAL and not self._must_follow(session, bundle)
            ):  # `eventual` has no order with totals: carried as one, it would be overtaken in its stream, and dropped
                self._accept(session, self._stamped(bundle), message)
            elif totals.is_under_way(bundle) or (session.moved and totals.under_way(bundle) is not None):
                pass  # said again: it is delivered at its place
            elif totals.is_overtaken(bundle):
                break  # said again: it is on its way, or will be known when what overtook it here is delivered
            elif not totals.has_room_for(session.name) or core.total_way.is_patient(session.name, bundle):
                break
            else:
                totals.submit(self._stamped(bundle), message.prompt)
            queue.popleft()
            if self._late and self._late.get(session.name) == bundle.last and bundle.guarantee is Guarantee.EVENTUAL:
                del self._late[session.name]
            session.waiting_bytes -= bundle.cost
            core.log.local_bytes -= bundle.cost
        self._draining.discard(session.name)
        if pause is not None or session.name in core.paused_for:
            self._note_pause(session, pause)

    def _note_pause(self, session: ClientSession, pause: PauseSeen | None) -> None:
        """Tell a publisher, and people, for whom its publications wait now; None: for nobody."""
        paused_for, before = self._core.paused_for, self._core.paused_for.get(session.name)
        if pause is None:
            del paused_for[session.name]
            self._core.note("held", f"{session.name} goes on publishing")
            return
        paused_for[session.name] = pause
        if before is None or before.reason != pause.reason:
            head = session.waiting[0].bundle
            self._core.note("held", f"{session.name} {pause.reason}")
            self._core.out.append(Send(session.name, PublicationWaits(head.stream, head.first, pause.reason)))

    def _must_follow(self, session: ClientSession, bundle: Bundle) -> bool:
        """Whether it has to come behind a total that is not delivered here."""
        totals = self._core.totals
        if totals.backlog.count and (totals.backlog.has_any(session.name) or totals.locks.is_closed(bundle)):
            return True
        ahead = self._ahead.get(session.name)
        if ahead is None:
            return False
        if any(id in totals.locks.undelivered for id in ahead):
            return True
        del self._ahead[session.name]
        return False

    def _stamped(self, bundle: Bundle) -> Bundle:
        return bundle.stamped(self._core.clock.stamp_after(bundle.stamp))

    def _accept(self, session: ClientSession, bundle: Bundle, message: Publish) -> None:
        entry = self._core.forwarding.accept(bundle, None, session, 0, message.awaits_all)
        assert entry is not None, "it was not known"
        entry.awaits = message.awaits
        if self._core.sessions.hopeful:  # if it were published again elsewhere, it would perhaps not come by here
            self._core.log.held_back.put_wall()
        if self._until_safe is not None:
            self._until_safe.keep(bundle, entry)
        self._core.sessions.published(session, entry)
