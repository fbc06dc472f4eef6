"""The buffers of one step: the effects that it wants, what its parts found out, and the time.

The state that the parts of a broker share is a subclass, so that every part writes to the same buffers.
"""

from collections import deque

from resprout.core.contract import Effect, Note, Outcome, Retire


class Step:
    def __init__(self) -> None:
        self.now_us = 0
        self.out: list[Effect] = []
        """Effects of this step, in order."""
        self.outcomes: deque[Outcome] = deque()
        """What parts found out that is for others to act on. The shell hands each to whoever its table names, when the
        part has done what it was asked for."""
        self.retired = False
        """This life is over: nothing is done any more."""

    def begin(self, now_us: int) -> list[Effect]:
        self.now_us = now_us
        self.out = []
        return self.out

    def note(self, kind: str, detail: str) -> None:
        self.out.append(Note(kind, {"detail": detail}))

    def end_life(self, retire: Retire) -> None:
        """Once; whatever follows is for nobody."""
        if not self.retired:
            self.retired = True
            self.out.append(retire)
