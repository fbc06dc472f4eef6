"""Before the root is declared dead: a vote of its configuration (second half of rule R2 of docs/protocol.md).

The first living broker next to the dead root asks every voter whether it hears the root. Only with the consent of a
majority does it declare the root dead and begin the repair, in which it registers itself as the next root (`registry`).
The vote grants nothing by itself: it keeps a broker that merely lost its own link from disturbing the others.

The question is put again once a lease, and the latest answer of each voter counts, to whichever putting of the same
question: where a round trip takes longer than a lease, no answer would ever be to the last one.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import Alive, PreVote, Vote
from resprout.overlay.places import Life, check_lives, is_among
from resprout.overlay.probes import Probes
from resprout.overlay.view import MembershipView

CONSENT_LEASES: Final = 4
"""How long a consent counts, unless it is taken back or renewed."""


class _Ballot:
    __slots__ = ("asked_us", "dead", "lives", "number", "yes")

    def __init__(self, number: int, dead: frozenset[str], lives: tuple[Life, ...]) -> None:
        self.number = number
        self.dead = dead
        self.lives = lives
        self.asked_us = 0
        self.yes: dict[str, int] = {}
        """Who has consented, and when."""


class Election:
    def __init__(
        self,
        view: MembershipView,
        detector: LeaseDetector,
        probes: Probes,
        post: Callable[[str, ProtocolMessage], None],
        outcomes: deque[Outcome],
    ) -> None:
        self._view = view
        self._detector = detector
        self._probes = probes
        self._post = post
        self._outcomes = outcomes
        self.ballot: _Ballot | None = None
        """The question that this broker has put, until it has its answer."""
        self._number = 0
        self.denied: dict[str, tuple[PreVote, int]] = {}
        """Who was told that an accused is heard, and when: if its host says otherwise soon, so does this voter."""
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {PreVote: self._on_pre_vote, Vote: self._on_vote}

    def call(self, dead: frozenset[str], now_us: int, force: bool) -> None:
        """Ask the voters whether these, the root among them, may be declared dead; not more often than once a
        lease."""
        here = self._view
        ballot, lives, lease_us = self.ballot, here.lives(dead), self._detector.lease_us
        if ballot is not None and now_us - ballot.asked_us < lease_us:
            return
        if not here.configuration.voters:
            return
        if ballot is None or ballot.lives != lives:
            self._number += 1
            ballot = self.ballot = _Ballot(self._number, dead, lives)
        ballot.asked_us = now_us
        ballot.yes = {name: at_us for name, at_us in ballot.yes.items() if now_us - at_us < CONSENT_LEASES * lease_us}
        ballot.yes.pop(here.name, None)
        if here.configuration.holds(here.name, here.incarnation) and (force or not self._hears(lives, now_us)):
            ballot.yes[here.name] = now_us
        question = PreVote(ballot.number, lives, here.configuration, force)
        for name in here.configuration.names:
            if name != here.name and name not in dead:
                self._post(name, question)
        self._count()

    def _hears(self, dead: tuple[Life, ...], now_us: int) -> bool:
        """One of these lives, as far as this broker can tell, and none is certainly gone."""
        known = [life for life in dead if self._view.incarnation_of(life.name) <= life.incarnation]
        if any(self._detector.has_ended(life.name) for life in known):
            return False
        return any(self._detector.hears(life.name, now_us) for life in known)

    def _count(self) -> None:
        ballot, configuration = self.ballot, self._view.configuration
        if ballot is None:
            return
        yes = [voter.life for voter in configuration.voters if voter.name in ballot.yes]
        if self._view.is_majority(configuration, yes, self._detector.is_ended):
            self.ballot = None
            self._outcomes.append(self._view.declare(sorted(ballot.dead)))

    def _on_pre_vote(self, peer: str, message: PreVote, now_us: int) -> None:
        here = self._view
        check_lives(message.dead)
        if not message.configuration.holds(here.name, here.incarnation):
            return
        root = here.configuration.voters[0] if here.configuration.voters else None
        if self._detector.leased and root is not None and not is_among(root.name, root.incarnation, message.dead):
            self._post(peer, Alive(root.name))  # the root lives: this is no matter of votes
            return
        accused = is_among(here.name, here.incarnation, message.dead)
        if accused:
            self._post(peer, Alive(here.name))
        for life in message.dead:
            if life.name in here.places:
                self._probes.knock(life.name, now_us)
        is_heard = accused or self._hears(message.dead, now_us)
        self.denied.pop(peer, None)
        if is_heard and not accused and not message.force:
            self.denied[peer] = (message, now_us)
        self._post(peer, Vote(message.number, message.force or not is_heard))

    def look_again(self, now_us: int) -> None:
        """A host has said that a process is gone: a vote against that may have been wrong, or superfluous."""
        self._count()
        for peer, (message, asked_us) in list(self.denied.items()):
            if now_us - asked_us > self._detector.lease_us:
                del self.denied[peer]
            elif not self._hears(message.dead, now_us):
                del self.denied[peer]
                self._post(peer, Vote(message.number, True))

    def _on_vote(self, peer: str, message: Vote, now_us: int) -> None:
        ballot = self.ballot
        if ballot is None or ballot.number != message.number:
            return
        if message.yes:
            ballot.yes[peer] = now_us
            self._count()
        else:
            ballot.yes.pop(peer, None)
