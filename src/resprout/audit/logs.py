"""Rules about logs. They compare the contents of replicas at the end of a run, and the pages that clients have read,
with what was published.

Each partition of a log with several is judged as a log of its own, which keeps the messages of that partition.

- `log_kept`: a replica holds only messages that were published before and match the log's filter, each of them once,
  at offsets without holes.
  A log that is compacted has holes where a replica has dropped messages. Each of them must be published and match like
  the others, and the log must hold a later message with the same topic and keys, or it is a tombstone that was past its
  grace time.
- `log_complete`: every replica whose broker runs has all owed messages (`audit.loss`) that match and were published
  after the log was first fed, and these replicas end at the same offset. This is judged only if the run came to rest
  with all links whole and no node frozen, more than half of the replicas run, and the stack promises more than a
  probability. Retention allows as many missing messages as it has dropped. If a log has a gap mark, only messages
  after its latest feeding began count. Messages that compaction has dropped were there.
- `log_same`: an offset has the same message, bytes and place in the total order at every replica and for every
  reader, and replicas have gap marks at the same offsets.
- `log_order`: see `audit.log_order`.
- `log_gap`: a log has gap marks only if a node or a link failed before.
- `log_read`: a page has every message that was requested in its range of offsets, in order, but for those that a
  replica had dropped by compaction before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from resprout.audit.history import History
from resprout.audit.interest import matches
from resprout.audit.records import MessageId, PublicationRecord, identity_of, predicate_of, seconds
from resprout.audit.verdict import Anomaly
from resprout.core.partitions import partition_of
from resprout.filters.predicate import Predicate
from resprout.trace import kinds
from resprout.trace.schema import Row, TraceError

LOG_RULES: Final = ("log_kept", "log_complete", "log_same", "log_order", "log_gap", "log_read")
NO_LOGS: Final = "the trace holds no log"
NO_READS: Final = "no client read a log"


class LoggedMessage(NamedTuple):
    position: int
    row: int
    time_us: int
    node: str
    id: MessageId
    crc: str
    tseq: int | None


class GapMark(NamedTuple):
    position: int
    reason: str
    time_us: int


class DroppedMessage(NamedTuple):
    """A message that a replica has dropped by compaction."""

    message: LoggedMessage
    is_empty: bool
    """Whether its payload is empty, so that it is a tombstone."""
    age_us: int
    """Age of its entry when it was dropped."""


class LogPage(NamedTuple):
    row: int
    node: str
    time_us: int
    begin: int
    end: int
    predicate: Predicate
    messages: tuple[LoggedMessage, ...]


class ReplicaRecord(msgspec.Struct):
    messages: list[LoggedMessage] = msgspec.field(default_factory=list)
    gaps: list[GapMark] = msgspec.field(default_factory=list)
    first: int = 0
    end: int = 0
    runs: bool = False
    """Whether its broker runs at the end."""
    time_us: int = 0
    compacted: int = 0
    """Offset behind its compacted part."""


class LogRecord:
    """The rows about one log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.predicate: Predicate | None = None
        self.partition, self.partitions = 0, 1
        """Of the messages that match, it keeps those of this partition."""
        self.brokers: tuple[str, ...] = ()
        """Brokers that are declared to keep a replica."""
        self.grace_us: int | None = None
        """Age at which tombstones are dropped; None unless the log is compacted."""
        self.dropped: list[DroppedMessage] = []
        self.dropped_at: dict[int, int] = {}
        """Row of the first note that a message was dropped, by its offset."""
        self.fed: list[int] = []
        """Numbers of the rows at which a broker began to feed the log."""
        self.replicas: dict[str, ReplicaRecord] = {}
        self.pages: list[LogPage] = []
        self.reading: dict[str, list[LoggedMessage]] = {}
        """Messages of the page that a client is still reading, by client."""

    def replica(self, node: str) -> ReplicaRecord:
        return self.replicas.setdefault(node, ReplicaRecord())

    @property
    def has_gaps(self) -> bool:
        return any(replica.gaps for replica in self.replicas.values())

    @property
    def first(self) -> int:
        """The first offset that some running replica still has."""
        return min((replica.first for replica in self.replicas.values() if replica.runs), default=0)

    def agreed(self) -> dict[int, LoggedMessage]:
        """Return the message at each offset, as the first replica by name has it, or else as it was dropped."""
        found: dict[int, LoggedMessage] = {}
        for node in sorted(self.replicas):
            for message in self.replicas[node].messages:
                found.setdefault(message.position, message)
        for dropped in self.dropped:
            found.setdefault(dropped.message.position, dropped.message)
        return dict(sorted(found.items()))

    def told_safe(self) -> Iterator[MessageId]:
        return iter(())

    @property
    def blocks_at_end(self) -> bool:
        """Whether no majority of its replicas runs, so that the log accepts nothing from its feed."""
        running = sum(replica.runs for replica in self.replicas.values())
        return 2 * running <= len(self.brokers)

    def keeps(self, p: PublicationRecord) -> bool:
        """Whether the log keeps a publication, as it is declared."""
        is_here = self.partitions == 1 or partition_of(p.topic, p.keys, self.partitions) == self.partition
        return is_here and self.predicate is not None and matches(self.predicate, p)

    def may_hold(self, p: PublicationRecord) -> bool:
        return self.blocks_at_end and self.keeps(p)

    def may_block(self, p: PublicationRecord) -> bool:
        return self.may_hold(p)

    def is_judged_for_loss(self, history: History) -> bool:
        is_kept = bool(self.fed) and self.predicate is not None and not self.blocks_at_end
        return is_kept and history.is_whole and not history.promise.is_probable


