"""Checks before a broker is declared dead: a search for a partition, and for the root a vote.

`Probes` tell a crash from a partition (rule R5 of docs/protocol.md). At most f brokers in one piece can have crashed at
once. So before silent brokers are declared dead, every broker around them is asked for a sign of life; one that does
not answer joins the piece, and the brokers around it are asked in turn. A piece larger than f is a partition: no broker
is declared dead, and the links wait for it to heal. Brokers that are certainly gone need no probe.

`Election` asks the voters of the configuration before the root is declared dead (second half of rule R2). The first
living broker next to the dead root asks every voter whether it hears the root. Only with the consent of a majority does
it declare the root dead and begin the repair, in which it registers itself as the next root (`registry`). The vote
grants nothing by itself: it keeps a broker that merely lost its own link from disturbing the others. The question is
sent again once a lease, and the latest answer of each voter counts, to whichever sending of the same question: where a
round trip takes longer than a lease, no answer would ever be to the last one. A consent expires unless it is renewed, a
broker that gets a new place drops its question, and a member of a repair of the root does not begin another.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay import lineage
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import Alive, Life, PreVote, Probe, Probed, Vote, check_lives, is_among
from resprout.overlay.view import MembershipView

ROUNDS_MAX: Final = 64
"""Pieces that are probed at a time; the one begun first is forgotten."""
HOST_PROBE: Final = 0
"""The number of a probe whose answer nobody waits for: only whether its host refuses the connection matters."""

CONSENT_LEASES: Final = 4
"""How long a consent counts, unless it is taken back or renewed."""


class _Round:
    """One search for a partition: the brokers around a piece that were probed, and those that answered."""

    __slots__ = ("answered", "answered_us", "asked", "begun_us", "number")

    def __init__(self, number: int, now_us: int) -> None:
        self.number = number
        self.begun_us = now_us
        self.asked: dict[str, int] = {}
        """By broker: when it was probed, in microseconds."""
        self.answered: set[str] = set()
        self.answered_us = now_us
        """When the last answer came, or the search began."""


class Probes:
    """Tells a crash from a partition by probing the brokers around the suspects."""

    def __init__(
        self, view: MembershipView, detector: LeaseDetector, post: Callable[[str, ProtocolMessage], None]
    ) -> None:
        self._view = view
        self._detector = detector
        self._post = post
        self._rounds: dict[frozenset[str], _Round] = {}
        self._number = HOST_PROBE
        self._partition: tuple[str, ...] = ()
        self._partition_us = 0
        self._probed_hosts: dict[str, int] = {}
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {Probe: self._on_probe, Probed: self._on_probed}

    def is_crash(self, suspects: frozenset[str], now_us: int) -> bool:
        """Return whether these suspects have crashed, and are not cut off. The first calls probe the brokers around
        them and return False; call it again with each heartbeat until the answers are here."""
        doubtful = [name for name in sorted(suspects) if not self._detector.has_ended(name)]
        if not doubtful:
            return True
        for name in doubtful:
            self.probe_host(name, now_us)
        probing = self._round(suspects, now_us)
        piece = set(suspects)
        while True:
            edge = self._unanswered_around(piece, probing)
            for name in edge:
                if name not in probing.asked:
                    probing.asked[name] = now_us
                    self._post(name, Probe(probing.number))
            unanswering = [name for name in edge if self._is_unanswering(name, probing, now_us)]
            if not unanswering:
                # After a heal the suspects' own next signs of life must have had the time to come first.
                settled = now_us - probing.answered_us > 2 * self._detector.heartbeat_us
                return not edge and len(piece) <= self._view.faults and settled
            piece.update(unanswering)
            if len(piece) > self._view.faults:
                self._partition, self._partition_us = tuple(sorted(piece)), now_us
                return False

    def partitioned_piece(self, now_us: int) -> tuple[str, ...]:
        """Return the piece that was last found too large to have crashed; empty after two leases."""
        return self._partition if now_us - self._partition_us <= 2 * self._detector.lease_us else ()

    def probe_host(self, name: str, now_us: int) -> None:
        """Open a session with a broker that is no neighbour, at most once per lease. If its host refuses, its process
        is gone."""
        if name in self._view.neighbours or self._probed_hosts.get(name, -1) > now_us - self._detector.lease_us:
            return
        if len(self._probed_hosts) >= ROUNDS_MAX:
            del self._probed_hosts[next(iter(self._probed_hosts))]
        self._probed_hosts.pop(name, None)
        self._probed_hosts[name] = now_us
        self._post(name, Probe(HOST_PROBE))

    def _round(self, suspects: frozenset[str], now_us: int) -> _Round:
        probing = self._rounds.get(suspects)
        if probing is None or now_us - probing.begun_us > 2 * self._detector.lease_us:
            self._rounds.pop(suspects, None)
            if len(self._rounds) >= ROUNDS_MAX:
                del self._rounds[next(iter(self._rounds))]
            self._number += 1
            probing = self._rounds[suspects] = _Round(self._number, now_us)
        return probing

    def _unanswered_around(self, piece: set[str], probing: _Round) -> list[str]:
        """Return the brokers next to the piece that are not declared dead and have not answered."""
        here = self._view
        near = {name for inside in piece for name in lineage.around(here, inside)} - piece - probing.answered
        return sorted(name for name in near if name != here.name and not here.is_dead(name))

    def _is_unanswering(self, name: str, probing: _Round, now_us: int) -> bool:
        return now_us - probing.asked[name] > self._detector.lease_us // 2 or self._detector.has_ended(name)

    def _on_probe(self, peer: str, message: Probe, now_us: int) -> None:
        self._post(peer, Probed(message.number))

    def _on_probed(self, peer: str, message: Probed, now_us: int) -> None:
        for probing in self._rounds.values():
            if probing.number == message.number and peer in probing.asked:
                probing.answered.add(peer)
                probing.answered_us = now_us


class _Ballot:
    """The question whether some brokers, the root among them, are dead, and the voters that consent."""

    __slots__ = ("asked_us", "dead", "lives", "number", "yes")

    def __init__(self, number: int, dead: frozenset[str], lives: tuple[Life, ...]) -> None:
        self.number = number
        self.dead = dead
        self.lives = lives
        self.asked_us = 0
        self.yes: dict[str, int] = {}
        """By voter that consents: when it did, in microseconds."""


class Election:
    """Asks the voters before the root is declared dead, and answers such questions of others."""

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
        """The question that this broker asks; None if it asks none."""
        self._number = 0
        self.denied: dict[str, tuple[PreVote, int]] = {}
        """By broker that asked and was told no: its question, and when. If the host of an accused refuses within a
        lease, this voter changes its answer."""
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
        ballot.yes.pop(here.name, None)
        if here.configuration.holds(here.name, here.incarnation) and (force or not self._hears(lives, now_us)):
            ballot.yes[here.name] = now_us
        question = PreVote(ballot.number, lives, here.configuration, force)
        for name in here.configuration.names:
            if name != here.name and name not in dead:
                self._post(name, question)
        self._count(now_us)

    def _hears(self, dead: tuple[Life, ...], now_us: int) -> bool:
        """Whether this broker hears one of these lives, and none of them is certainly gone."""
        known = [life for life in dead if self._view.incarnation_of(life.name) <= life.incarnation]
        if any(self._detector.has_ended(life.name) for life in known):
            return False
        return any(self._detector.hears(life.name, now_us) for life in known)

    def _count(self, now_us: int) -> None:
        """Declare the accused dead if a majority consents, unless this broker is a member of a repair of them."""
        ballot, configuration = self.ballot, self._view.configuration
        if ballot is None or self._follows_repair(ballot):
            return
        valid_us = CONSENT_LEASES * self._detector.lease_us
        ballot.yes = {name: at_us for name, at_us in ballot.yes.items() if now_us - at_us < valid_us}
        yes = [voter.life for voter in configuration.voters if voter.name in ballot.yes]
        if self._view.is_majority(configuration, yes, self._detector.is_ended):
            self.ballot = None
            self._outcomes.append(self._view.declare(sorted(ballot.dead)))

    def _follows_repair(self, ballot: _Ballot) -> bool:
        """Whether this broker is a member of a repair of these brokers whose coordinator lives and is not accused."""
        leaders = {leader for dead, leader in self._view.attached.items() if dead in ballot.dead} - ballot.dead
        return any(not self._view.is_dead(leader) and not self._detector.has_ended(leader) for leader in leaders)

    def _on_pre_vote(self, peer: str, message: PreVote, now_us: int) -> None:
        here = self._view
        check_lives(message.dead)
        if not message.configuration.holds(here.name, here.incarnation):
            return
        root = here.configuration.voters[0] if here.configuration.voters else None
        if self._detector.leased and root is not None and not is_among(root.name, root.incarnation, message.dead):
            self._post(peer, Alive(root.name))  # the root lives, so no vote is needed
            return
        accused = is_among(here.name, here.incarnation, message.dead)
        if accused:
            self._post(peer, Alive(here.name))
        for life in message.dead:
            if life.name in here.places:
                self._probes.probe_host(life.name, now_us)
        is_heard = accused or self._hears(message.dead, now_us)
        self.denied.pop(peer, None)
        if is_heard and not accused and not message.force:
            self.denied[peer] = (message, now_us)
        self._post(peer, Vote(message.number, message.force or not is_heard))

    def look_again(self, now_us: int) -> None:
        """A host has said that a process is gone: count votes again, and change answers that this makes wrong."""
        self._count(now_us)
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
            self._count(now_us)
        else:
            ballot.yes.pop(peer, None)
