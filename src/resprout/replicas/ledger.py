"""What a replica must never forget: what it promised, what it accepted, what is decided.

Records are written as changes; `records` is all of it anew, for whoever wants to forget older ones. What is decided
need not be on disk for safety: it is found out again. It is written all the same with the next vote or snapshot, so
that a replica that returns knows its configuration.

`ReplicaDesk` is what the parts of a replica share: its name, its ledger, and what it has to send and to tell. Voting,
learning and leading write there; `replica` hands over to the owner what has gathered after every step.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from resprout.core.contract import Effect, Persist, ProtocolMessage, Send, SetTimer, Timer
from resprout.replicas.messages import NO_BALLOT, AcceptedEntry, Ballot, ReplicaOptions, SlotEntry, Snapshot


class _Promised(msgspec.Struct, frozen=True, array_like=True, tag=1):
    ballot: Ballot


class _Voted(msgspec.Struct, frozen=True, array_like=True, tag=2):
    vote: AcceptedEntry
    chosen: int


class _Kept(msgspec.Struct, frozen=True, array_like=True, tag=3):
    snapshot: Snapshot


class _Learned(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Decided, and perhaps never voted for here."""

    slot: int
    entry: SlotEntry


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Promised | _Voted | _Kept | _Learned).decode


class Ledger:
    def __init__(self, members: tuple[str, ...]) -> None:
        self.promised = NO_BALLOT
        self.votes: dict[int, AcceptedEntry] = {}
        """By slot: every slot after the snapshot in which something was accepted or learned."""
        self.chosen = 0
        """Every slot up to here is decided, and its entry is known here."""
        self.snapshot = Snapshot(0, members)
        self.members = members
        """The configuration of the first slot that is not decided; empty: not known yet."""

    # -- changes, each with its record ---------------------------------------------------------------------------------

    def promise(self, ballot: Ballot) -> bytes:
        assert ballot > self.promised, "a promise is never taken back"
        self.promised = ballot
        return _encode(_Promised(ballot))

    def vote(self, slot: int, entry: SlotEntry) -> bytes:
        """For an entry, in the ballot that was promised."""
        assert slot > self.chosen, "what is decided is not voted on again"
        vote = self.votes[slot] = AcceptedEntry(slot, self.promised, entry)
        return _encode(_Voted(vote, self.chosen))

    def learn(self, slot: int, entry: SlotEntry) -> bytes:
        """It is decided that this stands in the next slot."""
        assert slot == self.chosen + 1, "decisions are learned in order"
        before = self.votes.get(slot)
        if before is None or before.entry != entry:
            self.votes[slot] = AcceptedEntry(slot, before.ballot if before is not None else NO_BALLOT, entry)
        self._choose()
        return _encode(_Learned(slot, entry))

    def choose(self, upto: int) -> None:
        """What was voted for in these slots is decided. Without a record: it can be found out again."""
        while self.chosen < upto:
            self._choose()

    def keep(self, snapshot: Snapshot) -> None:
        """The log up to the snapshot is no longer needed; its records neither, see `records`."""
        self.snapshot = snapshot
        if snapshot.slot >= self.chosen:
            self.chosen = snapshot.slot
            self.members = snapshot.lives
        self.votes = {slot: vote for slot, vote in self.votes.items() if slot > snapshot.slot}

    def _choose(self) -> None:
        self.chosen += 1
        entry = self.votes[self.chosen].entry
        if entry.is_configuration:
            self.members = entry.lives

    # -- looking at it -------------------------------------------------------------------------------------------------

    def votes_after(self, slot: int) -> tuple[AcceptedEntry, ...]:
        return tuple(self.votes[at] for at in sorted(self.votes) if at > slot)

    def decided(self, first: int, last: int) -> Iterable[SlotEntry]:
        return (self.votes[slot].entry for slot in range(first, min(last, self.chosen) + 1))

    def members_at(self, slot: int) -> tuple[str, ...]:
        """The configuration after a decided slot that is still in the log."""
        members = self.snapshot.lives
        for entry in self.decided(self.snapshot.slot + 1, slot):
            if entry.is_configuration:
                members = entry.lives
        return members

    # -- disks ---------------------------------------------------------------------------------------------------------

    def records(self) -> list[bytes]:
        votes = (_Voted(vote, self.chosen) for vote in self.votes_after(self.snapshot.slot))
        return [_encode(record) for record in (_Kept(self.snapshot), _Promised(self.promised), *votes)]

    def recover(self, records: Sequence[bytes]) -> None:
        """ValueError for what is no record of a ledger."""
        for data in records:
            try:
                record = _decode(data)
            except msgspec.MsgspecError as error:
                raise ValueError(f"a record of a replica cannot be read: {error}") from None
            if isinstance(record, _Promised):
                self.promised = max(self.promised, record.ballot)
            elif isinstance(record, _Kept):
                if record.snapshot.slot >= self.snapshot.slot:
                    self.keep(record.snapshot)
            elif isinstance(record, _Learned):
                self._choose_again(record.slot - 1)  # it was learned when all before it was decided
                if record.slot == self.chosen + 1:
                    self.learn(record.slot, record.entry)
            elif record.vote.slot > self.chosen:
                self.votes[record.vote.slot] = record.vote
                self.promised = max(self.promised, record.vote.ballot)
                self._choose_again(record.chosen)

    def _choose_again(self, upto: int) -> None:
        """As far as the records that were read show what stands there."""
        while self.chosen < upto and self.chosen + 1 in self.votes:
            self._choose()


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
