"""Signs of life: heartbeats on quiet connections, and suspicion of silent ones.

A suspicion costs a connection, never a session: a peer that is alive connects again or is connected to, and resumes.
Whoever looks much later than it meant to was asleep itself, and hears first what has come meanwhile.
"""

from typing import Final

from resprout.core.contract import Disconnect, Effect, Note, SetTimer
from resprout.links.options import LinkOptions
from resprout.links.switchboard import Switchboard
from resprout.links.timers import WatchDue

_WATCH: Final = WatchDue()

TOLD_MAX: Final = 64
PERIOD_US: Final = 10_000_000
"""Silent clients that are told one by one in so long; of more, their number is told. Anybody can be a silent client."""


class Watch:
    def __init__(self, board: Switchboard, options: LinkOptions) -> None:
        self._board = board
        self._heartbeat_us = options.heartbeat_us
        self._silence_us = options.silence_us
        delays = [delay for delay in (options.heartbeat_us, options.silence_us) if delay is not None]
        self._every_us = max(1, min(delays) // 2) if delays else None
        """Twice in the shorter of the two delays."""
        self._due_us = 0
        self._told_since_us = 0
        self._told = 0
        """Silent clients since then, told or not."""

    def set(self, now_us: int, out: list[Effect]) -> None:
        if self._every_us is not None:
            self._due_us = now_us + self._every_us
            out.append(SetTimer(_WATCH, self._due_us))

    def look(self, timer: WatchDue, now_us: int, out: list[Effect]) -> None:
        every_us = self._every_us or 0
        if self._silence_us is not None and now_us <= self._due_us + every_us:
            self._suspect(self._silence_us, now_us, out)
        sessions = self._board.sessions
        for link in sessions.live.values():
            link.rest(len(sessions.live), sessions.beginnings)
        if self._heartbeat_us is not None:
            quiet_since_us = now_us + every_us - self._heartbeat_us  # at the next look it would be too late
            for link in self._board.sessions.live.values():
                if link.spoke_us < quiet_since_us:
                    link.nod(now_us, out)
        self.set(now_us, out)

    def _suspect(self, silence_us: int, now_us: int, out: list[Effect]) -> None:
        board = self._board
        for link in [link for link in board.sessions.live.values() if now_us - link.heard_us >= silence_us]:
            reason = f"{link.peer} was silent for {now_us - link.heard_us} us"
            if link.role != "client" or self._may_tell(now_us, out):
                out.append(Note("suspect", {"detail": reason}))
            out.append(Disconnect(link.connection, reason))
            board.lose(link, now_us, out)
        for connection in [c for c, greeting in board.greetings.items() if now_us - greeting.since_us >= silence_us]:
            out.append(Disconnect(connection, "no greeting came"))
            board.stop_greeting(connection, now_us, out)

    def _may_tell(self, now_us: int, out: list[Effect]) -> bool:
        """Of one more client that was silent; first how many were left out."""
        if now_us - self._told_since_us >= PERIOD_US:
            left_out = self._told - TOLD_MAX
            self._told_since_us, self._told = now_us, 0
            if left_out > 0:
                out.append(Note("note", {"detail": f"{left_out} more clients were silent and lost their connections"}))
        self._told += 1
        return self._told <= TOLD_MAX
