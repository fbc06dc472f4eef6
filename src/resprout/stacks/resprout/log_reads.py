"""Reading logs: a client asks any broker, which reads its own replica or asks another one.

An entry never changes, so any replica that has it may give it. A replica that is not complete, or follows no leader,
does not read for clients: it may not know what is missing. A read that one replica cannot answer is tried at the next.

Reading is as good as subscribing: a client that may not do the one may not do the other (`may_read`). Answers are
outside the window of a session, so a client is given the next one only when it has received most of the last. The steps
that its condition took have to be paid off with time before it is given more.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from resprout.core.contract import Send
from resprout.core.errors import UsageError
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.broker.event_record import as_reason
from resprout.edge.broker.recorder import (
    FILTERS_MAX,
    GAPS_MAX,
    PAGE_STEPS,
    PARSE_STEPS,
    READS_MAX,
    STEPS_PER_SECOND,
    TOPIC_STEPS,
    UNREAD_BYTES,
    picked_of,
)
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import EventGap, EventRead, EventsEnd, ReadEvents
from resprout.filters.predicate import Predicate, check_filter, filter_covers, parse_predicate
from resprout.journal.interface import FetchStore, StoreFetched
from resprout.logs.declaration import LOG_PREFIX, LogDeclaration
from resprout.logs.messages import FETCH_BYTES, LogEntries, LogFetch
from resprout.logs.port import LogPort
from resprout.logs.records import LogEntry, read_entry
from resprout.logs.replica import LogReplica
from resprout.stacks.resprout.life import BrokerLife

TICKS_PATIENT: Final = 4
"""A replica that has not answered after so many heartbeats is passed over."""
_BY_TIME: Final = -1


class _LogRead:
    """One request of a client."""

    def __init__(self, client: str, asked: ReadEvents, log: LogDeclaration) -> None:
        self.client = client
        self.asked = asked
        self.log = log
        self.predicates: tuple[Predicate, ...] = ()
        self.tried: list[str] = []
        """Brokers that were asked, the last one now."""
        self.ticks = 0

    @property
    def offset(self) -> int:
        """To read from: the first one for a read from the beginning, one that is not there yet for the end."""
        position = self.asked.position
        return position if position >= 0 else 0 if position == _BY_TIME else NUMBER_MAX

    def is_within(self, end: int) -> bool:
        """Whether a replica that has all entries before `end` can answer it."""
        return self.asked.position < 0 or self.asked.position <= end


class LogReads:
    def __init__(self, life: BrokerLife, replicas: dict[str, LogReplica], port: LogPort) -> None:
        self._life = life
        self._replicas = replicas
        self._port = port
        self._logs = {log.subscription: log for log in life.seat.logs}
        self.may_read: Callable[[str, str], bool] = lambda client, topic_filter: True
        self.unread: Callable[[str], int] = lambda client: 0
        """Tells how many bytes were sent to a client that it has not acknowledged."""
        self._waiting: deque[_LogRead] = deque()
        """Their clients have not received earlier answers, or have not paid for them."""
        self._local: dict[int, _LogRead] = {}
        """By token: reads of a replica here."""
        self._remote: list[_LogRead] = []
        self._paid_us: dict[str, int] = {}
        """By client: when what it has read is paid off."""
        self._tokens = 0

    # -- clients -------------------------------------------------------------------------------------------------------

    def ask(self, session: ClientSession, message: ReadEvents) -> None:
        log = self._logs.get(message.journal)
        client = session.name
        refusal = self._unknown(message.journal) if log is None else self._refusal(client, message, log)
        if refusal or log is None:
            self._refuse(client, message, refusal)
        else:
            self._waiting.append(_LogRead(client, message, log))
            self._look()

    def _unknown(self, journal: str) -> str:
        names = ", ".join(log.name for log in self._logs.values())
        if journal.startswith(LOG_PREFIX):
            return f"there is no log {journal.removeprefix(LOG_PREFIX)}; the logs are: {names}"
        return f"events are not kept here: name a log ({names})"

    def _refusal(self, client: str, message: ReadEvents, log: LogDeclaration) -> str:
        filters = (message.filter, *message.also)
        if len(filters) > FILTERS_MAX:
            return f"{len(filters)} filters; {FILTERS_MAX} are the most that are read at once"
        for topic_filter in filters:
            try:
                check_filter(topic_filter)
            except UsageError as error:
                return str(error)
            if not self.may_read(client, topic_filter):
                return f"{client} may not subscribe to {topic_filter}"
            if not filter_covers(log.filter, topic_filter):
                return f"the log {log.name} keeps {log.filter}, and not all of {topic_filter}"
        if message.whole:  # whoever replays goes on with deliveries, and a log may be behind them
            return f"no subscription begins with the log {log.name} yet: read it with client.read"
        if message.position == _BY_TIME and message.time_us:
            return f"the log {log.name} is read from an offset, 'earliest' or 'latest', and not yet from a time"
        if sum(read.client == client for read in self._all()) >= READS_MAX:
            return f"{READS_MAX} requests wait for their answers"
        return ""

    def _all(self) -> list[_LogRead]:
        return [*self._waiting, *self._local.values(), *self._remote]

    def leave(self, client: str) -> None:
        """The session of a client is over."""
        self._waiting = deque(read for read in self._waiting if read.client != client)
        self._local = {token: read for token, read in self._local.items() if read.client != client}
        self._remote = [read for read in self._remote if read.client != client]

    def _refuse(self, client: str, asked: ReadEvents, reason: str) -> None:
        end = EventsEnd(asked.id, asked.journal, max(0, asked.position), 0, 0, as_reason(reason))
        self._life.out.append(Send(client, end))

    # -- replicas ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """From time to time: take up what had to wait, and pass over replicas that do not answer."""
        for read in list(self._remote):
            read.ticks += 1
            if read.ticks >= TICKS_PATIENT:
                self._remote.remove(read)
                self._try_next(read)
        self._look()

    def _look(self) -> None:
        """Begin reads whose clients may be given more."""
        now_us, waiting = self._life.now_us, self._waiting
        self._waiting = deque()
        for read in waiting:
            if self._paid_us.get(read.client, 0) > now_us or self.unread(read.client) > UNREAD_BYTES:
                self._waiting.append(read)
                continue
            where = read.asked.where
            self._charge(read.client, PARSE_STEPS * len(where or ""))
            try:
                filters = (read.asked.filter, *read.asked.also)
                read.predicates = tuple([parse_predicate(each, where) for each in filters])
            except UsageError as error:
                self._refuse(read.client, read.asked, str(error))
                continue
            self._try_next(read)

    def _charge(self, client: str, steps: int) -> None:
        now_us = self._life.now_us
        self._paid_us = {each: paid_us for each, paid_us in self._paid_us.items() if paid_us > now_us}
        if steps:
            begin_us = max(now_us, self._paid_us.get(client, 0))
            self._paid_us[client] = begin_us + steps * 1_000_000 // STEPS_PER_SECOND

    def _try_next(self, read: _LogRead, reason: str = "") -> None:
        """Ask the next replica, this broker's own one first if it has the offset."""
        log, own = read.log, self._life.seat.name
        replica = self._replicas.get(log.name)
        size = max(1, min(read.asked.size, FETCH_BYTES))
        can_read = replica is not None and replica.is_complete and bool(replica.leader)
        if replica is not None and can_read and own not in read.tried and read.is_within(replica.entries.end):
            read.tried.append(own)
            self._tokens -= 1  # replicas count theirs upwards
            self._local[self._tokens] = read
            self._port.do(FetchStore(self._tokens, log.entries, read.offset, size))
            return
        leader = (replica.leader,) if replica is not None else ()
        for broker in (*leader, *log.replicas):
            if broker and broker != own and broker not in read.tried and not self._life.view.is_dead(broker):
                read.tried.append(broker)
                read.ticks = 0
                self._remote.append(read)
                self._port.send(broker, LogFetch(log.name, read.offset, size))
                return
        self._refuse(read.client, read.asked, reason or f"no replica of the log {log.name} answers")

    def fetched(self, event: StoreFetched) -> bool:
        """Return False for a token of a replica."""
        read = self._local.pop(event.token, None)
        if read is None:
            return False
        if event.reason:
            self._try_next(read, event.reason)
        else:
            self._found(read, [kept.record for kept in event.records], event.first, event.end)
        return True

    def hear(self, broker: str, message: LogEntries) -> None:
        """Answer those who wait for this."""
        for read in [each for each in self._remote if each.tried[-1] == broker and each.log.name == message.log]:
            if read.offset == message.offset:
                self._remote.remove(read)
                self._found(read, message.records, message.first, message.end)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _found(self, read: _LogRead, records: Sequence[bytes], first: int, end: int) -> None:
        asked, log = read.asked, read.log
        if asked.position > end:
            self._try_next(read, f"the log {log.name} ends at offset {end}, and has no offset {asked.position}")
        elif 0 <= asked.position < first:
            gone = f"offsets {asked.position} to {first - 1} of the log {log.name} are not kept any more"
            self._refuse(read.client, asked, f"{gone}; it has {first} to {end - 1}")
        else:
            begin = end if asked.position < _BY_TIME else max(first, asked.position)
            entries = [entry for record in records if (entry := read_entry(record)) is not None]
            self._give(read, [entry for entry in entries if entry.offset >= begin], begin, first, end)

    def _give(self, read: _LogRead, entries: Sequence[LogEntry], begin: int, first: int, end: int) -> None:
        """A page ends before a gap; a page that would begin with one is refused, unless gaps are allowed."""
        asked, steps, following = read.asked, 0, begin
        reason, gaps = "", list[EventGap]()
        where = read.predicates[0].where
        for entry in entries:
            if entry.offset != following or (asked.until and entry.offset >= asked.until) or steps > PAGE_STEPS:
                break
            if entry.gap:
                cause = as_reason(f"log {read.log.name}: {entry.gap}")
                gap = EventGap(entry.offset, entry.offset + 1, 0, entry.time_us, cause)
                if not asked.allow_gaps and entry.offset == begin:
                    gaps, reason = [gap], as_reason(f"messages before offset {gap.following} are missing: {cause}")
                if not asked.allow_gaps or len(gaps) == GAPS_MAX:
                    break
                gaps.append(gap)
            elif (bundle := entry.messages) is not None:
                steps += TOPIC_STEPS * (len(read.predicates) * len(bundle.topics) - 1)
                steps += where.price.most * bundle.count if where is not None else 0
                if (picked := picked_of(bundle, read.predicates)) is not None:
                    event = EventRead(asked.id, *picked, entry.tseq, entry.offset, 1, entry.time_us)
                    self._life.out.append(Send(read.client, event))
            following = entry.offset + 1
        self._charge(read.client, steps)
        answer = EventsEnd(asked.id, asked.journal, following, first, end, reason, 1, tuple(gaps))
        self._life.out.append(Send(read.client, answer))
