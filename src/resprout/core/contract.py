"""The contract of a protocol: events in, effects out, nothing else.

A machine has no clock, no I/O, no randomness of its own and no threads. Time comes in as integer microseconds,
randomness as a `random.Random` given at construction, and iteration never follows the order of a set. The same object
runs in the simulator and behind sockets.

Effects happen in list order; only timers, which no one else can see, may be set after the rest. `step` never raises for
what a peer did: it closes that link and says why. A restart is a new machine plus the records it persisted; everything
else is gone.

There are two levels. A *stack* speaks of peers by name: `Received`, `LinkUp`, `LinkDown` in, `Send`, `Open`, `Close`
out. The `links` floor turns that into connections (`Connected`, `Arrived`, `Disconnected` in, `Transmit`, `Connect`,
`Disconnect` out), which is all that a driver has to know.
"""

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from resprout.core.limits import DEFAULT_LIMITS, ClientLimits
from resprout.core.message import Message


class Event(msgspec.Struct, gc=False):
    """Something that happened to a machine."""


class Effect(msgspec.Struct, gc=False):
    """Something that a machine wants done."""


class Timer(msgspec.Struct, frozen=True):
    """A named wake-up, compared by value. Each subclass says in its docstring *when to* do what."""

    @property
    def background(self) -> bool:
        """True for housekeeping that never ends (heartbeats): a run may be quiescent while it is pending."""
        return False


class Departure(enum.Enum):
    """The latest moment at which a message leaves. A frame takes along everything that was sent on its session before,
    so no message overtakes another."""

    STEP = "step"
    """With the step that sends it."""
    TURN = "turn"
    """After the node has handled everything that arrives at the same moment. A broker passes on what is told to
    everybody, and hears of many such things at once: they share a frame."""


class Sender(enum.Flag):
    """Who may say a message to a broker."""

    NOBODY = 0
    """Brokers say it to clients, or its stack has tables of its own."""
    CLIENT = enum.auto()
    NEIGHBOUR = enum.auto()
    """A broker whose link to this one is open."""
    BROKER = enum.auto()
    """Any broker that has its name by right."""
    NEWCOMER = enum.auto()
    """A broker that has no right to its name yet."""


class ProtocolMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of everything that peers say to each other above the links floor."""

    said_by: ClassVar[Sender] = Sender.NOBODY
    word: ClassVar[str | None] = None
    """What traces call it, where they do not use the name of its class."""
    pressing: ClassVar[bool] = False
    """Others stand still until it has come: on a connection of which nothing is known yet, more of this may be on its
    way than of the rest."""
    express: ClassVar[bool] = False
    """True for what may overtake everything that was sent before it: it must pass where much else waits."""
    leaves: ClassVar[Departure] = Departure.STEP
    """What is told to everybody may share frames: each broker passes it on, and hears of many such things at a time."""

    @property
    def cost(self) -> int:
        """Bytes that count against the peer's window. Control messages are free: they must pass when data may not."""
        return 0

    @property
    def bulk(self) -> int:
        """Bytes that it takes in a frame without counting against the window, where they may be many."""
        return 0

    @property
    def paper_bytes(self) -> int | None:
        """Of a stack that follows a paper: bytes of the header by that paper's formula, payload aside. They are counted
        beside the encoded ones where bytes count, and mean nothing to the protocol. None: nothing is claimed."""
        return None

    @property
    def background(self) -> bool:
        """True for housekeeping that never ends (signs of life): a run may be quiescent while it is on its way."""
        return False


class ClientMessage(ProtocolMessage, frozen=True):
    """Said by clients."""

    said_by: ClassVar[Sender] = Sender.CLIENT


class NeighbourMessage(ProtocolMessage, frozen=True):
    """Said by neighbours."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR


class BrokerMessage(ProtocolMessage, frozen=True):
    """Said by brokers, neighbours or not."""

    said_by: ClassVar[Sender] = Sender.BROKER


def word_of(message: type) -> str:
    """What traces call messages of this type."""
    word: str | None = getattr(message, "word", None)
    return message.__name__ if word is None else word


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a part of a machine found out, for the machine that it is a part of: another part acts on it. Parts leave
    these where effects are left, and call nobody back."""


