"""The declaration of a log: its name, what it keeps, where, and for how long. Every broker has the same ones."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.filters.predicate import check_filter
from resprout.journal.interface import Flush, JournalOptions

LOG_PREFIX: Final = "log."
"""Before the name of a log, in the name of its subscription and in its offsets."""
REPLICAS_MAX: Final = 9
NAME_BYTES: Final = 40
"""Of a log, and of a broker that keeps one: feeds and replicas have names that are made of them."""


class LogDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    filter: str
    """Messages on topics that match are kept."""
    replicas: tuple[str, ...]
    """The brokers that keep it. A log goes on while most of them live."""
    retain_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1 << 30
    """Entries are dropped, the oldest first and by segments, when a replica has more bytes than this."""
    retain_us: Annotated[int, msgspec.Meta(ge=0)] = 0
    """And when they are older than this; 0: whatever their age."""
    flush: Flush = Flush.ALWAYS
    """When votes are brought to the disk, as for a journal."""
    segment_bytes: Annotated[int, msgspec.Meta(ge=4_096, le=1 << 31)] = 16 << 20

    @property
    def subscription(self) -> str:
        """The name of the durable subscription that feeds it."""
        return f"{LOG_PREFIX}{self.name}"

    @property
    def votes(self) -> str:
        """The name of the store with what its replica must not forget."""
        return f"{self.name}.votes"

    @property
    def entries(self) -> str:
        """The name of the store with its entries."""
        return f"{self.name}.entries"

    @property
    def vote_options(self) -> JournalOptions:
        return JournalOptions(flush=self.flush, segment_bytes=self.segment_bytes)

    @property
    def entry_options(self) -> JournalOptions:
        """Entries are synced before votes are forgotten, and need no sync of their own before that."""
        return JournalOptions(
            flush=Flush.NEVER,
            segment_bytes=self.segment_bytes,
            retain_bytes=self.retain_bytes,
            retain_us=self.retain_us,
        )


def check_logs(logs: Sequence[LogDeclaration]) -> None:
    """Raise UsageError unless these can be declared together."""
    for log in logs:
        check_name(log.name, "name of a log")
        if len(log.name) > NAME_BYTES:
            raise UsageError(f"log {log.name!r}: its name is longer than {NAME_BYTES} characters")
        check_filter(log.filter)
        if not 0 < len(log.replicas) <= REPLICAS_MAX or len(set(log.replicas)) < len(log.replicas):
            raise UsageError(f"log {log.name!r}: it needs 1 to {REPLICAS_MAX} different brokers as replicas")
        for broker in log.replicas:
            check_name(broker, f"replica of the log {log.name!r}")
            if len(broker) > NAME_BYTES:
                raise UsageError(f"log {log.name!r}: the name of {broker} is longer than {NAME_BYTES} characters")
    names = [log.name for log in logs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"log {name!r} is declared more than once")
