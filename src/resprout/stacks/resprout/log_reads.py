"""Reads of logs: a client asks any broker, which reads its own replica or asks another one.

An entry never changes, so any replica that has it may serve it. A replica that is incomplete, or follows no leader,
does not serve reads, because it may lack entries unknowingly. If one replica cannot answer, the next one is asked.

Offsets count messages, and a page may begin and end in the middle of an entry.

A client may read exactly what it may subscribe to (`LogAccess`). Pages are not counted in the window of a session, so a
client gets the next page only after it has received most of the last one. The steps that evaluating its predicate takes
are charged to its account, and it gets the next page once they are paid off with time.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from resprout.core.bundle import Bundle, split
from resprout.core.contract import Send
from resprout.core.errors import UsageError, WireError
from resprout.edge.broker.event_record import as_reason
from resprout.edge.broker.ports import LogAccess
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
from resprout.logs.declaration import LOG_PREFIX, LogDeclaration
from resprout.logs.messages import FETCH_BYTES, LogPage, LogPort, LogRead
from resprout.logs.reading import BY_TIME, FoundPage, Wanted
from resprout.logs.records import LogEntry, read_entry
from resprout.logs.replica import LogReplica
from resprout.logs.table import LogTable
from resprout.stacks.resprout.life import BrokerLife

EVERYTHING: Final = "#"
RETRY_TICKS: Final = 4
"""Heartbeats without an answer after which the next replica is asked."""


class _LogRead:
    """One read request of a client."""

    def __init__(self, client: str, asked: ReadEvents, log: LogDeclaration) -> None:
        self.client = client
        self.asked = asked
        self.log = log
        self.predicates: tuple[Predicate, ...] = ()
        self.tried: list[str] = []
        """Brokers that were asked; the last one is being asked now."""
        self.is_retryable = False
        """Whether a later attempt may succeed, because some replica could not answer now."""
        self.id = 0
        """Number of the request to the last broker, if that is another one."""
        self.ticks = 0

    @property
    def wanted(self) -> Wanted:
        asked = self.asked
        return Wanted(asked.position, asked.time_us, max(1, min(asked.size, FETCH_BYTES)), asked.waits)


class LogReads:
    def __init__(
        self, life: BrokerLife, table: LogTable, replicas: dict[str, LogReplica], port: LogPort, access: LogAccess
    ) -> None:
        self._life = life
        self._replicas = replicas
        self._port = port
        self._access = access
        self._table = table
        self._waiting: deque[_LogRead] = deque()
        """Reads whose clients have not received earlier pages, or have not paid for them."""
        self._local: list[_LogRead] = []
        """Reads at the replica of this broker."""
        self._remote: list[_LogRead] = []
        self._paid_us: dict[str, int] = {}
        """Time at which a client has paid for its reads, by client."""
        self._ids = 0

    # -- clients -------------------------------------------------------------------------------------------------------

    def ask(self, session: ClientSession, message: ReadEvents) -> None:
        log = self._table.find(message.journal.removeprefix(LOG_PREFIX)) if self.reads(message.journal) else None
        client = session.name
        refusal = self._unknown(message.journal) if log is None else self._refusal(client, message, log)
        if refusal or log is None:
            self._refuse(client, message, refusal)
        else:
            self._waiting.append(_LogRead(client, message, log))
            self._look()

    def _unknown(self, journal: str) -> str:
        names = self._table.names
        if journal.startswith(LOG_PREFIX):
            return f"there is no log {journal.removeprefix(LOG_PREFIX)}; the logs are: {names}"
        if not self._table.logs:
            return f"{self._life.seat.name} keeps no events: ask a broker that does"
        return f"events are not kept here: name a log ({names})"

    def reads(self, journal: str) -> bool:
        """Whether a client names a log by this."""
        return journal.startswith(LOG_PREFIX)

    def _refusal(self, client: str, message: ReadEvents, log: LogDeclaration) -> str:
        filters = _filters_of(message, log)
        if len(filters) > FILTERS_MAX:
            return f"{len(filters)} filters; {FILTERS_MAX} are the most that are read at once"
        for topic_filter in filters:
            try:
                check_filter(topic_filter)
            except UsageError as error:
                return str(error)
            if not self._access.may_read(client, topic_filter):
                return f"{client} may not subscribe to {topic_filter}"
            if not filter_covers(log.filter, topic_filter):
                return f"the log {log.name} keeps {log.filter}, and not all of {topic_filter}"
        if sum(read.client == client for read in self._all()) >= READS_MAX:
            return f"{READS_MAX} requests wait for their answers"
        return ""

    def _all(self) -> list[_LogRead]:
        return [*self._waiting, *self._local, *self._remote]

    def leave(self, client: str) -> None:
        """Drop the reads of a client whose session is over."""
        self._waiting = deque(read for read in self._waiting if read.client != client)
        self._local = [read for read in self._local if read.client != client]
        self._remote = [read for read in self._remote if read.client != client]

    def _refuse(self, client: str, asked: ReadEvents, reason: str, retryable: bool = False) -> None:
        end = EventsEnd(
            asked.id, asked.journal, max(0, asked.position), 0, 0, as_reason(reason), retryable=retryable
        )  # fmt: skip
        self._life.out.append(Send(client, end))

    # -- replicas ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Begin waiting reads, and ask the next replica if one does not answer."""
        for read in list(self._remote):
            read.ticks += 1
            if read.ticks >= RETRY_TICKS:
                self._remote.remove(read)
                read.is_retryable = True
                self._try_next(read)
        self._look()

    def _look(self) -> None:
        """Begin the waiting reads of clients that may receive another page."""
        now_us, waiting = self._life.now_us, self._waiting
        self._waiting = deque()
        for read in waiting:
            if self._paid_us.get(read.client, 0) > now_us or self._access.unread(read.client) > UNREAD_BYTES:
                self._waiting.append(read)
                continue
            where = read.asked.where
            self._charge(read.client, PARSE_STEPS * len(where or ""))
            try:
                filters = _filters_of(read.asked, read.log)
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
        """Ask the next replica; that of this broker comes first."""
        log, own, wanted = read.log, self._life.seat.name, read.wanted
        replica = self._replicas.get(log.key)
        if replica is not None and replica.can_read and own not in read.tried:
            read.tried.append(own)
            self._local.append(read)
            replica.reader.read(wanted, partial(self._found_here, read, replica))
            return
        read.is_retryable = read.is_retryable or (replica is not None and not replica.can_read)
        leader = (replica.leader,) if replica is not None else ()
        # a broker that is known as dead may have returned elsewhere: it is asked last
        for broker in sorted((*leader, *log.replicas), key=self._life.view.is_dead):
            if broker and broker != own and broker not in read.tried:
                read.tried.append(broker)
                read.ticks = 0
                self._ids += 1
                read.id = self._ids
                self._remote.append(read)
                ask = LogRead(log.key, read.id, wanted.offset, wanted.time_us, wanted.size, wanted.waits)
                self._port.send(broker, ask)
                return
        reason = reason or f"no replica of the log {log.name} answers"
        # a follower has seen this offset, so the log will have it again
        self._refuse(read.client, read.asked, reason, read.is_retryable or read.asked.waits or not read.tried)

    def _found_here(self, read: _LogRead, replica: LogReplica, page: FoundPage) -> None:
        if read in self._local:  # the client may have left
            self._local.remove(read)
            self._found(read, page, replica.state.origin)

    def hear(self, broker: str, message: LogPage) -> None:
        """Send the answer of a replica to the client that requested it."""
        for read in self._remote:
            if read.id == message.id and read.tried[-1] == broker:
                self._remote.remove(read)
                page = FoundPage(
                    message.begin, message.records, message.first, message.end, message.first_us, message.reason
                )
                self._found(read, page, message.origin)
                return

    # -- answers -------------------------------------------------------------------------------------------------------

    def _found(self, read: _LogRead, page: FoundPage, origin: int) -> None:
        asked, log = read.asked, read.log
        if page.reason:
            read.is_retryable = True
            self._try_next(read, page.reason)
        elif asked.position > page.end:
            self._try_next(read, f"the log {log.name} ends at offset {page.end}, and has no offset {asked.position}")
        elif 0 <= asked.position < page.first:
            gone = f"offsets {asked.position} to {page.first - 1} of the log {log.name} are not kept any more"
            self._refuse(read.client, asked, f"{gone}; it has {page.first} to {page.end - 1}")
        else:
            self._give(read, page, origin)

    def _give(self, read: _LogRead, page: FoundPage, origin: int) -> None:
        """Send a page to a client. A page ends before a gap, and one that begins at a gap is refused unless gaps are
        allowed."""
        asked, client, begin = read.asked, read.client, page.begin
        reason, steps, following = "", 0, begin
        gaps = [gap] if (gap := _dropped(read, page)) is not None else []
        if gaps and not asked.allow_gaps:
            reason = as_reason(f"messages before offset {begin} are missing: {gaps[0].reason}")
        where = read.predicates[0].where
        for entry in _entries(page.records) if not reason else ():
            if entry.following <= following:
                continue
            if entry.offset > following or (asked.until and following >= asked.until) or steps > PAGE_STEPS:
                break
            if entry.gap:
                cause = as_reason(f"log {read.log.name}: {entry.gap}")
                gap = EventGap(entry.offset, entry.following, 0, entry.time_us, cause)
                if not asked.allow_gaps and entry.offset == begin:
                    gaps, reason = [gap], as_reason(f"messages before offset {gap.following} are missing: {cause}")
                if not asked.allow_gaps or len(gaps) == GAPS_MAX:
                    break
                gaps.append(gap)
                following = entry.following
                continue
            part = part_of(entry, following, asked.until or entry.following)
            if part is None:
                reason = f"the entry at offset {entry.offset} of the log {read.log.name} cannot be read"
                break
            bundle, tseq = part
            steps += TOPIC_STEPS * (len(read.predicates) * len(bundle.topics) - 1)
            steps += where.price.most * bundle.count if where is not None else 0
            if (picked := picked_of(bundle, read.predicates)) is not None:
                event = EventRead(asked.id, *picked, tseq, following, origin, entry.time_us)
                self._life.out.append(Send(client, event))
            following += bundle.count
        self._charge(client, steps)
        answer = EventsEnd(
            asked.id, asked.journal, following, page.first, page.end, reason, origin, tuple(gaps), begin=begin
        )  # fmt: skip
        self._life.out.append(Send(client, answer))


