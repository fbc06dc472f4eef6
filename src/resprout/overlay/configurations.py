"""The configuration as one of its voters sees it, and what the voter keeps on disk of it.

A configuration is decided when majorities have agreed to it: of the configuration decided before, of every
configuration in between that anybody in those majorities had agreed to, and of itself. A voter agrees to one
configuration per version, its own proposals included, and tells each candidate what it has agreed to since the last
configuration that it knows to be decided. So any two configurations that are decided have met in a voter, and the later
one was decided after the earlier one by its consent: there are never two roots with majorities. Only the life that
is the voter may agree, or a later one of the same name that has read on disk what the earlier one agreed to.

`MembershipMemory` is that record. A voter writes what it agrees to before it answers (Ongaro and Ousterhout, Raft, 5.1:
persistent state). After all brokers have stopped, the next lives of enough voters therefore know every configuration
that may have been decided, and one of them can lead the same network (`stacks/resprout/joining/reunion.py`). This
assumes that a data folder is never put back to an earlier state (a restored backup).
"""

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

import msgspec

from resprout.core.contract import BrokerMessage, Sender
from resprout.core.errors import PeerError
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber, Epoch
from resprout.overlay import lineage
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import (
    LEAP_MAX,
    LIVES_MAX,
    Configuration,
    Enrol,
    Life,
    Place,
    Registration,
    Voter,
    is_among,
)
from resprout.overlay.view import MembershipView

LOST_LEASES: Final = 2
"""So long a voter is silent before the root does without it. A root that is far from a dead voter hears of its death
in no other way; a repair takes one lease and more, so soon after it there are as many voters again as there should
be."""
UNDECIDED_MAX: Final = 16
"""Configurations that a voter agrees to without hearing that one was decided."""

LIVES_KEPT: Final = 64
"""Of one broker. Configurations with an older life were replaced long ago."""
OTHERS_KEPT: Final = 256
"""Other brokers, the nearest first."""
NETWORK_LETTERS_MAX: Final = 512


class Configurations:
    def __init__(self, view: MembershipView, detector: LeaseDetector, keep: Callable[[], None] = lambda: None) -> None:
        """`keep` is called when this voter has agreed to something, before any other broker is told: a voter that
        remembers writes it down."""
        self._view = view
        self._detector = detector
        self._agreed: dict[tuple[int, str], Configuration] = {}
        self.proposed = 0
        """The highest version that this broker has proposed, in any life that it remembers."""
        self.keep = keep

    def restore(self, decided: Configuration, agreed: Iterable[Configuration], proposed: int) -> None:
        """As an earlier life of this broker has left it."""
        self._view.decided = self._view.configuration = decided
        self._agreed = {x.label: x for x in agreed}
        self.proposed = proposed
        self.withdraw()

    def withdraw(self) -> None:
        """Give up what this broker has proposed itself and does not know to be decided. Only the proposer can tell that
        a configuration is decided, and it writes that down before anybody hears of it (`keep`): so it never was."""
        self._agreed = {label: x for label, x in self._agreed.items() if not self.is_own(x)}

    def is_own(self, configuration: Configuration) -> bool:
        """A life of this broker has proposed it, and it was not decided."""
        here = self._view
        first = configuration.voters[0] if configuration.voters else None
        is_later = configuration.version > here.decided.version
        return first is not None and first.name == here.name and first.incarnation in here.own_lives and is_later

    @property
    def agreed(self) -> tuple[Configuration, ...]:
        """What this voter has agreed to and does not know to be decided, oldest first."""
        decided = self._view.decided.version
        return tuple(sorted((x for x in self._agreed.values() if x.version > decided), key=lambda x: x.label))

    # -- as a voter ----------------------------------------------------------------------------------------------------

    def undecided(self) -> tuple[Configuration, ...]:
        """Everything after the configuration that is known to be decided, oldest first."""
        here = self._view
        agreed = [x for x in self._agreed.values() if x.version > here.decided.version]
        self._agreed = {x.label: x for x in agreed}
        known = {**self._agreed}
        if here.configuration.version > here.decided.version:
            known.setdefault(here.configuration.label, here.configuration)
        return tuple(sorted(known.values(), key=lambda x: x.label))

    def latest(self) -> Configuration:
        return max((self._view.decided, *self.undecided()), key=lambda x: x.version)

    def agree(self, configuration: Configuration) -> None:
        self._agreed[configuration.label] = configuration
        if configuration.root == self._view.name:
            self.proposed = max(self.proposed, configuration.version)
        self.keep()

    def exceed(self, configuration: Configuration) -> None:
        """A voter has agreed to this one, which is not followed here: the next proposal must be newer."""
        known = max(self.latest().version, self.proposed)
        if configuration.version <= known + LEAP_MAX:
            self.proposed = max(self.proposed, configuration.version)

    def answer(self, peer: str, message: Enrol) -> bool:
        """May this configuration follow? If so, it is agreed to."""
        here = self._view
        here.follow_decided(message.decided)
        if message.new.label in self._agreed:
            return self._agreed[message.new.label] == message.new
        # The very configuration may have been heard of before it is asked about, from those who follow it: that is no
        # rival.
        others = [x for x in (here.decided, *self.undecided()) if x != message.new]
        latest = max(others, key=lambda x: x.version, default=Configuration())
        if len(self._agreed) >= UNDECIDED_MAX or not message.new.is_sound() or message.new.root != peer:
            return False
        if message.new.version <= latest.version or self._is_deserted(latest, peer, message):
            return False
        self.agree(message.new)
        here.record(Registration(message.dead, message.new))
        return True

    def _is_deserted(self, latest: Configuration, peer: str, message: Enrol) -> bool:
        """There is another root that nobody has given up, and the proposal was not made with its configuration in
        mind."""
        if latest.root in (None, peer) or message.latest.version > latest.version:
            return False
        voter = latest.voters[0]
        here = self._view
        place = here.places.get(voter.name)
        is_child = place is not None and place.parent is not None and not here.is_dead(place.parent)
        is_dead = here.is_dead_life(voter.life) or here.incarnation_of(voter.name) > voter.incarnation or is_child
        return not is_dead and not is_among(voter.name, voter.incarnation, message.dead)

    # -- the next configuration ----------------------------------------------------------------------------------------

    def propose(self, dead: frozenset[str], now_us: int) -> Configuration:
        """This broker as the root, then the voters that are left, then whoever is nearest."""
        here = self._view
        size = 2 * here.faults + 1
        latest = self.latest()
        voters = [here.as_voter()]
        left = [voter for voter in latest.voters if voter.name != here.name and voter.name not in dead]
        voters += [voter for voter in left if not self.has_lost(voter, now_us)]
        taken = {voter.name for voter in voters}
        for name in lineage.branches(here, here.reach + 1):
            if name in taken or name in dead or len(voters) >= size:
                continue
            place = here.places.get(name)
            is_known = place is not None and place.version > 0
            if place is not None and is_known and self._may_sit(place, now_us):
                voters.append(Voter(name, place.incarnation, place.address, place.remembers))
        return Configuration(max(latest.version, self.proposed) + 1, tuple(voters[:size]))

    def _may_sit(self, place: Place, now_us: int) -> bool:
        """Not one that is gone, or is not heard now: it would be lost again, and the configuration change for ever."""
        here, detector = self._view, self._detector
        return max(here.liveness(place.life), detector.liveness(place.name, now_us)) <= Liveness.UNRESPONSIVE

    def has_lost(self, voter: Voter, now_us: int) -> bool:
        """This voter can no longer vote: its life is over, or the root has not heard it for long."""
        here, detector = self._view, self._detector
        if voter.incarnation < here.incarnation_of(voter.name) or detector.has_ended(voter.name):
            return True
        if here.liveness(voter.life) >= Liveness.FORGOTTEN:
            return True
        return here.leads_configuration and detector.silence_us(voter.name, now_us) > LOST_LEASES * detector.patience_us


