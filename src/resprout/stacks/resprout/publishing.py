"""What clients publish: what is accepted at once, what is ordered as a total, what waits, and what is kept on disk.

A publication that would have to wait for a total is *carried*: submitted like one, and delivered at its place in that
order. This holds for a publication that comes behind something of its client that is itself under way, or behind a
total that its client has delivered elsewhere and this broker has not; and for one that names a key that an active total
holds. So a client's queue stops only for a bound (`Backlog`), for a repetition that has overtaken itself, and once for
something heavy: every broker is given what is carried, so a heavy bundle first waits for what is under way when it
comes, and may be free then. `eventual` has no order with anything: it is accepted when it comes.

`DiskUntilSafe` keeps what local clients published on disk until it is safe elsewhere. Within f crashes nobody needs it:
others have a copy, and clients send again what they do not know to be safe. It is for what lies beyond: a broker that
dies together with its clients and neighbours. When it returns, it publishes again what its new parent has not seen.
Brokers that had it drop it as a duplicate. A record is on disk before the bundle leaves this broker (`Step`).
`eventual` may arrive behind later publications of the same client that went another way; ordered ones never do, they
are dropped then.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle, from_record, split, to_record, unpack_payloads
from resprout.core.contract import Send
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.seen import Seen
from resprout.edge.broker.quotas import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import PublicationWaits, Publish, PublishRefused
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Lock, TotalId
from resprout.order.totals.totals import Totals, TotalsState
from resprout.stacks.desk import end_code
from resprout.stacks.resprout.delivering import Charges, Delivering
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import ClientAtFault
from resprout.stacks.resprout.pauses import Pauses, PauseSeen
from resprout.stacks.resprout.total_delivery import TotalDelivery
from resprout.stacks.resprout.unsettled import UnsettledClients
from resprout.stacks.resprout.values import ValueDesk
from resprout.values.rows import RETAIN_KEY
from resprout.wire.bundles import check_columns


class DiskUntilSafe:
    """Records of local publications on disk until they are safe at other brokers."""

    def __init__(
        self,
        life: BrokerLife,
        log: Log,
        clock: Clock,
        seen: Seen,
        delivering: Delivering,
        totals: Totals,
        forwarding: Forwarding,
    ) -> None:
        self._life = life
        self._log = log
        self._clock = clock
        self._seen = seen
        self._delivering = delivering
        self._totals = totals
        self._forwarding = forwarding
        self._kept: deque[Entry] = deque()
        """Entries that have a record, oldest first."""
        self._found: list[Bundle] = []

    def keep(self, bundle: Bundle, entry: Entry) -> None:
        """Write a record of a bundle that the log has accepted as this entry."""
        self._life.persist(to_record(bundle))
        self._kept.append(entry)

    def forget(self) -> None:
        """Forget records of publications that are safe by now. Called at the end of a step."""
        kept = self._kept
        if kept and kept[0].shown:
            while kept and kept[0].shown:
                kept.popleft()
            self._life.forget_records(len(kept))

    # -- after a restart -----------------------------------------------------------------------------------------------

    def recovered(self, records: Sequence[bytes]) -> None:
        for record in records:
            bundle = from_record(record)
            if bundle is None:
                self._life.note("recovery", "a record on disk cannot be read")
            else:
                self._found.append(bundle)

    def offer(self) -> None:
        """Publish again what other brokers do not seem to have, once this broker has its place."""
        life, found = self._life, self._found
        if not found:
            return
        self._found = []
        lives: dict[tuple[str, str], int] = {}
        for mark in self._seen.marks():
            of = (mark.publisher, mark.stream)
            lives[of] = max(mark.incarnation, lives.get(of, 0))
        lost = [b for b in found if not self._seen.has(b) and b.incarnation >= lives.get((b.publisher, b.stream), 0)]
        life.note("recovery", f"{len(lost)} of {len(found)} bundles on disk are published again")
        for bundle in lost:
            again = bundle.stamped(self._clock.stamp_after(bundle.stamp))
            is_ordered = again.guarantee is not Guarantee.EVENTUAL
            if is_ordered and (self._totals.is_gated(again) or self._totals.own(again.publisher) is not None):
                self._totals.submit(again)  # what is carried needs no disk: all have it before anybody is told
                continue
            entry = self._forwarding.accept(again, None, None, 0, False)
            if entry is not None:
                self.keep(again, entry)
        self._log.held_back.put_wall()  # its publishers may be elsewhere, and have said it again there
        self._delivering.show()  # a broker that is alone has at once as many copies as there can be
        life.forget_records(len(self._kept))


class ClientPublishing:
    """Accepts, submits or queues what local clients publish."""

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
        total_delivery: TotalDelivery,
        pauses: Pauses,
        unsettled: UnsettledClients,
        until_safe: DiskUntilSafe | None,
        values: ValueDesk,
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
        self._total_delivery = total_delivery
        self._pauses = pauses
        self._unsettled = unsettled
        self._until_safe = until_safe
        self._values = values
        self._payload_most = life.options.honest_payload
        self._limits_payloads = life.options.max_payload < limits.PAYLOAD_BYTES
        """Whether clients may publish less than the wire allows."""
        self._draining: set[str] = set()
        """Clients whose queues are being drained: `drain` may be called again from inside."""
        self._late: dict[str, int] = {}
        """By client with an `eventual` publication in its queue: the last number of that."""
        self._ahead: dict[str, dict[TotalId, None]] = {}
        """By client that came from elsewhere: totals that it has delivered and this broker has not."""
        self._moved_in: set[str] = set()
        """Clients that came from elsewhere while topics are root-ordered: they may have delivered a total that nobody
        here is told. What they publish first is carried."""
        self._turn = 0

    # -- coming and going ----------------------------------------------------------------------------------------------

    def came(self, session: ClientSession) -> None:
        """A client is served. Its publications must follow the totals that it has delivered and this broker has not."""
        undelivered = self._totals.locks.undelivered
        ahead = {id: None for id, record in undelivered.items() if session.has(record.bundle)}
        if ahead:
            self._ahead[session.name] = ahead
        if session.moved and self._totals.published.topics:
            self._moved_in.add(session.name)

    def leave(self, session: ClientSession) -> None:
        """Drop what waits: the client publishes it again elsewhere."""
        name = session.name
        self._ahead.pop(name, None)
        self._moved_in.discard(name)
        self._late.pop(name, None)
        self._total_delivery.forget(name)
        self._log.local_bytes -= session.waiting_bytes
        session.waiting_bytes = 0
        session.waiting.clear()
        self._charges.paused_for.pop(name, None)
        self._pressure.forget(name)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, session: ClientSession, message: Publish) -> None:
        """A client publishes a bundle: accept it at once, or queue it and drain the queue."""
        life = self._life
        bundle = message.bundle
        session.check_next(bundle)
        self._clock.check_client(bundle.stamp)
        check_columns(bundle, self._payload_most)
        if self._limits_payloads and (size := self._too_large(bundle)) is not None:
            session.skip(bundle)
            reason = f"a payload of {size} bytes; at most {life.options.max_payload} (max_payload)"
            life.out.append(Send(session.name, PublishRefused(bundle.stream, bundle.first, bundle.count, reason)))
            return
        if bundle.keys and RETAIN_KEY in bundle.keys and self._values.refuses(session, bundle):
            return
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

    def _too_large(self, bundle: Bundle) -> int | None:
        """Return the size of a payload that is larger than the clients of this broker may publish. Honest clients know
        the limit; the wire has its own, which is the largest one."""
        most = self._life.options.max_payload
        if len(bundle.payloads) <= most:
            return None
        largest = max(map(len, unpack_payloads(bundle)))
        return largest if largest > most else None

    def _may_pass(self, session: ClientSession, bundle: Bundle) -> bool:
        """Whether an `eventual` bundle may overtake the queue: not when its stream has others in the queue, because
        accepted publications are remembered by the last number of a stream."""
        if self._life.leaving or session.name in self._late or self._unsettled.is_holding(session.name):
            return False
        return self._pauses.find(bundle) is None

    def _parts(self, session: ClientSession, message: Publish) -> tuple[Publish, ...]:
        """Split a repeated bundle into what is known here, or under way as a total, and the rest. A publisher that
        returns in the same life may repeat publications in other bundles."""
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
        """Tell the client how far a repeated bundle has come."""
        everywhere = self._unsettled.is_delivered(session, bundle, self._life.now_us)
        self._sessions.known(session, bundle, everywhere)

    def drain_all(self) -> None:
        """Drain the queues of all clients, beginning with another client each time: there may be room for one only."""
        sessions = [session for session in self._sessions.all.values() if session.waiting]
        if sessions:
            self._turn += 1
            first = self._turn % len(sessions)
            for session in (*sessions[first:], *sessions[:first]):
                self.drain(session)
        self._delivering.show()  # a broker that is alone has at once as many copies as there can be

    def take_lock(self, link: Link, message: Lock) -> None:
        """A total has its place. Its publisher, if it is served here, may have another one ordered now."""
        self._totals.take_lock(link.name, message)
        session = self._sessions.all.get(message.bundle.publisher)
        if session is not None and session.waiting:
            self.drain(session)
            self._delivering.show()

    def known_elsewhere(self, bundle: Bundle) -> None:
        """A total that was submitted here was ordered before, and nobody here reads it: tell its publisher so."""
        self._seen.raise_to(bundle.origin, bundle.last)
        session = self._sessions.publisher_of(bundle)
        if session is not None:
            self._known(session, bundle)
        self.drain_all()

    def resume(self, session: ClientSession) -> None:
        """Take what the client published while its publications had to wait."""
        self.drain(session)
        self._delivering.show()

    def drain(self, session: ClientSession) -> None:
        """Take everything from a client's queue that need not wait any longer."""
        life = self._life
        totals = self._totals
        if totals.state is not TotalsState.RUNNING or life.leaving or session.name in self._draining:
            return
        if self._unsettled.is_holding(session.name):
            return
        self._draining.add(session.name)
        pause: PauseSeen | None = None
        try:
            pause = self._take_waiting(session)
        except PeerError as error:  # whoever let it go on is not to blame
            life.outcomes.append(ClientAtFault(session.name, str(error), end_code(error)))
        finally:
            self._draining.discard(session.name)
        if pause is not None or session.name in self._charges.paused_for:
            self._note_pause(session, pause)

    def _take_waiting(self, session: ClientSession) -> PauseSeen | None:
        """Take from the queue until one has to wait. Return the pause that it waits for, if that is the reason.
        Raises PeerError for what the client must not have published."""
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
        return pause

    def _split_head(self, session: ClientSession, known: Publish, rest: Publish) -> None:
        """Replace the first in the queue by its two parts."""
        queue = session.waiting
        more = known.bundle.cost + rest.bundle.cost - queue.popleft().bundle.cost
        session.waiting_bytes += more
        self._log.local_bytes += more
        queue.extendleft((rest, known))

    def _take(self, session: ClientSession, message: Publish) -> bool:
        """Accept a bundle, or submit it as a total. Return False when it has to wait."""
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
        if not totals.has_room_for(session.name) or self._total_delivery.delays_heavy(session.name, bundle):
            return False
        self._moved_in.discard(session.name)  # from now on, this one is under way
        totals.submit(self._stamped(bundle), message.prompt)
        return True

    def _note_pause(self, session: ClientSession, pause: PauseSeen | None) -> None:
        """Tell the publisher, and the trace, which subscriber its publications wait for; None: they go on."""
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
        """Whether the bundle must follow a total that is not delivered here, and is therefore carried."""
        totals = self._totals
        if totals.backlog.count and (totals.backlog.has_any(session.name) or totals.locks.is_gated(bundle)):
            return True
        if session.name in self._moved_in or totals.published.topics.gates(bundle):
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
        if self._sessions.with_unconfirmed:  # if it were published again elsewhere, it would perhaps not come by here
            self._log.held_back.put_wall()
        if self._until_safe is not None:
            self._until_safe.keep(bundle, entry)
        self._sessions.published(session, entry)
