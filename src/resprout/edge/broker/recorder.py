"""Keeps a journal of events at a broker, whatever its stack: a client inside it, which writes down what it is given.

The recorder stands between the links and the stack. To the stack it is a client like any other, with subscriptions of
its own: it is given each event once, in order, from the confirmation on. An event is written before the stack hears
that it was taken, so the network keeps it until then.

Each life of the broker is a new subscriber, so the journal has a gap between two lives. A life writes a coverage mark
(`event_record`) when all its subscriptions are confirmed, and events only behind it. Requests to read wait until then:
so nobody reads up to the end of an earlier life without coming across the mark. The driver may leave events out while
the disk is full. It then gives readers a mark at the end of the journal, at the position of the mark that will be
written there when events are kept again, or by the next life.

What clients ask of the past (`ReadEvents`) is answered here, and the stack hears nothing of it. Reading is as good as
subscribing: whoever may not do the one may not do the other (`may_read`). Answers are outside the window of a session,
so a client is given the next one only when it has received what it was given before, but for `UNREAD_BYTES`. What
parsing and testing its condition and its filters cost has to be paid off with time before its identity is given the
next one (`STEPS_PER_SECOND`). A condition is parsed only then: a request that waits is kept as it came.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle, pick, unpack_attributes
from resprout.core.contract import (
    Close,
    Effect,
    Event,
    Hold,
    LinkDown,
    LinkUp,
    Machine,
    Note,
    Received,
    Release,
    Retire,
    Send,
    SetTimer,
    Timer,
    TimerFired,
    Writable,
)
from resprout.core.errors import UsageError, WireError
from resprout.edge.broker.event_record import (
    CoverageMark,
    GapFinder,
    KeptEvent,
    as_reason,
    event_record,
    mark_record,
    read_event,
)
from resprout.edge.messages import (
    Attend,
    Delivery,
    EventGap,
    EventRead,
    EventsEnd,
    Extra,
    ReadEvents,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
)
from resprout.filters.predicate import Predicate, check_filter, filter_covers, parse_predicate, topic_matches
from resprout.journal.interface import EventsFetched, FetchEvents, Kept, RecordEvent

ROOM_BYTES: Final = 1 << 24
"""What it may be given before it has said that it took any; it takes everything at once."""
PAGE_BYTES: Final = 256 << 10
"""Of the past that is given at once."""
SUFFIX: Final = ":events"
READS_MAX: Final = 64
"""Of one client, not answered yet."""
FETCHES_MAX: Final = 2
"""Of those, what the driver is asked for at a time."""
UNREAD_BYTES: Final = 1 << 20
"""A client that has not acknowledged so much of what it was sent is not sent more of the past."""
READ_AGAIN_US: Final = 50_000
"""How often a client is looked at that has to wait."""
PAGE_STEPS: Final = 200_000
"""What testing conditions may cost in one page (`filters.predicate`), but for its last event: about 20 ms."""
PARSE_STEPS: Final = 10
"""What parsing costs for each character of a condition."""
TOPIC_STEPS: Final = 8
"""What comparing a topic with a filter costs. The first comparison for each event is free."""
STEPS_PER_SECOND: Final = 2_000_000
FILTERS_MAX: Final = 64
"""In one request."""
GAPS_MAX: Final = 64
"""In one page."""


class ReadsDue(Timer, frozen=True):
    """When to look again at clients that have more to read than they have received."""


class _Reading(msgspec.Struct, frozen=True):
    client: str
    asked: ReadEvents
    predicates: tuple[Predicate, ...] = ()
    """Parsed when it is its turn."""


class EventRecorder:
    def __init__(
        self,
        machine: Machine,
        broker: str,
        life: int,
        journal: str,
        filters: Sequence[str],
        earlier: Kept | None = None,
    ) -> None:
        """`journal`: what tells this journal from all others; `earlier`: the last record that it holds."""
        self.machine = machine
        self.may_read: Callable[[str, str], bool] = lambda client, topic_filter: True
        self.unread: Callable[[str], int] = lambda client: 0
        """Tells how many bytes were sent to a client that it has not acknowledged."""
        self.party_of: Callable[[str], str] = lambda client: client
        """Tells who is charged for what a client reads."""
        self.name = own_name(broker)
        """As a client of the stack."""
        self._broker = broker
        self._earlier = earlier
        self._life = life
        self._journal = journal
        self._filters = tuple(filters)
        self._unconfirmed = set(range(1, len(self._filters) + 1))
        """Ids of subscriptions."""
        self._is_keeping = False
        """The coverage mark of this life is written, and events follow it."""
        self._taken = 0
        self._said: deque[Any] = deque()
        """To the stack, as its client."""
        self._reads: dict[int, _Reading] = {}
        """By token."""
        self._waiting: dict[str, deque[_Reading]] = {}
        """By client: reads that wait until the client has received earlier answers."""
        self._paid_us: dict[str, int] = {}
        """By identity, or client: when what it has read is paid off."""
        self._is_timer_set = False
        self._early_reads: dict[int, FetchEvents] | None = {}
        """By token: they wait for the coverage mark of this life; None once it is written."""
        self._tokens = 0

    def latest_life(self, client: str) -> int:
        latest = getattr(self.machine, "latest_life", None)
        return latest(client) if latest is not None else 0

    def knows_broker(self, name: str) -> bool:
        knows = getattr(self.machine, "knows_broker", None)
        return bool(knows(name)) if knows is not None else False

    def start(self, now_us: int) -> Sequence[Effect]:
        out = self._sift(self.machine.start(now_us))
        self._begin()
        self._say(now_us, out)
        return out

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if type(event) is Received and type(event.message) is ReadEvents and not self._is_of_log(event.message):
            return self._asked(event.peer, event.message, now_us)
        if type(event) is EventsFetched:
            return self._fetched(event, now_us)
        if type(event) is TimerFired and type(event.timer) is ReadsDue:
            self._is_timer_set = False
            return self._fetch_all(now_us)
        if type(event) is LinkDown:
            self._waiting.pop(event.peer, None)
            self._reads = {token: read for token, read in self._reads.items() if read.client != event.peer}
            if self._early_reads is not None:
                self._early_reads = {token: early for token, early in self._early_reads.items() if token in self._reads}
        effects = self.machine.step(event, now_us)
        if not effects:
            return effects
        out = self._sift(effects)
        if self._said:
            self._say(now_us, out)
        return out

    def _is_of_log(self, message: ReadEvents) -> bool:
        """Whether the broker behind this one answers it."""
        reads_log = getattr(self.machine, "reads_log", None)
        return reads_log is not None and bool(reads_log(message.journal))

    # -- a client of the stack -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._taken = 0
        self._said.append(LinkUp(self.name, "client", self._life, ROOM_BYTES, internal=True))
        self._said.append(Attend(0))

    def _say(self, now_us: int, out: list[Effect]) -> None:
        """What the stack answers may give rise to more."""
        while self._said:
            message = self._said.popleft()
            event = message if isinstance(message, Event) else Received(self.name, message)
            out += self._sift(self.machine.step(event, now_us))

    def _sift(self, effects: Sequence[Effect]) -> list[Effect]:
        """What is meant for this client is heard; everything else goes on, in its order."""
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send):
                if effect.peer == self.name:
                    self._hear(effect.message, out)
                    continue
                if type(effect.message) is Serving and Extra.READING not in effect.message.extras:
                    extras = (*effect.message.extras, Extra.READING)
                    effect = Send(effect.peer, msgspec.structs.replace(effect.message, extras=extras))
            elif isinstance(effect, Close | Hold | Release) and effect.peer == self.name:
                if isinstance(effect, Close):
                    self._stop_keeping(effect.reason, out)
                continue
            elif isinstance(effect, Retire):
                self._said.clear()
            out.append(effect)
        return out

    def _hear(self, message: Any, out: list[Effect]) -> None:
        if isinstance(message, Delivery):
            if self._is_keeping:
                out.append(RecordEvent(event_record(self._life, message.tseq, message.bundle)))
            self._taken += 1
            self._said.append(Taken(self._taken))
            self._said.append(Writable(self.name, ROOM_BYTES))
        elif isinstance(message, Serving):
            self._said.extend(Subscribe(id, topic_filter, None) for id, topic_filter in enumerate(self._filters, 1))
        elif isinstance(message, Subscribed) and not message.more:
            self._confirmed(message.id, out)
        elif isinstance(message, SubscribeRefused):
            out.append(Note("events", {"detail": f"{self._filters[message.id - 1]} is not kept: {message.reason}"}))
            self._confirmed(message.id, out)

    def _confirmed(self, id: int, out: list[Effect]) -> None:
        """From the last confirmation on everything is kept."""
        self._unconfirmed.discard(id)
        if self._unconfirmed or self._is_keeping:
            return
        self._is_keeping = True
        self._write_mark("", out)
        missing = "" if self._earlier is None else "; what was published since its last life ended is missing there"
        for kept in self._filters:
            detail = f"{kept} is kept from here on, in {self._journal}, life {self._life}{missing}"
            out.append(Note("events", {"detail": detail}))

    def _stop_keeping(self, reason: str, out: list[Effect]) -> None:
        """The stack has ended the session of this client."""
        self._is_keeping = False
        self._write_mark(reason, out)
        out.append(Note("note", {"detail": f"events are not kept any more: {reason}"}))

    def _write_mark(self, ended: str, out: list[Effect]) -> None:
        earlier = self._earlier if not ended else None
        before = read_event(earlier.record) if earlier is not None else None
        earlier_life = before.life if before is not None else 0
        earlier_us = earlier.time_us if earlier is not None else 0
        mark = CoverageMark(self._life, earlier_life, earlier_us, ended)
        out.append(RecordEvent(mark_record(mark), is_mark=True))
        if self._early_reads is not None:
            out += self._early_reads.values()
            self._early_reads = None

    # -- what clients read ---------------------------------------------------------------------------------------------

    def _asked(self, client: str, message: ReadEvents, now_us: int) -> list[Effect]:
        filters = (message.filter, *message.also)
        try:
            if len(filters) > FILTERS_MAX:
                raise UsageError(f"{len(filters)} filters; {FILTERS_MAX} are the most that are read at once")
            for topic_filter in filters:
                check_filter(topic_filter)
        except UsageError as error:
            return [self._refusal(client, message, str(error))]
        for topic_filter in filters:
            if not self.may_read(client, topic_filter):
                return [self._refusal(client, message, f"{client} may not subscribe to {topic_filter}")]
        for topic_filter in filters if message.whole else ():
            if not any(filter_covers(kept, topic_filter) for kept in self._filters):
                reason = f"not all of {topic_filter} is kept here: this broker keeps {', '.join(self._filters)}"
                return [self._refusal(client, message, reason[: limits.REASON_BYTES])]
        if message.journal not in ("", self._journal):
            reason = f"that position is one of the journal {message.journal}, and this broker keeps {self._journal}"
            return [self._refusal(client, message, reason)]
        waiting = self._waiting.setdefault(client, deque())
        if self._fetching(client) + len(waiting) >= READS_MAX:
            return [self._refusal(client, message, f"{READS_MAX} requests wait for their answers")]
        waiting.append(_Reading(client, message))
        return self._fetch(client, now_us)

    def _fetching(self, client: str) -> int:
        return sum([read.client == client for read in self._reads.values()])

    def _may_read_on(self, client: str, now_us: int) -> bool:
        return self._paid_us.get(self.party_of(client), 0) <= now_us and self.unread(client) <= UNREAD_BYTES

    def _charge(self, client: str, steps: int, now_us: int) -> None:
        self._paid_us = {party: paid_us for party, paid_us in self._paid_us.items() if paid_us > now_us}
        party = self.party_of(client)
        begin_us = max(now_us, self._paid_us.get(party, 0))
        self._paid_us[party] = begin_us + steps * 1_000_000 // STEPS_PER_SECOND

    def _fetch_all(self, now_us: int) -> list[Effect]:
        return [effect for client in list(self._waiting) for effect in self._fetch(client, now_us)]

    def _fetch(self, client: str, now_us: int) -> list[Effect]:
        """Ask the driver for as much as the client may be given now."""
        out: list[Effect] = []
        waiting = self._waiting.get(client)
        while waiting and self._fetching(client) < FETCHES_MAX and self._may_read_on(client, now_us):
            asked = waiting.popleft().asked
            if asked.where is not None:
                self._charge(client, PARSE_STEPS * len(asked.where), now_us)
            try:
                predicates = tuple([parse_predicate(each, asked.where) for each in (asked.filter, *asked.also)])
            except UsageError as error:
                out.append(self._refusal(client, asked, str(error)))
                continue
            self._tokens += 1
            self._reads[self._tokens] = _Reading(client, asked, predicates)
            fetch = FetchEvents(self._tokens, asked.position, asked.time_us, max(1, min(asked.size, PAGE_BYTES)))
            if self._early_reads is None:
                out.append(fetch)
            else:
                self._early_reads[self._tokens] = fetch
        if not waiting:
            self._waiting.pop(client, None)
        elif not self._fetching(client) and not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(ReadsDue(), now_us + READ_AGAIN_US))
        return out

    def _refusal(self, client: str, message: ReadEvents, reason: str) -> Effect:
        return Send(client, EventsEnd(message.id, self._journal, max(0, message.position), 0, 0, reason))

    def _fetched(self, event: EventsFetched, now_us: int) -> list[Effect]:
        read = self._reads.pop(event.token, None)
        if read is None:
            return []
        return self._answer(read, event, now_us) + self._fetch(read.client, now_us)

    def _answer(self, read: _Reading, event: EventsFetched, now_us: int) -> list[Effect]:
        asked = read.asked
        id, life, steps = asked.id, 0, 0
        where = read.predicates[0].where
        out: list[Effect] = []
        gaps: list[EventGap] = []
        following = max(asked.position, event.first)
        if asked.position < 0:
            following = event.events[0].position if event.events else event.end
        reason = event.reason
        finder = GapFinder(self._broker, event.first, asked)
        is_latest = asked.position < -1  # the position is all that is asked for
        for number, kept in enumerate(event.events if not is_latest else ()):
            if asked.until and kept.position >= asked.until:
                break
            found = read_event(kept.record)
            if (gap := finder.look(kept, found)) is not None:
                if not asked.allow_gaps and number == 0:
                    following, gaps = gap.position, [gap]
                    reason = as_reason(f"events before position {gap.following} are missing: {gap.reason}")
                if not asked.allow_gaps or len(gaps) == GAPS_MAX:
                    break
                gaps.append(gap)
            following = kept.position + 1
            life = found.life if found is not None else life
            if isinstance(found, KeptEvent):
                steps += TOPIC_STEPS * (len(read.predicates) * len(found.bundle.topics) - 1)
            if isinstance(found, KeptEvent) and (picked := picked_of(found.bundle, read.predicates)) is not None:
                bundle, offsets = picked
                message = EventRead(id, bundle, offsets, found.tseq, kept.position, found.life, kept.time_us)
                out.append(Send(read.client, message))
            if where is not None and isinstance(found, KeptEvent):
                steps += where.price.most * found.bundle.count
            if steps > PAGE_STEPS:
                break
        if steps:
            self._charge(read.client, steps, now_us)
        end = EventsEnd(id, self._journal, following, event.first, event.end, reason, life, tuple(gaps))
        out.append(Send(read.client, end))
        return out


def own_name(broker: str) -> str:
    """As a client of its own. Nobody outside can be called so: it is no name (`core.limits`), and never on a wire."""
    return f"{broker}{SUFFIX}"


def picked_of(bundle: Bundle, predicates: Sequence[Predicate]) -> tuple[Bundle, tuple[int, ...] | None] | None:
    """What matches of a bundle, and where that stood in it; None when nothing does. All have the same condition."""
    where = predicates[0].where
    if not any(topic_matches(each.filter, topic) for each in predicates for topic in bundle.topics):
        return None
    if where is None:
        return bundle, None
    try:
        rows = unpack_attributes(bundle)
    except WireError:
        return None
    offsets = tuple([offset for offset, row in enumerate(rows) if where.matches(row)])
    if not offsets:
        return None
    return (bundle, None) if len(offsets) == bundle.count else (pick(bundle, offsets), offsets)
