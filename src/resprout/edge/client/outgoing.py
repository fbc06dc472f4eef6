"""The publications of a client that wait to be sent (`Outgoing`), or were sent and are not safe yet (`Unconfirmed`).

`Outgoing` numbers a message at once, and closes its bundle as late as possible. `Unconfirmed` keeps each bundle exactly
as it was sent, so that the client can send it again to another broker. Brokers recognise repeats by their numbers, and
accept or drop a bundle as a whole. So a bundle that is sent again has the same boundaries, the same stamp and the same
place in the order of sending.
"""

from collections import deque
from typing import Final

from resprout.core import limits
from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.errors import PayloadRefusedError, UsageError
from resprout.core.guarantee import STREAM_OF, Guarantee
from resprout.core.limits import AttributeValue
from resprout.edge.messages import Publish

PAYLOAD_OVERHEAD: Final = 6
_ATTRIBUTE_OVERHEAD: Final = 12
"""Upper bounds on the bytes that packing adds to a payload, and to an attribute value."""

Attributes = dict[str, AttributeValue]


class Builder:
    """A bundle that may still grow: by `bytes_left` bytes, and by publications with numbers below `end`."""

    __slots__ = (
        "attributes", "bytes_left", "end", "first", "guarantee", "keys", "next", "payloads", "topic", "unchecked_end",
    )  # fmt: skip

    def __init__(
        self, topic: str, keys: tuple[str, ...], guarantee: Guarantee, first: int, most: int = limits.BUNDLE_MESSAGES
    ) -> None:
        self.topic = topic
        self.keys = keys
        self.guarantee = guarantee
        self.first = self.next = first
        """Number of the first publication in the bundle, and number of the one that is added next."""
        self.end = first + most
        self.unchecked_end = 0
        """`Publisher.publish` appends publications below this number without any check; 0 if all are checked."""
        self.payloads: list[bytes] = []
        self.attributes: list[Attributes] | None = None
        """One row per message; None while no message has attributes."""
        self.bytes_left = limits.BUNDLE_BYTES

    @property
    def bytes(self) -> int:
        return limits.BUNDLE_BYTES - self.bytes_left


class Outgoing:
    """One queue for all streams, so that what a client published first also leaves first."""

    def __init__(
        self, publisher: str, incarnation: int, bundle_max: int = limits.BUNDLE_MESSAGES, joins: bool = True
    ) -> None:
        """`joins`: whether publications that `add` takes share bundles; `add_bundle` makes bundles of its own."""
        self._bundle_max = bundle_max
        self._joined_max = bundle_max if joins else 1
        self._publisher = publisher
        self._incarnation = incarnation
        self.queue: deque[Builder] = deque()
        """Bundles that wait to be sent, oldest first; the last one may be open."""
        self._open = Builder("", (), Guarantee.EVENTUAL, 0)
        self._open.bytes_left = -1  # nothing fits: the first publication opens a bundle of its own
        self._latest: dict[str, Builder] = {}
        """By stream, the bundle with the latest number."""
        self.bundle_bytes_max = limits.BUNDLE_BYTES
        """Bytes that a bundle with one message may have, with its attributes."""
        self._bytes_closed = 0
        """Bytes of waiting bundles that cannot grow any more."""

    @property
    def open(self) -> Builder:
        """The bundle that may still grow; one without room if there is none."""
        return self._open

    @property
    def bytes_waiting(self) -> int:
        return self._bytes_closed + (self._open.bytes if self.queue else 0)

    def last(self, stream: str) -> int:
        """Return the latest number of a stream; 0 before the first publication."""
        latest = self._latest.get(stream)
        return latest.next - 1 if latest is not None else 0

    def add(
        self, topic: str, keys: tuple[str, ...], guarantee: Guarantee, payload: bytes, attributes: Attributes
    ) -> int:
        """Append a publication to the open bundle, or to a new one; return its number in the stream. Raises
        PayloadRefusedError, and takes no number, when no bundle has room for it."""
        builder = self._open
        size = len(payload) + PAYLOAD_OVERHEAD
        if attributes:
            size += _attribute_bytes(attributes)
        seq = builder.next
        if (
            size > builder.bytes_left
            or seq == builder.end
            or topic != builder.topic
            or guarantee is not builder.guarantee
            or keys != builder.keys
        ):
            if size > self.bundle_bytes_max:
                room = self.bundle_bytes_max
                raise PayloadRefusedError(f"a payload of {len(payload)} bytes has no room for its attributes in {room}")
            builder = self._open_bundle(topic, keys, guarantee)
            seq = builder.next
        builder.next = seq + 1
        builder.bytes_left -= size
        payloads = builder.payloads
        payloads.append(payload)
        if builder.attributes is not None:
            builder.attributes.append(attributes)
        elif attributes:
            builder.attributes = [{} for _ in range(len(payloads) - 1)]
            builder.attributes.append(attributes)
        return seq

    def add_bundle(
        self,
        topic: str,
        keys: tuple[str, ...],
        guarantee: Guarantee,
        payloads: list[bytes],
        attributes: list[Attributes] | None,
        alone: bool = False,
    ) -> int:
        """Add these publications as a bundle that nothing joins, so that its boundaries are the caller's, or each
        `alone` in one; return the number of the last. UsageError when they are too many, or too large, for one."""
        size = sum(map(len, payloads)) + PAYLOAD_OVERHEAD * len(payloads)
        if attributes is not None:
            size += sum(map(_attribute_bytes, attributes))
        room = self.bundle_bytes_max if len(payloads) == 1 else limits.BUNDLE_BYTES
        if not 1 <= len(payloads) <= self._bundle_max or size > room:
            raise UsageError(f"{len(payloads)} messages of {size} bytes are no bundle")
        if alone and len(payloads) > 1:
            for at, payload in enumerate(payloads):
                row = None if attributes is None else attributes[at : at + 1]
                last = self.add_bundle(topic, keys, guarantee, [payload], row)
            return last
        builder = self._open_bundle(topic, keys, guarantee)
        builder.payloads = payloads
        builder.attributes = attributes
        builder.next = builder.end = builder.first + len(payloads)
        builder.bytes_left -= size
        return builder.next - 1

    def next_bundle(self, clock: int) -> Bundle | None:
        """Close the oldest bundle, stamp it with the client's clock, and return it; None when none waits."""
        if not self.queue:
            return None
        builder = self.queue.popleft()
        if builder is self._open:
            builder.bytes_left = -1
        else:
            self._bytes_closed -= builder.bytes
        attributes = b"" if builder.attributes is None else pack_attributes(builder.attributes)
        return Bundle(
            self._publisher, self._incarnation, builder.first, len(builder.payloads), clock, builder.topic,
            builder.keys, builder.guarantee, attributes, pack_payloads(builder.payloads),
        )  # fmt: skip

    def _open_bundle(self, topic: str, keys: tuple[str, ...], guarantee: Guarantee) -> Builder:
        if self.queue:
            self._bytes_closed += self._open.bytes
        stream = STREAM_OF[guarantee]
        latest = self._latest.get(stream)
        builder = Builder(topic, keys, guarantee, latest.next if latest is not None else 1, self._joined_max)
        self._latest[stream] = self._open = builder
        self.queue.append(builder)
        return builder


