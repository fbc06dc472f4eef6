"""The logs that a broker knows: those of its configuration, changed by what commands say.

Every broker has such a table, and neighbours exchange what commands have declared (`LogsDeclared`) until their tables
are equal. Of two declarations with one name, the one with the higher generation and version wins at every broker. A
deleted log stays in the table as a declaration without replicas, so that no broker that was away brings it back.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import COMPACT_BYTES, COMPACT_GRACE_US
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber, Microseconds, PartitionCount
from resprout.core.partitions import split_name
from resprout.journal.interface import Flush
from resprout.logs.declaration import LOG_PREFIX, LogDeclaration, SegmentBytes, check_log

TABLE_MAX: Final = 256
"""Most partitions of the logs that commands have declared. A log that has one, or was deleted, counts as one."""


class DeclaredLog(msgspec.Struct, frozen=True, array_like=True):
    """A declaration as it is sent, and kept on disk."""

    name: str
    filter: str
    replicas: tuple[str, ...]
    """No brokers: the log was deleted."""
    generation: BoundedNumber
    version: BoundedNumber
    retain_bytes: BoundedNumber
    retain_us: Microseconds
    flush: Flush
    segment_bytes: SegmentBytes
    partitions: PartitionCount = 1
    compact: bool = False
    compact_grace_us: Microseconds = COMPACT_GRACE_US
    compact_bytes: BoundedNumber = COMPACT_BYTES

    @property
    def size(self) -> int:
        """Number of partitions, or 1 for a deleted log."""
        return self.partitions if self.replicas else 1

    @property
    def rank(self) -> tuple[int, int, tuple[str, ...], str, int, bool]:
        """Value that is higher for the declaration that wins; the last parts make the choice equal everywhere."""
        return (self.generation, self.version, self.replicas, self.filter, self.partitions, self.compact)

    @property
    def log(self) -> LogDeclaration:
        return LogDeclaration(
            self.name, self.filter, self.replicas, self.retain_bytes, self.retain_us, self.flush, self.segment_bytes,
            self.generation, self.version, self.partitions, self.compact, self.compact_grace_us, self.compact_bytes,
        )  # fmt: skip


def declared(log: LogDeclaration) -> DeclaredLog:
    return DeclaredLog(
        log.name, log.filter, log.replicas, log.generation, log.version, log.retain_bytes, log.retain_us, log.flush,
        log.segment_bytes, log.partitions, log.compact, log.compact_grace_us, log.compact_bytes,
    )  # fmt: skip


def check_declared(log: DeclaredLog) -> None:
    """Check a declaration. Raises UsageError if it is not valid."""
    check_log(log.log if log.replicas else msgspec.structs.replace(log.log, replicas=("b",)))
    if not log.generation and not log.version:
        raise UsageError(f"log {log.name!r}: no command has declared it")


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[DeclaredLog, ...]).decode


class LogTable:
    def __init__(self, configured: Sequence[LogDeclaration], memory: bytes = b"") -> None:
        self._configured = {log.name: declared(log) for log in configured}
        self._all = dict(self._configured)
        if memory:
            self.merge(read_table(memory))

    @property
    def logs(self) -> tuple[LogDeclaration, ...]:
        """All logs that exist."""
        return tuple([one.log for one in self._all.values() if one.replicas])

    @property
    def parts(self) -> tuple[LogDeclaration, ...]:
        """The partitions of all logs that exist; a log with one partition stands for it."""
        return tuple([part for log in self.logs for part in log.parts])

    def find(self, name: str) -> LogDeclaration | None:
        found = self._all.get(name)
        return found.log if found is not None and found.replicas else None

    def find_part(self, name: str) -> LogDeclaration | None:
        """Return the partition of this name, or the log of this name, which may have several partitions."""
        log, number = split_name(name)
        found = self.find(log)
        if found is None or number is None:
            return found
        return found.parts[number] if 1 < found.partitions > number else None

    def not_found(self, name: str) -> str:
        """Return why there is no log or partition of this name."""
        log, number = split_name(name)
        found = self.find(log)
        if found is None or number is None:
            return f"there is no log {log}; the logs are: {self.names}"
        return f"the log {log} has no partition {number}: it has {found.partitions}"

    @property
    def names(self) -> str:
        return ", ".join(log.name for log in self.logs) or "none"

    @property
    def told(self) -> tuple[DeclaredLog, ...]:
        """What commands have declared, to be told to other brokers."""
        made = [one for one in self._all.values() if one.generation or one.version]
        return tuple(sorted(made, key=lambda one: one.name))

    @property
    def memory(self) -> bytes:
        """What the next life of this broker needs to know; empty if no command has declared anything."""
        return _encode(self.told) if self.told else b""

    @property
    def digest(self) -> int:
        """A checksum of `told`; 0 if there is nothing."""
        return zlib.crc32(_encode(self.told)) | 1 if self.told else 0

    def merge(self, others: Iterable[DeclaredLog]) -> bool:
        """Take over declarations that win against those in the table. Returns whether any does. Raises UsageError for
        one that is not valid."""
        is_changed, size = False, sum(each.size for each in self._all.values())
        for one in others:
            check_declared(one)
            known = self._all.get(one.name)
            if known is not None and known.rank >= one.rank:
                continue
            more = one.size - (known.size if known is not None else 0)
            if more > 0 and size + more > 2 * TABLE_MAX:
                continue
            size += more
            self._all[one.name] = one
            is_changed = True
        return is_changed

    def is_over(self, subscription: str) -> bool:
        """Whether a durable subscription fed a log that was deleted, or replaced by another one of its name."""
        for one in self._all.values():
            if subscription == one.log.subscription:
                return not one.replicas
        key = subscription.removeprefix(LOG_PREFIX)
        name, _, generation = key.rpartition(".")
        if name in self._all and generation.isdecimal():
            return int(generation[:17]) < self._all[name].generation
        return key != subscription and key in self._all  # it fed the configured log of this name

    # -- commands ------------------------------------------------------------------------------------------------------

    def created(self, log: LogDeclaration, time_us: int) -> DeclaredLog:
        """Return the declaration of a new log. Raises UsageError if its name is taken or it is not valid."""
        known = self._all.get(log.name)
        if known is not None and known.replicas:
            raise UsageError(f"there is a log {log.name} already; it keeps {known.filter}")
        size = sum(one.size for one in self.told if one.name != log.name) + log.partitions
        if (known is None or log.partitions > 1) and size > TABLE_MAX:
            raise UsageError(
                f"the network has had {TABLE_MAX} logs or partitions that commands have declared, the most it may"
            )
        last = known.generation if known is not None else 0
        made = declared(msgspec.structs.replace(log, generation=min(NUMBER_MAX, max(time_us, last + 1)), version=0))
        check_declared(made)
        return made

    def changed(self, name: str, replicas: tuple[str, ...]) -> DeclaredLog:
        """Return the declaration of a log with other replicas; with none, the log is deleted. Raises UsageError if
        there is no such log or the replicas are not valid."""
        known = self._all.get(name)
        if known is None or not known.replicas:
            raise UsageError(f"there is no log {name}; the logs are: {self.names}")
        made = msgspec.structs.replace(known, replicas=replicas, version=min(NUMBER_MAX, known.version + 1))
        check_declared(made)
        return made


def read_table(data: bytes) -> tuple[DeclaredLog, ...]:
    """Return the declarations of `LogTable.memory`. Raises UsageError if the bytes are not valid."""
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise UsageError(f"the declarations of logs on disk cannot be read: {error}") from None
