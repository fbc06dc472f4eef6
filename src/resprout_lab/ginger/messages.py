"""The messages of the thesis (sections 3.4, 3.5, 4.2 and 4.3). Tags 128..159 of the wire belong to this file.

`Subscribe` stands for the thesis' message of that name; it has a number because it is confirmed (`InterestConfirmed`),
which the product promises to clients and the thesis does not need. `NodeGone` is ours as well: the thesis assumes that
nobody is wrongly taken for dead.
"""

from typing import Annotated, ClassVar

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.message_fields import MARK_BYTES, BundleMessage, FreeBundleMessage, Marks
from resprout.spread.messages import Interested

Place = Annotated[int, msgspec.Meta(ge=-1)]
"""Of a total: in the order of its root; -1 while it has none."""


class MessageId(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """*identifier* (clientID, counter). A client counts ordered and eventual publications apart here."""

    publisher: str
    stream: str
    incarnation: int
    counter: int


def id_of(bundle: Bundle) -> MessageId:
    return MessageId(bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)


class PathEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker on the path of a message: hops since, and whether the message went down the tree from there."""

    name: str
    hops: int
    down: bool
    address: str = ""


Path = tuple[PathEntry, ...]


# -- 3.4, 3.5: publications --------------------------------------------------------------------------------------------


class Subscribe(ProtocolMessage, frozen=True, tag=129):
    """Subscribe <topic, path>."""

    id: int
    """0: the receiver knows the subscription, and learns the path."""
    filter: str
    where: str | None
    path: Path


class Metadata(BundleMessage, frozen=True, tag=128):
    """Metadata <topic, identifier, keyItems, deliveryGuarantee, processed>."""

    bundle: Bundle
    hops: int
    processed: bool = False
    """Of a total: all brokers have acknowledged it."""
    place: Place = -1
    prompt: bool = False


class Stored(ProtocolMessage, frozen=True, tag=130):
    """With `safe_first`: the receiver's publication is here, too."""

    id: MessageId


class TotalLock(FreeBundleMessage, frozen=True, tag=132):
    """Metadata of a total on its way down, with its number in the root's order (`root_order`). Free, because what waits
    for its end may fill the windows."""

    word: ClassVar[str | None] = "Lock"
    bundle: Bundle
    hops: int
    number: int
    prompt: bool = False


class TotalAck(ProtocolMessage, frozen=True, tag=133):
    id: MessageId


class TotalProcessed(ProtocolMessage, frozen=True, tag=134):
    id: MessageId
    hops: int


# -- 4.2: the overlay --------------------------------------------------------------------------------------------------


class TreeViewUpdate(ProtocolMessage, frozen=True, tag=135):
    """TreeViewUpdate <other, nChildren, failed, path>; *NeighborStatus* in the logs. The children are named, and not
    only counted, for `named_repairs`."""

    other: str
    children: tuple[str, ...]
    failed: bool
    path: Path


class ParentRequest(ProtocolMessage, frozen=True, tag=137):
    """ParentRequest <subscribedTopics, breakDegree>. The parent that failed is named, for a receiver that has not
    noticed yet; it is empty when the tree is built."""

    subscribed: tuple[Interested, ...]
    break_degree: bool
    failed: str = ""
    address: str = ""


class ParentResponse(ProtocolMessage, frozen=True, tag=138):
    accepted: bool
    subscribed: tuple[Interested, ...] = ()
    """What the new parent asks of its child."""
    address: str = ""


class RootElection(ProtocolMessage, frozen=True, tag=136):
    """RootElection <residualDegree, nodeID>; the sender is known by name."""

    residual_degree: int


# -- 4.3: communication channels ---------------------------------------------------------------------------------------


class ParentBuffer(ProtocolMessage, frozen=True, tag=139):
    """ParentBuffer <map>: the last identifier that the new parent has of each client."""

    last_ids: Marks

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.last_ids)


class LostMessageRequest(ProtocolMessage, frozen=True, tag=141):
    """LostMessageRequest <missed, parentMissed>: the last identifiers of the child. The messages that the parent missed
    come before it, one by one (`LostMessage`)."""

    last_ids: Marks
    waiting: tuple[MessageId, ...] = ()
    """Totals that the child holds locked (*lastProcessedIds* of annex VIII, the other way round)."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * (len(self.last_ids) + len(self.waiting))


class LostMessage(BundleMessage, frozen=True, tag=140):
    """A Metadata message that the receiver missed: of *parentMissed*, or retransmitted."""

    bundle: Bundle
    hops: int
    processed: bool
    place: Place = -1
    number: int = 0
    """Of a total that is not processed: as in `TotalLock`."""


class Retransmitted(ProtocolMessage, frozen=True, tag=142):
    """The parent has sent all it had of what the child missed. The thesis has the child tell by itself, from the last
    identifiers that it expects; with `named_repairs` it is told."""


class NodeGone(ProtocolMessage, frozen=True, tag=144):
    """You were declared dead; what you do counts no more."""

    word: ClassVar[str | None] = "Gone"
    incarnation: int


PUBLICATION_MESSAGES = (Metadata, Stored, TotalLock, TotalAck, TotalProcessed)
VIEW_MESSAGES = (TreeViewUpdate, NodeGone)
REPAIR_MESSAGES = (
    ParentRequest, ParentResponse, RootElection, ParentBuffer, LostMessageRequest, LostMessage, Retransmitted,
)  # fmt: skip
GINGER_MESSAGES = (*PUBLICATION_MESSAGES, Subscribe, *VIEW_MESSAGES, *REPAIR_MESSAGES)
