"""Bytes of what nodes send: as they would be encoded, and as the paper behind a stack counts them.

Sizes are computed, not encoded (`wire.sizes`). So that nobody has to believe them, every hundredth frame is really
encoded, with names as wide as the computation takes them for, and compared: a difference is a fault of this program.

A message that claims a `paper_bytes` is the header of a document's formula in bytes, without the payload. It is counted
beside the encoded bytes and takes no bandwidth: what passes through a network card is what was encoded.
"""

from collections.abc import Iterable
from typing import Any, Final

from resprout.core.contract import ProtocolMessage
from resprout.links.frames import Data, Express, Part
from resprout.links.parts import Slice
from resprout.sim.load import NodeLoad
from resprout.wire.codec import Codec

COMPARED_EVERY: Final = 100
"""One per cent of the frames is encoded: enough to meet every type of message, and little beside the run."""


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
