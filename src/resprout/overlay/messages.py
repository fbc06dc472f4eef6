"""Messages between brokers about who lives and who stands where, and what else the overlay exchanges with its broker.

Tags 80..97 of the wire belong to this file, 99 to `overlay.configurations`. The outcomes tell the broker what the
overlay found out, for the broker to act on. `CouncilOptions` are the options of failure detection; `CouncilStatus` is
what people and monitors are shown of it.

Values that several messages carry come first, with their bounds. A *life* is one incarnation of a broker: it ends once,
and never again. Names return, lives do not, so everything that must not be confused over a restart (the dead, the
voters of the configuration) speaks of lives.
"""

from collections.abc import Collection
from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core import limits
from resprout.core.contract import BrokerMessage, Departure, NeighbourMessage, Outcome, Sender
from resprout.core.errors import PeerError, UsageError
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber, Derived, Microseconds, Otherwise

NEIGHBOURS_MAX: Final = 4096
"""Of one place. As many as a node keeps sessions."""
SEATS_MAX: Final = 64
"""Of one configuration: enough for f = 31."""
LIVES_MAX: Final = 1024
"""That one message may call dead."""
LEAP_MAX: Final = 1 << 20
"""By so much a version may be ahead of the one known before: a liar must not use up the numbers."""


