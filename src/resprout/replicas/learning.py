"""Learning: what is decided, from a leader's word, from others who know more, or from a snapshot.

Whoever was left out of the configuration knows so, and may be the only one: it passes on what it knows until a majority
of the members has it.
"""

from collections.abc import Sequence

from resprout.replicas.desk import ReplicaDesk
from resprout.replicas.messages import Ballot, Decisions, Fetch, Install, Known, SlotEntry, is_majority


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
            entries = desk.batch(list(ledger.decided(message.after + 1, ledger.chosen)))
            desk.say(peer, Decisions(desk.group, message.after + 1, entries))

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
