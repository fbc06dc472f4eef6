"""Frames as bytes: one protocol's messages as bodies, and bodies in the byte stream of a connection.

A body is a MessagePack array `[tag, field, ...]`. Fields are never removed or reordered within a version of the format;
a decoder ignores fields that come after those it knows, and takes the defaults of fields that are missing at the end.

A `Codec` is immutable and serves any number of connections. Encoders and decoders are not: they learn names
(`bundles`), so each connection and direction has its own, and bodies must be decoded in the order they were encoded.

msgspec checks types and this package checks values after it, so a hostile body is decoded before it is refused. At
worst that takes some 80 times its size in memory for a moment (a body of empty maps), bounded by `limits.FRAME_BYTES`.

The bytes of a connection, in one direction, are a preamble and then frames behind their lengths:

    preamble    "RSPT"  oldest: u16  newest: u16      the format versions that the sender understands, inclusive
    frame       length: u32  body: `length` bytes     1 <= length <= limits.FRAME_BYTES

All numbers are big-endian. Both sides send their preamble at once, without waiting for the other's. They then use the
newest version that both know; if there is none, the connection is refused and the reason names both ranges. The opener
does not wait for the answer before its first frame: the first frame of either side has the same form in every version.
Only version 1 exists. (`Hello.version` is another thing: what frames mean, checked by those who use them.)
"""

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final, NoReturn

import msgspec
import msgspec.inspect

from resprout.core import limits
from resprout.core.errors import UsageError, WireError
from resprout.wire.bundles import BundleReader, BundleWriter
from resprout.wire.rules import Rule, rule_of_frame
from resprout.wire.sizes import Size, size_of_frame, widest_body

# Everything that decoding hostile bytes was seen to raise, or may: none of it leaves this floor.
_REFUSALS: Final = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)

LENGTH_BYTES: Final = 4
"""What stands before each body on a connection."""

MAGIC: Final = b"RSPT"
OLDEST_VERSION: Final = 1
NEWEST_VERSION: Final = 1
PREAMBLE: Final = MAGIC + OLDEST_VERSION.to_bytes(2, "big") + NEWEST_VERSION.to_bytes(2, "big")


class Codec:
    """`Codec(frames, messages)`: generic frame types (`Data[M]`) are given bare and filled with the union of messages.

    UsageError when types cannot travel: not an array-like Struct with an integer tag, two with the same tag, or a field
    without a rule (see `rules`).
    """

    __slots__ = ("_infos", "_sizes", "frames", "messages", "rules", "type")

    def __init__(self, frames: Iterable[type[msgspec.Struct]], messages: Iterable[type[msgspec.Struct]]) -> None:
        self.frames = tuple(frames)
        self.messages = tuple(messages)
        if not self.frames or not self.messages:
            raise UsageError("a codec needs frames and messages")
        _check_tags((*self.frames, *self.messages))
        union: Any = reduce(operator.or_, self.messages)
        filled: list[Any] = [_filled(frame, union) for frame in self.frames]
        self.type: Any = reduce(operator.or_, filled)
        infos = msgspec.inspect.multi_type_info(filled)  # all in one call: they share what it finds out about messages
        self.rules: dict[type, Rule | None] = {
            frame: rule_of_frame(info) for frame, info in zip(self.frames, infos, strict=True)
        }
        """By frame: what its values keep; None when its type says it all."""
        self._infos: dict[type, msgspec.inspect.Type] = dict(zip(self.frames, infos, strict=True))
        self._sizes: dict[type, Size] = {}
        """By frame, made when a simulation first asks for it. Brokers never do."""

    def encoder(self, bytes_max: int = limits.FRAME_BYTES) -> "FrameEncoder":
        """For one direction of a new connection. `bytes_max`: the largest body, more than a frame only for a message
        that travels in parts."""
        return FrameEncoder(self, bytes_max)

    def decoder(self, bytes_max: int = limits.FRAME_BYTES, bundle_max: int = limits.BUNDLE_BYTES) -> "FrameDecoder":
        """For one direction of a new connection. `bundle_max`: the largest bundle with a single message."""
        return FrameDecoder(self, bytes_max, bundle_max)

    def check(self, frame: Any) -> None:
        """WireError when a peer would refuse this frame for its values (bundles aside)."""
        rule = self.rules[type(frame)]
        if rule is not None:
            rule(frame)

    def frame_bytes(self, frame: Any) -> int:
        """Bytes that the frame takes on a connection, its length included; see `sizes` for how close that is."""
        kind = type(frame)
        size = self._sizes.get(kind)
        if size is None:
            size = self._sizes[kind] = size_of_frame(self._infos[kind])
        return LENGTH_BYTES + size(frame)

    def widest_bytes(self, frame: Any) -> int:
        """The same by encoding it, with every name known to the peer under the widest number there is: for whoever
        wants to compare. No limit is looked at."""
        return LENGTH_BYTES + len(widest_body(frame))