def read_logs(logged: Sequence[tuple[int, Row]]) -> list[LogRecord]:
    """Return the logs of a trace. Raises TraceError for rows that contradict their kind."""
    found: dict[str, LogRecord] = {}
    for number, row in logged:
        about = row.attributes or {}
        if "log" not in about:
            raise TraceError(f"row {number}: a {row.kind} row without the name of a log")
        log = found.setdefault(about["log"], LogRecord(about["log"]))
        if row.kind == kinds.LOG_DECLARED:
            log.predicate = predicate_of(number, row)
            log.brokers = tuple(about.get("replicas", "").split())
            log.grace_us = _number(number, row, "grace") if "grace" in about else None
            if "partitions" in about:
                log.partition, log.partitions = _number(number, row, "partition"), _number(number, row, "partitions")
                if not 0 <= log.partition < log.partitions:
                    raise TraceError(f"row {number}: partition {log.partition} of {log.partitions}")
        elif row.kind == kinds.LOG_FED:
            log.fed.append(number)
        elif row.kind == kinds.LOG_KEPT:
            log.replica(row.node).messages.append(_message(number, row))
        elif row.kind == kinds.LOG_COMPACTED:
            age_us = _number(number, row, "until") - _number(number, row, "at")
            log.dropped.append(DroppedMessage(_message(number, row), "empty" in about, age_us))
            log.dropped_at.setdefault(_offset(number, row), number)
        elif row.kind == kinds.LOG_GAP:
            gap = GapMark(_offset(number, row), row.detail or "", row.time_us)
            log.replica(row.node).gaps.append(gap)
        elif row.kind == kinds.LOG_END:
            replica = log.replica(row.node)
            replica.first, replica.end = _number(number, row, "first"), _number(number, row, "end")
            replica.runs, replica.time_us = "runs" in about, row.time_us
            replica.compacted = _number(number, row, "compacted") if "compacted" in about else 0
        elif row.kind == kinds.LOG_READ:
            log.reading.setdefault(row.node, []).append(_message(number, row))
        else:
            messages = tuple(log.reading.pop(row.node, ()))
            begin, end = _number(number, row, "from"), _number(number, row, "until")
            log.pages.append(LogPage(number, row.node, row.time_us, begin, end, predicate_of(number, row), messages))
    return list(found.values())


def check_logs(history: History, logs: Iterable[LogRecord], owed: bytearray) -> Iterator[Anomaly]:
    for log in logs:
        for node in sorted(log.replicas):
            yield from _check_kept(history, log, node)
        yield from _check_dropped(history, log)
        yield from _check_same(history, log)
        yield from _gaps(history, log)
        agreed = log.agreed()
        for page in log.pages:
            yield from _check_page(history, log, page, agreed)
        if log.is_judged_for_loss(history):
            yield from _behind(log)
            yield from _missing(history, log, owed, agreed)


