"""From a suspicion to a declared death: reports, authorities, judgements (rules R1, R2 and R6 of docs/protocol.md).

The authority over a broker is its parent, or the next ancestor that is left; over the root, the nearest broker that is
left, after a vote. Only the authority judges. Every other broker reports to the authority, and to the next one up if
that one does not answer. A suspicion changes nothing by itself: the link stays open, and the suspicion ends when the
broker is heard again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay import lineage
from resprout.overlay.death_checks import Election, Probes
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import Alive, Expelled, Gone, Life, Orphan, Suspect, check_lives
from resprout.overlay.registry import Registry
from resprout.overlay.view import MembershipView
from resprout.overlay.waves import Census, CensusFindings

ORPHAN_LEASES: Final = 6
"""After this many leases without a parent, and without a repair of it, a broker asks whether it was left out."""
UNHEARD_LEASES: Final = 3
"""Like `ORPHAN_LEASES`, for a parent that may live: it may have declared this broker dead, and cannot say so. Less
than `ghost_us`, so that the clients of this broker come back in time."""
FORGOTTEN_MAX: Final = 4096
TOLD_MAX: Final = 256
"""Lives that the operator said never return: known at a time, and passed on in one message."""
ORPHANS_MAX: Final = 64
"""Brokers whose parents a voter looks for at a time; others are answered when they ask again."""
UNANSWERED_LEASES: Final = 2
"""An authority that has not answered for so long is passed over."""


class Suspicions:
    """Turns suspicions into reports to the authority, or, at the authority, into judgements."""

    def __init__(
        self,
        view: MembershipView,
        detector: LeaseDetector,
        probes: Probes,
        election: Election,
        registry: Registry,
        census: Census,
        post: Callable[[str, ProtocolMessage], None],
        outcomes: deque[Outcome],
    ) -> None:
        self._view = view
        self._detector = detector
        self._probes = probes
        self._election = election
        self._registry = registry
        self._census = census
        self._post = post
        self._outcomes = outcomes
        self._asked: dict[str, int] = {}
        """By authority that has not answered a report: since when, in microseconds."""
        self._unanswering: dict[str, None] = {}
        """Authorities that did not answer for `UNANSWERED_LEASES`, and are passed over."""
        self._sought_us = 0
        """When this broker last asked whether the tree goes on without it."""
        self._orphans: dict[str, Life] = {}
        """Orphans that wait for an answer -> the parent that the tree is asked for."""
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {
            Suspect: self._on_suspect, Alive: self._on_alive, Orphan: self._on_orphan, Gone: self._on_gone,
        }  # fmt: skip

    def clear(self) -> None:
        """Forget all reports and questions: this broker has a new place."""
        self._asked.clear()
        self._unanswering.clear()
        self._election.ballot = None

    def answered(self, name: str) -> None:
        """Note that an authority has answered, and can be asked again."""
        self._asked.pop(name, None)
        self._unanswering.pop(name, None)

    def accuse(self, name: str, now_us: int, force: bool = False, lost: tuple[str, ...] = ()) -> None:
        """Judge a broker if this one is its authority, otherwise report it to the authority (`Suspect`). `force`: skip
        the checks. `lost`: brokers that cannot be the authority either."""
        here = self._view
        if name == here.name or here.is_dead(name):
            return
        authority, piece = lineage.authority(here, name, lambda other: self._is_unanswering(other) or other in lost)
        if authority == here.name:
            self._judge(name, piece, now_us, force)
        elif authority is not None:
            asked_us = self._asked.setdefault(authority, now_us)
            if now_us - asked_us > UNANSWERED_LEASES * self._detector.lease_us:
                del self._asked[authority]
                self._unanswering[authority] = None
            forgotten = tuple(here.forgotten)[-TOLD_MAX:] if lost else ()
            self._post(authority, Suspect(here.life(name), here.lives(piece - {name}), force, forgotten))

    def forget(self, names: Iterable[str], now_us: int) -> None:
        """Declare brokers dead that never return, as the operator says, whatever the probes say. Majorities of the
        configuration do without them: if the operator is wrong, there may be two roots."""
        here = self._view
        lost = tuple(sorted(names))
        voters = [voter.life for voter in (*here.configuration.voters, *here.decided.voters) if voter.name in lost]
        here.forgotten.update(dict.fromkeys([*voters, *here.lives(lost)]))
        for name in lost:
            self.accuse(name, now_us, force=True, lost=lost)
        self._registry.look_again()

    def ended(self, peer: str, now_us: int) -> None:
        """Act on the certain end of a life: accuse it, and look again at suspicions that waited for its answer."""
        here = self._view
        if here.neighbours.get(peer):
            self.accuse(peer, now_us)
        if peer in self._asked:
            for name in [
                name for name, is_open in here.neighbours.items() if is_open and self._detector.has_ended(name)
            ]:
                self.accuse(name, now_us)

    def watch_leaders(self, now_us: int) -> None:
        """Accuse coordinators of repairs, in which this broker is a member, that are not heard: perhaps no other broker
        is left to notice."""
        for leader in sorted(set(self._view.attached.values())):
            if self._detector.liveness(leader, now_us) >= Liveness.SILENT:
                self.accuse(leader, now_us)

    def seek_help(self, parent: str, now_us: int) -> None:
        """Ask whether the tree goes on without this broker: its parent is gone or not heard for long, and nobody
        repairs the gap. The voters know, and the authority over the parent, which is near. Once per lease."""
        here, detector = self._view, self._detector
        leases = ORPHAN_LEASES if detector.has_ended(parent) else UNHEARD_LEASES
        is_long = now_us - detector.renewed_us > leases * detector.lease_us
        if not is_long or now_us - self._sought_us < detector.lease_us or not self._is_alone(parent):
            return
        self._sought_us = now_us
        authority, _ = lineage.authority(here, parent, self._is_unanswering)
        asked = dict.fromkeys(here.configuration.names if authority is None else (*here.configuration.names, authority))
        for name in asked:
            if name != here.name:
                self._post(name, Orphan(here.life(parent)))

    def _is_alone(self, parent: str) -> bool:
        """Whether no living broker has asked this one to join the repair of its parent."""
        leader = self._view.attached.get(parent)
        return leader is None or self._detector.has_ended(leader)

    def _is_unanswering(self, name: str) -> bool:
        return name in self._unanswering or self._detector.has_ended(name)

    def _judge(self, name: str, piece: frozenset[str], now_us: int, force: bool) -> None:
        """Declare a child dead if it has certainly crashed. For a larger piece, or above this broker, call a vote
        (`Election`). `force` skips the checks."""
        if len(piece) == 1 and lineage.parent_of(self._view, name) == self._view.name:
            if force or (self._detector.is_sure(name, now_us) and self._probes.is_crash(piece, now_us)):
                self._outcomes.append(self._view.declare((name,)))
        elif force and any(lineage.parent_of(self._view, other) == self._view.name for other in piece):
            # The piece is below this broker, so the root lives and no vote is needed.
            self._outcomes.append(self._view.declare(sorted(piece)))
        elif force or self._probes.is_crash(piece, now_us):
            self._election.call(piece, now_us, force)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _on_suspect(self, peer: str, message: Suspect, now_us: int) -> None:
        here = self._view
        check_lives(message.passed_over)
        check_lives(message.forgotten)
        name, incarnation = message.suspect.name, message.suspect.incarnation
        self._post(peer, Alive(here.name))
        if message.forgotten and len(here.forgotten) < FORGOTTEN_MAX:
            here.forgotten.update(dict.fromkeys(message.forgotten))
            self._registry.look_again()
        if name == here.name:
            return
        passed = [life.name for life in message.passed_over if life.name in here.places and life.name != here.name]
        for other in passed:
            self._probes.probe_host(other, now_us)
            if self._detector.has_ended(other):
                self.accuse(other, now_us)
        if incarnation <= here.tombstones.get(name, -1):
            if self._registry.wanted is None and incarnation <= here.replaced.get(name, -1):
                self._post(peer, Gone(message.suspect))
        elif name in here.places and here.incarnation_of(name) == incarnation:
            self._take_up(name, tuple(passed) if message.force else (), now_us, message.force)

    def _take_up(self, name: str, lost: tuple[str, ...], now_us: int, force: bool) -> None:
        """Act on another broker's suspicion: judge the suspect if this broker is its authority."""
        here = self._view
        authority, _ = lineage.authority(here, name, lambda other: self._is_unanswering(other) or other in lost)
        is_child = lineage.parent_of(here, name) == here.name
        if authority == here.name and (force or not is_child or self._detector.is_sure(name, now_us)):
            self.accuse(name, now_us, force, lost)

    def _on_alive(self, peer: str, message: Alive, now_us: int) -> None:
        if not self._detector.has_ended(message.name):  # else a later life speaks, which knows nothing of the tree
            self.answered(message.name)

    def _on_orphan(self, peer: str, message: Orphan, now_us: int) -> None:
        """Ask the whole tree for the orphan and its parent. `Gone` ends a life, so it is sent only if the answer is
        complete: no link is in repair whose repair the orphan may belong to, and no broker has an open link to an
        orphan that it does not hear. Then the parent was replaced, or the orphan itself was declared dead."""
        is_stranger = self._detector.is_leased and peer not in self._view.neighbours
        if not is_stranger or peer in self._orphans or len(self._orphans) >= ORPHANS_MAX:
            return
        parent = self._orphans[peer] = message.parent
        orphan = Life(peer, self._view.sessions.get(peer, 0))

        def found(findings: CensusFindings) -> None:
            del self._orphans[peer]
            if findings.complete and self._detector.is_leased:
                lost = next((life for life in (parent, orphan) if not _stands(life, findings)), None)
                if lost is not None:
                    self._post(peer, Gone(lost))

        self._census.ask(tuple(dict.fromkeys((parent.name, orphan.name))), found)

    def _on_gone(self, peer: str, message: Gone, now_us: int) -> None:
        here = self._view
        parent = here.parent
        if parent is None or self._detector.leased or not self._is_alone(parent):
            return
        if message.life == here.life(parent):
            self._outcomes.append(Expelled(f"{parent} was replaced without this broker"))
        elif message.life == here.life(here.name):
            self._outcomes.append(Expelled(f"the tree goes on without this broker, which does not hear {parent}"))


def _stands(life: Life, findings: CensusFindings) -> bool:
    """Return whether the tree found this life, or an earlier one, in its place."""
    return any(x.name == life.name and x.stands and x.incarnation <= life.incarnation for x in findings.namesakes)
