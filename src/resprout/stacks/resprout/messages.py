"""What brokers of the default stack say when the tree changes. Tags 100..127 of the wire belong to this file.

What a broker must hand over (`Attach`, `Grant`, `Welcome`) can be much, so it travels as a *parcel*: the message that
names it, then parts in any number, then `ParcelEnd`. Parts cost room like bundles do.
"""

from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core.bounds import (
    BROKER_STAMPED,
    BoundedNumber,
    BrokerStamp,
    EchoedNumber,
    Epoch,
    Hops,
    Side,
    Stamp,
    TotalSequence,
)
from resprout.core.bundle import Bundle
from resprout.core.bundle_message import BundleMessage
from resprout.core.contract import Departure, ProtocolMessage
from resprout.core.marks import Marks
from resprout.order.totals.messages import GrantedLock, LastTotals, LockReport, WelcomeLock
from resprout.overlay.places import Configuration, Life, Place
from resprout.stacks.resprout.former import Roster

PART_ITEMS = 500
"""Of small things in one part of a parcel."""
OFFERED_MAX = 8
"""Places that a broker is offered instead of the one it asked for, or has; further ones are not looked at."""


class AskedInterest(msgspec.Struct, frozen=True, array_like=True):
    """One interest, as in `Interested`."""

    id: BoundedNumber
    filter: str
    where: str | None
    confirmed: bool
    """Whoever asks knows already that nothing is missing."""


class Served(msgspec.Struct, frozen=True, array_like=True):
    """An interest that had been confirmed to the dead broker."""

    filter: str
    where: str | None


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """A place to ask for."""

    name: str
    address: str
    """Empty where names are enough to connect."""
    missing: BoundedNumber = 0
    """How many interests of the one it is offered to are not wanted there already."""


# -- joining -----------------------------------------------------------------------------------------------------------


class ParcelMessage(ProtocolMessage, frozen=True):
    """The head of a parcel, a part of it, or its end: until all of it has come, a member of a repair stands still."""

    pressing: ClassVar[bool] = True


class JoinRequest(ProtocolMessage, frozen=True, tag=100):
    """Take me as your child."""

    address: str


class JoinElsewhere(ProtocolMessage, frozen=True, tag=101):
    """There is no place here; ask one of these."""

    offers: tuple[Offer, ...]


class JoinWithdrawn(ProtocolMessage, frozen=True, tag=117):
    """I would rather ask somebody else. Answered by `JoinElsewhere`, unless the `Welcome` is on its way already: two
    brokers must not take the same newcomer."""


class NameTaken(ProtocolMessage, frozen=True, tag=118):
    """There is no place for you anywhere: a broker of your name lives."""

    reason: str


class Welcome(ParcelMessage, frozen=True, tag=102):
    """You are my child now; parcel."""

    clock: BrokerStamp
    epoch: Epoch
    configuration: Configuration


class Leaving(ProtocolMessage, frozen=True, tag=103):
    """I am about to end: do not wait for me."""


class MoveAway(ProtocolMessage, frozen=True, tag=116):
    """I have too many neighbours, and you have no children: please join one of these instead."""

    offers: tuple[Offer, ...]


# -- repair ------------------------------------------------------------------------------------------------------------


class AttachRequest(ProtocolMessage, frozen=True, tag=104):
    """These are dead and I take their place: hand over what crossed them."""

    token: EchoedNumber
    dead: tuple[Life, ...]


class NotMember(ProtocolMessage, frozen=True, tag=105):
    """None of them is my neighbour."""

    token: EchoedNumber


class Attach(ParcelMessage, frozen=True, tag=106):
    """What the link to a dead neighbour still owed and was owed; parcel."""

    token: EchoedNumber
    neighbour: str
    """The dead broker that this one was next to."""
    dead: tuple[Life, ...]
    clock: BrokerStamp
    epoch: Epoch


class Grant(ParcelMessage, frozen=True, tag=107):
    """The first message of the link that replaces the dead one; parcel."""

    token: EchoedNumber
    dead: tuple[Life, ...]
    members: tuple[str, ...]
    """Everybody else who attached; `Item.side` counts them from 1."""
    clock: BrokerStamp
    epoch: Epoch
    configuration: Configuration
    spread: bool
    """Enough brokers hold the pool: it may be shown."""


# -- parts of parcels --------------------------------------------------------------------------------------------------


class Item(BundleMessage, ParcelMessage, frozen=True, tag=108):
    """A bundle of the pool. `side`: in `Attach`, 1 when it came from the sender's side of the dead link, else 0; in
    `Grant`, the member from whose side it came, 0 for the sender's own, -1 for that of a dead broker's clients."""

    bundle: Annotated[Bundle, BROKER_STAMPED]
    side: Side
    hops: Hops
    prompt: bool


class Stub(ParcelMessage, frozen=True, tag=109):
    """The place of a bundle that is stable, and of which only receipts are still to come."""

    publisher: str
    stream: str
    incarnation: BoundedNumber
    first: BoundedNumber
    last: BoundedNumber
    stamp: Stamp
    side: Side

    @property
    def cost(self) -> int:
        return 160


