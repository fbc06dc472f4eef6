"""An eventually perfect failure detector, for the stacks whose papers assume one.

The links send heartbeats and report `Silent` when nothing comes, and `Heard` when a peer is back. A peer that stays
silent for its *timeout* is suspected. A host that reports the end of the process is believed at once. When a suspected
peer is heard again, the suspicion is revoked and the timeout of that peer doubles. So a dead peer is suspected at some
time and for good, and a living one is not suspected any more after some time: its timeout exceeds the longest silence.

A suspicion may be false. What follows from it is for the stack to say: `locamu` goes around a suspected broker and
loses nothing if it lives; in `delta` and in the causal multicasts a life that was passed over ends, and begins anew.
"""

from collections.abc import Callable
from typing import Final

from resprout.core.contract import CancelTimer, SetTimer, Timer
from resprout.stacks.shell import Step

DOUBLED_MAX: Final = 16
"""The longest timeout, in multiples of the first."""


class SuspectDue(Timer, frozen=True):
    """When to suspect a peer that is silent."""

    name: str


class FailureDetector:
    def __init__(self, step: Step, timeout_us: int, suspect: Callable[[str], None]) -> None:
        """`suspect` is called once for each suspicion."""
        self._step = step
        self._timeout_us = timeout_us
        self._suspect = suspect
        self._factors: dict[str, int] = {}
        """By peer that was suspected and lived: multiples of the first timeout."""
        self._silent: dict[str, None] = {}
        self._suspected: dict[str, None] = {}

    def is_suspected(self, name: str) -> bool:
        return name in self._suspected

    def timeout_us(self, name: str) -> int:
        return self._timeout_us * self._factors.get(name, 1)

    def silent(self, name: str) -> None:
        """Nothing comes from it. Repeated reports of the same silence change nothing."""
        if name not in self._silent and name not in self._suspected:
            self._silent[name] = None
            self._step.out.append(SetTimer(SuspectDue(name), self._step.now_us + self.timeout_us(name)))

    def heard(self, name: str) -> bool:
        """It is there. Return whether that revokes a suspicion."""
        self._stop(name)
        if name not in self._suspected:
            return False
        del self._suspected[name]
        self._factors[name] = min(2 * self._factors.get(name, 1), DOUBLED_MAX)
        return True

    def forget(self, name: str) -> None:
        """Its session is over, or it is known to be dead."""
        self._stop(name)
        self._suspected.pop(name, None)

    def due(self, timer: SuspectDue) -> None:
        if timer.name in self._silent:
            del self._silent[timer.name]
            self._suspected[timer.name] = None
            self._step.note("suspected", timer.name)
            self._suspect(timer.name)

    def _stop(self, name: str) -> None:
        if self._silent.pop(name, 0) is None:
            self._step.out.append(CancelTimer(SuspectDue(name)))
