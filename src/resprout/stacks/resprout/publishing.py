"""What clients publish: what is accepted at once, what is ordered as a total, what waits.

A publication that would have to wait for a total is *carried*: submitted like one, and delivered at its place in that
order. This holds for a publication that comes behind something of its client that is itself under way, or behind a
total that its client has delivered elsewhere and this broker has not; and for one that names a key that an active total
holds. So a client's queue stops only for a bound (`backlog`), for a repetition that has overtaken itself, and once for
something heavy: every broker is given what is carried, so a heavy bundle first waits for what is under way when it
comes, and may be free then.

`eventual` has no order with anything: it is accepted when it comes.
"""

import msgspec

from resprout.core.bundle import Bundle, split
from resprout.core.contract import Send
from resprout.core.guarantee import Guarantee
from resprout.core.seen import Seen
from resprout.edge.broker.backpressure import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import PublicationWaits, Publish
from resprout.order.clock import Clock
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.totals.messages import Lock, TotalId
from resprout.order.totals.totals import Totals, TotalsState
from resprout.stacks.resprout.delivering import Charges, Delivering
from resprout.stacks.resprout.disk_until_safe import DiskUntilSafe
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.pauses import Pauses, PauseSeen
from resprout.stacks.resprout.total_way import TotalWay
from resprout.stacks.resprout.unsettled import UnsettledClients
from resprout.wire.checks import check_columns


