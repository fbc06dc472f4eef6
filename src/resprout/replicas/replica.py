"""A replica: it votes, learns what is decided, and leads when nobody else does.

Multi-Paxos as in Lamport's "Paxos Made Simple" and van Renesse and Altinbuken's "Paxos Made Moderately Complex", with
three additions of everyday use: a replica that wants to lead asks first whether a majority hears no leader; a leader
that hears no majority gives up; and a configuration counts from the slot after it, so nothing is proposed behind one
before it is decided (`proposer.py`).

Assumed: messages may be lost, doubled and reordered, replicas crash and return with their records; those that lost them
return under another name. Names of members are names of lives, therefore. Safety never depends on time: it rests on
`Acceptor` (what this replica promises and accepts, and whom it follows), on the ledger, and on what the `proposer`
proposes again.

`Replica` is what an owner calls. `leading` takes and keeps the lead, and finds out what is decided.

Not done here: finding out which commands are repeats, and passing commands on to the leader. A command that was taken
may be lost with its leader: the program that needs it proposes it again.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from resprout.core.contract import Effect, ProtocolMessage
from resprout.replicas.leading import Leadership, Learner
from resprout.replicas.ledger import HeartbeatDue, Ledger, News, PatienceOver, ReplicaDesk
from resprout.replicas.messages import (
    MEMBERS_MAX,
    ROUND_LEAP_MAX,
    SLOT_LEAP_MAX,
    Accept,
    Accepted,
    Ask,
    Ballot,
    Decisions,
    Fetch,
    Follow,
    Install,
    Known,
    Lead,
    Prepare,
    Promise,
    Refuse,
    ReplicaOptions,
    SlotEntry,
    Snapshot,
    Willing,
)


class Acceptor:
    def __init__(self, desk: ReplicaDesk, learner: Learner, leadership: Leadership) -> None:
        self._desk = desk
        self._ledger: Final = desk.ledger
        self._learner = learner
        self._leadership = leadership

    def hear_ask(self, peer: str, message: Ask, now_us: int) -> None:
        if message.ballot <= self._ledger.promised or not self._is_sound(peer, message.ballot):
            self._refuse(peer)
        elif not self._leadership.hears_leader(now_us):
            self._say(peer, Willing(self._desk.group, message.ballot))

    def hear_prepare(self, peer: str, message: Prepare, now_us: int) -> None:
        ledger = self._ledger
        if message.ballot < ledger.promised or not self._is_sound(peer, message.ballot):
            self._refuse(peer)
            return
        if message.ballot > ledger.promised:
            self._desk.persist(ledger.promise(message.ballot))
            self._leadership.make_way(now_us)
        self._say(peer, self._promise(message))

    def hear_accept(self, peer: str, message: Accept, now_us: int) -> None:
        ledger = self._ledger
        if message.ballot < ledger.promised or not self._is_sound(peer, message.ballot) or message.first < 1:
            self._refuse(peer)
            return
        self._heed(peer, message.ballot, now_us)
        last = message.first + len(message.entries) - 1
        if message.entries and last <= ledger.chosen + SLOT_LEAP_MAX:
            for slot, entry in enumerate(message.entries, message.first):
                vote = ledger.votes.get(slot)
                if slot > ledger.chosen and (vote is None or vote.ballot < message.ballot):
                    self._desk.persist(ledger.vote(slot, entry))
            self._say(peer, Accepted(self._desk.group, message.ballot, message.first, last))
        self._learner.learn_upto(peer, message.ballot, message.chosen)

    def hear_lead(self, peer: str, message: Lead, now_us: int) -> None:
        if message.ballot < self._ledger.promised or not self._is_sound(peer, message.ballot):
            self._refuse(peer)
            return
        self._heed(peer, message.ballot, now_us)
        self._say(peer, Follow(self._desk.group, message.ballot, message.sent_us))
        self._learner.learn_votes(message.ballot, message.chosen)
        if message.sleeps:
            self._leadership.sleep(peer, message.chosen)

    def _promise(self, message: Prepare) -> Promise:
        """With all votes after the candidate's slot, where one message may hold them. One that is further behind is
        shown only those that are not decided, which leaders keep few (`UNDER_WAY_BYTES_MAX`). No promise that begins
        behind what the candidate knows counts (`Proposer.promise`): it fetches the rest, and asks again."""
        ledger = self._ledger
        after = max(message.after, ledger.snapshot.slot)
        votes = ledger.votes_after(after)
        if (
            after < ledger.chosen
            and sum(len(vote.entry.command) for vote in votes) > self._desk.options.batch_bytes_max
        ):
            after = ledger.chosen
            votes = ledger.votes_after(after)
        return Promise(self._desk.group, message.ballot, after, ledger.chosen, votes)

    def _heed(self, peer: str, ballot: Ballot, now_us: int) -> None:
        """Somebody leads in a ballot that is not below what was promised."""
        if ballot > self._ledger.promised:
            self._desk.persist(self._ledger.promise(ballot))
            self._leadership.give_up()
        self._leadership.heard_us = now_us
        self._leadership.follow_leader(peer)

    def _is_sound(self, peer: str, ballot: Ballot) -> bool:
        return ballot.leader == peer and 0 < ballot.round < self._ledger.promised.round + ROUND_LEAP_MAX

    def _refuse(self, peer: str) -> None:
        self._say(peer, Refuse(self._desk.group, self._ledger.promised))

    def _say(self, peer: str, message: ProtocolMessage) -> None:
        self._desk.say(peer, message)


class Replica:
    """One member, or one that is about to become one (no members known yet: it waits to be told). Methods append
    effects to `out` and return news in order."""

    def __init__(
        self, group: str, name: str, members: Sequence[str], rng: Random, options: ReplicaOptions | None = None
    ) -> None:
        self.group: Final = group
        self.name: Final = name
        self.ledger: Final = Ledger(tuple(members))
        self._desk = desk = ReplicaDesk(group, name, self.ledger, options or ReplicaOptions())
        self._learner = learner = Learner(desk)
        self._leadership = leadership = Leadership(desk, learner, rng)
        voter = Acceptor(desk, learner, leadership)
        self._on: dict[type, Callable[[str, Any, int], None]] = {
            Ask: voter.hear_ask, Prepare: voter.hear_prepare, Accept: voter.hear_accept, Lead: voter.hear_lead,
            Willing: leadership.hear_willing, Promise: leadership.hear_promise, Accepted: leadership.hear_accepted,
            Follow: leadership.hear_follow, Refuse: leadership.hear_refuse,
            Fetch: self._hear_fetch, Decisions: self._hear_decisions, Install: self._hear_install,
            Known: self._hear_known,
        }  # fmt: skip

    def start(self, now_us: int, out: list[Effect], records: Sequence[bytes] = ()) -> list[News]:
        """`records`: what an earlier run of this same replica persisted, oldest first. ValueError for other bytes."""
        self.ledger.recover(records)
        self._leadership.heard_us = now_us
        if self.ledger.snapshot.slot:
            self._desk.restore(self.ledger.snapshot)
        self._leadership.wait_for_leader(now_us)
        return self._desk.hand_over(out)

    def hear(self, peer: str, message: ProtocolMessage, now_us: int, out: list[Effect]) -> list[News]:
        """A message of this group, from a peer that has proved to be `peer`."""
        if not isinstance(message, (Lead, Follow)) or getattr(message, "sleeps", True) is False:
            self._leadership.rouse(now_us)
        self._on[type(message)](peer, message, now_us)
        return self._desk.hand_over(out)

    def fired(self, timer: HeartbeatDue | PatienceOver, now_us: int, out: list[Effect]) -> list[News]:
        if isinstance(timer, HeartbeatDue):
            self._leadership.beat(now_us)
        else:
            self._leadership.look(now_us)
        return self._desk.hand_over(out)

    def stand(self, now_us: int, out: list[Effect]) -> list[News]:
        """The owner knows that nobody leads: it need not be waited for."""
        self._leadership.stand(now_us)
        return self._desk.hand_over(out)

    def wake(self, now_us: int, out: list[Effect]) -> list[News]:
        """A member cannot be reached, or the owner needs to know whether this replica still leads."""
        self._leadership.rouse(now_us)
        return self._desk.hand_over(out)

    def propose(self, command: bytes, now_us: int, out: list[Effect]) -> tuple[bool, list[News]]:
        """False when this replica does not lead, or too much waits: nothing was done."""
        return self._take(SlotEntry(command), now_us, out)

    def has_taken(self, command: bytes) -> bool:
        """It was proposed here, since this replica has led last, and is not decided yet."""
        return self._leadership.has_taken(command)

    def configure(self, members: Sequence[str], now_us: int, out: list[Effect]) -> tuple[bool, list[News]]:
        """Propose another configuration, any at all of up to `MEMBERS_MAX`; one at a time."""
        names = tuple(dict.fromkeys(members))
        if not 0 < len(names) <= MEMBERS_MAX:
            return False, []
        return self._take(SlotEntry(lives=names), now_us, out)

    def snapshot(self, state: bytes, out: list[Effect]) -> list[bytes]:
        """The owner's state after everything that it was told. Returns all that has to be on disk now: the owner
        persists it and forgets what was before."""
        at = self._desk.told
        self.ledger.keep(Snapshot(at, self.ledger.members_at(at), state))
        return self.ledger.records()

    @property
    def is_leading(self) -> bool:
        return self._leadership.is_leading

    def has_lease(self, now_us: int) -> bool:
        """It leads, and nobody else can yet, as long as all clocks run alike."""
        return self._leadership.is_leading and self._leadership.has_company(now_us, self._desk.options.patience_us)

    @property
    def leader(self) -> str | None:
        """As far as this replica knows."""
        return self._leadership.leader

    # -- inside --------------------------------------------------------------------------------------------------------

    def _take(self, entry: SlotEntry, now_us: int, out: list[Effect]) -> tuple[bool, list[News]]:
        if not self._leadership.take(entry, now_us):
            return False, []
        return True, self._desk.hand_over(out)

    def _hear_fetch(self, peer: str, message: Fetch, now_us: int) -> None:
        self._learner.hear_fetch(peer, message)

    def _hear_decisions(self, peer: str, message: Decisions, now_us: int) -> None:
        self._learner.hear_decisions(peer, message)
        self._leadership.go_on(now_us)

    def _hear_install(self, peer: str, message: Install, now_us: int) -> None:
        self._learner.hear_install(peer, message)
        self._leadership.go_on(now_us)

    def _hear_known(self, peer: str, message: Known, now_us: int) -> None:
        self._learner.hear_known(peer, message)