def _filters_of(asked: ReadEvents, log: LogDeclaration) -> tuple[str, ...]:
    """Return the requested filters. `#` means all that the log keeps."""
    return tuple([log.filter if each == EVERYTHING else each for each in (asked.filter, *asked.also)])


def _entries(records: Sequence[bytes]) -> list[LogEntry]:
    return [entry for record in records if (entry := read_entry(record)) is not None]


def _dropped(read: _LogRead, page: FoundPage) -> EventGap | None:
    """Return the gap of messages that retention dropped after the requested time, or None."""
    since_us = read.asked.time_us if read.asked.position == BY_TIME else 0
    if not since_us or page.begin != page.first or not page.first or page.first_us <= since_us:
        return None
    cause = f"the log {read.log.name} does not keep them any longer"
    return EventGap(page.first, page.first, since_us, page.first_us, cause)


def part_of(entry: LogEntry, first: int, behind: int) -> tuple[Bundle, int] | None:
    """Return the messages of an entry from `first` up to, but not including, `behind`, and the place of the first of
    them in the total order. Returns None if the entry cannot be read."""
    bundle, tseq = entry.messages, entry.tseq
    if bundle is None or bundle.count != entry.count:
        return None
    try:
        if behind < entry.following:
            bundle, _ = split(bundle, bundle.first + behind - entry.offset - 1)
        if first > entry.offset:
            _, bundle = split(bundle, bundle.first + first - entry.offset - 1)
    except WireError:
        return None
    return bundle, tseq + (first - entry.offset if tseq >= 0 else 0)
