"""A connection's bytes, one direction: a preamble, then frames behind their lengths.

    preamble    "RSPT"  oldest: u16  newest: u16      the format versions that the sender understands, inclusive
    frame       length: u32  body: `length` bytes     1 <= length <= limits.FRAME_BYTES

All numbers are big-endian. Both sides send their preamble at once, without waiting for the other's. They then use the
newest version that both know; if there is none, the connection is refused and the reason names both ranges. The opener
does not wait for the answer before its first frame: the first frame of either side has the same form in every version.
Only version 1 exists. (`Hello.version` is another thing: what frames mean, checked by those who use them.)
"""

from typing import Any, Final

from resprout.core import limits
from resprout.core.errors import WireError
from resprout.wire.codec import LENGTH_BYTES, Codec

MAGIC: Final = b"RSPT"
OLDEST_VERSION: Final = 1
NEWEST_VERSION: Final = 1
PREAMBLE: Final = MAGIC + OLDEST_VERSION.to_bytes(2, "big") + NEWEST_VERSION.to_bytes(2, "big")


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