class MembershipMemory(msgspec.Struct, frozen=True, array_like=True):
    """Written by one life, read by the next."""

    network: str
    lives: tuple[int, ...]
    """Incarnations of this broker whose consents are in here, the latest last."""
    epoch: int
    decided: Configuration
    """The latest that is known to be decided."""
    agreed: tuple[Configuration, ...] = ()
    """What this broker has agreed to since."""
    others: tuple[Life, ...] = ()
    """Other brokers of the network, as they were known last."""
    proposed: int = 0
    """The highest version that this broker has proposed: it never proposes two configurations of one version."""
    logs: bytes = b""
    """What commands have declared about logs (`logs.table`)."""

    @property
    def known(self) -> tuple[Configuration, ...]:
        return (self.decided, *self.agreed)


class Whereabouts(BrokerMessage, frozen=True, tag=99):
    """From a broker that has a memory of its network and looks for it, to every broker that it knows. The answer of one
    that has a place says so."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER

    network: str
    placed: bool
    """The sender has a place in that network: ask it for one."""
    address: str = ""
    lives: tuple[BoundedNumber, ...] = ()
    epoch: Epoch = 0
    decided: Configuration = Configuration()
    undecided: tuple[Configuration, ...] = ()
    others: tuple[Life, ...] = ()

    def check(self) -> None:
        """PeerError when it is beyond all bounds."""
        if len(self.network) > NETWORK_LETTERS_MAX or len(self.lives) > LIVES_KEPT + 1:
            raise PeerError("a broker that looks for its network tells more than it can remember")
        if len(self.undecided) > UNDECIDED_MAX + 1 or len(self.others) > LIVES_MAX:
            raise PeerError("a broker that looks for its network tells of too many configurations or brokers")
        if not all(x.is_sound() for x in (self.decided, *self.undecided)):
            raise PeerError("a broker that looks for its network tells of a configuration that cannot be")
        if not all(0 <= number <= NUMBER_MAX for number in (*self.lives, *(life.incarnation for life in self.others))):
            raise PeerError("a broker that looks for its network tells of a life that cannot be")


encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(MembershipMemory).decode


def decode(record: bytes) -> MembershipMemory | None:
    """None when it cannot be read."""
    try:
        return _decode(record)
    except msgspec.MsgspecError:
        return None
