"""One protocol's frames and messages, and the two ends of one connection that turn them into bodies and back.

A body is a MessagePack array `[tag, field, ...]`. Fields are never removed or reordered within a version of the format;
a decoder ignores fields that come after those it knows, and takes the defaults of fields that are missing at the end.

A codec is immutable and serves any number of connections. The ends of a connection are not: they learn names
(`bundles`), so each connection and direction has its own, and bodies must be decoded in the order they were encoded.

msgspec checks types and this floor checks values after it, so a hostile body is taken apart before it is refused. At
worst that takes some 80 times its size in memory for a moment (a body of empty maps), bounded by `limits.FRAME_BYTES`.
"""

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final, NoReturn

import msgspec

from resprout.core import limits
from resprout.core.errors import UsageError, WireError
from resprout.wire.bundles import BundleReader, BundleWriter
from resprout.wire.rules import Rule, rule_of_frame
from resprout.wire.sizes import Size, size_of_frame, widest_body

# Everything that decoding hostile bytes was seen to raise, or may: none of it leaves this floor.
_REFUSALS: Final = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)

LENGTH_BYTES: Final = 4
"""What stands before each body on a connection; see `framing`."""


class Codec:
    """`Codec(frames, messages)`: generic frame types (`Data[M]`) are given bare and filled with the union of messages.

    UsageError when types cannot travel: not an array-like Struct with an integer tag, two with the same tag, or a field
    without a rule (see `rules`).
    """

    __slots__ = ("_sizes", "frames", "messages", "rules", "type")

    def __init__(self, frames: Iterable[type[msgspec.Struct]], messages: Iterable[type[msgspec.Struct]]) -> None:
        self.frames = tuple(frames)
        self.messages = tuple(messages)
        if not self.frames or not self.messages:
            raise UsageError("a codec needs frames and messages")
        _check_tags((*self.frames, *self.messages))
        union: Any = reduce(operator.or_, self.messages)
        filled: list[Any] = [_filled(frame, union) for frame in self.frames]
        self.type: Any = reduce(operator.or_, filled)
        self.rules: dict[type, Rule | None] = {
            frame: rule_of_frame(full) for frame, full in zip(self.frames, filled, strict=True)
        }
        """By frame: what its values keep; None when its type says it all."""
        self._sizes: dict[type, Size] = {
            frame: size_of_frame(full) for frame, full in zip(self.frames, filled, strict=True)
        }

    def encoder(self) -> "FrameEncoder":
        """For one direction of a new connection."""
        return FrameEncoder(self)

    def decoder(self) -> "FrameDecoder":
        """For one direction of a new connection."""
        return FrameDecoder(self)

    def check(self, frame: Any) -> None:
        """WireError when a peer would refuse this frame for its values (bundles aside)."""
        rule = self.rules[type(frame)]
        if rule is not None:
            rule(frame)

    def frame_bytes(self, frame: Any) -> int:
        """Bytes that the frame takes on a connection, its length included; see `sizes` for how close that is."""
        return LENGTH_BYTES + self._sizes[type(frame)](frame)

    def widest_bytes(self, frame: Any) -> int:
        """The same by encoding it, with every name known to the peer under the widest number there is: for whoever
        wants to compare. No limit is looked at."""
        return LENGTH_BYTES + len(widest_body(frame))


class FrameEncoder:
    """Frames to bodies."""

    __slots__ = ("_bundles", "_encode", "_types")

    def __init__(self, codec: Codec) -> None:
        self._types = frozenset(codec.frames)
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
        if len(body) > limits.FRAME_BYTES:
            self._bundles.take_back()
            raise UsageError(f"{type(frame).__name__} takes {len(body)} bytes; a frame has {limits.FRAME_BYTES}")
        return body


class FrameDecoder:
    """Bodies to frames. After a WireError the names may be out of step: every further body is refused."""

    __slots__ = ("_decode", "_rules")

    def __init__(self, codec: Codec) -> None:
        self._decode: Callable[[bytes | memoryview], Any] = msgspec.msgpack.Decoder(
            codec.type, dec_hook=BundleReader().bundle
        ).decode
        self._rules = codec.rules

    def decode(self, body: bytes | memoryview) -> Any:
        """WireError, and nothing else, unless the body is exactly one frame that keeps every limit."""
        if len(body) > limits.FRAME_BYTES:
            self._fail(WireError(f"a frame of {len(body)} bytes; at most {limits.FRAME_BYTES}"))
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