class Life(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One incarnation of a broker."""

    name: str
    incarnation: BoundedNumber


def is_among(name: str, incarnation: int, dead: tuple[Life, ...]) -> bool:
    """This life, or a later one of the same name, is listed."""
    return any(life.name == name and life.incarnation >= incarnation for life in dead)


def check_lives(dead: tuple[Life, ...]) -> None:
    """PeerError when a message names more lives than any honest one."""
    if len(dead) > LIVES_MAX:
        raise PeerError(f"{len(dead)} brokers called dead at once; at most {LIVES_MAX}")


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a broker stands, as it says itself (or as the coordinator of a repair says in its name)."""

    name: str
    incarnation: BoundedNumber
    version: BoundedNumber
    """Counts the places of one incarnation; the newer wins."""
    parent: str | None
    neighbours: tuple[str, ...]
    """Parent and children, oldest link first, those in repair included."""
    address: str
    lives: tuple[BoundedNumber, ...] = ()
    """Incarnations of the neighbours, in the same order."""
    looks_after: tuple[Life, ...] = ()
    """Dead brokers whose clients are looked after here."""
    remembers: bool = False
    """Its next life will know what this one has agreed to (`configurations`)."""

    @property
    def life(self) -> Life:
        return Life(self.name, self.incarnation)

    def rewired(self, dead: Collection[str], centre: Life) -> "Place":
        """This broker after a repair: the dead are no longer next to it, their replacement is."""
        kept = [(name, life) for name, life in self.bonds() if name not in dead and name != centre.name]
        bonds = [*kept, (centre.name, centre.incarnation)]
        return msgspec.structs.replace(
            self,
            version=self.version + 1,
            parent=centre.name if self.parent in dead else self.parent,
            neighbours=tuple([name for name, _ in bonds]),
            lives=tuple([life for _, life in bonds]),
        )

    def bonds(self) -> list[tuple[str, int]]:
        """Neighbours with their incarnations; 0 where it is not said."""
        return list(zip(self.neighbours, self.lives or (0,) * len(self.neighbours), strict=True))

    def is_newer(self, other: "Place") -> bool:
        return (self.incarnation, self.version) > (other.incarnation, other.version)

    def is_sound(self) -> bool:
        """Within all bounds, and a neighbour of its own parent."""
        return (
            0 <= self.incarnation <= NUMBER_MAX
            and 0 <= self.version <= NUMBER_MAX
            and len(self.neighbours) <= NEIGHBOURS_MAX
            and len(self.lives) in (0, len(self.neighbours))
            and all(0 <= number <= NUMBER_MAX for number in self.lives)
            and self.name not in self.neighbours
            and (self.parent is None or self.parent in self.neighbours)
            and len(self.looks_after) <= LIVES_MAX
            and all(0 <= life.incarnation <= NUMBER_MAX for life in self.looks_after)
            and _are_names((self.name, *self.neighbours, *[life.name for life in self.looks_after]))
        )


class Voter(msgspec.Struct, frozen=True, array_like=True):
    """A life that votes about the root, and where it is reached."""

    name: str
    incarnation: BoundedNumber
    address: str
    remembers: bool = False
    """Its next life may vote in its place: it keeps on disk what it has agreed to (`configurations`)."""

    @property
    def life(self) -> Life:
        return Life(self.name, self.incarnation)


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """The root and those who vote when it dies: 2f+1 lives at most. The first is the root."""

    version: BoundedNumber = 0
    voters: tuple[Voter, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([voter.name for voter in self.voters])

    @property
    def root(self) -> str | None:
        return self.voters[0].name if self.voters else None

    @property
    def label(self) -> tuple[int, str]:
        """Tells configurations apart: a root never makes two of one version."""
        return self.version, self.root or ""

    def holds(self, name: str, incarnation: int) -> bool:
        """Only this life may vote: another one of the same name remembers nothing of what it had accepted."""
        return any(voter.name == name and voter.incarnation == incarnation for voter in self.voters)

    def is_sound(self) -> bool:
        names = self.names
        return (
            0 <= self.version <= NUMBER_MAX
            and len(names) <= SEATS_MAX
            and len(set(names)) == len(names)
            and all(0 <= voter.incarnation <= NUMBER_MAX for voter in self.voters)
            and _are_names(names)
        )


class Registration(msgspec.Struct, frozen=True, array_like=True):
    """These are dead and about to be replaced; the configuration that its author follows rides along."""

    dead: tuple[Life, ...]
    configuration: Configuration


def _are_names(names: tuple[str, ...]) -> bool:
    return all(0 < len(name) <= limits.NAME_BYTES for name in names)


# signs of life


class Ping(BrokerMessage, frozen=True, tag=80):
    """To the parent, and from a voter of the configuration to the root: I live; may I go on?"""

    express: ClassVar[bool] = True

    sent_us: Microseconds
    """By the clock of the one who asks; it comes back in the answer."""
    decided: BoundedNumber
    """Version of the latest configuration that the one who asks knows to be decided."""

    @property
    def background(self) -> bool:
        return True


class Pong(BrokerMessage, frozen=True, tag=81):
    """Answer to a `Ping`."""

    express: ClassVar[bool] = True

    sent_us: Annotated[Microseconds, Derived("the receiver's time now", Otherwise.LIMITED)]
    leased: bool
    """The one who answers is itself in contact with the root, or is the root in contact with its majority."""
    configuration: Configuration | None = None
    """A later configuration that was decided."""

    @property
    def background(self) -> bool:
        return True


class Probe(BrokerMessage, frozen=True, tag=82):
    """Are you there? Asked around a broker that is silent, to tell a crash from a partition."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER
    express: ClassVar[bool] = True

    number: BoundedNumber


class Probed(BrokerMessage, frozen=True, tag=83):
    """Answer to a `Probe`."""

    express: ClassVar[bool] = True

    number: BoundedNumber


# suspicions


class Suspect(BrokerMessage, frozen=True, tag=84):
    """To the authority over a broker: I do not hear it. Answered by `Alive` or `Gone`."""

    suspect: Life
    passed_over: tuple[Life, ...]
    """Nearer authorities that did not answer."""
    force: bool = False
    """Declare it whatever you hear from it."""
    forgotten: tuple[Life, ...] = ()
    """The operator has said that these never return."""


class Alive(BrokerMessage, frozen=True, tag=85):
    """This broker can be reached: do not look for somebody above it."""

    name: str


class Orphan(BrokerMessage, frozen=True, tag=86):
    """To the voters: my parent is gone or not heard, and for a long time nobody has come to replace it."""

    parent: Life


class Gone(BrokerMessage, frozen=True, tag=87):
    """The tree goes on without this life. A broker that waits for it, or that is this life, must join again."""

    life: Life


class Fenced(BrokerMessage, frozen=True, tag=88):
    """You were declared dead up to this incarnation: your place is taken."""

    incarnation: BoundedNumber


# the root


class PreVote(BrokerMessage, frozen=True, tag=89):
    """To every voter, before the root is declared dead: do you hear any of these?"""

    number: BoundedNumber
    dead: tuple[Life, ...]
    configuration: Configuration
    """On which configuration this vote is held."""
    force: bool = False


class Vote(BrokerMessage, frozen=True, tag=90):
    """Answer to a `PreVote`."""

    number: BoundedNumber
    yes: bool


class Enrol(BrokerMessage, frozen=True, tag=91):
    """From the root or a candidate, to every voter of the configurations that matter: these are dead, the next
    configuration is this."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER

    number: BoundedNumber
    incarnation: BoundedNumber
    """Of the voter that is asked."""
    dead: tuple[Life, ...]
    new: Configuration
    latest: Configuration
    """The configuration that the sender has followed so far."""
    decided: Configuration
    """The latest that it knows to be decided."""


class Enrolled(BrokerMessage, frozen=True, tag=92):
    """Answer to an `Enrol`, with what the voter knew before."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER

    number: BoundedNumber
    incarnation: BoundedNumber
    yes: bool
    tombstones: tuple[Life, ...]
    """The latest deaths."""
    decided: Configuration
    undecided: tuple[Configuration, ...]
    """Configurations after that which it has heard of or agreed to: any of them may have been decided without its
    knowledge."""


class Decided(BrokerMessage, frozen=True, tag=93):
    """Majorities have agreed to this configuration."""

    configuration: Configuration


# waves


class Tell(NeighbourMessage, frozen=True, tag=94):
    """Record this, pass it on while `ttl` lasts, and answer `Told` when everybody behind you has."""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    """Of the wave, as the sender counts."""
    ttl: Annotated[BoundedNumber, Derived("hops that brokers look around themselves", Otherwise.LIMITED)]
    """Hops that it goes on from the receiver."""
    places: tuple[Place, ...] = ()
    registration: Registration | None = None


class Told(NeighbourMessage, frozen=True, tag=95):
    """Answer to a `Tell`."""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber


# names


class Namesake(msgspec.Struct, frozen=True, array_like=True):
    """A life that bears a name, or wants to."""

    name: str
    incarnation: BoundedNumber
    address: str
    """Empty where names are enough to connect."""
    above: str
    """Whose child it is, or whom it asks for a place; empty for a root."""
    stands: bool
    """It has its place in the tree. Otherwise it is a newcomer."""


class Seek(NeighbourMessage, frozen=True, tag=96):
    """Is anybody called so, at your place or behind you? Answered by `Sought` when everybody behind has answered."""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    """Of the search, as the sender counts."""
    names: tuple[str, ...]


class Sought(NeighbourMessage, frozen=True, tag=97):
    """Answer to a `Seek`."""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    namesakes: tuple[Namesake, ...]
    latest: tuple[BoundedNumber, ...]
    """For each name that was sought: lives up to this one are over."""
    complete: bool
    """Everybody has been asked. Otherwise a link on the way is in repair."""


OVERLAY_MESSAGES = (
    Ping, Pong, Probe, Probed, Suspect, Alive, Orphan, Gone, Fenced,
    PreVote, Vote, Enrol, Enrolled, Decided, Tell, Told, Seek, Sought,
)  # fmt: skip


class Declared(Outcome, frozen=True):
    """These are dead, and this broker leads their repair. They have their tombstones; all else is to do."""

    names: tuple[str, ...]


class Registered(Outcome, frozen=True):
    """What had to be known elsewhere before the running repair ends is known."""


class Expelled(Outcome, frozen=True):
    """This broker was declared dead, or left out: its life is over."""

    reason: str


class CouncilOptions(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_us: int = 100_000
    """Between two signs of life to the parent. Shorter: more messages, nothing else."""
    lease_us: int = 1_000_000
    """Silence after which a broker stops to count on its parent, and (a little later) a parent suspects its child.
    Several heartbeats plus the longest pause of a process that is to survive it, or healthy brokers are fenced."""

    def __post_init__(self) -> None:
        if self.heartbeat_us < 1:
            raise UsageError(f"heartbeat_us must be at least 1, not {self.heartbeat_us}")
        if self.lease_us < 3 * self.heartbeat_us:
            raise UsageError("lease_us must be at least three heartbeats: one late sign of life is no death")


class CouncilStatus(msgspec.Struct, frozen=True):
    parent: str | None
    leased: bool
    unheard: tuple[str, ...]
    """Neighbours that are not heard at the moment."""
    cut_off: tuple[str, ...]
    """More silent brokers in one piece than may crash: nobody is declared dead, all wait for the partition to heal."""
