"""What nodes sent and received in a run: counts, and bytes as they would be encoded or as a stack's paper counts them.

A frame counts as sent when it is put on a connection that stands, and as received when it is taken from one; the
difference was lost. Messages are counted by type as they are sent. Sizes are known only where a bandwidth or the
scenario asks for them (they cost time): otherwise `bytes_sent` of a node is unknown. How long its network card was busy
is known where it has a bandwidth.

Sizes are computed, not encoded (`wire.sizes`). To verify them, every hundredth frame is really encoded, with names as
wide as the computation takes them for, and compared: a difference is a fault of this program. A message that claims a
`paper_bytes` is the header of a document's formula in bytes, without the payload. It is counted beside the encoded
bytes and takes no bandwidth: what passes through a network card is what was encoded.

A message that no connection would take stops the run (`WeighedBodies`). In the virtual world nothing is encoded, so a
message may be larger than any frame and arrive all the same. Between processes its connection would break, and the next
one as well, for ever. A stack that sends one has a bug.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from resprout.core.contract import ProtocolMessage, word_of
from resprout.core.errors import UsageError
from resprout.links.frames import Body, Data, Express, Part, SharedBodies, Slice
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.wire.codec import Codec

COMPARED_EVERY: Final = 100
"""One per cent of the frames is encoded: enough to meet every type of message, and little beside the run."""


class NodeLoad:
    __slots__ = (
        "busy_us", "bytes_sent", "frames_received", "frames_sent", "has_bandwidth", "messages", "paper_bytes",
        "paper_bytes_max", "paper_messages",
    )  # fmt: skip

    def __init__(self) -> None:
        self.frames_sent = 0
        self.frames_received = 0
        self.bytes_sent: int | None = None
        self.paper_bytes = 0
        """Headers by the formula of a paper, of those messages that claim one."""
        self.paper_bytes_max = 0
        """The largest of them."""
        self.paper_messages = 0
        """How many these are."""
        self.has_bandwidth = False
        self.busy_us = 0
        """How long frames took to leave."""
        self.messages: defaultdict[type, int] = defaultdict(int)
        """Sent, by type."""

    def sent(self, frame: Any) -> None:
        self.frames_sent += 1
        if type(frame) is Data or type(frame) is Express:
            messages = self.messages
            for message in frame.messages:
                messages[type(message)] += 1
        elif type(frame) is Part:
            chunk: Any = frame.chunk
            if isinstance(chunk, Slice) and chunk.end == frame.size:  # counted once, with its last part
                self.messages[type(chunk.message)] += 1

    def counts(self) -> dict[str, int]:
        """What is known, but for the types of messages."""
        counts = {"frames_sent": self.frames_sent, "frames_received": self.frames_received}
        if self.bytes_sent is not None:
            counts["bytes_sent"] = self.bytes_sent
        if self.paper_messages:
            counts |= {"paper_bytes": self.paper_bytes, "paper_messages": self.paper_messages}
            counts["paper_bytes_max"] = self.paper_bytes_max
        if self.has_bandwidth:
            counts["busy_us"] = self.busy_us
        return counts

    def row(self, time_us: int, node: str) -> Row:
        counts = self.counts()
        counts |= {kinds.SENT + word_of(type_): count for type_, count in self.messages.items()}
        attributes = {name: str(count) for name, count in sorted(counts.items())}
        return Row(time_us=time_us, node=node, kind=kinds.LOAD, attributes=attributes)


class Scales:
    """Of one run. Which frames are compared depends on their order, so a run is compared alike each time."""

    def __init__(self, codec: Codec, compared_every: int = COMPARED_EVERY) -> None:
        self._codec = codec
        self._claiming = frozenset(kind for kind in codec.messages if claims_size(kind))
        self._every = compared_every
        self._next = 1
        self.compared = 0
        """Frames that were encoded, and were as long as told."""

    def weigh(self, frame: Any, load: NodeLoad) -> int:
        """The frame's bytes on a connection; `load` counts them."""
        size = self._codec.frame_bytes(frame)
        self._next -= 1
        if not self._next:
            self._compare(frame, size)
        load.bytes_sent = (load.bytes_sent or 0) + size
        if self._claiming:
            for message in _messages_of(frame):
                if type(message) in self._claiming and (claimed := message.paper_bytes) is not None:
                    load.paper_bytes += claimed
                    load.paper_bytes_max = max(load.paper_bytes_max, claimed)
                    load.paper_messages += 1
        return size

    def _compare(self, frame: Any, told: int) -> None:
        self._next = self._every
        real = self._codec.widest_bytes(frame)
        kinds = ", ".join(dict.fromkeys(type(message).__name__ for message in _messages_of(frame)))
        assert told == real, (
            f"a {type(frame).__name__} of {kinds or 'nothing'} takes {real} bytes, computed were {told}"
        )
        self.compared += 1


def claims_size(kind: type) -> bool:
    """Whether messages of this type may claim a paper size."""
    return issubclass(kind, ProtocolMessage) and kind.paper_bytes is not ProtocolMessage.paper_bytes


def _messages_of(frame: Any) -> Iterable[Any]:
    """Each message once: one that travels in parts counts with its last."""
    if type(frame) is Data or type(frame) is Express:
        return frame.messages
    if type(frame) is Part:
        chunk: Any = frame.chunk
        if isinstance(chunk, Slice) and chunk.end == frame.size:
            return (chunk.message,)
    return ()


class WeighedBodies(SharedBodies):
    def pack(self, number: int, message: Any) -> Body:
        try:
            return super().pack(number, message)
        except UsageError as error:
            raise AssertionError(f"no connection would take it: {error}") from None
