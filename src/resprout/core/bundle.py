"""The unit that travels: consecutive publications of one client with the same topic, guarantee and keys.

Two columns hold what differs between its messages, each packed once by the publisher and unpacked once by whoever reads
it: `payloads` (brokers never look inside) and `attributes` (looked at only where a content filter asks; empty when no
message has any). A bundle is atomic: it is accepted, logged, ordered, acknowledged and dropped as a whole.

Its keys belong to topics: a barrier closes over (topic, key) pairs.

A key written plainly belongs to the publication's own topic; `other/topic#key` names a key of another topic (a topic
cannot hold `#`, so the first one divides). A publication is delivered to the subscribers of every topic it names: a
transfer between two banks reaches the replicas of both.

`to_record` and `from_record` write a bundle as a record on disk and read it back. A record that cannot be read is None:
the caller reports it and goes on without it.

A `StowedBundle` has its columns elsewhere, on a disk, until somebody needs them. Everything that is asked of a bundle
again and again stays: its publisher, its numbers, its topic. `whole` brings the bundle back as it was; that is what
leaves a broker, and what is read. A stowed bundle has no columns at all: a caller that forgets to ask for the whole
gets an error, and not an empty message.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from resprout.core import limits
from resprout.core.errors import WireError
from resprout.core.guarantee import STREAM_OF, Guarantee
from resprout.core.limits import Attributes, AttributeValue
from resprout.core.timing import MESSAGE_ID, is_timed

Pair = tuple[str, str]

Origin = tuple[str, str, int]
"""(publisher, stream, incarnation): one sequence of publications. Each life of a client counts for itself, so that
what an earlier one has published is no repeat where a later one was faster."""

CausalKey = tuple[int, str, str, int, int]
"""(stamp, publisher, stream, incarnation, first number)."""

KEY_HEAD_BYTES: Final = 3
"""Before each key, at most."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_payloads: Final = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_attributes: Final = msgspec.msgpack.Decoder(list[dict[str, str | int | float | bool]]).decode

_Fields = tuple[str, int, int, int, int, str, tuple[str, ...], int, bytes, bytes]
_decode: Final = msgspec.msgpack.Decoder(_Fields).decode


def pairs_of(topic: str, keys: tuple[str, ...] | list[str]) -> tuple[Pair, ...]:
    """The (topic, key) pairs that a publication names, each once however it was written."""
    return tuple(dict.fromkeys(_pair(topic, key) for key in keys))


def topics_of(topic: str, keys: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Every topic that a publication names, its own first."""
    topics = [topic]
    for key in keys:
        if "#" in key and (other := key.partition("#")[0]) not in topics:
            topics.append(other)
    return tuple(topics)


def _pair(topic: str, key: str) -> Pair:
    if "#" not in key:
        return (topic, key)
    other, _, rest = key.partition("#")
    return (other, rest)


def _in_frame(keys: tuple[str, ...]) -> int:
    text = "".join(keys)
    return KEY_HEAD_BYTES * len(keys) + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))


class Bundle:
    """Messages `first .. first + count - 1` of one origin. Treated as immutable; `stamped` makes a changed copy."""

    __slots__ = (
        "attributes", "cost", "count", "first", "guarantee", "incarnation", "key_bytes", "keys", "last", "origin",
        "payloads", "publisher", "stamp", "stream", "topic",
    )  # fmt: skip

    def __init__(
        self,
        publisher: str,
        incarnation: int,
        first: int,
        count: int,
        stamp: int,
        topic: str,
        keys: tuple[str, ...],
        guarantee: Guarantee,
        attributes: bytes,
        payloads: bytes,
    ) -> None:
        self.publisher = publisher
        self.incarnation = incarnation
        self.first = first
        self.count = count
        self.stamp = stamp
        self.topic = topic
        self.keys = keys
        self.guarantee = guarantee
        self.attributes = attributes
        self.payloads = payloads
        self.last = first + count - 1
        self.stream = STREAM_OF[guarantee]
        self.origin: Origin = (publisher, self.stream, incarnation)
        self.cost = len(payloads) + len(attributes) + 64
        """Bytes that count against windows and logs: the columns and an allowance for everything around them."""
        self.key_bytes = _in_frame(keys) if keys else 0
        """At most what the keys take in a frame; the cost leaves them out. What may be on its way is counted with them,
        so it is hardly more: counted as long as a key may be, short ones would be a round trip later."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic it names; more than one only when a key belongs to another topic."""
        return topics_of(self.topic, self.keys) if self.keys else (self.topic,)

    def stamped(self, stamp: int) -> "Bundle":
        """The same messages with the Lamport clock of the edge broker that accepts them."""
        return Bundle(
            self.publisher, self.incarnation, self.first, self.count, stamp, self.topic, self.keys, self.guarantee,
            self.attributes, self.payloads,
        )  # fmt: skip

    @property
    def causal_key(self) -> CausalKey:
        """Puts bundles into an order of causes before effects, the same for everybody: whatever one depends on has a
        smaller Lamport stamp."""
        return (self.stamp, self.publisher, self.stream, self.incarnation, self.first)

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.publisher, self.incarnation, self.first, self.count, self.stamp, self.topic, self.keys,
            self.guarantee, self.attributes, self.payloads,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bundle) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.origin, self.first))

    def __repr__(self) -> str:
        return (
            f"<{self.publisher}.{self.incarnation}/{self.stream}:{self.first}+{self.count} {self.topic}"
            f" {self.guarantee.label} @{self.stamp}>"
        )


