"""Messages between brokers of the default stack when the tree changes. Tags 100..127 of the wire belong to this file.

A broker that hands over its state (`Attach`, `Grant`, `Welcome`) sends a *parcel*: the message that names it, the head,
then rows in any number, packed into `ParcelRows`, then `ParcelEnd` (`repair/parcels.py`). Rows count against the window
like bundles do.

The outcomes at the end are messages inside one broker: what one part found out, for other parts to act on.
"""

from typing import Annotated, Any, ClassVar, Final, get_args

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import BrokerMessage, Departure, EndCode, NeighbourMessage, Outcome, Sender
from resprout.core.message_fields import (
    BROKER_STAMPED,
    BoundedNumber,
    BrokerStamp,
    BundleMessage,
    EchoedNumber,
    Epoch,
    Hops,
    Mark,
    Side,
    Stamp,
    TotalSequence,
)
from resprout.order.messages import KnownLock, RootOrderedTopic
from resprout.overlay.messages import Configuration, Life, Place
from resprout.stacks.resprout.durable_state import DurableIds, DurableState
from resprout.stacks.resprout.former import Roster
from resprout.values.rows import KnownOutcome, KnownValue, ValueRow, ValuesReached

OFFERED_MAX = 8
"""Places that a broker is offered instead of the one it asked for, or has; further ones are not looked at."""


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """A place to ask for."""

    name: str
    address: str
    """Empty where names are enough to connect."""
    missing: BoundedNumber = 0
    """How many interests of the one it is offered to are not wanted there already."""


# -- joining -----------------------------------------------------------------------------------------------------------


class ParcelMessage(BrokerMessage, frozen=True):
    """The head of a parcel, some of its rows, or its end. A member of a repair waits until all of it has come."""

    pressing: ClassVar[bool] = True


class JoinRequest(BrokerMessage, frozen=True, tag=100):
    """Take me as your child."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER

    address: str


class JoinElsewhere(BrokerMessage, frozen=True, tag=101):
    """There is no place here; ask one of these."""

    offers: tuple[Offer, ...]


class JoinWithdrawn(BrokerMessage, frozen=True, tag=117):
    """I would rather ask somebody else. Answered by `JoinElsewhere`, unless the `Welcome` is on its way already: two
    brokers must not take the same newcomer."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER


class NameTaken(BrokerMessage, frozen=True, tag=118):
    """There is no place for you anywhere: a broker of your name lives."""

    reason: str


class Welcome(ParcelMessage, frozen=True, tag=102):
    """You are my child now; parcel."""

    clock: BrokerStamp
    epoch: Epoch
    configuration: Configuration
    network: str
    """Name of the network that the newcomer has joined."""


class Leaving(BrokerMessage, frozen=True, tag=103):
    """I am about to end: do not wait for me."""


class MoveAway(NeighbourMessage, frozen=True, tag=116):
    """I, or a broker above me, have too many neighbours: please join one of these instead, or let a leaf behind you do
    so."""

    offers: tuple[Offer, ...]


# -- repair ------------------------------------------------------------------------------------------------------------


class AttachRequest(BrokerMessage, frozen=True, tag=104):
    """These are dead and I take their place: hand over what crossed them."""

    token: EchoedNumber
    dead: tuple[Life, ...]


class NotMember(BrokerMessage, frozen=True, tag=105):
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


# -- rows of parcels ---------------------------------------------------------------------------------------------------


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """A bundle of the pool. `side`: in `Attach`, 1 when it came from the sender's side of the dead link, else 0; in
    `Grant`, the member from whose side it came, 0 for the sender's own, -1 for that of a dead broker's clients."""

    bundle: Annotated[Bundle, BROKER_STAMPED]
    side: Side
    hops: Hops
    prompt: bool