def _attribute_bytes(attributes: Attributes) -> int:
    size = 1
    for name, value in attributes.items():
        size += len(name.encode()) + _ATTRIBUTE_OVERHEAD
        if isinstance(value, str):
            size += len(value.encode())
    return size


class Unconfirmed:
    """Bundles that were sent and are not known to be safe, in the order of sending."""

    def __init__(self) -> None:
        self._sent: dict[int, Publish] = {}
        self._streams: dict[str, deque[tuple[int, int]]] = {}
        """By stream: (last number of the bundle, place in the order of sending), both rising."""
        self._count = 0
        self.again: list[int] = []
        """Bundles to send again, by their places in the order of sending."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, publish: Publish) -> None:
        bundle = publish.bundle
        self._count += 1
        self._sent[self._count] = publish
        waiting = self._streams.get(bundle.stream)
        if waiting is None:
            waiting = self._streams[bundle.stream] = deque()
        waiting.append((bundle.last, self._count))
        self.bytes += bundle.cost

    def confirm(self, stream: str, seq: int, first: int = 1) -> None:
        """Forget the bundles of a stream up to this number, or from `first` on: they are safe."""
        waiting = self._streams.get(stream)
        if first > 1 and waiting and waiting[0][0] <= seq:
            self.drop(stream, first, seq)
            return
        while waiting and waiting[0][0] <= seq:
            self._forget(waiting.popleft()[1])

    def drop(self, stream: str, first: int, last: int) -> None:
        """Forget these bundles: they are safe, or were refused."""
        kept: deque[tuple[int, int]] = deque()
        for end, place in self._streams.get(stream, ()):
            if end <= last and self._sent[place].bundle.first >= first:
                self._forget(place)
            else:
                kept.append((end, place))
        self._streams[stream] = kept

    def send_again(self) -> None:
        """Schedule everything to be sent again, before anything new: another session begins."""
        self.again = list(self._sent)

    def next_again(self) -> Publish | None:
        """Return the next bundle to send again that is not known to be safe by now."""
        while self.again:
            publish = self._sent.get(self.again.pop(0))
            if publish is not None:
                return publish
        return None

    def _forget(self, place: int) -> None:
        self.bytes -= self._sent.pop(place).bundle.cost