class Machine(Protocol):
    """A protocol. `start` is called once, before any `step`."""

    def start(self, now_us: int) -> Sequence[Effect]: ...

    def step(self, event: Event, now_us: int) -> Sequence[Effect]: ...


# -- between a stack and the links floor ------------------------------------------------------------------------------


class Received(Event):
    """A message came from a peer: once, and in the order the peer sent it, but for what is `express`."""

    peer: str
    message: Any
    more: bool = False
    """Another message of the same peer follows at once: they came together."""


class LinkUp(Event):
    """A session with this peer begins; nothing of an earlier one remains."""

    peer: str
    role: str
    """"broker" or "client"."""
    incarnation: int
    room: int
    """Bytes (sum of `cost`) that may be sent before the next `Writable`."""
    internal: bool = False
    """A client that runs inside this broker and ends with it, so it never moves to another broker."""
    trip_us: int = 0
    """The round trip that the handshake took, where this side opened the session."""
    identity: str = ""
    """Whom the peer has proven to be, by a secret or a certificate; empty where nothing is proven."""
    limits: ClientLimits = DEFAULT_LIMITS
    """How much its identity may use, if it is a client."""


class EndCause(enum.StrEnum):
    """How a session came to be over, as this side knows it."""

    LOST = "lost"
    """In any other way."""
    CLOSED = "closed"
    """The peer lives and ended it."""
    RESTARTED = "restarted"
    """The peer's life is over, and its next one has greeted."""


class EndCode(enum.IntEnum):
    """What whoever ends a session tells the peer beside the reason, which is for people only."""

    NONE = 0
    REPLACED = 1
    """A later life of the one who is told is served."""
    REOPENED = 2
    """It has begun another session itself; or somebody else of its name and life has."""
    OUTLIVED = 3
    """Asked for a session, it is not taken: a later life of it has been here."""
    FORBIDDEN = 4
    """It may not be here: it has not shown who it is, the rules do not let it in, or it costs more than its limits
    allow."""
    SLOW = 5
    """It did not read what it subscribed to, and its broker has no room for more."""
    OUT_OF_BOUNDS = 6
    """It stated a number that no peer in its place can know of. It is not served again in this life."""


class LinkDown(Event):
    """The session is over for good, and what was not acknowledged in it is lost. A mere broken connection is not this:
    the session resumes and the stack never hears of it."""

    peer: str
    reason: str
    cause: EndCause = EndCause.LOST
    code: EndCode = EndCode.NONE
    """As the peer said it."""


class Silent(Event):
    """A peer that this node has, or wants, a session with is not heard: its connection broke, could not be made, or
    brought nothing for `silence_us`. Comes again with every further attempt that fails; the session stays."""

    peer: str
    refused: bool
    """Its own host says that nobody listens there any more: the process is certainly gone."""
    was_open: bool = False
    """The connection stood, and brought nothing for `silence_us`: the process may only be busy."""


class Heard(Event):
    """After `Silent`: the peer is connected again and the session goes on. A new session says `LinkUp` instead."""

    peer: str


class Stirred(Event):
    """A message that takes long is on its way from or to this peer, and gets on: the peer lives. Comes now and then as
    long as that lasts."""

    peer: str


class Writable(Event):
    """From now on this many bytes (sum of `cost`) may be sent to the peer. It replaces the number known before; comes
    whenever less than half of the window was left and more than half is free again."""

    peer: str
    room: int


class Congested(Event):
    """Whether many messages wait until this broker has acknowledged them. A stack that is told so takes less from its
    clients until the backlog is gone: what it says to the peer waits behind all of that."""

    peer: str
    is_congested: bool


class TimerFired(Event):
    timer: Timer


class Request(Event):
    """A wish from above: what a user of this node asked for. The stack names the types it understands."""

    body: Any
    token: int = 0
    """Handed back in the `Answer`."""


class Recovered(Event):
    """The records that this node persisted before it went down, oldest first; comes before anything else."""

    records: Sequence[bytes]


class Send(Effect):
    """Give a message to a peer's session. Lost only when the session is."""

    peer: str
    message: Any


