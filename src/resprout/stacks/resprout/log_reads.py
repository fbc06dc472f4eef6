"""Reads of logs: a client asks any broker, which reads its own replica or asks another one.

An entry never changes, so any replica that has it may serve it. A replica that is incomplete, or follows no leader,
does not serve reads, because it may lack entries unknowingly. If one replica cannot answer, the next one is asked.

Offsets count messages, and a page may begin and end in the middle of an entry.

A client may read exactly what it may subscribe to (`LogAccess`). Pages are not counted in the window of a session, so a
client gets the next page only after it has received most of the last one. The steps that searching entries takes are
charged to its party (its identity, or the client itself), and the party gets the next page once they are paid off with
time. A party has few pages read at a time, and only a part of the reads that may wait at the end of logs.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from resprout.core.bundle import Bundle, split
from resprout.core.contract import Send
from resprout.core.errors import UsageError, WireError
from resprout.core.partitions import partition_name
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
LOCAL_TICKS: Final = 40
"""The same for the disk of this broker."""
ENTRY_STEPS: Final = 25
"""Steps that decoding an entry takes which the client does not get."""
PAGES_OF_PARTY: Final = 4
"""Most pages that are being read for one party."""
FOLLOWING_MAX: Final = 512
"""Most reads that wait for more entries; a party has at most a quarter of what others leave."""
FOLLOWING_OF_PARTY_MIN: Final = 16
"""Number of such reads that each party may have."""
LOOKS: Final = 16
"""Most waiting reads of a party that are looked at when one of its reads ends."""


class _Party:
    """Reads of the clients of one identity, or of one client without an identity."""

    def __init__(self) -> None:
        self.waiting: deque[_LogRead] = deque()
        """Reads that may not begin yet."""
        self.pages = 0
        """Number of running reads that do not follow a log."""
        self.following = 0
        """Number of running reads that follow a log."""
        self.paid_us = 0
        """Time at which it has paid for its reads."""
        self.is_looked_at = False


class _LogRead:
    """One read request of a client."""

    def __init__(self, client: str, party: str, asked: ReadEvents, log: LogDeclaration) -> None:
        self.client = client
        self.party = party
        self.follows = False
        """Whether it was at the end of the log when it began, so that it waits for more entries."""
        self.has_left = False
        """Whether the client's session is over."""
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
        self._reads: dict[str, dict[_LogRead, None]] = {}
        """Reads that are not answered, by client."""
        self._parties: dict[str, _Party] = {}
        self._local: dict[_LogRead, None] = {}
        """Reads at the replica of this broker."""
        self._remote: dict[int, _LogRead] = {}
        """Reads at replicas of other brokers, by the number of the request."""
        self._following = 0
        """Number of running reads that follow a log."""
        self._ends: dict[str, int] = {}
        """Offset behind the last message, as last heard of, by log."""
        self._ids = 0

    # -- clients -------------------------------------------------------------------------------------------------------

    def ask(self, session: ClientSession, message: ReadEvents) -> None:
        log = self._table.find_part(message.journal.removeprefix(LOG_PREFIX)) if self.reads(message.journal) else None
        client = session.name
        refusal = self._unknown(message.journal) if log is None else self._refusal(client, message, log)
        if refusal or log is None:
            self._refuse(client, message, refusal)
        elif log.partitions > 1:
            self._refuse(client, message, name_partition(log), partitions=log.partitions)
        else:
            read = _LogRead(client, session.identity or client, message, log)
            self._reads.setdefault(client, {})[read] = None
            party = self._parties.setdefault(read.party, _Party())
            party.waiting.append(read)
            self._look(party)

    def _unknown(self, journal: str) -> str:
        names = self._table.names
        if journal.startswith(LOG_PREFIX):
            return self._table.not_found(journal.removeprefix(LOG_PREFIX))
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
        if len(self._reads.get(client, ())) >= READS_MAX:
            return f"{READS_MAX} requests wait for their answers"
        return ""

    def leave(self, client: str) -> None:
        """Drop the reads of a client whose session is over. Those that run count until they end."""
        for read in self._reads.pop(client, ()):
            read.has_left = True

    def _refuse(
        self, client: str, asked: ReadEvents, reason: str, retryable: bool = False, partitions: int = 0
    ) -> None:
        end = EventsEnd(
            asked.id, asked.journal, max(0, asked.position), 0, 0, as_reason(reason), retryable=retryable,
            partitions=partitions,
        )  # fmt: skip
        self._life.out.append(Send(client, end))

    # -- replicas ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Begin waiting reads, and ask the next replica if one does not answer."""
        for read in list(self._remote.values()):
            read.ticks += 1
            if read.ticks >= RETRY_TICKS:
                del self._remote[read.id]
                read.is_retryable = True
                self._try_next(read)
        for read in list(self._local):
            read.ticks += 1
            if read.ticks >= LOCAL_TICKS:
                del self._local[read]
                read.is_retryable = True
                self._try_next(read)
        for name, party in list(self._parties.items()):
            self._look(party)
            if not (party.waiting or party.pages or party.following) and party.paid_us <= self._life.now_us:
                del self._parties[name]

    def _look(self, party: _Party) -> None:
        """Begin waiting reads of a party, as far as it may have more pages read."""
        if party.is_looked_at:  # a read that was begun has ended at once
            return
        party.is_looked_at = True
        for _ in range(min(LOOKS, len(party.waiting))):
            if party.paid_us > self._life.now_us:
                break
            read = party.waiting.popleft()
            if read.has_left:
                continue
            if self._may_begin(read, party):
                self._begin(read, party)
            else:
                party.waiting.append(read)
        party.is_looked_at = False

    def _may_begin(self, read: _LogRead, party: _Party) -> bool:
        if self._access.unread(read.client) > UNREAD_BYTES:
            return False
        replica = self._replicas.get(read.log.key)
        end = replica.state.end if replica is not None and replica.can_read else self._ends.get(read.log.key)
        read.follows = read.asked.waits and end is not None and read.asked.position >= end
        if not read.follows:
            return party.pages < PAGES_OF_PARTY
        return party.following < max(FOLLOWING_OF_PARTY_MIN, (FOLLOWING_MAX - self._following) // 4)

    def _begin(self, read: _LogRead, party: _Party) -> None:
        party.following += read.follows
        party.pages += not read.follows
        self._following += read.follows
        where = read.asked.where
        self._charge(read, PARSE_STEPS * len(where or ""))
        try:
            filters = _filters_of(read.asked, read.log)
            read.predicates = tuple([parse_predicate(each, where) for each in filters])
        except UsageError as error:
            self._fail(read, str(error))
        else:
            self._try_next(read)

    def _charge(self, read: _LogRead, steps: int) -> None:
        party = self._parties[read.party]
        party.paid_us = max(self._life.now_us, party.paid_us) + steps * 1_000_000 // STEPS_PER_SECOND

    def _fail(self, read: _LogRead, reason: str, retryable: bool = False) -> None:
        """End a running read with a reason."""
        if not read.has_left:
            self._refuse(read.client, read.asked, reason, retryable)
        self._end(read)

    def _end(self, read: _LogRead) -> None:
        """Forget a running read, and begin others of its party."""
        party = self._parties[read.party]
        party.following -= read.follows
        party.pages -= not read.follows
        self._following -= read.follows
        if (reads := self._reads.get(read.client)) is not None:
            reads.pop(read, None)
            if not reads:
                del self._reads[read.client]
        self._look(party)

    def _try_next(self, read: _LogRead, reason: str = "") -> None:
        """Ask the next replica; that of this broker comes first."""
        log, own, wanted = read.log, self._life.seat.name, read.wanted
        replica = self._replicas.get(log.key)
        if replica is not None and replica.can_read and own not in read.tried:
            read.tried.append(own)
            read.ticks = 0
            self._local[read] = None
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
                self._remote[read.id] = read
                ask = LogRead(log.key, read.id, wanted.offset, wanted.time_us, wanted.size, wanted.waits)
                self._port.send(broker, ask)
                return
        reason = reason or f"no replica of the log {log.name} answers"
        # a follower has seen this offset, so the log will have it again
        self._fail(read, reason, read.is_retryable or read.asked.waits or not read.tried)

    def _found_here(self, read: _LogRead, replica: LogReplica, page: FoundPage) -> None:
        if read in self._local:  # it may have taken too long
            del self._local[read]
            self._found(read, page, replica.state.origin)

    def hear(self, broker: str, message: LogPage) -> None:
        """Send the answer of a replica to the client that requested it."""
        read = self._remote.get(message.id)
        if read is not None and read.tried[-1] == broker:
            del self._remote[read.id]
            page = FoundPage(
                message.begin, message.records, message.first, message.end, message.first_us, message.reason,
                min(message.compacted, message.end), min(message.covered, message.end),
            )  # fmt: skip
            self._found(read, page, message.origin)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _found(self, read: _LogRead, page: FoundPage, origin: int) -> None:
        asked, log = read.asked, read.log
        if read.has_left:
            self._end(read)
        elif page.reason:
            read.is_retryable = True
            self._try_next(read, page.reason)
        elif asked.position > page.end:
            self._try_next(read, f"the log {log.name} ends at offset {page.end}, and has no offset {asked.position}")
        elif 0 <= asked.position < page.first:
            gone = f"offsets {asked.position} to {page.first - 1} of the log {log.name} are not kept any more"
            self._fail(read, f"{gone}; it has {page.first} to {page.end - 1}")
        else:
            self._ends[log.key] = page.end
            self._give(read, page, origin)
            self._end(read)

    def _give(self, read: _LogRead, page: FoundPage, origin: int) -> None:
        """Send a page to a client. A page ends before a gap, and one that begins at a gap is refused unless gaps are
        allowed. Holes that compaction has made are no gaps: it goes on behind them."""
        asked, client, begin = read.asked, read.client, page.begin
        reason, steps, following = "", 0, begin
        gaps = [gap] if (gap := _dropped(read, page)) is not None else []
        if gaps and not asked.allow_gaps:
            reason = as_reason(f"messages before offset {begin} are missing: {gaps[0].reason}")
        where = read.predicates[0].where
        for entry in _entries(page.records) if not reason else ():
            if entry.following <= following:
                steps += ENTRY_STEPS
                continue
            if following < entry.offset <= page.compacted:
                following = min(entry.offset, asked.until or entry.offset)
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
            picked = picked_of(bundle, read.predicates)
            if picked is None:
                steps += ENTRY_STEPS
            else:
                event = EventRead(asked.id, *picked, tseq, following, origin, entry.time_us)
                self._life.out.append(Send(client, event))
            following += bundle.count
        else:
            if page.covered and not reason:  # the rest of what was compacted is a hole
                following = max(following, min(page.covered, asked.until or page.covered))
        self._charge(read, steps)
        answer = EventsEnd(
            asked.id, asked.journal, following, page.first, page.end, reason, origin, tuple(gaps), begin=begin
        )  # fmt: skip
        self._life.out.append(Send(client, answer))


def name_partition(log: LogDeclaration) -> str:
    """Return why a request for a log with several partitions is refused. Clients that know partitions ask for each."""
    last = partition_name(log.name, log.partitions - 1)
    return f"the log {log.name} has {log.partitions} partitions: name one, {partition_name(log.name, 0)} to {last}"


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
