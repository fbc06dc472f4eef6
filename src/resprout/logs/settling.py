"""Stored positions at one replica: the leader proposes changes, and answers brokers once they are applied."""

from collections.abc import Callable, Iterable
from typing import Final

from resprout.core import limits
from resprout.logs.messages import LogPort, LogSettle, LogSettled
from resprout.logs.positions import ASK, PositionCommand, position_command
from resprout.logs.state import LogState

WAITING_MAX: Final = 4_096
"""Most changes that are proposed and not applied yet. Requests beyond it get no answer, and are repeated."""

Propose = Callable[[bytes], bool]


class PositionSettling:
    def __init__(self, state: LogState, port: LogPort) -> None:
        self._state = state
        self._port = port
        self._waiting: dict[str, dict[tuple[str, int], tuple[LogSettle, PositionCommand]]] = {}
        """Pending changes, by name of the position, then by broker and number of its request."""
        self._count = 0
        """Number of pending changes."""

    def hear(self, broker: str, message: LogSettle, time_us: int, propose: Propose) -> None:
        """Handle a request at a leader that holds the lease, so no other replica can be elected meanwhile."""
        if message.offset == ASK:
            self._tell(broker, message, "")
            return
        if max([len(text.encode()) for text in (message.name, message.owner, message.identity)]) > limits.NAME_BYTES:
            self._tell(broker, message, f"names have up to {limits.NAME_BYTES} bytes")
            return
        command = PositionCommand(
            message.name, message.offset, message.version, message.forced, message.owner, time_us,
            message.identity, message.shares, message.creates, message.adopts,
        )  # fmt: skip
        reason = self._state.positions.refusal(command, self._state.end)
        if self._state.positions.is_applied(command):
            self._tell(broker, message, "")
        elif reason:
            self._tell(broker, message, reason)
        elif self._count < WAITING_MAX and propose(position_command(command)):
            waiting = self._waiting.setdefault(message.name, {})
            self._count += (broker, message.id) not in waiting
            waiting[broker, message.id] = (message, command)
            self._look_at(message.name)

    def look(self, names: Iterable[str]) -> None:
        """Answer the pending changes of these positions that have been applied."""
        for name in names:
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        positions, end = self._state.positions, self._state.end
        waiting = self._waiting.get(name, {})
        for (broker, id), (message, command) in list(waiting.items()):
            reason = positions.refusal(command, end)
            if (is_applied := positions.is_applied(command)) or reason:
                del waiting[broker, id]
                self._count -= 1
                self._tell(broker, message, "" if is_applied else reason)
        if not waiting:
            self._waiting.pop(name, None)

    def forget(self) -> None:
        """Drop pending changes, because this replica does not lead any more. Brokers repeat their requests."""
        self._waiting.clear()
        self._count = 0

    def _tell(self, broker: str, message: LogSettle, reason: str) -> None:
        stored = self._state.positions.by_name.get(message.name)
        offset, version = (stored.offset, stored.version) if stored is not None else (-1, 0)
        self._port.send(broker, LogSettled(message.log, message.id, offset, version, self._state.end, "", True, reason))