def shadow(publisher: str, stream: str, incarnation: int, first: int, last: int, stamp: int) -> Bundle:
    """A bundle of which only the name is left."""
    guarantee = Guarantee.EVENTUAL if stream == Guarantee.EVENTUAL.stream else Guarantee.FIFO
    return Bundle(publisher, incarnation, first, max(1, last - first + 1), stamp, "", (), guarantee, b"", b"")


pack_payloads: Final[Callable[[Sequence[bytes]], bytes]] = _encode


def pack_attributes(rows: Sequence[Attributes]) -> bytes:
    """Nothing at all when no message has attributes: the common case costs no bytes and no decoding."""
    return _encode(rows) if any(rows) else b""


def unpack_payloads(bundle: Bundle) -> list[bytes]:
    """The payloads, in order. Raises WireError when the column does not hold `count` of them."""
    try:
        payloads = _decode_payloads(bundle.payloads)
    except msgspec.MsgspecError as error:
        raise WireError(f"payload column of {bundle!r}: {error}") from None
    if len(payloads) != bundle.count:
        raise WireError(f"payload column of {bundle!r} holds {len(payloads)} messages")
    return payloads


def unpack_attributes(bundle: Bundle) -> list[dict[str, AttributeValue]]:
    """One mapping per message, in order. Raises WireError when the column does not fit the bundle."""
    if not bundle.attributes:
        return [{} for _ in range(bundle.count)] if bundle.count > 1 else [{}]
    try:
        rows = _decode_attributes(bundle.attributes)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"attribute column of {bundle!r}: {error}") from None
    if len(rows) != bundle.count:
        raise WireError(f"attribute column of {bundle!r} holds {len(rows)} rows")
    return rows


def pick(bundle: Bundle, offsets: Iterable[int]) -> Bundle:
    """Return a bundle with only the messages at `offsets`; their sequence numbers are `first + offset`, sent beside it.
    If a column does not fit the bundle, the columns of the result are empty, and its readers leave it out."""
    return UnpackedBundle(bundle).pick(offsets)


class UnpackedBundle:
    """A bundle of which several parts are picked (`pick`)."""

    __slots__ = ("_payloads", "_rows", "bundle")

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._rows: list[dict[str, AttributeValue]] = []
        self._payloads: list[bytes] | None = None
        """None if a column does not fit the bundle."""
        with contextlib.suppress(WireError):
            self._payloads, self._rows = unpack_payloads(bundle), unpack_attributes(bundle)

    def pick(self, offsets: Iterable[int]) -> Bundle:
        bundle, payloads, rows, chosen = self.bundle, self._payloads, self._rows, list(offsets)
        attributes = column = b""
        if payloads is not None:
            attributes, column = (
                pack_attributes([rows[i] for i in chosen]),
                pack_payloads([payloads[i] for i in chosen]),
            )
        return Bundle(
            bundle.publisher, bundle.incarnation, bundle.first, len(chosen), bundle.stamp, bundle.topic, bundle.keys,
            bundle.guarantee, attributes, column,
        )  # fmt: skip


def split(bundle: Bundle, last: int) -> tuple[Bundle, Bundle]:
    """Return the messages up to the number `last`, and those after it, as two bundles. Raises WireError when a column
    does not fit the bundle."""
    payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
    size = last - bundle.first + 1
    assert 0 < size < bundle.count, "both parts hold a message"

    def part(first: int, at: slice) -> Bundle:
        return Bundle(
            bundle.publisher, bundle.incarnation, first, len(payloads[at]), bundle.stamp, bundle.topic, bundle.keys,
            bundle.guarantee, pack_attributes(rows[at]), pack_payloads(payloads[at]),
        )  # fmt: skip

    return part(bundle.first, slice(size)), part(last + 1, slice(size, None))