class FrameEncoder:
    """Frames to bodies."""

    __slots__ = ("_bundles", "_bytes_max", "_encode", "_types")

    def __init__(self, codec: Codec, bytes_max: int = limits.FRAME_BYTES) -> None:
        self._types = frozenset(codec.frames)
        self._bytes_max = bytes_max
        self._bundles = BundleWriter()
        self._encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(enc_hook=self._bundles.columns).encode

    def encode(self, frame: Any) -> bytes:
        """UsageError when the frame has no form on the wire; then nothing happened and the next one may be encoded."""
        if type(frame) not in self._types:
            raise UsageError(f"{type(frame).__name__} is not a frame of this codec")
        if self._bundles.given:
            self._bundles.keep()
        try:
            body = self._encode(frame)
        except _REFUSALS as error:
            self._bundles.take_back()
            raise UsageError(f"{type(frame).__name__} cannot be encoded: {error}") from None
        if len(body) > self._bytes_max:
            self._bundles.take_back()
            raise UsageError(f"{type(frame).__name__} takes {len(body)} bytes; a frame has {self._bytes_max}")
        return body

    def encode_apart(self, frame: Any, payload_min: int, mark: bytes) -> list[bytes]:
        """Return pieces that make the body when they are joined. Payload columns of at least `payload_min` bytes are
        pieces of their own, which are not copied. `mark` stands for them meanwhile: random bytes, so that nothing else
        in the body is equal to it."""
        self._bundles.apart_from, self._bundles.apart_mark = payload_min, mark
        try:
            body = self.encode(frame)
        finally:
            columns, self._bundles.apart = self._bundles.apart, []
            self._bundles.apart_from = 0
        pieces: list[bytes] = []
        for column in columns:
            before, body = body.split(mark, 1)
            pieces += (before, column)
        pieces.append(body)
        if sum(map(len, pieces)) > self._bytes_max:
            self._bundles.take_back()
            raise UsageError(f"{type(frame).__name__} takes {sum(map(len, pieces))} bytes; at most {self._bytes_max}")
        return pieces


class FrameDecoder:
    """Bodies to frames. After a WireError the names may be out of step: every further body is refused."""

    __slots__ = ("_bytes_max", "_decode", "_rules")

    def __init__(
        self, codec: Codec, bytes_max: int = limits.FRAME_BYTES, bundle_max: int = limits.BUNDLE_BYTES
    ) -> None:
        self._bytes_max = bytes_max
        self._decode: Callable[[bytes | memoryview], Any] = msgspec.msgpack.Decoder(
            codec.type, dec_hook=BundleReader(bundle_max).bundle
        ).decode
        self._rules = codec.rules

    def decode(self, body: bytes | memoryview) -> Any:
        """WireError, and nothing else, unless the body is exactly one frame that keeps every limit."""
        if len(body) > self._bytes_max:
            self._fail(WireError(f"a frame of {len(body)} bytes; at most {self._bytes_max}"))
        try:
            frame = self._decode(body)
            rule = self._rules[type(frame)]
            if rule is not None:
                rule(frame)
        except WireError as error:
            self._fail(error)
        except _REFUSALS as error:
            self._fail(WireError(f"malformed frame: {str(error)[: limits.REASON_BYTES] or type(error).__name__}"))
        return frame

    def _fail(self, error: WireError) -> NoReturn:
        def refuse(_body: bytes | memoryview) -> NoReturn:
            raise WireError(f"after an earlier refusal: {error}")

        self._decode = refuse
        raise error from None


def _check_tags(types: tuple[type[msgspec.Struct], ...]) -> None:
    owners: dict[int, type] = {}
    for kind in types:
        config = kind.__struct_config__
        if not config.array_like or type(config.tag) is not int:
            raise UsageError(f"{kind.__name__} must be an array-like Struct with an integer tag to travel")
        owner = owners.setdefault(config.tag, kind)
        if owner is not kind or types.count(kind) > 1:
            raise UsageError(f"tag {config.tag} is taken by {owner.__name__} and by {kind.__name__}")


def _filled(frame: Any, union: Any) -> Any:
    return frame[union] if getattr(frame, "__parameters__", ()) else frame


def common_version(preamble: bytes, oldest: int = OLDEST_VERSION, newest: int = NEWEST_VERSION) -> int:
    """The version to use with the peer that sent this preamble."""
    if preamble[:4] != MAGIC:
        raise WireError(f"the peer does not speak Resprout: it begins with {preamble[:8]!r}")
    theirs = int.from_bytes(preamble[4:6], "big"), int.from_bytes(preamble[6:8], "big")
    version = min(newest, theirs[1])
    if version < max(oldest, theirs[0]):
        raise WireError(
            f"the peer speaks wire versions {theirs[0]} to {theirs[1]}, this side {oldest} to {newest}: none in common"
        )
    return version


