"""What the parts of a replica share: who it is, what it never forgets, and what it has to send and to tell.

`voting`, `learning` and `leading` write here; `replica` hands over to the owner what has gathered after every step.
"""

from typing import Final

import msgspec

from resprout.core.contract import Effect, Persist, ProtocolMessage, Send, SetTimer, Timer
from resprout.replicas.ledger import Ledger
from resprout.replicas.messages import ReplicaOptions, SlotEntry, Snapshot


class HeartbeatDue(Timer, frozen=True):
    """When to say that the leader lives, and to say again what was not answered."""

    group: str

    @property
    def background(self) -> bool:
        return True


class PatienceOver(Timer, frozen=True):
    """When to look whether the leader is still heard."""

    group: str

    @property
    def background(self) -> bool:
        return True


class Chosen(msgspec.Struct, frozen=True):
    """News for the owner: this stands in this slot, everywhere and for ever. Slots come in order."""

    slot: int
    entry: SlotEntry


class Restored(msgspec.Struct, frozen=True):
    """News for the owner: slots up to that of the snapshot were skipped; this is the state after them."""

    snapshot: Snapshot


class Led(msgspec.Struct, frozen=True):
    """News for the owner: who leads now, as far as this replica knows; None while nobody does."""

    leader: str | None


News = Chosen | Restored | Led


class ReplicaDesk:
    def __init__(self, group: str, name: str, ledger: Ledger, options: ReplicaOptions) -> None:
        self.group: Final = group
        self.name: Final = name
        self.ledger: Final = ledger
        self.options: Final = options
        self.told = 0
        """Slots up to here were told to the owner."""
        self._out: list[Effect] = []
        self._records: list[Persist] = []
        """What is written before anything in `_out` leaves."""
        self._news: list[News] = []

    @property
    def is_member(self) -> bool:
        return self.name in self.ledger.members

    def others(self) -> list[str]:
        return [member for member in self.ledger.members if member != self.name]

    def say(self, peer: str, message: ProtocolMessage) -> None:
        self._out.append(Send(peer, message))

    def persist(self, record: bytes) -> None:
        self._records.append(Persist(record))

    def wake(self, timer: Timer, at_us: int) -> None:
        self._out.append(SetTimer(timer, at_us))

    def tell(self, news: News) -> None:
        self._news.append(news)

    def restore(self, snapshot: Snapshot) -> None:
        """The owner goes on from this state."""
        self.told = snapshot.slot
        self._news.append(Restored(snapshot))

    def batch(self, entries: list[SlotEntry]) -> tuple[SlotEntry, ...]:
        """As many of the first ones as one message may hold."""
        size = count = 0
        for entry in entries[: self.options.batch_entries_max]:
            size += len(entry.command)
            if count and size > self.options.batch_bytes_max:
                break
            count += 1
        return tuple(entries[:count])

    def hand_over(self, out: list[Effect]) -> list[News]:
        """The effects go to `out`; what was decided is told last."""
        ledger = self.ledger
        while self.told < ledger.chosen:
            self.told += 1
            self._news.append(Chosen(self.told, ledger.votes[self.told].entry))
        out += self._records
        out += self._out
        self._records, self._out = [], []
        news, self._news = self._news, []
        return news
