"""A crash or a partition? (Rule R5 of docs/protocol.md.)

At most f brokers in one piece can have crashed at once. So before silent brokers are declared dead, everybody around
them is asked for a sign of life; whoever does not answer joins the piece and is asked around in turn. A piece larger
than f is a partition: nobody is declared dead, and the links wait for it to heal. Brokers that are certainly gone need
no probe.
"""

from collections.abc import Callable
from typing import Any, Final

from resprout.core.contract import ProtocolMessage
from resprout.overlay import lineage
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import Probe, Probed
from resprout.overlay.view import MembershipView

ROUNDS_MAX: Final = 64
"""Pieces that are probed at a time; the one begun first is forgotten."""
KNOCK: Final = 0
"""The number of a probe whose answer nobody waits for: only whether its host refuses the connection matters."""


class _Round:
    __slots__ = ("answered", "answered_us", "asked", "begun_us", "number")

    def __init__(self, number: int, now_us: int) -> None:
        self.number = number
        self.begun_us = now_us
        self.asked: dict[str, int] = {}
        self.answered: set[str] = set()
        self.answered_us = now_us


class Probes:
    def __init__(
        self, view: MembershipView, detector: LeaseDetector, post: Callable[[str, ProtocolMessage], None]
    ) -> None:
        self._view = view
        self._detector = detector
        self._post = post
        self._rounds: dict[frozenset[str], _Round] = {}
        self._number = KNOCK
        self._cut: tuple[str, ...] = ()
        self._cut_us = 0
        self._knocked: dict[str, int] = {}
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {Probe: self._on_probe, Probed: self._on_probed}

    def is_crash(self, suspects: frozenset[str], now_us: int) -> bool:
        """True when these may be declared dead. Takes several calls: the answers of those around must come first."""
        doubtful = [name for name in sorted(suspects) if not self._detector.has_ended(name)]
        if not doubtful:
            return True
        for name in doubtful:
            self.knock(name, now_us)
        probing = self._round(suspects, now_us)
        piece = set(suspects)
        while True:
            edge = self._edge(piece, probing)
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
                self._cut, self._cut_us = tuple(sorted(piece)), now_us
                return False

    def cut_off(self, now_us: int) -> tuple[str, ...]:
        """The piece that was last found too large to have crashed."""
        return self._cut if now_us - self._cut_us <= 2 * self._detector.lease_us else ()

    def knock(self, name: str, now_us: int) -> None:
        """Ask for a session with a broker that is no neighbour, to see whether its host refuses."""
        if name in self._view.neighbours or self._knocked.get(name, -1) > now_us - self._detector.lease_us:
            return
        if len(self._knocked) >= ROUNDS_MAX:
            del self._knocked[next(iter(self._knocked))]
        self._knocked.pop(name, None)
        self._knocked[name] = now_us
        self._post(name, Probe(KNOCK))

    def _round(self, suspects: frozenset[str], now_us: int) -> _Round:
        probing = self._rounds.get(suspects)
        if probing is None or now_us - probing.begun_us > 2 * self._detector.lease_us:
            self._rounds.pop(suspects, None)
            if len(self._rounds) >= ROUNDS_MAX:
                del self._rounds[next(iter(self._rounds))]
            self._number += 1
            probing = self._rounds[suspects] = _Round(self._number, now_us)
        return probing

    def _edge(self, piece: set[str], probing: _Round) -> list[str]:
        """Who lives next to the piece, as far as we know, and has not answered."""
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