class SeenMarks(ParcelMessage, frozen=True, tag=110):
    marks: Marks

    @property
    def cost(self) -> int:
        return 128 * len(self.marks)


class Asks(ParcelMessage, frozen=True, tag=111):
    """What the sender wants of the receiver."""

    asks: tuple[AskedInterest, ...]

    @property
    def cost(self) -> int:
        return sum(48 + 4 * len(ask.filter) + 4 * len(ask.where or "") for ask in self.asks)


class ServedAsks(ParcelMessage, frozen=True, tag=112):
    """What the sender had confirmed to the dead broker."""

    served: tuple[Served, ...]

    @property
    def cost(self) -> int:
        return sum(48 + 4 * len(ask.filter) + 4 * len(ask.where or "") for ask in self.served)


class Surroundings(ParcelMessage, frozen=True, tag=113):
    """What the sender knows of the tree."""

    places: tuple[Place, ...]
    tombstones: tuple[Life, ...]

    @property
    def cost(self) -> int:
        return 512 + 128 * (len(self.tombstones) + sum(2 + len(place.neighbours) for place in self.places))


class Listeners(ParcelMessage, frozen=True, tag=124):
    """Clients with subscriptions that this broker stands for: the sender itself, or the dead neighbour of an `Attach`,
    as far as the sender has heard. Said even if there are none: then that is known."""

    broker: str
    names: tuple[str, ...]

    @property
    def cost(self) -> int:
        return 64 + 72 * len(self.names)


class ClientLives(ParcelMessage, frozen=True, tag=125):
    """The latest lives of clients that the sender has heard of."""

    lives: tuple[Life, ...]

    @property
    def cost(self) -> int:
        return 80 * len(self.lives)


class NetworkName(ParcelMessage, frozen=True, tag=119):
    """Of a `Welcome`: which network the newcomer is in now."""

    network: str

    @property
    def cost(self) -> int:
        return 64


class ParcelEnd(ParcelMessage, frozen=True, tag=115):
    pass


# -- clients, from neighbour to neighbour ------------------------------------------------------------------------------


class ListenersChanged(ProtocolMessage, frozen=True, tag=126):
    """These clients with subscriptions the sender stands for from now on, and those no longer."""

    leaves: ClassVar[Departure] = Departure.TURN

    came: tuple[str, ...]
    went: tuple[str, ...]


class ListenersHeard(ProtocolMessage, frozen=True, tag=123):
    """The sender has heard of these."""

    leaves: ClassVar[Departure] = Departure.TURN

    names: tuple[str, ...]


class ClientBegan(ProtocolMessage, frozen=True, tag=127):
    """A life of a client is served somewhere: every earlier one under its name is over. Passed on through the tree."""

    leaves: ClassVar[Departure] = Departure.TURN

    name: str
    incarnation: BoundedNumber


# -- after everything had stopped --------------------------------------------------------------------------------------


NOBODY: Final = ""
"""Who keeps what the clients of a life are owed, when it cannot be known."""


class Keeper(msgspec.Struct, frozen=True, array_like=True):
    """Who looks after the clients of a life that is over."""

    life: Life
    broker: str
    """Or `NOBODY`: they are told that deliveries may be missing."""


class Recollect(ProtocolMessage, frozen=True, tag=122):
    """Before `Welcome`: everything had stopped. Hand up what is on your disk, and serve nobody yet."""


class Recollected(BundleMessage, frozen=True, tag=120):
    """To the parent, and on to the root: this stands in the log on the disk of this broker."""

    broker: str
    bundle: Annotated[Bundle, BROKER_STAMPED]
    tseq: TotalSequence
    sent_to: tuple[str, ...]
    """Neighbours, of the life before, that were to have it."""


class Recollection(ProtocolMessage, frozen=True, tag=121):
    """The same way: that was all; and where the broker stood."""

    broker: str
    roster: Roster | None
    """None when its disk was empty."""


class Revived(ProtocolMessage, frozen=True, tag=114):
    """From the root to everybody, behind all that was restored: clients are served from now on."""

    keepers: tuple[Keeper, ...]


PARTS = (Item, Stub, SeenMarks, Asks, ServedAsks, Surroundings, Listeners, ClientLives, NetworkName)
"""Of this file; `LockReport`, `GrantedLock`, `WelcomeLock` and `LastTotals` are parts, too."""
LOCK_PARTS = (LockReport, GrantedLock, WelcomeLock, LastTotals)
PARCELS = (Attach, Grant, Welcome)
REPAIR_MESSAGES = (
    JoinRequest, JoinElsewhere, JoinWithdrawn, NameTaken, Leaving, MoveAway, AttachRequest, NotMember,
    *PARCELS, *PARTS, ParcelEnd,
    ListenersChanged, ListenersHeard, ClientBegan, Recollect, Recollected, Recollection, Revived,
)  # fmt: skip