class FrameWriter:
    """Frames to bytes for one connection. Encode when the bytes leave: after a reconnection every name is new again."""

    __slots__ = ("_encode", "_greeting")

    def __init__(self, codec: Codec) -> None:
        self._encode = codec.encoder().encode
        self._greeting = PREAMBLE

    def write(self, frame: Any) -> bytes:
        """The bytes to send for this frame; the first ones begin with the preamble. UsageError: nothing was written."""
        header, body = self.parts(frame)
        return header + body

    def parts(self, frame: Any) -> tuple[bytes, bytes]:
        """The same in two pieces, for those who can send them without joining them: bodies may be large."""
        body = self._encode(frame)
        header = len(body).to_bytes(LENGTH_BYTES, "big")
        if self._greeting:
            header = self._greeting + header
            self._greeting = b""
        return header, body


class FrameReader:
    """Bytes to frames for one connection, in pieces of any size.

    Keeps less than one frame: at most `limits.FRAME_BYTES` and its length. A length that claims more is refused as soon
    as it is seen. After a WireError the connection is lost: every further call raises it again.

    `first_bytes_max` is the limit of the first frame alone: who has not been greeted yet need not be trusted with more.
    Kinds of frames in the `prelude` do not count as the first.
    """

    __slots__ = ("_bytes_max", "_decode", "_failure", "_needed", "_pending", "_prelude", "version")

    def __init__(
        self, codec: Codec, first_bytes_max: int = limits.FRAME_BYTES, prelude: tuple[type[Any], ...] = ()
    ) -> None:
        self._decode = codec.decoder().decode
        self._bytes_max = first_bytes_max
        self._prelude = prelude
        self._pending = bytearray()
        self._needed = len(PREAMBLE)
        self._failure: WireError | None = None
        self.version: int | None = None
        """The common format version, once the peer's preamble is here."""

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Any]:
        """Every frame that this chunk completes, in order.

        When one of them is malformed, those before it in the same chunk are not returned either: they were not
        acknowledged, so a session loses nothing that the peer did not risk itself.
        """
        if self._failure is not None:
            raise WireError(str(self._failure))
        try:
            size = len(chunk) - LENGTH_BYTES
            if (  # the common case between peers that talk now and then: one whole frame, and no rest from before
                not self._pending
                and self.version is not None
                and self._bytes_max == limits.FRAME_BYTES
                and 1 <= size <= limits.FRAME_BYTES
                and int.from_bytes(chunk[:LENGTH_BYTES], "big") == size
            ):
                return [self._decode(memoryview(chunk)[LENGTH_BYTES:])]
            return self._read(chunk)
        except WireError as error:
            self._failure = error
            self._pending = bytearray()
            raise

    def finish(self) -> None:
        """The peer closed its direction: WireError when that was inside a frame or before the preamble."""
        if self._failure is None and (self._pending or self.version is None):
            where = "a frame" if self.version else "its preamble"
            raise WireError(f"the peer closed the connection inside {where}, after {len(self._pending)} bytes of it")

    def _read(self, chunk: bytes | bytearray | memoryview) -> list[Any]:
        # A large frame gathers in one growing buffer and is looked at once, when complete: no piece is copied again and
        # again. Without a rest from before, the chunk itself is read in place, through a view: decoding copies what it
        # keeps, so bodies need not be copied before.
        pending = self._pending
        if pending:
            pending += chunk
            if len(pending) < self._needed:
                return []
            data = memoryview(pending)
        else:
            data = memoryview(chunk)
        frames, at = self._frames(data)
        self._pending = bytearray(data[at:])
        return frames

    def _frames(self, data: memoryview) -> tuple[list[Any], int]:
        """The frames that are complete, and where the rest begins; `_needed` is what that rest must grow to."""
        at, end = 0, len(data)
        frames: list[Any] = []
        if self.version is None:
            if end < len(PREAMBLE):
                return frames, 0
            self.version = common_version(bytes(data[: len(PREAMBLE)]))
            at = len(PREAMBLE)
        decode, bytes_max = self._decode, self._bytes_max
        while at + LENGTH_BYTES <= end:
            length = int.from_bytes(data[at : at + LENGTH_BYTES], "big")
            if not 1 <= length <= bytes_max:
                raise WireError(f"a frame of {length} bytes is announced; allowed are 1 to {bytes_max}")
            begin = at + LENGTH_BYTES
            if begin + length > end:
                self._needed = LENGTH_BYTES + length
                return frames, at
            at = begin + length
            frame = decode(data[begin:at])
            frames.append(frame)
            if type(frame) not in self._prelude:
                bytes_max = self._bytes_max = limits.FRAME_BYTES
        self._needed = LENGTH_BYTES
        return frames, at
