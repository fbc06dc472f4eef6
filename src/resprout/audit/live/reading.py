"""What each kind of row does to the memory of a live judge, and which rules look at it.

The kinds mean what they mean in `audit.history`; kinds that it skips are skipped here.
"""

from collections.abc import Callable
from typing import Final

from resprout.audit.causal import check_delivery
from resprout.audit.history import FENCED
from resprout.audit.live import presence, totals
from resprout.audit.live.memory import KeptLife, KeptPublication, LaneMemory, LastOrdered, LiveView
from resprout.audit.presence import tell_position
from resprout.audit.records import (
    MessageId,
    drops_oldest,
    filter_of,
    guarantee_of,
    identity_of,
    life_name,
    lines_of,
    names_of,
    position_of,
)
from resprout.core.guarantee import Guarantee
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.trace.store import PROMISE, promise_of

_PREMATURE_MAX: Final = 1000
"""So many receipts without a publication are remembered; they are not judged here, but they say what is owed."""
_LETTERS_MAX: Final = 10_000
"""So many dead letters are remembered, in case that another broker publishes them again."""


class RowReading:
    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._memory = view.memory
        self._letters: dict[MessageId, None] = {}
        """Dead letters that were published."""
        self._readers: dict[str, Callable[[Row], object]] = {
            kinds.PUBLISH: self._publish,
            kinds.DEAD_LETTER: self._dead_letter,
            kinds.FOLLOW_UP: self._dead_letter,
            kinds.DELIVER: self._deliver,
            kinds.RECEIPT: self._receipt,
            kinds.REFUSED: self._refuse,
            kinds.APPLIED: lambda row: self._life(row.node),
            kinds.CRASH: self._end_life,
            kinds.LEAVE: self._end_life,
            **dict.fromkeys(FENCED, self._end_life),
            kinds.FREEZE: self._freeze,
            kinds.UNFREEZE: self._unfreeze,
            kinds.DROPPED: self._drop,
            kinds.EXPIRED: self._drop,
            kinds.SUBSCRIBE: self._subscription,
            kinds.SUBSCRIBED: self._subscription,
            kinds.UNSUBSCRIBE: self._subscription,
            kinds.UNSUBSCRIBED: self._subscription,
            kinds.SESSION_LOST: self._lose,
            PROMISE: self._promise,
        }

    def read(self, row: Row) -> None:
        """TraceError for a row that does not make sense at all."""
        view = self._view
        view.now_us = max(view.now_us, row.time_us)
        if (reader := self._readers.get(row.kind)) is not None:
            reader(row)
        self._memory.row += 1

    def _life(self, node: str) -> KeptLife:
        memory = self._memory
        number = memory.current.get(node)
        if number is not None:
            life = memory.lives[number]
            if life.ended_us < 0:
                return life
        ordinal = memory.ordinals.get(node, 0)
        memory.ordinals[node] = ordinal + 1
        life = KeptLife(memory.next_life, node, life_name(node, ordinal))
        memory.next_life += 1
        memory.lives[life.number] = life
        memory.current[node] = life.number
        for lane, last in memory.last_ordered.get(node, {}).items():
            self._lane(life, lane).clock = {**last.past, last.source: last.index}
        return life

    def _lane(self, life: KeptLife, name: str) -> LaneMemory:
        lane = life.lanes.get(name)
        if lane is None:
            lane = life.lanes[name] = LaneMemory(self._memory.next_source)
            self._memory.next_source += 1
        return lane

    def _dead_letter(self, row: Row) -> None:
        """A broker publishes it, perhaps a second time."""
        id = identity_of(self._memory.row, row)
        if id not in self._letters:
            self._letters[id] = None
            while len(self._letters) > _LETTERS_MAX:
                del self._letters[next(iter(self._letters))]
            self._publish(row)

    def _publish(self, row: Row) -> None:
        memory, view = self._memory, self._view
        id = identity_of(memory.row, row)
        topic, guarantee = guarantee_of(memory.row, row)
        life = self._life(row.node)
        view.knows_incarnation(id[0], id[1])
        if row.kind == kinds.PUBLISH and not presence.number_is_fresh(view, id, row.time_us):
            return
        keys = row.keys or ()
        topics, pairs = names_of(topic, keys)
        name = memory.promise.lane(topic)
        ordered = guarantee is not Guarantee.EVENTUAL
        lane = self._lane(life, name)
        lane.published += ordered
        last = memory.last_ordered.get(row.node, {}).get(name) if ordered else None
        p = KeptPublication(
            number=memory.next_number, row=memory.row, time_us=row.time_us, id=id, topic=topic, lane=name, keys=keys,
            topics=topics, lines=lines_of(topic, pairs, guarantee, name), guarantee=guarantee, ordered=ordered,
            attributes=row.attributes, life=life.number,
            source=lane.source, index=lane.published if ordered else 0,
            previous=last.number if last is not None else -1,
            given=lane.given if ordered else [], past=lane.clock.copy() if ordered else {},
            due=view.interest.wanted(topics, row.attributes, memory.row).lives.copy(), waiting=0,
        )  # fmt: skip
        memory.next_number += 1
        memory.publications[p.number] = p
        memory.number_of[id] = p.number
        if id[:3] not in life.streams:
            life.streams.append(id[:3])
        if ordered:
            lane.given = []
            lane.clock[lane.source] = p.index
            latest = LastOrdered(p.number, life.number, lane.source, p.index, p.past)
            memory.last_ordered.setdefault(row.node, {})[name] = latest
        for word in memory.premature.pop(id, ()):
            p.hear(word)
        if id in memory.strays:
            presence.resolve_strays(view, p)
        if p.early or row.time_us < view.now_us:
            p.due = {n: until for n, until in p.due.items() if n not in p.early and self._was_due(n, p)}
        p.waiting = len(p.due)
        presence.expect(view, p)
        presence.note_complete(view, p)
        view.count("publications")

    def _was_due(self, life: int, p: KeptPublication) -> bool:
        return p.time_us >= self._view.now_us or self._view.interest.confirmed_by(life, p, p.time_us)

    def _deliver(self, row: Row) -> None:
        memory, view = self._memory, self._view
        id = identity_of(memory.row, row)
        position = position_of(memory.row, row)
        life = self._life(row.node)
        view.count("deliveries")
        if position != life.expected:
            tell_position(view, life, life.expected, id, position, row.time_us)
        life.expected = position + 1
        number = memory.number_of.get(id)
        if number is None:
            presence.check_unknown(view, life, id, row, position)
            return
        p = memory.publications[number]
        tseq = row.tseq if p.guarantee is Guarantee.TOTAL else None
        if tseq is not None:
            totals.check_told_place(view, life, p, tseq, row.time_us)
        if not presence.check_known(view, life, p, row, position):
            return
        was_due = presence.arrived(view, life, p)
        p.had[life.number] = (position, memory.row, row.time_us)
        if p.ordered:
            if (wrong := check_delivery(view, life, life.newest, id, p.lane, position, row.time_us)) is not None:
                view.tell(wrong)
            presence.check_late(view, life, p, position, was_due)
            if life.missing:
                presence.note_overtaken(view, life, p, position, row.time_us)
            if p.guarantee >= Guarantee.CAUSAL:
                life.recent.append(p.number)
            presence.learn(self._lane(life, p.lane), p)
            if p.lines:
                totals.delivered(view, life, p, tseq)

    def _drop(self, row: Row) -> None:
        id = identity_of(self._memory.row, row)
        current, number = self._memory.current.get(row.node), self._memory.number_of.get(id)
        life = self._view.life(current) if current is not None else None
        if life is None or life.ended_us >= 0:
            return
        is_excused = life.drops or row.kind == kinds.EXPIRED
        if number is not None:
            presence.dropped(self._view, life, self._memory.publications[number], is_excused)
        elif is_excused:
            life.overdue.pop(id, None)

    def _receipt(self, row: Row) -> None:
        if row.publisher is None and row.receipt == "failed":
            return  # of a request that failed before it had a number
        self._told(identity_of(self._memory.row, row), row.receipt or "")

    def _refuse(self, row: Row) -> None:
        if row.publisher is not None:
            id = identity_of(self._memory.row, row)
            for life in self._memory.lives.values():
                life.overdue.pop(id, None)
            self._told(id, kinds.REFUSED)
        elif row.filter is not None:
            self._subscription(row)

    def _told(self, id: MessageId, word: str) -> None:
        number = self._memory.number_of.get(id)
        if number is not None:
            self._memory.publications[number].hear(word)
        elif not presence.was_published(self._view, id) and len(self._memory.premature) < _PREMATURE_MAX:
            self._memory.premature.setdefault(id, []).append(word)

    def _subscription(self, row: Row) -> None:
        asked = filter_of(self._memory.row, row)
        life = self._life(row.node)
        self._view.interest.record(life.number, row.kind, self._memory.row, row.time_us, asked, row.where)
        life.drops |= drops_oldest(row)
        if row.kind in (kinds.UNSUBSCRIBE, kinds.UNSUBSCRIBED):
            presence.unsubscribed(self._view, life, asked)

    def _lose(self, row: Row) -> None:
        number = self._memory.current.get(row.node)
        life = self._view.life(number) if number is not None else None
        if life is not None and life.ended_us < 0:
            self._view.interest.lose(life.number, self._memory.row)
            presence.session_lost(self._view, life)

    def _promise(self, row: Row) -> None:
        self._memory.promise = promise_of(row)

    def _end_life(self, row: Row) -> None:
        number = self._memory.current.get(row.node)
        life = self._view.life(number) if number is not None else None
        if life is not None and life.ended_us < 0:
            life.frozen = False
            life.ended_us = self._view.now_us
            presence.life_ended(self._view, life)
            self._view.interest.end_life(life.number)

    def _freeze(self, row: Row) -> None:
        number = self._memory.current.get(row.node)
        if number is not None and self._memory.lives[number].ended_us < 0:
            self._memory.lives[number].frozen = True

    def _unfreeze(self, row: Row) -> None:
        number = self._memory.current.get(row.node)
        if number is not None:
            self._memory.lives[number].frozen = False
