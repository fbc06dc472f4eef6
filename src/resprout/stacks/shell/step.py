"""The buffers of one step: what it writes to disk, its other effects, what its parts found out, and the time.

What is written comes first in the effects of a step, whenever in the step a part has asked for it (`effects`). A driver
lets nothing leave before the records that precede it are durable, so no part has to mind in which order it writes and
sends: everything that a step says rests on what that step has written. Signs of life are the exception that drivers
make: they say nothing about records, and leave at once.

The state that the parts of a broker share is a subclass, so that every part writes to the same buffers.
"""

from collections import deque

from resprout.core.contract import Effect, Forget, Note, Outcome, Persist, Remember, Retire


class Step:
    def __init__(self) -> None:
        self.now_us = 0
        self.out: list[Effect] = []
        """Effects of this step but for `records`, in order."""
        self.records: list[Persist | Forget | Remember] = []
        """What this step writes to disk, in order; it leaves the step before everything in `out`."""
        self.outcomes: deque[Outcome] = deque()
        """What parts found out that is for others to act on. The shell hands each to whoever its table names, when the
        part has done what it was asked for."""
        self.retired = False
        """This life is over: nothing is done any more."""

    def begin(self, now_us: int) -> list[Effect]:
        self.now_us = now_us
        self.out = []
        if self.records:
            self.records = []
        return self.out

    def persist(self, record: bytes) -> None:
        """Write a record before anything that this step says leaves the broker."""
        self.records.append(Persist(record))

    def forget_records(self, count: int) -> None:
        """Keep only the latest so many records, those that this step has written so far included."""
        self.records.append(Forget(count))

    def effects(self) -> list[Effect]:
        """Everything that the step wants, records first."""
        return [*self.records, *self.out] if self.records else self.out

    def note(self, kind: str, detail: str) -> None:
        self.out.append(Note(kind, {"detail": detail}))

    def end_life(self, retire: Retire) -> None:
        """Once; whatever follows is for nobody."""
        if not self.retired:
            self.retired = True
            self.out.append(retire)
