"""Stored positions at one replica: the leader proposes changes, and answers brokers once they are applied."""

from collections.abc import Callable
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
        self._waiting: dict[tuple[str, int], tuple[LogSettle, PositionCommand]] = {}
        """Pending changes, by broker and number of its request."""

    def hear(self, broker: str, message: LogSettle, time_us: int, propose: Propose) -> None:
        """Handle a request at a leader that holds the lease, so no other replica can be elected meanwhile."""
        if message.offset == ASK:
            self._tell(broker, message, "")
            return
        if max(len(message.name.encode()), len(message.owner.encode())) > limits.NAME_BYTES:
            self._tell(broker, message, f"names have up to {limits.NAME_BYTES} bytes")
            return
        command = PositionCommand(message.name, message.offset, message.version, message.forced, message.owner, time_us)
        reason = self._state.positions.refusal(command, self._state.end)
        if reason and not self._state.positions.is_applied(command):
            self._tell(broker, message, reason)
        elif self._state.positions.is_applied(command):
            self._tell(broker, message, "")
        elif len(self._waiting) < WAITING_MAX and propose(position_command(command)):
            self._waiting[broker, message.id] = (message, command)
            self.look()

    def look(self) -> None:
        """Answer the pending changes that have been applied."""
        positions, end = self._state.positions, self._state.end
        for (broker, id), (message, command) in list(self._waiting.items()):
            reason = positions.refusal(command, end)
            if positions.is_applied(command):
                del self._waiting[broker, id]
                self._tell(broker, message, "")
            elif reason:
                del self._waiting[broker, id]
                self._tell(broker, message, reason)

    def forget(self) -> None:
        """Drop pending changes, because this replica does not lead any more. Brokers repeat their requests."""
        self._waiting.clear()

    def _tell(self, broker: str, message: LogSettle, reason: str) -> None:
        stored = self._state.positions.by_name.get(message.name)
        offset, version = (stored.offset, stored.version) if stored is not None else (-1, 0)
        self._port.send(broker, LogSettled(message.log, message.id, offset, version, self._state.end, "", True, reason))
