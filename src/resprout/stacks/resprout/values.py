"""The last values of a broker (`values.store`): who is given them, and what clients may ask about them.

A total changes the values in the step in which it enters the log here. A subscription or a question takes them as they
are in the step in which it comes, and is answered when everything that was logged before is shown: so a client never
has a value before something that the value depends on. What is logged after that step follows as deliveries.

- A subscription that begins with last values is given them as deliveries, in the window and the share of its session.
  It is confirmed behind the last one. A client that loses its broker before that asks the next one for all of them.
- A client that has come from another broker may have seen the effects of totals that are closed and not delivered
  here. Its first question waits until they are. Every broker has closed what any broker has delivered, so it knows all
  of them.

Publications that this broker accepts keep the limits (`retained_bytes`, `retained_topics`); what other brokers have
accepted is applied without a look at limits, because all brokers must hold the same.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, split, unpack_attributes, unpack_payloads
from resprout.core.contract import Send
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import TOPIC_BYTES
from resprout.core.message import Message
from resprout.core.seen import Seen
from resprout.edge.broker.ports import HeldBundle, ValueOwners
from resprout.edge.broker.session import ClientSession, plain_delivery
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.durable_messages import WhenFull
from resprout.edge.messages import Delivery, PublishRefused, RetainedDelivery
from resprout.edge.value_messages import VALUE_ROWS_MAX, VALUES_BYTES, AskOutcome, AskValues, OutcomeTold, ValuesTold
from resprout.filters.predicate import parse_predicate
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.log import Log
from resprout.order.messages import tseq_of
from resprout.order.totals.totals import Totals
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.value_reads import ValueReads
from resprout.values.rows import KnownValue, ValueRow, ValuesReached, check_row, largest_cost, removes, value_cost
from resprout.values.store import AppliedWrite, LastValues

EXPIRED_AT_ONCE: Final = 1_000
"""Expired values that are dropped in one step; the others are not read meanwhile."""


class ValueItem(Entry):
    """A last value for a session, in the place of an entry of the log. It never enters the log: it keeps one pin, so
    the log does not settle it when its reader has taken it."""

    __slots__ = ("given", "subscription", "value")

    def __init__(self, value: KnownValue, subscription: int) -> None:
        super().__init__(-1, value.bundle(), None, None, 0)
        self.value = value
        self.subscription = subscription
        self.given = False
        """Whether it has left the backlog of its session."""
        self.shown = True
        self.undone = 1


def delivery_of(item: HeldBundle, session: ClientSession | None) -> Delivery:
    """Return the message that gives an item, or a last value, to a client."""
    if type(item) is not ValueItem:
        return plain_delivery(item, session)
    assert item.bundle is not None, "its reader pins it"
    item.given = True
    return RetainedDelivery(item.bundle, 0, 0, None, False, item.value.revision, item.subscription)


class ValueDesk:
    def __init__(
        self,
        life: BrokerLife,
        log: Log,
        sessions: ClientSessions,
        totals: Totals,
        seen: Seen,
        clock: Clock,
        delivering: Delivering,
        disk: DiskLog | None,
    ) -> None:
        self.owners = ValueOwners()
        self._owners_version = 0
        self.store = LastValues()
        self._life = life
        self._log = log
        self._sessions = sessions
        self._totals = totals
        self._seen = seen
        self._clock = clock
        self._delivering = delivering
        self._disk = disk
        self._due: deque[tuple[int, Callable[[], None]]] = deque()
        """What is done when everything before a place of the log is shown, in that order."""
        self._outcomes: dict[str, dict[tuple[int, int], list[int]]] = {}
        """By writer, then by its life and number: questions about writes that are not applied here."""
        self.reads = ValueReads(life, self._read)
        self._behind: dict[str, int] = {}
        """By client that has come from another broker: the place up to which totals must be delivered here before its
        questions are answered; -1 when they are."""
        self.late: deque[tuple[str, int, Callable[[], None]]] = deque()
        """Questions that wait for totals: the client, the place, and the answer."""
        self.giving: dict[tuple[str, int], tuple[ClientSession, ValueItem | None]] = {}
        """By client and subscription: the last of the values that it begins with, None if there are none."""
        self.refused = 0
        self.on_applied: Callable[[Bundle], None] = _ignore
        """Called with each retained bundle that is applied, for what runs inside this broker."""

    # -- writing -------------------------------------------------------------------------------------------------------

    def apply(self, bundle: Bundle, place: int) -> None:
        """Apply a retained bundle that has just entered the log."""
        disk = self._disk
        self.store.apply(bundle, place, _ignore if disk is None else disk.wrote)
        if self._outcomes:
            self._answer_outcomes(bundle)
        self.on_applied(bundle)

    def apply_rest(self, bundle: Bundle, place: int) -> None:
        """Apply what these values do not include of a bundle that is published once more after a full restart: no disk
        had come so far with its last values."""
        known = self.store.place - place + 1
        if known < bundle.count:
            rest = split(bundle, bundle.first + known - 1)[1] if known > 0 else bundle
            self.apply(rest, place + max(0, known))

    def _answer_outcomes(self, bundle: Bundle) -> None:
        asked = self._outcomes.get(bundle.publisher)
        for seq in range(bundle.first, bundle.last + 1) if asked is not None else ():
            for id in asked.pop((bundle.incarnation, seq), ()) if asked is not None else ():
                self._tell_outcome(bundle.publisher, bundle.incarnation, seq, id)
        if asked is not None and not asked:
            self._outcomes.pop(bundle.publisher, None)

    def refuses(self, session: ClientSession, bundle: Bundle) -> bool:
        """Refuse a retained publication of a local client that does not fit. A key or topic can always be removed, and
        its value can be replaced by one that is not larger."""
        reason = "a retained publication is a total"
        if bundle.guarantee is Guarantee.TOTAL:
            at_most = value_cost(bundle.topic, bundle.keys, len(bundle.attributes) + len(bundle.payloads))
            reason = self.excess(session.name, bundle.topic, at_most)
            if not reason or _removes(bundle):
                return False
            reason = self.excess(session.name, bundle.topic, largest_cost(bundle))
            if not reason:
                return False
        self.refused += bundle.count
        session.skip(bundle)
        refused = PublishRefused(bundle.stream, bundle.first, bundle.count, f"{reason}; it is not published")
        self._life.out.append(Send(session.name, refused))
        self._answer_outcomes(bundle)
        return True

    def excess(self, writer: str, topic: str, cost: int) -> str:
        """Return why a client may not retain these bytes on a topic; empty if it may."""
        options, version = self._life.options, self.owners.version()
        if version != self._owners_version:
            self._owners_version = version
            self.store.share_by(self.owners.owner_of)
        return self.store.excess(writer, topic, cost, options.retained_topics, options.retained_bytes)

    def walk(self, topic_filter: str) -> Iterator[Message | None]:
        """Return the last values of topics that match step by step, for what runs inside this broker."""
        for value in self.store.walk(topic_filter, lambda: self._wall_us):
            yield None if value is None else value.message()

    def expire(self) -> None:
        """Drop values that have expired."""
        self.reads.tick()
        for topic in self.store.expire(self._wall_us, EXPIRED_AT_ONCE):
            if self._disk is not None:
                self._disk.wrote(AppliedWrite(topic, self.store.place, True, None, None))

    @property
    def _wall_us(self) -> int:
        return self._life.seat.epoch_us + self._life.now_us

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def begin(self, session: ClientSession, id: int) -> None:
        """Give a subscription that has just begun the last values that match, before everything that is logged from now
        on. Called in the step in which it became a reader."""
        predicate = session.subscriptions[id]
        found = self.store.match(predicate.filter, self._wall_us, all_keys=True)
        self.reads.begun(session, self.store.looked_at, len(found))
        if predicate.where is not None:
            found = [value for value in found if predicate.matches(value.topic, value.read_attributes())]
        self.when_shown(lambda: self.give(session, id, found))

    def give(self, session: ClientSession, id: int, found: list[KnownValue]) -> None:
        if session.gone or id not in session.subscriptions:
            return
        self._sessions.delivery_of = delivery_of
        last: ValueItem | None = None
        for value in found:
            last = ValueItem(value, id)
            self._sessions.hand_over(session, last, (0,), self._life.out)
        self.giving[session.name, id] = (session, last)

    def given(self) -> None:
        """At the end of a step: confirm subscriptions whose last values have left the backlog, or were dropped."""
        for (name, id), (session, last) in list(self.giving.items()):
            may_drop = session.when_full is WhenFull.DROP_OLDEST
            if last is None or last.given or session.gone or (may_drop and last not in session.backlog):
                del self.giving[name, id]
                self._sessions.gave_values(session, id, self._life.out)

    def when_shown(self, act: Callable[[], None]) -> None:
        """Do this when everything that is in the log now is shown, and before anything that comes later is."""
        if self._log.held_back.first_ordered == math.inf:
            act()
            return
        self._log.held_back.put_wall()
        self._due.append((self._log.next_no, act))
        self._delivering.next_to_show = self._next_to_show

    def _next_to_show(self) -> Entry | None:
        """Return the next entry to show, after everything that is due before it."""
        due, held_back = self._due, self._log.held_back
        while due and due[0][0] <= held_back.first_ordered:
            due.popleft()[1]()
        if not due:
            self._delivering.next_to_show = self._log.next_to_show
        return self._log.next_to_show()

    # -- questions -----------------------------------------------------------------------------------------------------

    def ask(self, session: ClientSession, message: AskValues) -> None:
        """Answer a question about last values, when the client cannot know more than this broker has applied."""
        try:
            parse_predicate(message.filter)
        except UsageError as error:
            raise PeerError(str(error)) from None
        if len(message.after) > TOPIC_BYTES:
            raise PeerError(f"{session.name} asks for last values behind what is no topic")
        self.reads.count(session)
        self._when_current(session, lambda: self.reads.ask(session, message))

    def _read(self, session: ClientSession, message: AskValues) -> int:
        """Make an answer, and return at how many values that has looked."""
        store = self.store
        rows: list[KnownValue] = []
        size, more = 0, False
        for value in store.find(message.filter, self._wall_us, message.after):
            row = value if message.payloads else _without_payload(value)
            size += row.cost
            if rows and (size > min(message.size, VALUES_BYTES) or len(rows) >= VALUE_ROWS_MAX):
                more = True
                break
            rows.append(row)
        told, looked_at = ValuesTold(message.id, tuple(rows), store.place, more), store.looked_at
        self.when_shown(lambda: self._give_answer(session, told))
        return looked_at

    def _give_answer(self, session: ClientSession, told: ValuesTold) -> None:
        self._answer(session, told)
        self.reads.given(session)

    def ask_outcome(self, session: ClientSession, message: AskOutcome) -> None:
        """Tell a writer what became of its write, now or when it is applied."""
        key = (session.name, session.incarnation, message.seq)
        self.reads.count(session)
        stream, seq = Guarantee.TOTAL.stream, message.seq
        refused = session.delivered.get(stream)
        is_seen = self._seen.mark((session.name, stream, session.incarnation)) >= seq
        if is_seen or (refused is not None and seq in refused):
            self._tell_outcome(*key, message.id)
        else:
            self._outcomes.setdefault(session.name, {}).setdefault(key[1:], []).append(message.id)

    def _tell_outcome(self, client: str, incarnation: int, seq: int, id: int) -> None:
        session = self._sessions.find_life(client, incarnation)
        if session is None:
            return
        known = self.store.outcome(client, incarnation, seq)
        told = OutcomeTold(id, -1, False, 0) if known is None else OutcomeTold(
            id, known.place, known.is_applied, known.current
        )  # fmt: skip
        self.when_shown(lambda: self._answer(session, told))

    def _answer(self, session: ClientSession, told: ValuesTold | OutcomeTold) -> None:
        if not session.gone:
            self.reads.answered(session)
            self._life.out.append(Send(session.name, told))

    def _when_current(self, session: ClientSession, act: Callable[[], None]) -> None:
        name = session.name
        if session.moved and name not in self._behind:
            places = [tseq_of(record.place) for record in self._totals.locks.undelivered.values()]
            self._behind[name] = max(places, default=-1)
        place = self._behind.get(name, -1)
        if place < 0 or self._is_delivered(place):
            act()
        else:
            self.late.append((name, place, act))

    def _is_delivered(self, place: int) -> bool:
        first = self._totals.locks.first
        return first is None or tseq_of(first.place) > place

    def settle(self) -> None:
        """At the end of a step: answer questions whose totals are delivered now."""
        while self.late and self._is_delivered(self.late[0][1]):
            name, place, act = self.late.popleft()
            if self._behind.get(name) == place:
                self._behind[name] = -1
            act()

    def leave(self, session: ClientSession) -> None:
        """The session with a client is over."""
        self._behind.pop(session.name, None)
        if self.reads.leave(session):
            self._outcomes.pop(session.name, None)
            left = [late for late in self.late if late[0] != session.name]
            self.late.clear()
            self.late.extend(left)

    # -- other brokers -------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[ValueRow]:
        return self.store.rows()

    def adopt(self, rows: Iterable[ValueRow]) -> bool:
        """Take over these values if they are later than those here. Return whether they are. Values of two brokers are
        those at two places in one order, so the later ones include the others."""
        rows = list(rows)
        is_later = any(isinstance(row, ValuesReached) and row.place > self.store.place for row in rows)
        if is_later:
            self.replace(rows)
        return is_later

    def replace(self, rows: Iterable[ValueRow]) -> None:
        """Take over the values of another broker, or of the disk. Raises PeerError, with nothing done, for rows that no
        honest broker sends."""
        rows = list(rows)
        try:
            for row in rows:
                check_row(row, self._life.options.honest_payload)
        except UsageError as error:
            raise PeerError(str(error)) from None
        self.store = LastValues.of([self._limited(row) for row in rows], self.owners.owner_of)
        if self._disk is not None and rows:
            self._disk.all_values()

    def _limited(self, row: ValueRow) -> ValueRow:
        """Return a row with a stamp that the clock accepts."""
        if isinstance(row, KnownValue) and (stamp := self._clock.limit(row.stamp)) != row.stamp:
            return msgspec.structs.replace(row, stamp=stamp)
        return row


def _ignore(_: object) -> None:
    """Without a disk nothing is written, and without MQTT clients no session waits."""


def _removes(bundle: Bundle) -> bool:
    return all(map(partial(removes, bundle.topic), unpack_attributes(bundle), unpack_payloads(bundle)))


def _without_payload(value: KnownValue) -> KnownValue:
    return KnownValue(
        value.topic, value.revision, value.publisher, value.incarnation, value.seq, value.stamp, (), b"", b""
    )
