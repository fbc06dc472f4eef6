"""Voting: what this replica promises and accepts, and whom it follows.

Safety rests on this, on the ledger, and on what the `proposer` proposes again; never on when anything happens.
"""

from typing import Final

from resprout.core.contract import ProtocolMessage
from resprout.replicas.desk import ReplicaDesk
from resprout.replicas.leading import Leadership
from resprout.replicas.learning import Learner
from resprout.replicas.messages import (
    ROUND_LEAP_MAX,
    Accept,
    Accepted,
    Ask,
    Ballot,
    Follow,
    Lead,
    Prepare,
    Promise,
    Refuse,
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
        for slot, entry in enumerate(message.entries, message.first):
            vote = ledger.votes.get(slot)
            if slot > ledger.chosen and (vote is None or vote.ballot < message.ballot):
                self._desk.persist(ledger.vote(slot, entry))
        if message.entries:
            last = message.first + len(message.entries) - 1
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
