"""What Ginger's brokers say to each other. Tags 128..159 of the wire belong to this file."""

from typing import Annotated, ClassVar

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.message_fields import MARK_BYTES, BundleMessage, FreeBundleMessage, Marks
from resprout.edge.messages import Successor
from resprout.spread.messages import Interested
from resprout_lab.blocks.crossing import Progress as Progress

Place = Annotated[int, msgspec.Meta(ge=-1)]
"""In the order of totals; -1 for what is none."""

# -- publications ------------------------------------------------------------------------------------------------------


class Metadata(BundleMessage, frozen=True, tag=128):
    """A publication on its way along the subscriptions."""

    bundle: Bundle
    hops: int
    prompt: bool = False


class Passed(ProtocolMessage, frozen=True, tag=129):
    """What was published up to here and not sent on this link was not wanted there when it passed."""

    marks: Marks


# -- total order -------------------------------------------------------------------------------------------------------


class TotalRequest(BundleMessage, frozen=True, tag=131):
    """A total on its way up to the root."""

    bundle: Bundle
    hops: int
    prompt: bool = False


class TotalLock(FreeBundleMessage, frozen=True, tag=132):
    """From the root down: the next total in its order. Free, because what waits for its end may fill the windows."""

    no: int
    bundle: Bundle
    hops: int
    prompt: bool = False


class TotalAck(ProtocolMessage, frozen=True, tag=133):
    """This total holds its keys here and everywhere below."""

    no: int


class TotalProcessed(ProtocolMessage, frozen=True, tag=134):
    """From the root down, in its place among the publications: deliver it. Counts as a publication on the link."""

    no: int
    stamp: int
    place: int
    hops: int


# -- the tree ----------------------------------------------------------------------------------------------------------

Contact = Successor
"""A broker, and where it listens."""


class TreeViewUpdate(ProtocolMessage, frozen=True, tag=135):
    """The sender's place in the tree. `version` is answered by `TreeViewSeen`."""

    version: int
    children: tuple[Contact, ...]
    clients: tuple[str, ...]
    line: tuple[Contact, ...]
    """Its ancestors, nearest first, as far as it knows them."""
    succession: tuple[Contact, ...]
    """The root's children: the first of them that lives follows it."""
    address: str = ""
    """Where the sender listens."""


class TreeViewSeen(ProtocolMessage, frozen=True, tag=136):
    version: int


class ParentRequest(ProtocolMessage, frozen=True, tag=137):
    """Be my parent. `dead` are the brokers that left me without one; none when I am new."""

    dead: tuple[str, ...]
    lives: tuple[int, ...]
    """The incarnation of each: its next life is another matter."""
    break_degree: bool = False
    address: str = ""
    wants: tuple[Interested, ...] = ()
    """What the sender and those below it want. Of a newcomer nothing: it serves nobody yet."""


class ParentResponse(ProtocolMessage, frozen=True, tag=138):
    accepted: bool


class ClientMessageId(msgspec.Struct, frozen=True, array_like=True):
    publisher: str
    stream: str
    incarnation: int
    seq: int


class ParentBuffer(ProtocolMessage, frozen=True, tag=139):
    """From the broker that leads a repair: what it has of what is not stable and crossed the dead one."""

    dead: tuple[str, ...]
    buffered: tuple[ClientMessageId, ...]


class LostMessage(BundleMessage, frozen=True, tag=140):
    """One publication that the receiver lacks. Belongs to the `LostMessageRequest` or `Attached` that follows."""

    bundle: Bundle
    hops: int
    prompt: bool
    place: Place = -1


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """How far a broker is: from the leader's, everybody continues."""

    seen: Marks
    clock: int
    epoch: int
    pending: tuple[TotalLock, ...]
    """Totals that the root has ordered and that are not processed."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.seen) + sum(lock.bulk for lock in self.pending)


class LostMessageRequest(ProtocolMessage, frozen=True, tag=141):
    """An orphan's half of the synchronisation: send me what I lack."""

    buffered: tuple[ClientMessageId, ...]
    """All that is not stable here and crossed the dead broker; what the leader lacked of it came before."""
    cut: Cut

    @property
    def bulk(self) -> int:
        return self.cut.bulk


class Placed(ProtocolMessage, frozen=True, tag=142):
    """To the leader of a repair: somebody else has accepted me."""

    parent: str


class Adopted(msgspec.Struct, frozen=True, array_like=True):
    """An orphan that finds its place under a sibling."""

    name: str
    address: str
    wants: tuple[Interested, ...]
    """What it asks of its new parent."""
    asks: tuple[Interested, ...]
    """What its new parent asks of it."""


class Attached(ProtocolMessage, frozen=True, tag=143):
    """The repair is complete: everybody continues from here. The first message of a new link."""

    parent: str
    dead: tuple[str, ...]
    pool: tuple[ClientMessageId, ...]
    """What was not stable, in causal order: the first publications of the new link, downwards."""
    cut: Cut
    wants: tuple[Interested, ...]
    adopted: tuple[Adopted, ...] = ()

    @property
    def bulk(self) -> int:
        return self.cut.bulk


class NodeGone(ProtocolMessage, frozen=True, tag=144):
    """You were declared dead; what you do counts no more."""

    word: ClassVar[str | None] = "Gone"
    incarnation: int


PUBLICATION_MESSAGES = (Metadata, TotalRequest, TotalLock, TotalAck, TotalProcessed)
VIEW_MESSAGES = (TreeViewUpdate, TreeViewSeen, NodeGone)
REPAIR_MESSAGES = (ParentRequest, ParentResponse, ParentBuffer, LostMessage, LostMessageRequest, Placed, Attached)
GINGER_MESSAGES = (*PUBLICATION_MESSAGES, Passed, *VIEW_MESSAGES, *REPAIR_MESSAGES)
