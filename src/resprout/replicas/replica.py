"""A replica: it votes, learns what is decided, and leads when nobody else does.

Multi-Paxos as in Lamport's "Paxos Made Simple" and van Renesse and Altinbuken's "Paxos Made Moderately Complex", with
three additions of everyday use: whoever wants to lead asks first whether a majority hears no leader; a leader that
hears no majority gives up; and a configuration counts from the slot after it, so nothing is proposed behind one before
it is decided (`proposer.py`).

Assumed: messages may be lost, doubled and reordered, replicas crash and return with their records; those who lost them
return under another name. Names of members are names of lives, therefore. Safety never depends on time.

Not done here: finding out which commands are repeats, and passing commands on to the leader. A command that was taken
may be lost with its leader: whoever needs it proposes it again.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

from resprout.core.contract import Effect, Persist, ProtocolMessage, Send, SetTimer, Timer
from resprout.replicas.ledger import Ledger
from resprout.replicas.messages import (
    Accept,
    Accepted,
    Ask,
    Decisions,
    Fetch,
    Follow,
    Install,
    Known,
    Lead,
    Prepare,
    Promise,
    Refuse,
    Willing,
)  # fmt: skip
from resprout.replicas.options import ReplicaOptions
from resprout.replicas.proposer import Proposer
from resprout.replicas.values import Ballot, Entry, Snapshot, is_majority

ROUND_LEAP_MAX: Final = 1 << 32
"""By so much the round of a ballot may be ahead of the one known before: a liar must not use up the numbers."""


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
    entry: Entry


class Restored(msgspec.Struct, frozen=True):
    """News for the owner: slots up to that of the snapshot were skipped; this is the state after them."""

    snapshot: Snapshot


class Led(msgspec.Struct, frozen=True):
    """News for the owner: who leads now, as far as this replica knows; None while nobody does."""

    leader: str | None


News = Chosen | Restored | Led


class Replica:
    """One member, or one that is about to become one (no members known yet: it waits to be told)."""

    def __init__(
        self, group: str, name: str, members: Sequence[str], rng: Random, options: ReplicaOptions | None = None
    ) -> None:
        self.group = group
        self.name = name
        self.options = options or ReplicaOptions()
        self.ledger = Ledger(tuple(members))
        self.leader: str | None = None
        self._rng = rng
        self._proposer: Proposer | None = None
        self._heard_us = 0
        """When the leader was heard last."""
        self._round = 0
        """The highest of all ballots that were heard of."""
        self._wished = Ballot()
        self._willing: dict[str, None] = {}
        """Who would promise the ballot that this replica wishes for."""
        self._followed: dict[str, int] = {}
        """While leading: member -> when the latest `Lead` was sent that it answered."""
        self._informed: dict[str, int] = {}
        """By one that was left out: member -> how much it is known to know."""
        self._told = 0
        """Slots up to here were told to the owner."""
        self._out: list[Effect] = []
        self._news: list[News] = []
        self._on: dict[type, Callable[[str, Any, int], None]] = {
            Ask: self._ask, Willing: self._is_willing, Prepare: self._prepare, Promise: self._promise,
            Accept: self._accept, Accepted: self._accepted,
            Refuse: self._refuse, Lead: self._lead, Follow: self._follow, Fetch: self._fetch,
            Decisions: self._decisions, Install: self._install, Known: self._known,
        }  # fmt: skip

    # -- for the owner: each of these appends effects, and returns news in order ------------------------------------

    def start(self, now_us: int, out: list[Effect], records: Sequence[bytes] = ()) -> list[News]:
        """`records`: what an earlier run of this same replica persisted, oldest first. ValueError for other bytes."""
        self.ledger.recover(records)
        self._heard_us = now_us
        if self.ledger.snapshot.slot:
            self._news.append(Restored(self.ledger.snapshot))
            self._told = self.ledger.snapshot.slot
        self._wait_for_leader(now_us)
        return self._done(out)

    def hear(self, peer: str, message: ProtocolMessage, now_us: int, out: list[Effect]) -> list[News]:
        """A message of this group, from a peer that has proved to be `peer`."""
        self._on[type(message)](peer, message, now_us)
        return self._done(out)

    def fired(self, timer: HeartbeatDue | PatienceOver, now_us: int, out: list[Effect]) -> list[News]:
        if isinstance(timer, HeartbeatDue):
            self._beat(now_us)
        else:
            self._look(now_us)
        return self._done(out)

    def propose(self, command: bytes, now_us: int, out: list[Effect]) -> tuple[bool, list[News]]:
        """False when this replica does not lead, or too much waits: nothing was done."""
        return self._take(Entry(command), now_us, out)

    def configure(self, members: Sequence[str], now_us: int, out: list[Effect]) -> tuple[bool, list[News]]:
        """Propose another configuration, any at all; one at a time."""
        proposer = self._proposer
        if proposer is None or proposer.is_changing or not members:
            return False, []
        return self._take(Entry(members=tuple(dict.fromkeys(members))), now_us, out)

    def snapshot(self, state: bytes, out: list[Effect]) -> list[bytes]:
        """The owner's state after everything that it was told. Returns all that has to be on disk now: the owner
        persists it and forgets what was before."""
        at = self._told
        self.ledger.keep(Snapshot(at, self.ledger.members_at(at), state))
        return self.ledger.records()

    @property
    def is_leading(self) -> bool:
        return self._proposer is not None and self._proposer.is_leading

    # -- voting --------------------------------------------------------------------------------------------------------

    def _ask(self, peer: str, message: Ask, now_us: int) -> None:
        if message.ballot <= self.ledger.promised or not self._is_sound(peer, message.ballot):
            self._say(peer, Refuse(self.group, self.ledger.promised))
        elif not self._hears_leader(now_us):
            self._say(peer, Willing(self.group, message.ballot))

    def _hears_leader(self, now_us: int) -> bool:
        if self.is_leading:
            return self._has_company(now_us)
        return self.leader is not None and now_us - self._heard_us < self.options.patience_us

    def _prepare(self, peer: str, message: Prepare, now_us: int) -> None:
        ledger = self.ledger
        if message.ballot < ledger.promised or not self._is_sound(peer, message.ballot):
            self._say(peer, Refuse(self.group, ledger.promised))
            return
        if message.ballot > ledger.promised:
            self._persist(ledger.promise(message.ballot))
            self._give_up()
            self._heard_us = now_us
        after = max(message.after, ledger.snapshot.slot)
        self._say(peer, Promise(self.group, message.ballot, after, ledger.chosen, ledger.votes_after(after)))

    def _accept(self, peer: str, message: Accept, now_us: int) -> None:
        ledger = self.ledger
        if message.ballot < ledger.promised or not self._is_sound(peer, message.ballot) or message.first < 1:
            self._say(peer, Refuse(self.group, ledger.promised))
            return
        self._heed(peer, message.ballot, now_us)
        for slot, entry in enumerate(message.entries, message.first):
            vote = ledger.votes.get(slot)
            if slot > ledger.chosen and (vote is None or vote.ballot < message.ballot):
                self._persist(ledger.vote(slot, entry))
        if message.entries:
            last = message.first + len(message.entries) - 1
            self._say(peer, Accepted(self.group, message.ballot, message.first, last))
        self._learn_upto(peer, message.ballot, message.chosen)

    def _lead(self, peer: str, message: Lead, now_us: int) -> None:
        if message.ballot < self.ledger.promised or not self._is_sound(peer, message.ballot):
            self._say(peer, Refuse(self.group, self.ledger.promised))
            return
        self._heed(peer, message.ballot, now_us)
        self._say(peer, Follow(self.group, message.ballot, message.sent_us))
        self._learn_upto(peer, message.ballot, message.chosen)

    def _heed(self, peer: str, ballot: Ballot, now_us: int) -> None:
        """Somebody leads in a ballot that is not below what was promised."""
        if ballot > self.ledger.promised:
            self._persist(self.ledger.promise(ballot))
            self._give_up()
        self._heard_us = now_us
        self._follow_leader(peer)

    def _is_sound(self, peer: str, ballot: Ballot) -> bool:
        return ballot.leader == peer and 0 < ballot.round < self.ledger.promised.round + ROUND_LEAP_MAX

    # -- learning ------------------------------------------------------------------------------------------------------

    def _learn_upto(self, leader: str, ballot: Ballot, chosen: int) -> None:
        """What was accepted from this very leader is what it knows to be decided; anything else is asked for."""
        ledger = self.ledger
        upto = ledger.chosen
        while upto < chosen and (vote := ledger.votes.get(upto + 1)) is not None and vote.ballot == ballot:
            upto += 1
        ledger.choose(upto)
        if upto < chosen:
            self._say(leader, Fetch(self.group, upto))

    def _fetch(self, peer: str, message: Fetch, now_us: int) -> None:
        ledger = self.ledger
        if message.after < ledger.snapshot.slot:
            self._say(peer, Install(self.group, ledger.snapshot))
        elif message.after < ledger.chosen:
            entries = self._batch(list(ledger.decided(message.after + 1, ledger.chosen)))
            self._say(peer, Decisions(self.group, message.after + 1, entries))

    def _decisions(self, peer: str, message: Decisions, now_us: int) -> None:
        self._learn(message.first, message.entries)
        self._go_on(now_us)

    def _learn(self, first: int, entries: Sequence[Entry]) -> None:
        for slot, entry in enumerate(entries, first):
            if slot == self.ledger.chosen + 1:
                self._persist(self.ledger.learn(slot, entry))

    def _install(self, peer: str, message: Install, now_us: int) -> None:
        ledger = self.ledger
        if message.snapshot.slot <= ledger.chosen:
            return
        ledger.keep(message.snapshot)
        self._told = message.snapshot.slot
        self._news.append(Restored(message.snapshot))
        for record in ledger.records():
            self._persist(record)
        self._say(peer, Fetch(self.group, ledger.chosen))
        self._go_on(now_us)

    def _pass_on(self) -> None:
        """Whoever decided that this replica is left out may be gone before the others heard of it."""
        ledger = self.ledger
        informed = {member for member, chosen in self._informed.items() if chosen >= ledger.chosen}
        if not is_majority(ledger.members, informed):
            for member in ledger.members:
                self._say(member, Known(self.group, ledger.chosen))

    def _known(self, peer: str, message: Known, now_us: int) -> None:
        ledger = self.ledger
        if self.name not in ledger.members and peer in ledger.members:
            self._informed[peer] = max(self._informed.get(peer, 0), message.chosen)
        if message.chosen > ledger.chosen:
            self._say(peer, Fetch(self.group, ledger.chosen))
        elif self.name in ledger.members and peer not in ledger.members:
            self._say(peer, Known(self.group, ledger.chosen))

    # -- leading -------------------------------------------------------------------------------------------------------

    def _look(self, now_us: int) -> None:
        """Is there a leader? If not, and this replica is a member, it tries."""
        self._wait_for_leader(now_us)
        if self.is_leading:
            if not self._has_company(now_us):
                self._give_up()
        elif now_us - self._heard_us >= self.options.patience_us and self.name in self.ledger.members:
            self._give_up()
            self._wish(now_us)
        elif self.name not in self.ledger.members:
            self._pass_on()

    def _wish(self, now_us: int) -> None:
        """For a ballot above all that was heard of."""
        self._wished = Ballot(max(self._round, self.ledger.promised.round) + 1, self.name)
        self._willing = {self.name: None}
        for member in self.ledger.members:
            if member != self.name:
                self._say(member, Ask(self.group, self._wished))
        self._stand(now_us)

    def _is_willing(self, peer: str, message: Willing, now_us: int) -> None:
        if message.ballot == self._wished:
            self._willing[peer] = None
            self._stand(now_us)

    def _stand(self, now_us: int) -> None:
        """As soon as a majority would promise, and unless somebody else was faster."""
        ballot = self._wished
        if ballot <= self.ledger.promised or not is_majority(self.ledger.members, self._willing):
            return
        if self._hears_leader(now_us):
            return
        self._persist(self.ledger.promise(ballot))
        self._proposer = Proposer(self.ledger, ballot)
        self._heard_us = now_us
        self._followed = {}
        self._out.append(SetTimer(HeartbeatDue(self.group), now_us + self.options.heartbeat_us))
        self._ask_promises(now_us)

    def _ask_promises(self, now_us: int) -> None:
        proposer = self._proposer
        assert proposer is not None, "somebody stands"
        chosen = self.ledger.chosen
        for member in proposer.unpromised():
            if member == self.name:
                own = Promise(self.group, proposer.ballot, chosen, chosen, self.ledger.votes_after(chosen))
                proposer.promise(member, own)
            else:
                self._say(member, Prepare(self.group, proposer.ballot, chosen))
        self._go_on(now_us)

    def _promise(self, peer: str, message: Promise, now_us: int) -> None:
        proposer = self._proposer
        if proposer is None or message.ballot != proposer.ballot:
            return
        for vote in message.votes:
            if vote.slot <= message.chosen:
                self._learn(vote.slot, (vote.entry,))
        if self.ledger.chosen < message.chosen:
            self._say(peer, Fetch(self.group, self.ledger.chosen))
        proposer.promise(peer, message)
        self._go_on(now_us)

    def _accepted(self, peer: str, message: Accepted, now_us: int) -> None:
        proposer = self._proposer
        if proposer is not None and message.ballot == proposer.ballot:
            proposer.accepted(peer, message.first, message.last)
            self._go_on(now_us)

    def _follow(self, peer: str, message: Follow, now_us: int) -> None:
        if self._proposer is not None and message.ballot == self._proposer.ballot:
            self._followed[peer] = max(self._followed.get(peer, 0), min(message.sent_us, now_us))

    def _refuse(self, peer: str, message: Refuse, now_us: int) -> None:
        if message.ballot.round < self.ledger.promised.round + ROUND_LEAP_MAX:
            self._round = max(self._round, message.ballot.round)
            if self._proposer is not None and message.ballot > self._proposer.ballot:
                self._give_up()

    def _take(self, entry: Entry, now_us: int, out: list[Effect]) -> tuple[bool, list[News]]:
        proposer = self._proposer
        if proposer is None or not proposer.is_leading or not proposer.take(entry):
            return False, []
        self._go_on(now_us)
        return True, self._done(out)

    def _go_on(self, now_us: int) -> None:
        """Whatever follows from what is known now: lead, propose, decide, and again."""
        proposer = self._proposer
        while proposer is not None and proposer is self._proposer:
            proposer.settle()
            if proposer.try_to_lead():
                self._follow_leader(self.name)
                self._followed = dict.fromkeys(proposer.promised, now_us)
                self._tell_lead(now_us)
            first, entries = proposer.next_entries()
            if entries:
                self._spread(first, entries)
            upto = proposer.decided()
            if upto == self.ledger.chosen:
                break
            self.ledger.choose(upto)
            proposer.settle()
            if self.name not in self.ledger.members:
                self._tell_lead(now_us)  # the others find a leader among themselves
                self._give_up()
            elif not proposer.is_leading:
                self._ask_promises(now_us)
                return

    def _spread(self, first: int, entries: Sequence[Entry]) -> None:
        proposer = self._proposer
        assert proposer is not None, "somebody leads"
        for slot, entry in enumerate(entries, first):
            self._persist(self.ledger.vote(slot, entry))
            if self.name in proposer.members:
                proposer.accepted(self.name, slot, slot)
        rest, at = list(entries), first
        while rest:
            batch = self._batch(rest)
            for member in proposer.members:
                if member != self.name:
                    self._say(member, Accept(self.group, proposer.ballot, at, batch, self.ledger.chosen))
            rest, at = rest[len(batch) :], at + len(batch)

    def _beat(self, now_us: int) -> None:
        proposer = self._proposer
        if proposer is None:
            return
        self._out.append(SetTimer(HeartbeatDue(self.group), now_us + self.options.heartbeat_us))
        if not proposer.is_leading:
            self._ask_promises(now_us)
            return
        self._tell_lead(now_us)
        for member in proposer.members:
            if member != self.name:
                self._say_again(member)

    def _tell_lead(self, now_us: int) -> None:
        proposer = self._proposer
        assert proposer is not None, "somebody leads"
        for member in proposer.members:
            if member != self.name:
                self._say(member, Lead(self.group, proposer.ballot, self.ledger.chosen, now_us))

    def _say_again(self, member: str) -> None:
        """What this member has not accepted, as far as one message holds it."""
        proposer = self._proposer
        assert proposer is not None, "somebody leads"
        missing = [slot for slot, accepted in proposer.under_way.items() if member not in accepted]
        if missing:
            first = missing[0]
            run = [slot for place, slot in enumerate(missing) if slot == first + place]
            entries = self._batch([proposer.entry(slot) for slot in run])
            self._say(member, Accept(self.group, proposer.ballot, first, entries, self.ledger.chosen))

    def _has_company(self, now_us: int) -> bool:
        heard = {m for m, at in self._followed.items() if now_us - at < 2 * self.options.patience_us} | {self.name}
        return is_majority(self.ledger.members, heard)

    def _give_up(self) -> None:
        """Somebody else leads, or tries to, or nobody can."""
        self._proposer = None
        self._follow_leader(None)

    def _follow_leader(self, leader: str | None) -> None:
        if leader != self.leader:
            self.leader = leader
            self._news.append(Led(leader))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _wait_for_leader(self, now_us: int) -> None:
        """Not all at the same moment: those who stand at once disturb each other."""
        patience_us = self.options.patience_us
        self._out.append(SetTimer(PatienceOver(self.group), now_us + patience_us + self._rng.randrange(patience_us)))

    def _batch(self, entries: list[Entry]) -> tuple[Entry, ...]:
        """As many of the first ones as one message may hold."""
        size = count = 0
        for entry in entries[: self.options.batch_entries_max]:
            size += len(entry.command)
            if count and size > self.options.batch_bytes_max:
                break
            count += 1
        return tuple(entries[:count])

    def _say(self, peer: str, message: ProtocolMessage) -> None:
        self._out.append(Send(peer, message))

    def _persist(self, record: bytes) -> None:
        self._out.append(Persist(record))

    def _done(self, out: list[Effect]) -> list[News]:
        """Hand over the effects, and tell what was decided."""
        ledger = self.ledger
        while self._told < ledger.chosen:
            self._told += 1
            self._news.append(Chosen(self._told, ledger.votes[self._told].entry))
        out += self._out
        self._out = []
        news, self._news = self._news, []
        return news
