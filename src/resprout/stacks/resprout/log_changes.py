"""Commands that create, move and delete logs, and how the brokers of a tree learn of them.

A broker that takes a command changes its table and tells its neighbours, which tell theirs. Every few heartbeats each
broker sends its neighbours a digest of its table, and one whose digest differs answers with the whole table. So brokers
that were cut off or away learn what they have missed. Each broker keeps the table on its disk, if it has one.
"""

from collections.abc import Callable
from typing import Final

from resprout.core.contract import Send
from resprout.core.errors import UsageError, WireError
from resprout.core.limits import REASON_BYTES
from resprout.edge.broker.session import ClientSession
from resprout.edge.position_messages import ChangeLog, LogChange, LogChanged
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import LogPort, LogsDeclared
from resprout.logs.table import TABLE_MAX, DeclaredLog, LogTable
from resprout.stacks.resprout.life import BrokerLife

DIGEST_TICKS: Final = 8
"""Heartbeats between two digests."""


class LogChanges:
    def __init__(self, life: BrokerLife, table: LogTable, port: LogPort, declared: Callable[[], None]) -> None:
        """`declared` follows a change of the table."""
        self._life = life
        self._table = table
        self._port = port
        self._declared = declared
        self._ticks = 0
        self._answered: set[str] = set()
        """Brokers that were sent the table since the last heartbeat."""

    def ask(self, session: ClientSession, message: ChangeLog) -> None:
        reason = ""
        try:
            self._take(self._made(message))
        except UsageError as error:
            reason = str(error).encode()[:REASON_BYTES].decode(errors="ignore")
        self._life.out.append(Send(session.name, LogChanged(message.id, reason)))

    def _made(self, message: ChangeLog) -> DeclaredLog:
        """Return the declaration that a command wants. Raises UsageError if it cannot be carried out."""
        life = self._life
        if not life.is_settled:
            raise UsageError(f"{life.seat.name} has no settled place in the tree now: try again")
        if message.change is LogChange.DELETE:
            return self._table.changed(message.log, ())
        known = self._table.find(message.log)
        before = known.replicas if known is not None and message.change is LogChange.MOVE else ()
        new = [name for name in message.replicas if name not in before and name != life.seat.name]
        unknown = [name for name in new if name not in life.view.places or life.view.is_dead(name)]
        if unknown or not message.replicas:
            raise UsageError(
                f"replicas must be living brokers of the network: {', '.join(unknown) or 'none are named'}"
            )
        if message.change is LogChange.MOVE:
            return self._table.changed(message.log, message.replicas)
        log = LogDeclaration(
            message.log, message.filter, message.replicas, message.retain_bytes, message.retain_us, message.flush,
            message.segment_bytes, partitions=message.partitions, compact=message.compact,
            compact_grace_us=message.compact_grace_us, compact_bytes=message.compact_bytes,
        )  # fmt: skip
        return self._table.created(log, life.seat.epoch_us + life.now_us)

    def _take(self, made: DeclaredLog) -> None:
        if self._table.merge((made,)):
            self._declared()
            self._tell("")

    def _tell(self, source: str) -> None:
        """Tell the table to all neighbours but the one that it comes from."""
        for neighbour in self._life.view.neighbours:
            if neighbour != source:
                self._port.send(neighbour, LogsDeclared(self._table.told, self._table.digest))

    def tick(self) -> None:
        self._ticks += 1
        self._answered.clear()
        if self._ticks % DIGEST_TICKS == 0 and (digest := self._table.digest):
            for neighbour in self._life.view.neighbours:
                self._port.send(neighbour, LogsDeclared((), digest))

    def hear(self, broker: str, message: LogsDeclared) -> None:
        """Handle what a broker has declared. Raises WireError if an honest broker never sends it."""
        if len(message.logs) > 2 * TABLE_MAX:
            raise WireError(f"{len(message.logs)} declared logs")
        try:
            is_changed = self._table.merge(message.logs)
        except UsageError as error:
            raise WireError(f"a declaration of a log: {error}") from None
        if is_changed:
            self._declared()
            self._tell(broker)
        is_asked = is_changed or not message.logs
        if is_asked and self._table.digest != message.digest and broker not in self._answered:
            self._answered.add(broker)
            self._port.send(broker, LogsDeclared(self._table.told, self._table.digest))