class Stub(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """The place in the pool of a bundle that is stable, and of which only reports are outstanding."""

    publisher: str
    stream: str
    incarnation: BoundedNumber
    first: BoundedNumber
    last: BoundedNumber
    stamp: Stamp
    side: Side


class SeenMark(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """The last publication of one origin that the sender has seen."""

    mark: Mark


class AskedInterest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """One interest that the sender asks of the receiver, as in `Interested`."""

    id: BoundedNumber
    filter: str
    where: str | None
    confirmed: bool
    """The sender knows that nothing that matches is missing."""


class ServedInterest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """One interest that the sender had confirmed to the dead neighbour of an `Attach`."""

    filter: str
    where: str | None


class KnownPlace(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """The place of one broker, as the sender knows it."""

    place: Place


class Tombstone(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """The latest life of one broker that the sender knows to be dead."""

    life: Life


class Listener(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """One client with subscriptions, or one durable subscription (`=NAME`), that the sender stands for. `of_dead`: the
    dead neighbour of the `Attach` stood for it, as far as the sender has heard."""

    listener: str
    of_dead: bool


class KnownClient(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """The latest life of one client that the sender has heard of."""

    life: Life


class LastTotal(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=11):
    """The last total of one publisher that has a place."""

    mark: Mark


class KnownDurable(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """One durable subscription, as the sender knows it."""

    state: DurableState


class KnownMessageIds(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=17):
    """Ids of messages that one durable subscription was given lately."""

    known: DurableIds


ParcelRow = (
    Item
    | Stub
    | SeenMark
    | AskedInterest
    | ServedInterest
    | KnownPlace
    | Tombstone
    | Listener
    | KnownClient
    | KnownLock
    | LastTotal
    | KnownDurable
    | KnownMessageIds
    | KnownValue
    | KnownOutcome
    | ValuesReached
    | RootOrderedTopic
)
"""What a parcel consists of. Rows have tags of their own, apart from those of messages."""
PARCEL_ROWS: Final[tuple[type[msgspec.Struct], ...]] = get_args(ParcelRow)


def _in_place_of(bundle: Any) -> bytes:
    """As many bytes as a bundle counts for."""
    return bytes(bundle.cost + bundle.key_bytes)


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_in_place_of).encode


def bytes_of(rows: ParcelRow | tuple[ParcelRow, ...]) -> int:
    """Return what rows take in a frame and count against a window."""
    return len(_encode(rows))


class ParcelRows(ParcelMessage, frozen=True, tag=108):
    """Some rows of the parcel that the sender has begun."""

    rows: tuple[ParcelRow, ...]

    @property
    def cost(self) -> int:
        return bytes_of(self.rows)


class ParcelEnd(ParcelMessage, frozen=True, tag=115):
    """All rows of the parcel have been sent."""


# -- clients, from neighbour to neighbour ------------------------------------------------------------------------------


class ListenersChanged(NeighbourMessage, frozen=True, tag=126):
    """These clients with subscriptions the sender stands for from now on, and those no longer."""

    leaves: ClassVar[Departure] = Departure.TURN

    came: tuple[str, ...]
    went: tuple[str, ...]


class ListenersHeard(NeighbourMessage, frozen=True, tag=123):
    """The sender has heard of these."""

    leaves: ClassVar[Departure] = Departure.TURN

    names: tuple[str, ...]


class ClientBegan(NeighbourMessage, frozen=True, tag=127):
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


class Recollect(BrokerMessage, frozen=True, tag=122):
    """Before `Welcome`: everything had stopped. Hand up what is on your disk, and serve nobody yet."""


class Recollected(BundleMessage, frozen=True, tag=120):
    """To the parent, and on to the root: this stands in the log on the disk of this broker."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    broker: str
    bundle: Annotated[Bundle, BROKER_STAMPED]
    tseq: TotalSequence
    sent_to: tuple[str, ...]
    """Neighbours, of the life before, that were to have it."""


class ValuesRecollected(NeighbourMessage, frozen=True, tag=343):
    """To the parent before `Recollection`, and to children before `Revived`: the last values on the disk of a broker,
    in as many parts as needed."""

    values: tuple[KnownValue, ...]
    outcomes: tuple[KnownOutcome, ...]
    place: TotalSequence
    """The place of the last retained publication that all parts include."""
    is_last: bool

    @property
    def bulk(self) -> int:
        return bytes_of((*self.values, *self.outcomes))

    @property
    def rows(self) -> tuple[ValueRow, ...]:
        return (*self.values, *self.outcomes, *((ValuesReached(self.place),) if self.is_last else ()))


class Recollection(NeighbourMessage, frozen=True, tag=121):
    """The same way: that was all; and where the broker stood."""

    broker: str
    roster: Roster | None
    """None when its disk was empty."""


class Revived(NeighbourMessage, frozen=True, tag=114):
    """From the root to everybody, behind all that was restored: clients are served from now on."""

    keepers: tuple[Keeper, ...]


PARCELS = (Attach, Grant, Welcome)
REPAIR_MESSAGES = (
    JoinRequest, JoinElsewhere, JoinWithdrawn, NameTaken, Leaving, MoveAway, AttachRequest, NotMember,
    *PARCELS, ParcelRows, ParcelEnd,
    ListenersChanged, ListenersHeard, ClientBegan, Recollect, Recollected,
    ValuesRecollected, Recollection, Revived,
)  # fmt: skip


class Repaired(Outcome, frozen=True):
    """A repair is over here: links were replaced."""

    dead: tuple[str, ...]
    successor: str
    """Who looks after the clients of the dead."""


class Settled(Outcome, frozen=True):
    """This broker has found its place, or has new neighbours."""


class Reunited(Outcome, frozen=True):
    """All had stopped, and this broker leads the network again."""


class TakenIn(Outcome, frozen=True):
    """A parent has taken this broker in."""

    parent: str


class Cleared(Outcome, frozen=True):
    """Names were looked for: some newcomer may be taken in."""


class TreeChanged(Outcome, frozen=True):
    """A neighbour has told something about the tree."""


class Superseded(Outcome, frozen=True):
    """Later lives of these clients have begun somewhere: any earlier one is over."""

    names: tuple[str, ...]


class BroughtAlong(Outcome, frozen=True):
    """All subscriptions that a client brings along are taken up."""

    name: str


class ClientAtFault(Outcome, frozen=True):
    """Something that a client said before cannot be: its session has to end, whoever is heard in this step."""

    name: str
    reason: str
    code: EndCode