def log_notes(history: History, logs: Sequence[LogRecord]) -> dict[str, str]:
    """Return notes on rules that were judged only in part, by rule."""
    unjudged = sum(not log.is_judged_for_loss(history) for log in logs)
    return {"log_complete": unjudged_note(unjudged, len(logs))} if unjudged else {}


def unjudged_note(unjudged: int, logs: int) -> str:
    return f"what is missing was not judged in {unjudged} of {logs} logs"


def log_skips(logs: Sequence[LogRecord]) -> dict[str, str]:
    """Return reasons why the trace cannot break a rule, by rule."""
    if not logs:
        return dict.fromkeys(LOG_RULES, NO_LOGS)
    return {} if any(log.pages for log in logs) else {"log_read": NO_READS}


# -- what a replica keeps ---------------------------------------------------------------------------------------------


def _check_kept(history: History, log: LogRecord, node: str) -> Iterator[Anomaly]:
    replica = log.replicas[node]
    seen: dict[MessageId, int] = {}
    for message in replica.messages:
        p = history.published(message.id)
        what = ""
        if p is None or p.row > message.row:
            what = "which was not published before"
        elif log.predicate is not None and not log.keeps(p):
            what = f"on {p.topic}, which it does not match"
        elif (before := seen.setdefault(message.id, message.position)) != message.position:
            what = f"which it has at {before}"
        if what:
            yield _anomaly("log_kept", history, log, message, f"{node} keeps", what)
    gaps = {gap.position for gap in replica.gaps}
    gaps |= {position for position in log.dropped_at if position < replica.compacted}
    places = [replica.first - 1, *[message.position for message in replica.messages], replica.end]
    for last, position in pairwise(places):
        if position <= last or any(between not in gaps for between in range(last + 1, position)):
            text = f"{log.name}: {node} keeps nothing between {last} and {position}"
            yield Anomaly("log_kept", replica.time_us, node, (), text)


def _check_dropped(history: History, log: LogRecord) -> Iterator[Anomaly]:
    """Check that each dropped message has a later one with the same key in the log, or is an old tombstone."""
    if not log.dropped:
        return
    last: dict[tuple[str, tuple[str, ...]], int] = {}
    for position, message in log.agreed().items():
        if (p := history.published(message.id)) is not None:
            last[p.topic, p.keys] = position
    for message, is_empty, age_us in log.dropped:
        p = history.published(message.id)
        is_old = is_empty and log.grace_us is not None and age_us >= log.grace_us
        what = ""
        if p is None or p.row > message.row:
            what = "which was not published before"
        elif log.predicate is not None and not log.keeps(p):
            what = f"on {p.topic}, which it does not match"
        elif log.grace_us is None:
            what = "though the log is not compacted"
        elif last.get((p.topic, p.keys), -1) <= message.position and not is_old:
            what = "which is the last one of its key"
        if what:
            yield _anomaly("log_kept", history, log, message, f"{message.node} drops", what)


def _check_same(history: History, log: LogRecord) -> Iterator[Anomaly]:
    first = log.agreed()
    reads = [message for page in log.pages for message in page.messages]
    kept = [message for node in sorted(log.replicas) for message in log.replicas[node].messages]
    for message in (*kept, *reads, *[dropped.message for dropped in log.dropped]):
        other = first.get(message.position)
        if other is None or other.node == message.node:
            continue
        if other.id != message.id:
            what = f"where {other.node} has {history.naming.message(other.id)}"
        elif other.crc != message.crc:
            what = f"with other bytes than {other.node}"
        elif None not in (other.tseq, message.tseq) and other.tseq != message.tseq:
            what = f"as the total at {message.tseq}, and {other.node} at {other.tseq}"
        else:
            continue
        yield _anomaly("log_same", history, log, message, f"{message.node} has", what)
    yield from _check_same_gaps(log)


def _check_same_gaps(log: LogRecord) -> Iterator[Anomaly]:
    nodes = sorted(log.replicas)
    marks = {node: {gap.position: gap for gap in log.replicas[node].gaps} for node in nodes}
    for node in nodes:
        for other in nodes:
            there = log.replicas[other]
            for position, gap in marks[node].items():
                if there.first <= position < there.end and position not in marks[other]:
                    text = f"{log.name}: {node} has a gap mark at {position}, and {other} has none there"
                    yield Anomaly("log_same", gap.time_us, other, (), text)


