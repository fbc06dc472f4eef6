"""A trace, read once and arranged for the checks: publications, subscribers and what each was given.

**Order.** There is one clock per run; rows with equal times are in the order of the trace. Everything here speaks of
*row numbers* in that order, so "before" is never ambiguous.

**Lives.** A subscriber is a client between two crashes. A `crash` or `leave` row of the client ends a life, and what
the client does after it belongs to the next one, with positions from 0, no subscriptions, and no memory of what it was
given. A life is *correct* when it has no end and is not frozen when the trace ends.

**Lanes.** Order holds among publications of one lane: all of them, or those of one topic, as the run promises.

**Sound deliveries.** A delivery is sound when its publication stands before it in the trace. Only the first sound
delivery of a publication to a subscriber has a place in its order: what is invented or repeated is reported as that
(by `audit.presence`, which looks at each row as it is read), and not once more as a disorder.

**Calm times** (`CalmTimes`) are times in which nothing has happened to nodes and links for `QUIET_US`. The trace does
not show what brokers know. But while nothing fails, an acknowledgement reaches the broker of its durable subscription
at once, and all others with the next heartbeat; `QUIET_US` is many times what that takes, also over slow links. So in
calm times all brokers know what one knew (`audit.durable`).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from resprout.audit import presence
from resprout.audit.interest import Due, TraceInterest, WantedBy
from resprout.audit.presence import Stray
from resprout.audit.records import (
    NEVER,
    ClaimedPlace,
    ClientLife,
    DeliveryRecord,
    MessageId,
    Naming,
    PublicationRecord,
    drops_oldest,
    filter_of,
    guarantee_of,
    identity_of,
    lines_of,
    names_of,
    position_of,
)
from resprout.audit.verdict import Anomaly
from resprout.core.guarantee import Guarantee, Promises
from resprout.trace import kinds
from resprout.trace.schema import Row, TraceError

QUIET_US: Final = 15_000_000
UNREST: Final = frozenset(
    (
        kinds.CRASH, kinds.RECOVER, kinds.FREEZE, kinds.UNFREEZE, kinds.HANG, kinds.UNHANG, kinds.JOIN, kinds.DOUBLE,
        kinds.LEAVE, kinds.CUT, kinds.HEAL, kinds.PARTITION, kinds.REPAIR_BEGIN, kinds.REPAIR_END, "restart", "fenced",
        "durable",
    )
)  # fmt: skip
"""Kinds of rows after which brokers may know different things for a while."""
MADE: Final = (kinds.PUBLISH, kinds.DEAD_LETTER, kinds.FOLLOW_UP)
"""Kinds of rows that make a publication known."""
FENCED: Final = ("fenced", "restart")
"""Kinds of rows in which a broker begins anew."""
_OVER: Final = (kinds.CRASH, kinds.LEAVE)
LOGGED: Final = (
    kinds.LOG_DECLARED, kinds.LOG_FED, kinds.LOG_KEPT, kinds.LOG_GAP, kinds.LOG_END, kinds.LOG_READ, kinds.LOG_PAGE,
    kinds.LOG_COMPACTED,
)  # fmt: skip
"""Kinds of rows about logs."""


class Shock(NamedTuple):
    """A row about a node or a link, of a kind in `UNREST`."""

    time_us: int
    kind: str
    node: str
    detail: str


class CalmTimes:
    """The times without any such row, in which no node was frozen and no link cut."""

    def __init__(self, shocks: Iterable[Shock]) -> None:
        self._spans: list[tuple[int, int]] = []
        """(begin, end), in order. The first one begins before everything."""
        hanging: set[tuple[str, str]] = set()
        begin: int | None = -NEVER
        for shock in shocks:
            if begin is not None and shock.time_us > begin:
                self._spans.append((begin, shock.time_us))
            _note(hanging, shock)
            begin = None if hanging else shock.time_us
        if begin is not None:
            self._spans.append((begin, NEVER))

    def quiet_after(self, time_us: int, until_us: int) -> int:
        """The first moment at which it had been calm for `QUIET_US` on end, all of it between these times; or NEVER."""
        for begin, end in self._spans:
            quiet = max(begin, time_us) + QUIET_US
            if quiet <= min(end, until_us):
                return quiet
        return NEVER

    def covers(self, from_us: int, to_us: int) -> bool:
        """Whether it was calm between these times, and for `QUIET_US` before them."""
        return any(begin + QUIET_US <= from_us and to_us < end for begin, end in self._spans)


def _note(hanging: set[tuple[str, str]], shock: Shock) -> None:
    kind, node, detail = shock.kind, shock.node, shock.detail
    if kind in (kinds.FREEZE, kinds.HANG):
        hanging.add((kind, node))
    elif kind == kinds.UNFREEZE:
        hanging.discard((kinds.FREEZE, node))
    elif kind == kinds.UNHANG:
        hanging.discard((kinds.HANG, node))
    elif kind in _OVER:
        hanging.discard((kinds.FREEZE, node))
        hanging.discard((kinds.HANG, node))
    elif kind == kinds.CUT:
        hanging.add((kinds.CUT, " ".join(sorted((node, detail)))))
    elif kind == kinds.PARTITION:
        hanging.add((kinds.PARTITION, ""))
    elif kind == kinds.HEAL and detail:
        hanging.discard((kinds.CUT, " ".join(sorted((node, detail)))))
    elif kind == kinds.HEAL:
        hanging -= {each for each in hanging if each[0] in (kinds.CUT, kinds.PARTITION)}


class History:
    def __init__(self, rows: Sequence[Row], promise: Promises = Promises()) -> None:  # noqa: B008 (it is frozen)
        self.promise = promise
        self.publications: list[PublicationRecord] = []
        self.number_of: dict[MessageId, int] = {}
        self.due: list[tuple[Due, ...]] = []
        """For each publication, where it is due; see `audit.loss`."""
        self.interest = TraceInterest()
        self.found: list[Anomaly] = []
        """What is wrong with the presence of publications and deliveries."""
        self.lives: list[ClientLife] = []
        self.receipts: list[tuple[int, Row]] = []
        self.refused: dict[MessageId, int] = {}
        """Publications that will never be delivered, and the row that says so."""
        self.applied: list[tuple[int, int, Row]] = []
        """(row, life, the row itself) of operations that replicas have executed."""
        self.consumed: list[tuple[int, Row]] = []
        """Rows of consumers of durable subscriptions; and crashes and leaves, from the first of them on."""
        self.thaws: dict[str, list[int]] = {}
        """By node: when it went on after it was frozen."""
        self.expired: list[tuple[int, Row]] = []
        """Rows about messages that came after their expiry, with their numbers."""
        self.logged: list[tuple[int, Row]] = []
        """Rows about logs, with their numbers."""
        self.tseq: dict[int, int | None] = {}
        """By total, the place that the run claims; None where subscribers were told different ones."""
        self.claims: dict[int, ClaimedPlace] = {}
        """By total, the first place that anybody was told."""
        self.other_claims: dict[int, ClaimedPlace] = {}
        """The first that differs from it."""
        self.ended = ""
        self.ended_us = 0
        self._torn: set[tuple[str, str]] = set()
        self._halves = False
        self._frozen: set[str] = set()
        self._current: dict[str, ClientLife] = {}
        self._last_ordered: dict[tuple[str, str], int] = {}
        """By client and lane."""
        self._newest: dict[tuple[str, str], MessageId] = {}
        self._strays: dict[MessageId, list[Stray]] = {}
        self._wanted: list[WantedBy] = []
        rows = self.rows = _in_time_order(rows)
        self._first_shock_us = next((row.time_us for row in rows if row.kind in UNREST), NEVER)
        self.calm = CalmTimes(Shock(r.time_us, r.kind, r.node, r.detail or "") for r in rows if r.kind in UNREST)
        consumers = {r.node for r in rows if r.kind == kinds.CONSUME}
        self.calm_brokers = CalmTimes(
            Shock(r.time_us, r.kind, r.node, r.detail or "")
            for r in rows
            if r.kind in UNREST and r.node not in consumers
        )
        """The same, where what happens to consumers of durable subscriptions does not count."""
        self.naming = Naming((r.publisher or "", r.incarnation or 0, "", 0) for r in rows if r.kind in MADE)
        self._read(rows)
        self._settle()

    @property
    def is_whole(self) -> bool:
        """The run came to rest with all links whole and no node frozen, so nothing is waited for."""
        return self.ended == kinds.QUIESCENT and not (self._torn or self._halves or self._frozen)

    def shaken_before(self, time_us: int) -> bool:
        """Whether a fault of a node or a link happened before this time."""
        return self._first_shock_us < time_us

    def name(self, number: int) -> str:
        return self.naming.message(self.publications[number].id)

    def id_of(self, number: int) -> MessageId:
        return self.publications[number].id

    def published(self, id: MessageId) -> PublicationRecord | None:
        number = self.number_of.get(id)
        return self.publications[number] if number is not None else None

    def life_of(self, number: int) -> ClientLife:
        return self.lives[number]

    def place(self, life: int, number: int) -> tuple[int, int]:
        d = self.lives[life].first[number]
        return d.position, d.time_us

    def tell(self, anomaly: Anomaly) -> None:
        self.found.append(anomaly)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, rows: Sequence[Row]) -> None:
        readers = {
            kinds.PUBLISH: self._publish,
            kinds.DEAD_LETTER: self._dead_letter,
            kinds.FOLLOW_UP: self._dead_letter,
            kinds.DELIVER: self._deliver,
            kinds.DROPPED: self._drop,
            kinds.EXPIRED: self._expire,
            kinds.RECEIPT: self._receipt,
            kinds.REFUSED: self._refuse,
            kinds.APPLIED: self._apply,
            kinds.CRASH: self._end_life,
            kinds.LEAVE: self._end_life,
            **dict.fromkeys(FENCED, self._fence),
            kinds.FREEZE: self._freeze,
            kinds.UNFREEZE: self._unfreeze,
            kinds.SUBSCRIBE: self._subscription,
            kinds.SUBSCRIBED: self._subscription,
            kinds.UNSUBSCRIBE: self._subscription,
            kinds.UNSUBSCRIBED: self._subscription,
            kinds.SESSION_LOST: self._lose,
            kinds.CONSUME: self._consume,
            kinds.CONSUMING: self._consume,
            kinds.HANDED: self._consume,
            kinds.DROPS_TOLD: self._consume,
            kinds.ACKNOWLEDGED: self._consume,
            kinds.REJECTED: self._consume,
            kinds.TERMINATED: self._consume,
            kinds.CONSUME_OVER: self._consume,
            **dict.fromkeys(LOGGED, self._log),
            kinds.CUT: self._tear,
            kinds.PARTITION: self._tear,
            kinds.HEAL: self._heal,
            kinds.QUIESCENT: self._finish,
            kinds.TIMEOUT: self._finish,
        }
        for number, row in enumerate(rows):
            if (reader := readers.get(row.kind)) is not None:
                reader(number, row)

    def _life(self, node: str) -> ClientLife:
        life = self._current.get(node)
        if life is None or life.end_row != NEVER:
            ordinal = 0 if life is None else sum(other.node == node for other in self.lives)
            life = self._current[node] = ClientLife(len(self.lives), node, ordinal)
            self.lives.append(life)
        return life

    def _publish(self, number: int, row: Row) -> None:
        id = identity_of(number, row)
        topic, guarantee = guarantee_of(number, row)
        life = self._life(row.node)
        if id in self.number_of:  # everything else takes no notice of it
            presence.tell_taken(self, id, row.time_us)
            return
        if row.kind == kinds.PUBLISH:
            presence.check_number(self, self._newest, id, row.time_us)
        keys = row.keys or ()
        topics, pairs = names_of(topic, keys)
        lane = self.promise.lane(topic)
        publication = PublicationRecord(
            number=len(self.publications),
            row=number,
            time_us=row.time_us,
            id=id,
            topic=topic,
            keys=keys,
            lane=lane,
            topics=topics,
            lines=lines_of(topic, pairs, guarantee, lane),
            pairs=pairs,
            guarantee=guarantee,
            ordered=guarantee is not Guarantee.EVENTUAL,
            attributes=row.attributes,
            life=life.number,
            previous=self._last_ordered.get((row.node, lane), -1),
            heard=len(life.heard),
        )
        self.number_of[id] = publication.number
        self.publications.append(publication)
        self._wanted.append(self.interest.wanted(topics, row.attributes, number))
        if (strays := self._strays.pop(id, None)) is not None:
            whose = ((self.lives[stray.life], stray) for stray in strays)
            for life_number, position in presence.resolve_strays(self, whose, publication).items():
                self.lives[life_number].early[publication.number] = position
        if publication.ordered:
            self._last_ordered[row.node, lane] = publication.number

    def _dead_letter(self, number: int, row: Row) -> None:
        """A broker publishes it. One that does not know whether an earlier broker has done so does it again."""
        self._consume(number, row)
        known = self.number_of.get(identity_of(number, row))
        if known is None:
            self._publish(number, row)
        else:
            self.publications[known].life = self._life(row.node).number

    def _deliver(self, number: int, row: Row) -> None:
        id = identity_of(number, row)
        position = position_of(number, row)
        life = self._life(row.node)
        if position != life.expected:
            presence.tell_position(self, life, life.expected, id, position, row.time_us)
        life.expected = position + 1
        published = self.number_of.get(id)
        if published is None:
            life.deliveries.append(DeliveryRecord(number, row.time_us, position, id, None))
            open_then = self.interest.open_at(life.number)
            self._strays.setdefault(id, []).append(Stray(life.number, position, row.time_us, open_then))
            return
        p, first = self.publications[published], life.place_of(published)
        presence.check_known(self, life, p, row, position, first)
        if published in life.dropped or published in life.expired:
            presence.tell_dropped(self, life, id, position, row.time_us)
        tseq = row.tseq if p.guarantee is Guarantee.TOTAL else None
        delivery = DeliveryRecord(number, row.time_us, position, id, tseq)
        life.deliveries.append(delivery)
        if published not in life.first:
            life.first[published] = delivery
            life.heard.append(published)
        if tseq is not None:
            self._claim(published, ClaimedPlace(tseq, life.name, life.node, row.time_us))

    def _drop(self, number: int, row: Row) -> None:
        published, life = self.number_of.get(identity_of(number, row)), self._current.get(row.node)
        if published is not None and life is not None and life.end_row == NEVER:
            life.dropped.add(published)

    def _expire(self, number: int, row: Row) -> None:
        self.expired.append((number, row))
        published, life = self.number_of.get(identity_of(number, row)), self._current.get(row.node)
        if published is not None and life is not None and life.end_row == NEVER:
            life.expired.add(published)

    def _claim(self, number: int, claim: ClaimedPlace) -> None:
        first = self.claims.setdefault(number, claim)
        if first is claim:
            self.tseq[number] = claim.tseq
        elif first.tseq != claim.tseq:
            self.tseq[number] = None
            self.other_claims.setdefault(number, claim)

    def _receipt(self, number: int, row: Row) -> None:
        if row.publisher is None and row.receipt == "failed":
            return  # of a request that failed before it had a number
        identity_of(number, row)
        if row.receipt is None:
            raise TraceError(f"row {number}: a receipt row without receipt")
        self.receipts.append((number, row))

    def _refuse(self, number: int, row: Row) -> None:
        if row.publisher is not None:
            self.refused.setdefault(identity_of(number, row), number)
        elif row.filter is not None:
            self._subscription(number, row)

    def _apply(self, number: int, row: Row) -> None:
        identity_of(number, row)
        self.applied.append((number, self._life(row.node).number, row))

    def _subscription(self, number: int, row: Row) -> None:
        asked = filter_of(number, row)
        life = self._life(row.node)
        fresh = self.interest.record(life.number, row.kind, number, row.time_us, asked, row.where)
        if fresh is not None:
            life.subscriptions.append(fresh)
        life.drops |= drops_oldest(row)

    def _lose(self, number: int, row: Row) -> None:
        life = self._current.get(row.node)
        if life is not None and life.end_row == NEVER:
            life.subscriptions += self.interest.lose(life.number, number)
            life.losses[number] = row.time_us

    def _consume(self, number: int, row: Row) -> None:
        self.consumed.append((number, row))

    def _log(self, number: int, row: Row) -> None:
        self.logged.append((number, row))

    def _end_life(self, number: int, row: Row) -> None:
        if self.consumed:
            self._consume(number, row)
        self._frozen.discard(row.node)
        life = self._current.get(row.node)
        if life is not None and life.end_row == NEVER:
            self._thaw(life, number)
            life.end_row = number
            self.interest.end_life(life.number)

    def _fence(self, number: int, row: Row) -> None:
        """A broker that was declared dead begins anew. What only it had is gone; others have what it owed."""
        life = self._current.get(row.node)
        if life is not None and life.end_row == NEVER:
            life.end_row = number

    def _freeze(self, number: int, row: Row) -> None:
        self._frozen.add(row.node)
        life = self._current.get(row.node)
        if life is not None and life.end_row == NEVER and life.frozen_since is None:
            life.frozen_since = number

    def _unfreeze(self, number: int, row: Row) -> None:
        self.thaws.setdefault(row.node, []).append(row.time_us)
        self._frozen.discard(row.node)
        life = self._current.get(row.node)
        if life is not None:
            self._thaw(life, number)

    @staticmethod
    def _thaw(life: ClientLife, number: int) -> None:
        if life.frozen_since is not None:
            life.freezes.append((life.frozen_since, number))
            life.frozen_since = None

    def _tear(self, number: int, row: Row) -> None:
        if row.kind == kinds.PARTITION:
            self._halves = True
        else:
            self._torn.add(_link(row))

    def _heal(self, number: int, row: Row) -> None:
        """One link, or everything."""
        if row.detail:
            self._torn.discard(_link(row))
        else:
            self._torn.clear()
            self._halves = False

    def _finish(self, number: int, row: Row) -> None:
        self.ended, self.ended_us = row.kind, row.time_us

    # -- settling ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """What can be known only at the end of the trace."""
        for life in self.lives:
            if life.frozen_since is not None:
                life.freezes.append((life.frozen_since, NEVER))
            first = life.first
            life.sequence = sorted(life.heard, key=lambda number: first[number].position)
        for message, strays in self._strays.items():
            for stray in strays:
                presence.give_up_stray(self, self.lives[stray.life], message, stray)
        shared: dict[int, tuple[Due, ...]] = {}
        for wanted in self._wanted:  # publications between which no subscription changed share one
            known = shared.get(id(wanted))
            if known is None:
                known = shared[id(wanted)] = wanted.dues()
            self.due.append(known)
        self._excuse_dropped()

    def _excuse_dropped(self) -> None:
        """What was dropped is not due where a client asked to have the oldest dropped, and was told; nor is what has
        expired."""
        for life in self.lives:
            for number in {*(life.dropped if life.drops else ()), *life.expired}:
                self.due[number] = tuple([due for due in self.due[number] if due[0] != life.number])


def _link(row: Row) -> tuple[str, str]:
    one, other = sorted((row.node, row.detail or ""))
    return one, other


def _in_time_order(rows: Iterable[Row]) -> Sequence[Row]:
    """As they are, when no clock runs backwards; otherwise sorted by time, equal times as in the trace."""
    rows = rows if isinstance(rows, Sequence) else list(rows)
    times = [row.time_us for row in rows]
    if all(map(int.__le__, times, times[1:])):
        return rows
    return sorted(rows, key=lambda row: row.time_us)