class Open(Effect):
    """Keep a session with this peer, opening connections as often as needed, until `Close`."""

    peer: str
    newcomer: bool = False
    """The name of this node may be taken, nobody has looked yet: the session gives it no right to the name. The peer
    knows it under `newcomer_key` until it says `Adopt`."""


class Adopt(Effect):
    """The peer of this session of a newcomer has its name from now on: what is sent to it, and what comes from it, goes
    by `name`. A session that stood under the name is to be closed before."""

    key: str
    name: str


class Close(Effect):
    """End the session with this peer; the reason is told to it and to people, the code to it."""

    peer: str
    reason: str
    code: EndCode = EndCode.NONE


class Locate(Effect):
    """Where a peer listens, for drivers that need an address to connect; a later one replaces it."""

    peer: str
    address: str


class Remember(Effect):
    """Who else is in the network, as far as is known here. A driver with a disk keeps it beyond the end of the process:
    whoever comes back looks for them before it founds anything."""

    network: str
    """What tells this network from any other."""
    names: tuple[str, ...]
    memory: bytes = b""
    """For the next life of this node (`BrokerSeat.memory`). A barrier, like a record: nothing listed after it leaves
    the node before it is durable, where there is a disk."""
    placed: bool = True
    """This node has its place in the network; otherwise it looks for it."""


class Retire(Effect):
    """This life is over: nothing listed after it is done, connections close, timers are gone. The driver begins the
    next life, under the next incarnation, unless this node leaves for good."""

    reason: str
    again: bool = True
    toward: str | None = None
    """Whom the next life asks for a place first."""
    above: int = 0
    """The incarnation that ended this life, or has been here since: the next life takes a higher one."""
    refused: bool = False
    """The network does not take this node, for a reason that people have to see to."""


class Hold(Effect):
    """Grant this peer no more room until `Release`: what it sent was too much to keep."""

    peer: str


class Release(Effect):
    peer: str


class HoldRoles(Event):
    """The driver has no room for what peers of these roles send: grant them nothing more, those that come later
    included. No roles: what the driver has held is released. It is independent of what a stack holds. The links hand it
    on to the stack: while brokers are held, perhaps nothing that waits for a record leaves."""

    roles: tuple[str, ...]
    told: Any = None
    """A message for every client that is held, or held no more; None: they are told nothing."""


class SetTimer(Effect):
    """Wake this machine at a time; setting an equal timer again moves it."""

    timer: Timer
    at_us: int


class CancelTimer(Effect):
    timer: Timer


class Persist(Effect):
    """A barrier: nothing listed after it leaves the node before the record is durable."""

    record: bytes


class Forget(Effect):
    """Records persisted before the latest `count` are no longer needed."""

    count: int


class Deliver(Effect):
    """Give messages to the subscriber's code."""

    messages: Sequence[Message]
    wanted_by: Any = None
    """The request of the subscription that these are for; None: all that match."""


class Answer(Effect):
    """To a `Request`, or news about an earlier one."""

    body: Any
    token: int = 0


class Note(Effect):
    """Something worth a row in the trace: `kind` and the columns that go with it."""

    kind: str
    columns: dict[str, Any]


# -- between the links floor and a driver -----------------------------------------------------------------------------


class Connected(Event):
    """A connection stands. `peer` is the name that was asked for, or None when the other side opened it."""

    connection: int
    peer: str | None


class Arrived(Event):
    """A frame came in on a connection, whole and in order."""

    connection: int
    frame: Any


class Trickled(Event):
    """Some of a frame came in on a connection, and it is not complete. Comes now and then as long as that lasts."""

    connection: int


class Disconnected(Event):
    """A connection is gone, or one that was asked for could not be made (`connection` is then 0)."""

    connection: int
    peer: str | None
    reason: str
    refused: bool = False
    """The peer's own host answered that nobody listens there: the process is certainly gone."""


class Transmit(Effect):
    """Put a frame on a connection."""

    connection: int
    frame: Any


class Connect(Effect):
    """Try once to connect to a peer; answered by `Connected` or `Disconnected`."""

    peer: str


class Disconnect(Effect):
    """Close a connection after what was transmitted on it has left."""

    connection: int
    reason: str