class ClientPublishing:
    def __init__(
        self,
        life: BrokerLife,
        log: Log,
        clock: Clock,
        seen: Seen,
        sessions: ClientSessions,
        delivering: Delivering,
        pressure: BackPressure,
        charges: Charges,
        totals: Totals,
        forwarding: Forwarding,
        total_way: TotalWay,
        pauses: Pauses,
        unsettled: UnsettledClients,
        until_safe: DiskUntilSafe | None,
    ) -> None:
        self._life = life
        self._log = log
        self._clock = clock
        self._seen = seen
        self._sessions = sessions
        self._delivering = delivering
        self._pressure = pressure
        self._charges = charges
        self._totals = totals
        self._forwarding = forwarding
        self._total_way = total_way
        self._pauses = pauses
        self._unsettled = unsettled
        self._until_safe = until_safe
        self._draining: set[str] = set()
        """Clients whose queues are being taken."""
        self._late: dict[str, int] = {}
        """Clients with something `eventual` in line, and the last number of that."""
        self._ahead: dict[str, dict[TotalId, None]] = {}
        """Clients that came with totals which are not delivered here yet."""
        self._turn = 0

    # -- coming and going ----------------------------------------------------------------------------------------------

    def came(self, session: ClientSession) -> None:
        """A client is served. What it publishes has to come behind the totals that it has and this broker has not."""
        undelivered = self._totals.locks.undelivered
        ahead = {id: None for id, record in undelivered.items() if session.has(record.bundle)}
        if ahead:
            self._ahead[session.name] = ahead

    def leave(self, session: ClientSession) -> None:
        """Drop what waits: the client publishes it again elsewhere."""
        name = session.name
        self._ahead.pop(name, None)
        self._late.pop(name, None)
        self._total_way.forget(name)
        self._log.local_bytes -= session.waiting_bytes
        session.waiting_bytes = 0
        session.waiting.clear()
        self._charges.paused_for.pop(name, None)
        self._pressure.forget(name)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, session: ClientSession, message: Publish) -> None:
        life = self._life
        bundle = message.bundle
        session.check_next(bundle)
        self._clock.check_client(bundle.stamp)
        check_columns(bundle)
        if bundle.guarantee is Guarantee.EVENTUAL and self._may_pass(session, bundle):
            for part in self._parts(session, message):
                self._take_eventual(session, part)
        else:
            if bundle.guarantee is Guarantee.EVENTUAL:
                self._late[session.name] = bundle.last
            session.waiting.append(message)
            session.waiting_bytes += bundle.cost
            self._log.local_bytes += bundle.cost
            self.drain(session)
        self._delivering.show()
        if self._log.local_bytes > self._pressure.most or session.name in self._charges.paused_for:
            self._pressure.check(session.name, self._charges.of(session.name), life.out)

    def _may_pass(self, session: ClientSession, bundle: Bundle) -> bool:
        """Whether something `eventual` may pass what waits: not where others of its stream wait, since what is accepted
        is remembered by the last number of a stream."""
        return not self._life.leaving and session.name not in self._late and self._pauses.find(bundle) is None

    def _parts(self, session: ClientSession, message: Publish) -> tuple[Publish, ...]:
        """Return the message, or two: what is known here or under way as a total, and the rest. A publisher that
        returns in the same life may bundle what it repeats in another way."""
        if not session.moved:
            return (message,)
        bundle = message.bundle
        known = self._seen.mark(bundle.origin)
        if known < bundle.first and (under_way := self._totals.under_way(bundle)) is not None:
            known = under_way.last
        if not bundle.first <= known < bundle.last:
            return (message,)
        return tuple([msgspec.structs.replace(message, bundle=part) for part in split(bundle, known)])

    def _take_eventual(self, session: ClientSession, message: Publish) -> None:
        if self._seen.has(message.bundle):
            self._known(session, message.bundle)
        else:
            self._accept(session, self._stamped(message.bundle), message)

    def _known(self, session: ClientSession, bundle: Bundle) -> None:
        everywhere = self._unsettled.is_delivered(session, bundle, self._life.now_us)
        self._sessions.known(session, bundle, everywhere)

    def drain_all(self) -> None:
        """Beginning with another one each time: there may be room for one only."""
        sessions = [session for session in self._sessions.all.values() if session.waiting]
        if sessions:
            self._turn += 1
            first = self._turn % len(sessions)
            for session in (*sessions[first:], *sessions[:first]):
                self.drain(session)
        self._delivering.show()  # a broker that is alone has at once as many copies as there can be

    def take_lock(self, link: Link, message: Lock) -> None:
        """A total has its place. If it is of a client here, that one may have one more without a place."""
        self._totals.take_lock(link.name, message)
        session = self._sessions.all.get(message.bundle.publisher)
        if session is not None and session.waiting:
            self.drain(session)
            self._delivering.show()

    def drain(self, session: ClientSession) -> None:
        """Take what need not wait any longer."""
        life = self._life
        totals = self._totals
        if totals.state is not TotalsState.RUNNING or life.leaving or session.name in self._draining:
            return
        self._draining.add(session.name)
        queue = session.waiting
        pause: PauseSeen | None = None
        while queue:
            message, *rest = self._parts(session, queue[0])
            if rest:
                self._split_head(session, message, rest[0])
            bundle = message.bundle
            if self._seen.has(bundle):
                self._known(session, bundle)
            elif (self._pauses.seen and (pause := self._pauses.find(bundle)) is not None) or not self._take(
                session, message
            ):
                break
            queue.popleft()
            if self._late and self._late.get(session.name) == bundle.last and bundle.guarantee is Guarantee.EVENTUAL:
                del self._late[session.name]
            session.waiting_bytes -= bundle.cost
            self._log.local_bytes -= bundle.cost
        self._draining.discard(session.name)
        if pause is not None or session.name in self._charges.paused_for:
            self._note_pause(session, pause)

    def _split_head(self, session: ClientSession, known: Publish, rest: Publish) -> None:
        """Replace the first in the queue by its two parts."""
        queue = session.waiting
        more = known.bundle.cost + rest.bundle.cost - queue.popleft().bundle.cost
        session.waiting_bytes += more
        self._log.local_bytes += more
        queue.extendleft((rest, known))

    def _take(self, session: ClientSession, message: Publish) -> bool:
        """Accept what is new here, or have it ordered. False when it has to wait."""
        totals, bundle = self._totals, message.bundle
        # `eventual` has no order with totals: carried as one, it would be overtaken in its stream, and dropped
        is_plain = bundle.guarantee is Guarantee.EVENTUAL
        if is_plain or (bundle.guarantee is not Guarantee.TOTAL and not self._must_follow(session, bundle)):
            self._accept(session, self._stamped(bundle), message)
            return True
        if totals.is_under_way(bundle) or (session.moved and totals.under_way(bundle) is not None):
            return True  # said again: it is delivered at its place
        if totals.is_overtaken(bundle):
            return False  # said again: it is on its way, or will be known when what overtook it here is delivered
        if not totals.has_room_for(session.name) or self._total_way.is_patient(session.name, bundle):
            return False
        totals.submit(self._stamped(bundle), message.prompt)
        return True

    def _note_pause(self, session: ClientSession, pause: PauseSeen | None) -> None:
        """Tell a publisher, and people, for whom its publications wait now; None: for nobody."""
        paused_for, before = self._charges.paused_for, self._charges.paused_for.get(session.name)
        if pause is None:
            del paused_for[session.name]
            self._life.note("held", f"{session.name} goes on publishing")
            return
        paused_for[session.name] = pause
        if before is None or before.reason != pause.reason:
            head = session.waiting[0].bundle
            self._life.note("held", f"{session.name} {pause.reason}")
            self._life.out.append(Send(session.name, PublicationWaits(head.stream, head.first, pause.reason)))

    def _must_follow(self, session: ClientSession, bundle: Bundle) -> bool:
        """Whether it has to come behind a total that is not delivered here."""
        totals = self._totals
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
        return bundle.stamped(self._clock.stamp_after(bundle.stamp))

    def _accept(self, session: ClientSession, bundle: Bundle, message: Publish) -> None:
        entry = self._forwarding.accept(bundle, None, session, 0, message.awaits_all)
        assert entry is not None, "it was not known"
        entry.awaits = message.awaits
        if self._sessions.hopeful:  # if it were published again elsewhere, it would perhaps not come by here
            self._log.held_back.put_wall()
        if self._until_safe is not None:
            self._until_safe.keep(bundle, entry)
        self._sessions.published(session, entry)