def _gaps(history: History, log: LogRecord) -> Iterator[Anomaly]:
    told: set[int] = set()
    for node in sorted(log.replicas):
        for gap in log.replicas[node].gaps:
            if gap.position not in told and not history.shaken_before(gap.time_us):
                told.add(gap.position)
                text = f"{log.name}: {node} has a gap mark at {gap.position} ({gap.reason}), and nothing had failed"
                yield Anomaly("log_gap", gap.time_us, node, (), text)


# -- what is missing --------------------------------------------------------------------------------------------------


def _behind(log: LogRecord) -> Iterator[Anomaly]:
    running = {node: replica for node, replica in log.replicas.items() if replica.runs}
    end, furthest = max((replica.end, node) for node, replica in running.items())
    for node in sorted(running):
        replica = running[node]
        if replica.end < end:
            text = f"{log.name}: {node} ends at {replica.end}, and {furthest} at {end}"
            yield Anomaly("log_complete", replica.time_us, node, (), text)


def _missing(
    history: History, log: LogRecord, owed: bytearray, agreed: Mapping[int, LoggedMessage]
) -> Iterator[Anomaly]:
    assert log.predicate is not None, "it is judged"
    since = max(log.fed) if log.has_gaps else min(log.fed)
    there = {message.id for message in agreed.values()}
    missing = [
        p for p in history.publications if p.row > since and owed[p.number] and p.id not in there and log.keeps(p)
    ]
    if len(missing) > log.first:
        for p in missing:
            name = history.name(p.number)
            text = f"{log.name}: it lacks {name}, published on {p.topic} at {seconds(p.time_us)}"
            yield Anomaly("log_complete", p.time_us, log.name, (name,), text)


# -- what clients read ------------------------------------------------------------------------------------------------


def _check_page(
    history: History, log: LogRecord, page: LogPage, agreed: Mapping[int, LoggedMessage]
) -> Iterator[Anomaly]:
    says = f"{page.node} was given"
    last = page.begin - 1
    had: set[int] = set()
    for message in page.messages:
        had.add(message.position)
        p = history.published(message.id)
        if not last < message.position < page.end:
            what = f"in a page from {page.begin} up to {page.end}" + (f", after {last}" if last >= page.begin else "")
            yield _anomaly("log_read", history, log, message, says, what)
        elif p is not None and not matches(page.predicate, p):
            yield _anomaly("log_read", history, log, message, says, f"on {p.topic}, for which it did not ask")
        last = max(last, message.position)
    for position in range(page.begin, page.end):
        kept = agreed.get(position)
        p = history.published(kept.id) if kept is not None else None
        is_dropped = log.dropped_at.get(position, page.row) < page.row
        if kept is not None and p is not None and not (position in had or is_dropped) and matches(page.predicate, p):
            what = f"in a page from {page.begin} up to {page.end} that it read at {seconds(page.time_us)}"
            name = history.naming.message(kept.id)
            text = f"{log.name}: {page.node} was not given {name} at {position}, {what}"
            yield Anomaly("log_read", page.time_us, page.node, (name,), text)


# -- rows -------------------------------------------------------------------------------------------------------------


def _message(number: int, row: Row) -> LoggedMessage:
    id = identity_of(number, row)
    crc = (row.attributes or {}).get("crc", "")
    return LoggedMessage(_offset(number, row), number, row.time_us, row.node, id, crc, row.tseq)


def _offset(number: int, row: Row) -> int:
    if row.position is None or row.position < 0:
        raise TraceError(f"row {number}: a {row.kind} row without position")
    return row.position


def _number(number: int, row: Row, name: str) -> int:
    text = (row.attributes or {}).get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise TraceError(f"row {number}: {text!r} is no offset")
    return int(text)


def _anomaly(rule: str, history: History, log: LogRecord, message: LoggedMessage, says: str, what: str) -> Anomaly:
    name = history.naming.message(message.id)
    text = f"{log.name}: {says} {name} at {message.position}, {what}"
    return Anomaly(rule, message.time_us, message.node, (name,), text)
