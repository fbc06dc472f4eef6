"""What brokers say to each other about topics, beside what rings, trees and replicas say. Tags 295 to 303, 305,
312, 314 and 315 of the wire belong to this file."""

from typing import Annotated, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.message_fields import BundleMessage, Marks
from resprout_lab.blocks.mesh import OverlayMember

HOLDERS_MAX: Final = 16
"""Of one topic, in one message."""
ENDED_MARKS_MAX: Final = 64
"""Clients of a topic that ended whose last number is remembered, so that a repeat gets no second place."""


def holder_of(name: str, incarnation: int, address: str) -> str:
    """One life of a broker as a holder of topics, and where it listens: another life is another holder."""
    return f"{name}/{incarnation}@{address}"


def name_of(holder: str) -> str:
    return holder.rpartition("@")[0].rpartition("/")[0]


def is_holder(text: str) -> bool:
    """Whether this names a life of a broker."""
    name, _, life = text.rpartition("@")[0].rpartition("/")
    return bool(name) and life.isascii() and life.isdigit()


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
    last: Annotated[Marks, msgspec.Meta(max_length=ENDED_MARKS_MAX)] = ()
    """The last publications of the clients that published on it last."""


class ChangeReplica(ProtocolMessage, frozen=True, tag=314):
    """To the leader of a topic, from an operator: this broker is to hold it besides those that the ring gives it, or
    not any more. Answered by `ReplicaChanged`."""

    topic: str
    holder: str
    is_added: bool
    number: int


class ReplicaChanged(ProtocolMessage, frozen=True, tag=315):
    """Answer to `ChangeReplica`: it is decided, or refused for this reason."""

    topic: str
    number: int
    refusal: str = ""


TOPIC_MESSAGES: Final = (FoundTopic, TopicKnown, ClaimTopic, AskRange, RangeCeded, TopicGivenUp, TopicEnded)
"""About who holds a topic, and whether there is one."""
REPLICA_COMMANDS: Final = (ChangeReplica, ReplicaChanged)
SCRIBE_MESSAGES: Final = (PublishAt, PublicationPlaced, AskTopic, TopicLed, *TOPIC_MESSAGES, *REPLICA_COMMANDS)
