"""A failure detector without leases: heartbeats, suspicion after silence, trust again when something is heard.

Eventually perfect, in the words of Chandra and Toueg (1996): whoever has crashed is suspected for ever from some moment
on by everybody who watches it; and whoever lives is trusted for ever from some moment on, if signs of life come within
`timeout_max_us`, because each suspicion that proves wrong makes this broker wait longer for that peer. Until then it is
wrong at times, and two may suspect each other: a stack that uses it must be right all the same. Nobody is fenced or
declared dead; a stack that needs that has `overlay.lease_detector` and the council around it.

Both ends watch each other, so whatever one says to the other is a sign of life, and heartbeats are what is said when
there is nothing else. That a connection stands is none: its host may keep it up for a process that hangs. To one that
is silent nothing piles up: after `UNHEARD_BEATS_MAX` heartbeats it gets no more until its link is there again.

Whoever slept, because its process was stopped or starved, has heard nobody meanwhile and blames nobody for it: a timer
that fires late gives everybody as much more time.

Tenants to be: gossip, Chord and Scribe. Stacks that pass over the dead go by what hosts say instead: a living broker
that is passed over would make their confirmations false.
"""

from typing import ClassVar, Final

import msgspec

from resprout.core.contract import Effect, ProtocolMessage, Send, SetTimer, Timer
from resprout.core.errors import UsageError

UNHEARD_BEATS_MAX: Final = 16
"""In a row to one that says nothing. They are repeated anyway, so more would only pile up during a long partition."""


class DetectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_us: int = 100_000
    """Between two signs of life. Shorter: more messages; a crash is noticed that much sooner."""
    timeout_us: int = 1_000_000
    """Silence after which a peer is suspected, up to a heartbeat later. Shorter: more suspicions that are wrong."""
    timeout_max_us: int = 16_000_000
    """After each suspicion that was wrong a peer gets `timeout_us` more, up to this."""

    def __post_init__(self) -> None:
        if self.heartbeat_us < 1:
            raise UsageError(f"heartbeat_us must be at least 1, not {self.heartbeat_us}")
        if self.timeout_us < 2 * self.heartbeat_us:
            raise UsageError("timeout_us must be at least two heartbeats: one that is late is no crash")
        if self.timeout_max_us < self.timeout_us:
            raise UsageError("timeout_max_us must not be below timeout_us")


class Heartbeat(ProtocolMessage, frozen=True, tag=98):
    """I live. Nobody answers it: whoever is watched watches as well."""

    express: ClassVar[bool] = True

    @property
    def background(self) -> bool:
        return True


MESSAGES = (Heartbeat,)


class BeatDue(Timer, frozen=True):
    """When to say that this broker lives, and to look who is silent."""

    @property
    def background(self) -> bool:
        return True


class _Watch:
    __slots__ = ("heard_us", "suspected", "timeout_us", "unheard")

    def __init__(self, now_us: int, timeout_us: int) -> None:
        self.heard_us = now_us
        self.timeout_us = timeout_us
        self.suspected = False
        self.unheard = 0
        """Heartbeats since something was heard."""


class Detector:
    def __init__(self, options: DetectorOptions | None = None) -> None:
        self.options: Final = options or DetectorOptions()
        self._watched: dict[str, _Watch] = {}
        self._due_us = 0

    def suspects(self, peer: str) -> bool:
        """False also for those who are not watched."""
        watch = self._watched.get(peer)
        return watch is not None and watch.suspected

    @property
    def suspected(self) -> list[str]:
        return [peer for peer, watch in self._watched.items() if watch.suspected]

    # -- whom to watch -------------------------------------------------------------------------------------------------

    def start(self, now_us: int, out: list[Effect]) -> None:
        self._wake(now_us, out)

    def watch(self, peer: str, now_us: int) -> None:
        """From now on. It is trusted at first; nothing changes for one that is watched."""
        if peer not in self._watched:
            self._watched[peer] = _Watch(now_us, self.options.timeout_us)

    def unwatch(self, peer: str) -> None:
        self._watched.pop(peer, None)

    # -- signs of life -------------------------------------------------------------------------------------------------

    def heard(self, peer: str, now_us: int, returned: bool = False) -> bool:
        """It said something, a heartbeat or anything else. True when it was suspected until now: a stack uses it again.
        `returned`: this is a new life of it, so the suspicion was right."""
        watch = self._watched.get(peer)
        if watch is None:
            return False
        watch.heard_us = now_us
        watch.unheard = 0
        if not watch.suspected:
            return False
        watch.suspected = False
        if not returned:
            watch.timeout_us = min(watch.timeout_us + self.options.timeout_us, self.options.timeout_max_us)
        return True

    def linked(self, peer: str) -> None:
        """There is a session with it, or its connection stands again. It is worth while to speak to it."""
        watch = self._watched.get(peer)
        if watch is not None:
            watch.unheard = 0

    def refused(self, peer: str) -> bool:
        """Its own host says that the process is gone. True when it is suspected from now on."""
        watch = self._watched.get(peer)
        if watch is None or watch.suspected:
            return False
        watch.suspected = True
        return True

    # -- time ----------------------------------------------------------------------------------------------------------

    def fired(self, now_us: int, out: list[Effect]) -> list[str]:
        """`BeatDue`: say that this broker lives. Returns who is suspected from now on."""
        late_us = max(0, now_us - self._due_us)
        suspected: list[str] = []
        for peer, watch in self._watched.items():
            watch.heard_us = min(now_us, watch.heard_us + late_us)
            if not watch.suspected and now_us - watch.heard_us > watch.timeout_us:
                watch.suspected = True
                suspected.append(peer)
            if watch.unheard < UNHEARD_BEATS_MAX:
                watch.unheard += 1
                out.append(Send(peer, Heartbeat()))
        self._wake(now_us, out)
        return suspected

    def _wake(self, now_us: int, out: list[Effect]) -> None:
        self._due_us = now_us + self.options.heartbeat_us
        out.append(SetTimer(BeatDue(), self._due_us))