def fits(payload_bytes: int, attribute_bytes: int, count: int) -> bool:
    """Whether a bundle of this size keeps the limits."""
    return count <= limits.BUNDLE_MESSAGES and payload_bytes + attribute_bytes <= limits.BUNDLE_BYTES


def to_record(bundle: Bundle) -> bytes:
    return _encode(to_fields(bundle))


def from_record(record: bytes) -> Bundle | None:
    try:
        bundle: Bundle = from_fields(Bundle, _decode(record))
        return bundle
    except (msgspec.MsgspecError, ValueError):
        return None


def to_fields(value: Any) -> Any:
    """Of a bundle inside something else: for whoever has msgspec write that (`enc_hook`)."""
    assert isinstance(value, Bundle), "nothing else needs help"
    return (
        value.publisher, value.incarnation, value.first, value.count, value.stamp, value.topic, value.keys,
        int(value.guarantee), value.attributes, value.payloads,
    )  # fmt: skip


def from_fields(kind: type, fields: Any) -> Any:
    """The same, to read it (`dec_hook`). ValueError when they are no bundle's."""
    publisher, incarnation, first, count, stamp, topic, keys, guarantee, attributes, payloads = fields
    return Bundle(
        publisher, incarnation, first, count, stamp, topic, tuple(keys), Guarantee(guarantee), attributes, payloads
    )  # fmt: skip


class SpillStore(Protocol):
    """Where bytes lie that need not survive the process. None of it takes time as far as a machine can tell."""

    @property
    def used(self) -> int:
        """Bytes on the disk now."""

    @property
    def places(self) -> int:
        """How many things lie there."""

    @property
    def trouble(self) -> str:
        """What the disk said last, if it refused something."""

    def put(self, content: bytes) -> Any | None:
        """Where it lies from now on; None when there is no room, or the disk does not take it."""

    def get(self, place: Any) -> bytes:
        """`StoreError` when it cannot be read, or is not what was put there."""

    def forget(self, place: Any) -> None: ...


MakeStore = Callable[[int], SpillStore]
"""A store for so many bytes at most."""

STOWED_COST: Final = 64
"""Bytes that one counts with where it was put aside: the allowance for everything around its columns."""


class StowedBundle(Bundle):
    __slots__ = ("_at", "_place", "_store", "has_ids", "is_timed")

    def __init__(self, bundle: Bundle, store: SpillStore, place: Any) -> None:
        self.publisher = bundle.publisher
        self.incarnation = bundle.incarnation
        self.first = bundle.first
        self.count = bundle.count
        self.stamp = bundle.stamp
        self.topic = bundle.topic
        self.keys = bundle.keys
        self.guarantee = bundle.guarantee
        self.last = bundle.last
        self.stream = bundle.stream
        self.origin = bundle.origin
        self.cost = bundle.cost
        self.key_bytes = bundle.key_bytes
        self.is_timed = is_timed(bundle.attributes)
        """Whether some of its messages may be delayed, expire or have a priority."""
        self.has_ids = MESSAGE_ID.encode() in bundle.attributes
        """Whether some of its messages may have an id of the application."""
        self._at = len(bundle.attributes)
        self._store = store
        self._place = place

    def fetch(self) -> Bundle:
        content = self._store.get(self._place)
        at = self._at
        return Bundle(
            self.publisher, self.incarnation, self.first, self.count, self.stamp, self.topic, self.keys,
            self.guarantee, content[:at], content[at:],
        )  # fmt: skip

    def forget(self) -> None:
        """Nobody will ask for it any more."""
        self._store.forget(self._place)


def stow(bundle: Bundle, store: SpillStore) -> StowedBundle | None:
    """None where there is no room."""
    place = store.put(bundle.attributes + bundle.payloads)
    return StowedBundle(bundle, store, place) if place is not None else None


def timed_rows(bundle: Bundle) -> list[dict[str, AttributeValue]] | None:
    """The attributes of a bundle in which some messages may be delayed, expire or have a priority; None of any other,
    and of one that cannot be read."""
    if not (bundle.is_timed if isinstance(bundle, StowedBundle) else is_timed(bundle.attributes)):
        return None
    try:
        return unpack_attributes(whole(bundle))
    except WireError:
        return None


def whole(bundle: Bundle) -> Bundle:
    """As it was before it was stowed, if it was."""
    return bundle.fetch() if isinstance(bundle, StowedBundle) else bundle
