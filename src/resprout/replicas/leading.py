"""Who leads: waiting for a leader, taking its place when nobody hears it, and leading.

What is proposed, and when it is decided, is the business of `proposer`. This is everything around it: asking first
whether a majority hears no leader, sending again what was not answered, and giving up when no majority answers.

`Learner` learns what is decided: from a leader, from others that know more, or from a snapshot. A replica that was left
out of the configuration knows so, and may be the only one: it passes on what it knows until a majority of the members
has it.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from resprout.replicas.ledger import HeartbeatDue, Led, PatienceOver, ReplicaDesk
from resprout.replicas.messages import (
    ROUND_LEAP_MAX,
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
    SlotEntry,
    Willing,
    is_majority,
)
from resprout.replicas.proposer import Proposer

ELECTIONS_MAX: Final = 2
"""After so many without a leader, each further one doubles the patience: where promises take long, another ballot only
makes them take longer."""
DOUBLINGS_MAX: Final = 5
"""But no more than so many do."""


class Learner:
    def __init__(self, desk: ReplicaDesk) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        self._upto = 0
        """Something was asked for because all up to here is decided."""
        self._informed: dict[str, int] = {}
        """By one that was left out: member -> how much it is known to know."""

    def learn_upto(self, leader: str, ballot: Ballot, chosen: int) -> None:
        """What was accepted from this very leader is what it knows to be decided; anything else is asked for."""
        self.learn_votes(ballot, chosen)
        self.ask_for(leader, chosen)

    def learn_votes(self, ballot: Ballot, chosen: int) -> None:
        """The same, where the rest may be on its way."""
        ledger = self._ledger
        upto = ledger.chosen
        while upto < chosen and (vote := ledger.votes.get(upto + 1)) is not None and vote.ballot == ballot:
            upto += 1
        ledger.choose(upto)

    def ask_for(self, peer: str, chosen: int) -> None:
        """What this peer knows and is not known here."""
        if self._ledger.chosen < chosen:
            self._upto = max(self._upto, chosen)
            self._desk.say(peer, Fetch(self._desk.group, self._ledger.chosen))

    def learn(self, first: int, entries: Sequence[SlotEntry]) -> None:
        for slot, entry in enumerate(entries, first):
            if slot == self._ledger.chosen + 1:
                self._desk.persist(self._ledger.learn(slot, entry))

    # -- asked, and answered -------------------------------------------------------------------------------------------

    def hear_fetch(self, peer: str, message: Fetch) -> None:
        ledger, desk = self._ledger, self._desk
        if message.after < ledger.snapshot.slot:
            desk.say(peer, Install(desk.group, ledger.snapshot))
        else:  # an answer without entries, too: whoever asked may ask the same again later
            first = min(message.after, ledger.chosen) + 1  # a liar may ask for what follows the last number of all
            entries = desk.batch(list(ledger.decided(first, ledger.chosen)))
            desk.say(peer, Decisions(desk.group, first, entries))

    def hear_decisions(self, peer: str, message: Decisions) -> None:
        """Not all of it may have fitted into one message."""
        before = self._ledger.chosen
        self.learn(message.first, message.entries)
        if self._ledger.chosen > before:
            self.ask_for(peer, self._upto)

    def hear_install(self, peer: str, message: Install) -> None:
        ledger, desk = self._ledger, self._desk
        if message.snapshot.slot <= ledger.chosen:
            return
        ledger.keep(message.snapshot)
        desk.restore(message.snapshot)
        for record in ledger.records():
            desk.persist(record)
        desk.say(peer, Fetch(desk.group, ledger.chosen))

    # -- left out ------------------------------------------------------------------------------------------------------

    def pass_on(self) -> None:
        """Whoever decided that this replica is left out may be gone before the others heard of it."""
        ledger, desk = self._ledger, self._desk
        informed = {member for member, chosen in self._informed.items() if chosen >= ledger.chosen}
        if not is_majority(ledger.members, informed):
            for member in ledger.members:
                desk.say(member, Known(desk.group, ledger.chosen))

    def hear_known(self, peer: str, message: Known) -> None:
        ledger, desk = self._ledger, self._desk
        if not desk.is_member and peer in ledger.members:
            self._informed[peer] = max(self._informed.get(peer, 0), message.chosen)
        if message.chosen > ledger.chosen:
            self.ask_for(peer, message.chosen)
        elif desk.is_member and peer not in ledger.members:
            desk.say(peer, Known(desk.group, ledger.chosen))


class Leadership:
    def __init__(self, desk: ReplicaDesk, learner: Learner, rng: Random) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        self._learner = learner
        self._rng = rng
        self.leader: str | None = None
        self.heard_us = 0
        """When the leader was heard last."""
        self._proposer: Proposer | None = None
        self._elections = 0
        """How often this replica stood, or promised something to one that did, since it last knew of a leader."""
        self._round = 0
        """The highest of all ballots that were heard of."""
        self._wished = Ballot()
        self._willing: dict[str, None] = {}
        """Who would promise the ballot that this replica wishes for."""
        self._followed: dict[str, int] = {}
        """While leading: member -> when the latest `Lead` was sent that it answered."""
        self.is_asleep = False
        """The leader gives no signs of life, and nobody waits for one."""
        self._idle_beats = 0
        """Signs of life that this leader gave since it had something to decide."""

    @property
    def is_leading(self) -> bool:
        return self._proposer is not None and self._proposer.is_leading

    def take(self, entry: SlotEntry, now_us: int) -> bool:
        """False when this replica does not lead, or too much waits, or a second configuration would."""
        proposer = self._proposer
        if proposer is None or not proposer.is_leading or (entry.is_configuration and proposer.is_changing):
            return False
        if not proposer.take(entry):
            return False
        self.rouse(now_us)
        self.go_on(now_us)
        return True

    def has_taken(self, command: bytes) -> bool:
        return self._proposer is not None and self._proposer.has(command)

    # -- following -----------------------------------------------------------------------------------------------------

    def wait_for_leader(self, now_us: int) -> None:
        """Not all at the same moment: those who stand at once disturb each other."""
        patience_us = self._patience_us
        at_us = now_us + patience_us + self._rng.randrange(patience_us)
        self._desk.wake(PatienceOver(self._desk.group), at_us)

    @property
    def _patience_us(self) -> int:
        """Before it stands. To have asked in vain who is willing makes nobody more patient: that costs little, and when
        a majority can be reached again it should not have to wait."""
        return self._desk.options.patience_us << min(max(0, self._elections - ELECTIONS_MAX), DOUBLINGS_MAX)

    def hears_leader(self, now_us: int) -> bool:
        if self.is_leading:
            return self.has_company(now_us)
        leader, members = self.leader, self._ledger.members
        if leader is None or (members and leader not in members):  # whoever was left out leads no more
            return False
        if self.is_asleep:
            return True
        return now_us - self.heard_us < self._desk.options.patience_us

    def follow_leader(self, leader: str | None) -> None:
        if leader != self.leader:
            self.leader = leader
            if leader is not None:
                self._elections = 0
            self._desk.tell(Led(leader))

    def give_up(self) -> None:
        """Somebody else leads, or tries to, or nobody can."""
        self._proposer = None
        self.follow_leader(None)

    def make_way(self, now_us: int) -> None:
        """Somebody else stands, was promised all that it needs from here, and has time to lead."""
        self.give_up()
        self.heard_us = now_us
        self._elections += 1

    def look(self, now_us: int) -> None:
        """Is there a leader? If not, and this replica is a member, it tries."""
        if self.is_asleep:
            return
        self.wait_for_leader(now_us)
        if self.is_leading:
            if not self.has_company(now_us):
                self.give_up()
        elif now_us - self.heard_us >= self._patience_us and self._desk.is_member:
            self.give_up()
            self._wish(now_us)
        elif not self._desk.is_member:
            self._learner.pass_on()

    def stand(self, now_us: int) -> None:
        """Without waiting, if it may."""
        self.rouse(now_us)
        if not self.is_leading and self._desk.is_member:
            self.give_up()
            self._wish(now_us)

    # -- sleeping ------------------------------------------------------------------------------------------------------

    def sleep(self, leader: str, chosen: int) -> None:
        """The leader says that there is nothing to decide. Whoever lacks something stays awake, and asks for it."""
        self.is_asleep = self.leader == leader and self._ledger.chosen >= chosen and self._desk.is_member

    def rouse(self, now_us: int) -> None:
        """There is something to do: signs of life are given, and waited for, again."""
        self._idle_beats = 0
        if self.is_asleep:
            self.is_asleep = False
            self.heard_us = now_us
            self.wait_for_leader(now_us)
            if self._proposer is not None:
                self._followed = dict.fromkeys(self._ledger.members, now_us - self._desk.options.patience_us)
                self.beat(now_us)

    def _falls_asleep(self, proposer: Proposer, now_us: int) -> bool:
        options = self._desk.options
        recent_us = now_us - 2 * options.heartbeat_us
        if proposer.is_idle and all(self._followed.get(member, 0) > recent_us for member in self._desk.others()):
            self._idle_beats += 1
        else:
            self._idle_beats = 0
        return 0 < options.idle_beats <= self._idle_beats

    # -- taking the lead -----------------------------------------------------------------------------------------------

    def _wish(self, now_us: int) -> None:
        """For a ballot above all that was heard of."""
        self._wished = Ballot(max(self._round, self._ledger.promised.round) + 1, self._desk.name)
        self._willing = {self._desk.name: None}
        for member in self._desk.others():
            self._desk.say(member, Ask(self._desk.group, self._wished))
        self._stand(now_us)

    def hear_willing(self, peer: str, message: Willing, now_us: int) -> None:
        if message.ballot == self._wished:
            self._willing[peer] = None
            self._stand(now_us)

    def _stand(self, now_us: int) -> None:
        """As soon as a majority would promise, and unless somebody else was faster."""
        ballot = self._wished
        if ballot <= self._ledger.promised or not is_majority(self._ledger.members, self._willing):
            return
        if self.hears_leader(now_us):
            return
        self._desk.persist(self._ledger.promise(ballot))
        self._proposer = Proposer(self._ledger, ballot)
        self._elections += 1
        self.heard_us = now_us
        self._followed = {}
        self._wake_to_beat(now_us)
        self._ask_promises(self._proposer, now_us)

    def _ask_promises(self, proposer: Proposer, now_us: int) -> None:
        desk, chosen = self._desk, self._ledger.chosen
        for member in proposer.unpromised():
            if member == desk.name:
                own = Promise(desk.group, proposer.ballot, chosen, chosen, self._ledger.votes_after(chosen))
                proposer.promise(member, own)
            else:
                desk.say(member, Prepare(desk.group, proposer.ballot, chosen))
        self.go_on(now_us)

    def hear_promise(self, peer: str, message: Promise, now_us: int) -> None:
        proposer = self._proposer
        if proposer is None or message.ballot != proposer.ballot:
            return
        for vote in message.votes:
            if vote.slot <= message.chosen:
                self._learner.learn(vote.slot, (vote.entry,))
        self._learner.ask_for(peer, message.chosen)
        proposer.promise(peer, message)
        self.go_on(now_us)

    def hear_refuse(self, peer: str, message: Refuse, now_us: int) -> None:
        if message.ballot.round < self._ledger.promised.round + ROUND_LEAP_MAX:
            self._round = max(self._round, message.ballot.round)
            if self._proposer is not None and message.ballot > self._proposer.ballot:
                self.give_up()

    # -- leading -------------------------------------------------------------------------------------------------------

    def hear_accepted(self, peer: str, message: Accepted, now_us: int) -> None:
        proposer = self._proposer
        if proposer is not None and message.ballot == proposer.ballot:
            proposer.accepted(peer, message.first, message.last)
            self.go_on(now_us)

    def hear_follow(self, peer: str, message: Follow, now_us: int) -> None:
        if self._proposer is not None and message.ballot == self._proposer.ballot:
            self._followed[peer] = max(self._followed.get(peer, 0), min(message.sent_us, now_us))

    def go_on(self, now_us: int) -> None:
        """Whatever follows from what is known now: lead, propose, decide, and again."""
        proposer = self._proposer
        while proposer is not None and proposer is self._proposer:
            proposer.settle()
            if proposer.try_to_lead():
                self.follow_leader(self._desk.name)
                self._followed = dict.fromkeys(proposer.promised, now_us)
                self._tell_lead(proposer, now_us)
            first, entries = proposer.next_entries()
            if entries:
                self._spread(proposer, first, entries)
            upto = proposer.decided()
            if upto == self._ledger.chosen:
                break
            self._ledger.choose(upto)
            for member in self._ledger.members:
                self._followed.setdefault(member, now_us)  # whoever has just become one has time to answer
            proposer.settle()
            if not self._desk.is_member:
                self._tell_lead(proposer, now_us)  # the others find a leader among themselves
                self.give_up()
            elif not proposer.is_leading:
                self._ask_promises(proposer, now_us)
                return

    def _spread(self, proposer: Proposer, first: int, entries: Sequence[SlotEntry]) -> None:
        desk = self._desk
        for slot, entry in enumerate(entries, first):
            desk.persist(self._ledger.vote(slot, entry))
            if desk.is_member:
                proposer.accepted(desk.name, slot, slot)
        rest, at = list(entries), first
        while rest:
            batch = desk.batch(rest)
            for member in desk.others():
                desk.say(member, Accept(desk.group, proposer.ballot, at, batch, self._ledger.chosen))
            rest, at = rest[len(batch) :], at + len(batch)

    def beat(self, now_us: int) -> None:
        proposer = self._proposer
        if proposer is None or self.is_asleep:
            return
        if proposer.is_leading and self._falls_asleep(proposer, now_us):
            self.is_asleep = True
            self._tell_lead(proposer, now_us, sleeps=True)
            return
        self._wake_to_beat(now_us)
        if not proposer.is_leading:
            self._ask_promises(proposer, now_us)
            return
        self._tell_lead(proposer, now_us)
        for member in self._desk.others():
            self._say_again(proposer, member)

    def _wake_to_beat(self, now_us: int) -> None:
        self._desk.wake(HeartbeatDue(self._desk.group), now_us + self._desk.options.heartbeat_us)

    def _tell_lead(self, proposer: Proposer, now_us: int, sleeps: bool = False) -> None:
        """And what is decided, behind all that was said before: whoever knows less then asks for the rest. Before a
        leader sleeps, that was said."""
        desk, ballot, chosen = self._desk, proposer.ballot, self._ledger.chosen
        for member in desk.others():
            desk.say(member, Lead(desk.group, ballot, chosen, now_us, sleeps))
            if not sleeps:
                desk.say(member, Accept(desk.group, ballot, chosen + 1, (), chosen))

    def _say_again(self, proposer: Proposer, member: str) -> None:
        """What this member has not accepted, as far as one message holds it."""
        missing = [slot for slot, accepted in proposer.under_way.items() if member not in accepted]
        if missing:
            first = missing[0]
            run = [slot for place, slot in enumerate(missing) if slot == first + place]
            entries = self._desk.batch([proposer.entry(slot) for slot in run])
            self._desk.say(member, Accept(self._desk.group, proposer.ballot, first, entries, self._ledger.chosen))

    def has_company(self, now_us: int, limit_us: int = 0) -> bool:
        """Most have answered a sign of life that was sent within the limit; by default the one that a leader has."""
        limit_us, name = limit_us or 2 * self._desk.options.patience_us, self._desk.name
        heard = {member for member, at_us in self._followed.items() if now_us - at_us < limit_us} | {name}
        return is_majority(self._ledger.members, heard)
