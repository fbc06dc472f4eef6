"""Leading: from a ballot to decided entries.

A leader asks a majority for promises once, for all slots that are not decided, and then proposes as many slots at a
time as it likes. What the promises show to have been accepted before, perhaps decided, it proposes again; gaps become
empty.

A configuration is decided like anything else, and counts from the next slot on. So nothing is proposed behind one that
is not decided: the configuration of every slot that is under way is known. The promises are for all later slots, too;
where they are no majority of the new configuration, those who have not promised are asked, in the same ballot.
"""

import enum
from collections import deque
from typing import Final

from resprout.replicas.ledger import Ledger
from resprout.replicas.messages import NOTHING, SLOT_LEAP_MAX, AcceptedEntry, Ballot, Promise, SlotEntry, is_majority

PENDING_MAX: Final = 4096
"""Commands that wait for a slot."""
UNDER_WAY_MAX: Final = 256
"""Slots that are proposed and not decided."""
UNDER_WAY_BYTES_MAX: Final = 2 << 20
"""Of their commands, unless a single one is larger. Whoever stands next is shown all of them in one message."""


class Phase(enum.Enum):
    PREPARING = "preparing"
    """Promises are missing, at first or of members of a new configuration."""
    LEADING = "leading"


class Proposer:
    """One attempt to lead. It decides nothing about time: whoever owns it sends again what was not answered."""

    def __init__(self, ledger: Ledger, ballot: Ballot) -> None:
        self._ledger = ledger
        self.ballot = ballot
        self.phase = Phase.PREPARING
        self.promised: dict[str, None] = {}
        self._found: dict[int, AcceptedEntry] = {}
        """What promises have shown: the highest vote in each slot. It stays until its slot is proposed, also while the
        members of a new configuration are asked, who may show more."""
        self._pending: deque[SlotEntry] = deque()
        self.under_way: dict[int, dict[str, None]] = {}
        """Slot -> who has accepted it."""
        self._entries: dict[int, SlotEntry] = {}
        self._under_way_bytes = 0
        self._commands: dict[bytes, None] = {}
        """Of all that was taken and is not decided."""
        self._next = 0

    @property
    def members(self) -> tuple[str, ...]:
        return self._ledger.members

    @property
    def is_leading(self) -> bool:
        return self.phase is Phase.LEADING

    @property
    def is_idle(self) -> bool:
        """Nothing waits or is under way."""
        return not self._pending and not self.under_way

    @property
    def is_changing(self) -> bool:
        """A configuration waits or is under way."""
        return any(e.is_configuration for e in self._pending) or any(e.is_configuration for e in self._entries.values())

    # -- promises ------------------------------------------------------------------------------------------------------

    def unpromised(self) -> list[str]:
        return [member for member in self.members if member not in self.promised]

    def promise(self, member: str, promise: Promise) -> None:
        """The owner has learned what the promise shows as decided. Only a promise that reaches back to what is decided
        here counts, and only one without votes on slots that no honest replica would have voted on."""
        chosen = self._ledger.chosen
        if self.phase is not Phase.PREPARING or promise.after > chosen:
            return
        if any(vote.slot > chosen + SLOT_LEAP_MAX for vote in promise.votes):
            return
        self.promised[member] = None
        for vote in promise.votes:
            found = self._found.get(vote.slot)
            if vote.slot > promise.chosen and (found is None or vote.ballot > found.ballot):
                self._found[vote.slot] = vote

    def try_to_lead(self) -> bool:
        """True when that succeeds just now: a majority has promised."""
        if self.phase is Phase.LEADING or not is_majority(self.members, self.promised):
            return False
        self.phase = Phase.LEADING
        self._next = self._ledger.chosen + 1
        return True

    # -- proposals -----------------------------------------------------------------------------------------------------

    def has(self, command: bytes) -> bool:
        """It was taken, and is not decided yet."""
        return command in self._commands

    def take(self, entry: SlotEntry) -> bool:
        """To be proposed when its turn comes; False when too much waits."""
        if len(self._pending) >= PENDING_MAX:
            return False
        self._pending.append(entry)
        self._commands[entry.command] = None
        return True

    def next_entries(self) -> tuple[int, tuple[SlotEntry, ...]]:
        """The first slot, and what is to be proposed in it and the following ones now."""
        first, entries = self._next, list[SlotEntry]()
        is_changing = any(entry.is_configuration for entry in self._entries.values())
        while self.is_leading and not is_changing and len(self.under_way) < UNDER_WAY_MAX:
            is_found = self._next <= max(self._found, default=0)
            if is_found:
                vote = self._found.get(self._next)
                entry = vote.entry if vote is not None else NOTHING
            elif self._pending:
                entry = self._pending[0]
            else:
                break
            size = self._under_way_bytes + len(entry.command)
            if self.under_way and size > UNDER_WAY_BYTES_MAX:
                break
            if is_found:
                self._found.pop(self._next, None)
            else:
                self._pending.popleft()
            entries.append(entry)
            self.under_way[self._next] = {}
            self._entries[self._next] = entry
            is_changing = entry.is_configuration
            self._under_way_bytes = size
            self._next += 1
        return first, tuple(entries)

    def entry(self, slot: int) -> SlotEntry:
        """Of a slot that is under way."""
        return self._entries[slot]

    def accepted(self, member: str, first: int, last: int) -> None:
        for slot in range(max(first, self._ledger.chosen + 1), min(last, self._next - 1) + 1):
            if slot in self.under_way:
                self.under_way[slot][member] = None

    def decided(self) -> int:
        """Up to which slot everything is decided by now."""
        upto = self._ledger.chosen
        while upto + 1 in self.under_way and is_majority(self.members, self.under_way[upto + 1]):
            upto += 1
            if self._entries[upto].is_configuration:
                break  # who counts for the slots behind it is known only when it is taken
        return upto

    def settle(self) -> None:
        """After decisions were taken: let go of them, and see whether the configuration still has promised."""
        for slot in [slot for slot in self.under_way if slot <= self._ledger.chosen]:
            del self.under_way[slot]
            command = self._entries.pop(slot).command
            self._under_way_bytes -= len(command)
            self._commands.pop(command, None)
        self._next = max(self._next, self._ledger.chosen + 1)
        for slot in [slot for slot in self._found if slot < self._next]:
            del self._found[slot]
        if self.is_leading and not self.under_way and not is_majority(self.members, self.promised):
            self.phase = Phase.PREPARING
