"""What members of a tree say to each other. Tags 288 to 294 and 304 of the wire belong to this
file."""

from typing import Annotated, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
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


class TreeHas(ProtocolMessage, frozen=True, tag=304):
    """To the parent: all below me, and I, have everything up to this position."""

    topic: str
    position: int


SCRIBE_TREE_MESSAGES: Final = (JoinTree, TreeJoined, LeaveTree, TreeBeat, Scribed, AskMissed, NotKept, TreeHas)
