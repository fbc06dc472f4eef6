"""What brokers say to each other about topics and their trees, beside what rings and replicas say. `TreeLines` is the
interface between the trees of a broker and their owner.

Tags 288 to 305 and 312 of the wire belong to this file.
"""

from typing import Annotated, Final, Protocol

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.message_fields import BundleMessage
from resprout_lab.blocks.mesh import OverlayMember

HOLDERS_MAX: Final = 16
"""Of one topic, in one message."""


def holder_of(name: str, incarnation: int, address: str) -> str:
    """One life of a broker as a holder of topics, and where it listens: another life is another holder."""
    return f"{name}/{incarnation}@{address}"


def name_of(holder: str) -> str:
    return holder.rpartition("@")[0].rpartition("/")[0]


def address_of(holder: str) -> str:
    return holder.rpartition("@")[2]


class PublishAt(BundleMessage, frozen=True, tag=295):
    """To the leader of its topic: give this a place, behind the publication of the same client and topic that ends with
    the number `previous`."""

    bundle: Bundle
    previous: int


class PublicationPlaced(ProtocolMessage, frozen=True, tag=296):
    """Answer to `PublishAt`: it has a place for ever, which this many brokers know. No copies: it will never have one,
    because a later life of the publisher has."""

    topic: str
    publisher: str
    incarnation: int
    stream: str
    first: int
    copies: int


class AskTopic(ProtocolMessage, frozen=True, tag=297):
    """Who leads this topic? `fresh`: and how far has it come now, nothing left out that anybody was shown?"""

    topic: str
    fresh: bool


class TopicLed(ProtocolMessage, frozen=True, tag=298):
    """This one leads the topic, or knows better who does; empty: nobody, for now."""

    topic: str
    leader: str
    position: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """By the leader, if that was asked."""
    kept_after: Annotated[int, msgspec.Meta(ge=0)] = 0
    """By the leader: everything behind this position is kept."""


class FoundTopic(ProtocolMessage, frozen=True, tag=299):
    """Hold this topic together with these. Answered by `TopicKnown`."""

    topic: str
    group: str
    holders: tuple[str, ...]


class TopicKnown(ProtocolMessage, frozen=True, tag=300):
    """These hold the topic; `founders` were the first to, and the first of these asked the others."""

    topic: str
    group: str
    founders: tuple[str, ...]
    holders: tuple[str, ...]
    is_begun: bool = False
    """Something may be decided in its log. Otherwise it was agreed to hold it, and its founder may give it up."""


class ClaimTopic(ProtocolMessage, frozen=True, tag=301):
    """By the owner of its key: these are to hold the topic from now on."""

    topic: str
    holders: tuple[str, ...]


class AskRange(ProtocolMessage, frozen=True, tag=302):
    """By one that has come to the ring, to its successor: which topics are mine? Answered by `TopicKnown` for each, and
    `RangeCeded`."""

    address: str
    """Where it listens, which gives its number on the ring."""


class RangeCeded(ProtocolMessage, frozen=True, tag=303):
    """All was said. The right to begin topics behind `start`, up to you, is yours from now on, and not mine."""

    start: OverlayMember | None
    """None: whoever had it is gone. It is yours from your predecessor on, when the ring is quiet."""


class TopicGivenUp(ProtocolMessage, frozen=True, tag=305):
    """By its founder: not all agreed, so this log never begins, and who has agreed need not hold it."""

    topic: str
    group: str


class TopicEnded(ProtocolMessage, frozen=True, tag=312):
    """The holders decided to drop this log. The next log of the topic continues with these numbers."""

    topic: str
    group: str
    position: Annotated[int, msgspec.Meta(ge=0)]
    tseq: Annotated[int, msgspec.Meta(ge=0)]


TOPIC_MESSAGES: Final = (FoundTopic, TopicKnown, ClaimTopic, AskRange, RangeCeded, TopicGivenUp, TopicEnded)
"""About who holds a topic, and whether there is one."""
SCRIBE_MESSAGES: Final = (PublishAt, PublicationPlaced, AskTopic, TopicLed, *TOPIC_MESSAGES)


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


class TreeSkipped(Outcome, frozen=True):
    """Publications of the topic up to this position will never come here: nobody keeps them any more."""

    topic: str
    position: int


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

    def wake(self, timer: Timer, after_us: int) -> None: ...
    def let_sleep(self, timer: Timer) -> None: ...
    def tell(self, outcome: Outcome) -> None: ...
