"""Large messages as bytes, of which parts are sent.

The bytes are those of a `Data` frame with this one message, all names in full: what a connection has learned does not
matter, so a transfer that was interrupted goes on in its middle on another connection.
"""

from typing import Any

from resprout.core.errors import PeerError
from resprout.links.frames import Data
from resprout.links.parts import Body
from resprout.wire.codec import Codec


class EncodedBodies:
    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def pack(self, number: int, message: Any) -> Body:
        return memoryview(self._codec.encoder().encode(Data(number, 0, 0, (message,))))

    def unpack(self, number: int, slices: list[Any]) -> Any:
        frame = self._codec.decoder().decode(b"".join(slices))
        if type(frame) is not Data or frame.first != number or len(frame.messages) != 1:
            raise PeerError(f"the parts of message {number} are something else")
        return frame.messages[0]
