"""What a node sent and received in a run, counted on its connections.

A frame counts as sent when it is put on a connection that stands, and as received when it is taken from one; the
difference was lost. Messages are counted by type as they are sent. Sizes are known only where a bandwidth or the
scenario asks for them (they cost time): otherwise `bytes_sent` of a node is unknown. How long its network card was busy
is known where it has a bandwidth.
"""

from collections import defaultdict
from typing import Any

from resprout.core.contract import word_of
from resprout.links.frames import Data, Express, Part
from resprout.links.parts import Slice
from resprout.trace import kinds
from resprout.trace.schema import Row


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
