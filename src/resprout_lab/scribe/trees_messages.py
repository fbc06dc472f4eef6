"""The messages of topic trees between brokers, and the interface between the trees of a broker and their owner.

Tags 288 to 294 and 304 of the wire belong to this file.
"""

from typing import Annotated, Final, Protocol

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.message_fields import BundleMessage

NOWHERE: Final = -1
"""The position of one that has lost its own way from the root."""


class JoinTree(ProtocolMessage, frozen=True, tag=288):
    """Be my parent in the tree of this topic."""

    topic: str


class TreeJoined(ProtocolMessage, frozen=True, tag=289):
    """You are in the tree, below me; I have passed on everything up to this position. `NOWHERE`: not any more, because
    I am not; wait with me, or find another way."""

    topic: str
    position: Annotated[int, msgspec.Meta(ge=NOWHERE)]
    root: str = ""
    """Who leads the topic, as a holder: whoever is in the tree publishes there without a search."""
    sleeps: bool = False
    """As in `TreeBeat`."""


class LeaveTree(ProtocolMessage, frozen=True, tag=290):
    """I am not your child, or not any more."""

    topic: str


class TreeBeat(ProtocolMessage, frozen=True, tag=291):
    """The root lives, and has come so far."""

    topic: str
    position: int
    root: str = ""
    sleeps: bool = False
    """Nothing was published for a while: no further sign of life until something is."""

    @property
    def background(self) -> bool:
        return True


class Scribed(BundleMessage, frozen=True, tag=292):
    """A publication, on its way down the tree of its topic, or to somebody who missed it."""

    bundle: Bundle
    position: int
    hops: int
    tseq: Annotated[int, msgspec.Meta(ge=-1)]
    """The place of its first message among all of the topic."""


class AskMissed(ProtocolMessage, frozen=True, tag=293):
    """To the root: I lack what lies between these."""

    topic: str
    after: int
    upto: int


class NotKept(ProtocolMessage, frozen=True, tag=294):
    """Answer to `AskMissed`: nothing up to this position is kept any more."""

    topic: str
    position: int
    begins: int = 0
    """The log of the topic begins behind this position: an earlier one has ended."""


class TreeHas(ProtocolMessage, frozen=True, tag=304):
    """To the parent: all below me, and I, have everything up to this position."""

    topic: str
    position: int


SCRIBE_TREE_MESSAGES: Final = (JoinTree, TreeJoined, LeaveTree, TreeBeat, Scribed, AskMissed, NotKept, TreeHas)


class TreeGrown(Outcome, frozen=True):
    """This broker is in the tree of the topic."""

    topic: str


class BeatDue(Timer, frozen=True):
    """When roots give signs of life, and others look whether they have heard one."""

    @property
    def background(self) -> bool:
        return True


class JoinOverdue(Timer, frozen=True):
    """When to ask again for a parent in the tree of a topic."""

    topic: str


class TreeLines(Protocol):
    @property
    def now_us(self) -> int: ...
    def next_hop(self, topic: str) -> str | None:
        """The next one on the way to the root; None while there is no way."""

    def rooted(self, topic: str, root: str) -> None:
        """The tree says who leads the topic."""

    def say(self, name: str, message: ProtocolMessage) -> None: ...
    def push(self, name: str, scribed: Scribed) -> None:
        """A publication, to a child."""

    def ask_root(self, missed: AskMissed) -> None:
        """Again and again, for as long as something is `missed`."""

    def spread_again(self, topic: str, after: int) -> None:
        """By the root: from there on (`Trees.spread`)."""

    def spread_upto(self, topic: str) -> None:
        """To the root: the whole tree has come further (`Trees.floor`)."""

    def is_sole_root(self, topic: str) -> bool:
        """Of this broker, which is the root as far as it knows: nobody else can be, now."""

    def deliver(self, scribed: Scribed, source: str | None) -> None:
        """Each in its turn; to whoever wants it here. `source`: who brought it, None for the root itself."""

    def skipped(self, topic: str, position: int) -> None:
        """No broker keeps publications of the topic up to this position any more. Comes before later ones are
        delivered."""

    def wake(self, timer: Timer, after_us: int) -> None: ...
    def let_sleep(self, timer: Timer) -> None: ...
    def tell(self, outcome: Outcome) -> None: ...
