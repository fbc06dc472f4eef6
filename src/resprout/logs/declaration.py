"""The declaration of a log: name, filter, replicas and retention. All brokers have equal declarations.

A declaration comes from the configuration of all brokers, or from a command (`logs.table`). A log that is created again
under a name that was deleted is another log. It has another generation, and so other stores and another feed.

A log with `compact` keeps the last message of each key for ever (`logs.compaction`).
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import COMPACT_BYTES, COMPACT_GRACE_US, PARTITIONS, check_name
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber, Microseconds, PartitionCount
from resprout.core.partitions import partition_name
from resprout.filters.predicate import check_filter
from resprout.journal.interface import Flush, JournalOptions

LOG_PREFIX: Final = "log."
"""Prefix of a log's name in the name of its durable subscription and in offsets."""
REPLICAS_MAX: Final = 9
NAME_BYTES: Final = 40
"""Most characters in the name of a log or of a replica's broker, because feeds and replicas are named after both."""


COMPACTED: Final = 2
"""Stores for compacted entries: one in use, and one that the next compaction writes."""

SegmentBytes = Annotated[int, msgspec.Meta(ge=4_096, le=1 << 31)]


class LogDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    filter: str
    """Topic filter; the log keeps the messages that match."""
    replicas: tuple[str, ...]
    """Names of the brokers that keep a replica. The log accepts messages while a majority of them runs."""
    retain_bytes: BoundedNumber = 1 << 30
    """Most bytes of entries at a replica. Beyond it the replica drops its oldest segments."""
    retain_us: Microseconds = 0
    """Age beyond which a replica drops its oldest segments; 0 for no limit."""
    flush: Flush = Flush.ALWAYS
    """Policy by which votes are synced to disk, as for a journal."""
    segment_bytes: SegmentBytes = 16 << 20
    generation: BoundedNumber = 0
    """Number of the command that created the log; 0 for a log of the configuration."""
    version: BoundedNumber = 0
    """Number of the last change of this declaration by a command."""
    partitions: PartitionCount = 1
    """Number of partitions (`logs.partitions`). With one, the log keeps one order of all its messages."""
    compact: bool = False
    """Whether replicas drop messages that have a later one with the same topic and keys. They retain the others."""
    compact_grace_us: Microseconds = COMPACT_GRACE_US
    """Age beyond which a compacted log drops a tombstone, which is a message with an empty payload."""
    compact_bytes: BoundedNumber = COMPACT_BYTES
    """Bytes of new entries after which a replica compacts, if they are as many as those that it kept last time."""

    @property
    def parts(self) -> tuple["LogDeclaration", ...]:
        """The declarations of the partitions, each of which is a log of its own; the log itself if it has one. Their
        first replicas, which found them and lead them first, take turns."""
        if self.partitions == 1:
            return (self,)
        return tuple([self._part(number) for number in range(self.partitions)])

    def _part(self, number: int) -> "LogDeclaration":
        turn = number % len(self.replicas) if self.replicas else 0
        replicas = (*self.replicas[turn:], *self.replicas[:turn])
        name = partition_name(self.name, number)
        return msgspec.structs.replace(self, name=name, replicas=replicas, partitions=1)

    @property
    def key(self) -> str:
        """Name of the log among brokers, which differs for an earlier log of the same name."""
        return f"{self.name}.{self.generation}" if self.generation else self.name

    @property
    def journal(self) -> str:
        """Name of the log in offsets."""
        return f"{LOG_PREFIX}{self.name}"

    @property
    def subscription(self) -> str:
        """Name of the durable subscription that feeds the log."""
        return f"{LOG_PREFIX}{self.key}"

    @property
    def votes(self) -> str:
        """Name of the store with a replica's identity, votes and snapshots."""
        return f"{self.key}.votes"

    @property
    def entries(self) -> str:
        """Name of the store with a replica's entries."""
        return f"{self.key}.entries"

    @property
    def compacted(self) -> tuple[str, ...]:
        """Names of the stores with compacted entries; none unless the log is compacted."""
        return tuple([f"{self.key}.compacted{number}" for number in range(COMPACTED)]) if self.compact else ()

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of all stores of a replica."""
        return (self.votes, self.entries, *self.compacted)

    @property
    def vote_options(self) -> JournalOptions:
        return JournalOptions(flush=self.flush, segment_bytes=self.segment_bytes)

    @property
    def entry_options(self) -> JournalOptions:
        """Journal options of the entries. They need no sync of their own: a replica syncs them before it drops
        votes. Of a compacted log, entries are dropped by compaction alone."""
        if self.compact:
            return JournalOptions(flush=Flush.NEVER, segment_bytes=self.segment_bytes, retain_bytes=NUMBER_MAX)
        return JournalOptions(
            flush=Flush.NEVER,
            segment_bytes=self.segment_bytes,
            retain_bytes=self.retain_bytes,
            retain_us=self.retain_us,
        )


def check_log(log: LogDeclaration) -> None:
    """Check one declaration. Raises UsageError if it is not valid."""
    check_name(log.name, "name of a log")
    if len(log.name) > NAME_BYTES:
        raise UsageError(f"log {log.name!r}: its name is longer than {NAME_BYTES} characters")
    check_filter(log.filter)
    if not 0 < len(log.replicas) <= REPLICAS_MAX or len(set(log.replicas)) < len(log.replicas):
        raise UsageError(f"log {log.name!r}: it needs 1 to {REPLICAS_MAX} different brokers as replicas")
    if log.compact and log.retain_us:
        raise UsageError(f"log {log.name!r}: a compacted log keeps the last message of each key for ever: no `retain`")
    if not 1 <= log.partitions <= PARTITIONS:
        raise UsageError(f"log {log.name!r}: it has 1 to {PARTITIONS} partitions, not {log.partitions}")
    for broker in log.replicas:
        check_name(broker, f"replica of the log {log.name!r}")
        if len(broker) > NAME_BYTES:
            raise UsageError(f"log {log.name!r}: the name of {broker} is longer than {NAME_BYTES} characters")


def check_logs(logs: Sequence[LogDeclaration]) -> None:
    """Check the declarations one by one and together. Raises UsageError for the first that is not valid."""
    for log in logs:
        check_log(log)
    names = [log.name for log in logs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"log {name!r} is declared more than once")
