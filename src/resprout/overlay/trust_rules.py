"""Trust rules: which statements about deaths and the root this broker believes, and from whom.

A message that ends a broker's life, or changes who is the root, is believed only from a sender that has the right to
say it: an authority over this broker, a member of the tree, a voter. A broker that was rightly declared dead has lost
its lease before that (rule R4 of docs/protocol.md). So a broker that has held its lease for `STEADY_LEASES` believes
only an authority that it is dead. A broker that has lost its lease, or lost it recently, believes any sender: the
authority may be out of reach, and the first peer that it meets may know what others have decided meanwhile.

Not done here: proving names. Connections do that (`net`), and these rules rely on it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.overlay import lineage
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import (
    Configuration,
    Decided,
    Enrol,
    Enrolled,
    Fenced,
    Gone,
    Life,
    Orphan,
    PreVote,
    Registration,
    Suspect,
    Vote,
    is_among,
)
from resprout.overlay.view import MembershipView

STEADY_LEASES: Final = 4
"""For so long a lease must have been held before it counts for more than what others say."""
ANCESTORS_MAX: Final = 64
"""Of this broker, that are looked at: views reach less far."""


class TrustRules:
    def __init__(self, view: MembershipView, detector: LeaseDetector) -> None:
        self._view = view
        self._detector = detector
        self._lapsed_us: int | None = None
        """When the lease was last seen to be lost."""
        self._looked_us: int | None = None
        self.unbelieved = 0
        """How often something was not believed."""
        self._accusers: set[str] = set()
        """Members that say that this broker, which is the root, is dead."""
        self._rules: dict[type, Callable[[str, Any, int], bool]] = {
            Suspect: self._suspect,
            Gone: self._from_member,
            Orphan: self._orphan,
            PreVote: self._from_member,
            Decided: self._decided,
            Fenced: self._fenced,
            Enrol: self._enrol,
            Enrolled: self._from_voter,
            Vote: self._from_voter,
        }

    def is_believed(self, peer: str, message: Any, now_us: int) -> bool:
        rule = self._rules.get(type(message))
        if rule is None or rule(peer, message, now_us):
            return True
        self.unbelieved += 1
        return False

    def judge_registration(self, peer: str, registration: Registration, now_us: int) -> Registration | None:
        """Return what is believed of a registration that a neighbour passes on; None when it says what is not its to
        judge. From below comes only what has happened below, unless this broker has lost its lease, and with it its
        place. A configuration that is not followed here is left out, and the neighbour is not to blame: it may come
        from a broker below it."""
        here = self._view
        if is_among(here.name, here.incarnation, registration.dead):
            return registration if self._may_end_this(peer, now_us) else None
        if self._has_authority(peer) or not self.holds_lease(now_us):
            return registration
        ways = lineage.branches(here, here.reach + 1)
        if any(ways.get(life.name, (0, peer))[1] != peer for life in registration.dead if self._stands(life.name)):
            return None
        if self.may_follow(peer, registration.configuration, here.configuration.version, now_us):
            return registration
        self.unbelieved += 1
        return Registration(registration.dead, here.configuration)

    def may_repair(self, peer: str, dead: tuple[Life, ...], now_us: int) -> bool:
        """Whether a broker leads a repair around these by right. One below this broker never repairs around a neighbour
        of this one: that is for this broker, or for those above it, as long as it has its lease. No broker repairs
        around itself: nobody would end that repair when it is gone."""
        here = self._view
        if any(life.name == peer for life in dead):
            is_right = False
        elif is_among(here.name, here.incarnation, dead):
            is_right = self._may_end_this(peer, now_us)
        elif self._has_authority(peer) or not self.holds_lease(now_us):
            is_right = True
        else:
            _, way = lineage.branches(here, here.reach + 1).get(peer, (0, here.parent))
            is_below = way not in (here.parent, here.name)
            is_right = not is_below or not any(self._stands_beside(life.name) for life in dead)
        self.unbelieved += not is_right
        return is_right

    def believed_deaths(self, peer: str, dead: Sequence[Life], now_us: int) -> tuple[Life, ...]:
        """Those of these lives that may be dead, as a broker tells that knows of more than this one asked about. As
        long as this broker has its lease, whether a neighbour lives is for itself to judge, or for those above it."""
        if self._has_authority(peer) or not self.holds_lease(now_us):
            return tuple(dead)
        believed = tuple([life for life in dead if not self._stands_beside(life.name)])
        self.unbelieved += len(believed) < len(dead)
        return believed

    def holds_lease(self, now_us: int) -> bool:
        """Now and for a while, as far as it is looked at: once per heartbeat. Whoever has not looked for long slept."""
        if not self._view.network:
            return False
        lease_us = self._detector.lease_us
        slept = self._looked_us is not None and now_us - self._looked_us > lease_us
        self._looked_us = now_us
        if slept or not self._holds_now(now_us):
            self._lapsed_us = now_us
        return self._lapsed_us is None or now_us - self._lapsed_us > STEADY_LEASES * lease_us

    def _holds_now(self, now_us: int) -> bool:
        here, detector = self._view, self._detector
        if here.parent is not None:
            is_there = not here.is_dead(here.parent) and not detector.has_ended(here.parent)
            return detector.leased and detector.hears_parent(now_us) and is_there
        return here.leads_configuration and detector.hears_half(now_us)

    # -- by message ----------------------------------------------------------------------------------------------------

    def _from_member(self, peer: str, message: Any, now_us: int) -> bool:
        """As far as this broker sees. One that has no place itself sees nobody, and has nothing to lose."""
        here = self._view
        return not here.network or peer in here.neighbours or peer in here.places or self._votes(peer)

    def _from_voter(self, peer: str, message: Any, now_us: int) -> bool:
        return self._votes(peer) or self._from_member(peer, message, now_us)

    def _orphan(self, peer: str, message: Orphan, now_us: int) -> bool:
        """Also from a stranger whose parent is known here. A dead parent: all above it may have stopped and gone on
        without the orphan. A parent that stands: it may have declared the orphan dead, which left every view since."""
        is_over = self._view.is_dead_life(message.parent) or self._detector.is_ended(message.parent)
        return is_over or self._stands(message.parent.name) or self._from_member(peer, message, now_us)

    def _suspect(self, peer: str, message: Suspect, now_us: int) -> bool:
        """What somebody merely does not hear, this broker judges for itself, whoever says so. What is to be done
        against its own judgement, because an operator says so, only a member passes on."""
        return not (message.force or message.forgotten) or self._from_member(peer, message, now_us)

    def _fenced(self, peer: str, message: Fenced, now_us: int) -> bool:
        if message.incarnation < self._view.incarnation:
            return True  # no word about this life
        return self._may_end_this(peer, now_us)

    def _enrol(self, peer: str, message: Enrol, now_us: int) -> bool:
        here = self._view
        if is_among(here.name, here.incarnation, message.dead):
            return self._may_end_this(peer, now_us)
        is_new = self.may_follow(peer, message.new, self._view.configuration.version, now_us)
        is_decided = self.may_follow(peer, message.decided, self._view.decided.version, now_us)
        return self._from_member(peer, message, now_us) and is_new and is_decided

    def _decided(self, peer: str, message: Decided, now_us: int) -> bool:
        is_decided = self.may_follow(peer, message.configuration, self._view.decided.version, now_us)
        return self._from_member(peer, message, now_us) and is_decided

    def may_follow(self, peer: str, configuration: Configuration, known: int, now_us: int) -> bool:
        """Whether a configuration is followed here, if it is newer than the version `known`. Not if somebody below this
        broker replaces the root with it, although nothing is wrong with the one there is: whoever follows the root by
        right is nearer to it than this broker, which has its lease from there. While this broker is the root, it makes
        the configurations itself: one that it does not know has voters that it does not hear, and takes its lease
        away."""
        here = self._view
        root = here.configuration.root
        if root is None or configuration.version <= known or configuration in (here.configuration, here.decided):
            return True
        if configuration.voters[:1] == here.configuration.voters[:1] and not here.leads_configuration:
            return True
        _, way = lineage.branches(here, here.reach + 1).get(peer, (0, here.parent))
        is_below = way not in (here.parent, here.name)
        is_well = self.holds_lease(now_us) and not here.is_dead(root) and not self._detector.has_ended(root)
        return not (is_below and is_well)

    # -- who is who ----------------------------------------------------------------------------------------------------

    def _may_end_this(self, peer: str, now_us: int) -> bool:
        """Tell this broker that it is dead. Over the root nobody has authority alone. Two members have it, one of them
        a voter, and so has half of the voters: as many as an operator needs who forgets it by force."""
        here = self._view
        if self._has_authority(peer) or not self.holds_lease(now_us):
            return True
        if here.parent is None and self._from_member(peer, None, now_us):
            self._accusers.add(peer)
            voters = self._accusers.intersection(here.configuration.names)
            return len(voters) * 2 >= len(here.configuration.names) or (bool(voters) and len(self._accusers) > 1)
        return False

    def _has_authority(self, peer: str) -> bool:
        """Over this broker: its parent, or an ancestor."""
        here = self._view
        above = here.parent
        for _ in range(ANCESTORS_MAX):
            if above is None or above == peer:
                return above is not None
            above = lineage.parent_of(here, above)
        return False

    def _votes(self, peer: str) -> bool:
        here = self._view
        return peer in here.configuration.names or peer in here.decided.names

    def _stands_beside(self, name: str) -> bool:
        return name in self._view.neighbours and not self._view.is_dead(name)

    def _stands(self, name: str) -> bool:
        here = self._view
        return name in here.places and not here.is_dead(name)
