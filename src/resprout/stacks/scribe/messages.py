"""What brokers say to each other about topics, beside what rings, trees and replicas say. Tags 295 to 303 of the wire
belong to this file."""

from typing import Annotated, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.bundle_message import BundleMessage
from resprout.core.contract import ProtocolMessage

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
    """Answer to `PublishAt`: it has a place for ever, which this many brokers know."""

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


class FoundTopic(ProtocolMessage, frozen=True, tag=299):
    """Hold this topic together with these. Answered by `TopicKnown`."""

    topic: str
    group: str
    holders: tuple[str, ...]


class TopicKnown(ProtocolMessage, frozen=True, tag=300):
    """These hold the topic; `founders` were the first to."""

    topic: str
    group: str
    founders: tuple[str, ...]
    holders: tuple[str, ...]


class ClaimTopic(ProtocolMessage, frozen=True, tag=301):
    """By the owner of its key: these are to hold the topic from now on."""

    topic: str
    holders: tuple[str, ...]


class AskRange(ProtocolMessage, frozen=True, tag=302):
    """By one that has come to the ring, to its successor: which topics are mine? Answered by `TopicKnown` for each, and
    `RangeCeded`."""


class RangeCeded(ProtocolMessage, frozen=True, tag=303):
    """All was said; no other topic before you on the ring is begun here, for as long as you live."""


SCRIBE_MESSAGES: Final = (
    PublishAt, PublicationPlaced, AskTopic, TopicLed, FoundTopic, TopicKnown, ClaimTopic, AskRange, RangeCeded,
)  # fmt: skip
