"""Messages between brokers about who lives and who stands where, and what else the overlay exchanges with its broker.

Tags 80..97 of the wire belong to this file, 99 to `overlay.configurations`. The outcomes tell the broker what the
overlay found out, for the broker to act on. `CouncilOptions` are the options of failure detection; `CouncilStatus` is
what people and monitors are shown of it.
"""

from typing import Annotated, ClassVar

import msgspec

from resprout.core.contract import BrokerMessage, Departure, NeighbourMessage, Outcome, Sender
from resprout.core.errors import UsageError
from resprout.core.message_fields import BoundedNumber, Derived, Microseconds, Otherwise
from resprout.overlay.places import Configuration, Life, Place, Registration

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
