"""Asks who listens at an address."""

import asyncio
import socket

from resprout.core.errors import ResproutError, WireError
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.frames import Goodbye
from resprout.net.address import Address, reason_of
from resprout.net.connection import GREETING_BYTES_MAX
from resprout.net.frames import Here, Who, make_codec
from resprout.wire.framing import FrameReader, FrameWriter

READ_BYTES = 65_536

_CODEC = make_codec(CLIENT_MESSAGES)


class UnreachableError(ResproutError):
    """Nobody that speaks this protocol answers at the address.

    `hopeless`: trying again cannot help; there is no such host, or what answers speaks something else. `refused`: the
    host says that nobody listens there.
    """

    def __init__(self, reason: str, hopeless: bool = False, refused: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless
        self.refused = refused


async def who_is(address: Address, timeout_s: float, asker: str = "", network: str = "") -> Here:
    """The node that listens there; UnreachableError says in one line why there is none.

    `asker`: the name under which this side will open a session, if it has one. `network`: the one it is in.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(address, Who(asker, network))
    except TimeoutError:
        raise UnreachableError(f"{address}: no answer within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        unknown = isinstance(error, UnicodeError | socket.gaierror)
        refused = isinstance(error, ConnectionRefusedError)
        raise UnreachableError(f"{address}: {reason_of(error)}", unknown, refused) from None
    except WireError as error:
        raise UnreachableError(f"{address}: {error}", hopeless=True) from None


async def _ask(address: Address, question: Who) -> Here:
    reader, writer = await asyncio.open_connection(address.host or "localhost", address.port)
    try:
        writer.write(FrameWriter(_CODEC).write(question))
        frames = FrameReader(_CODEC, GREETING_BYTES_MAX)
        while chunk := await reader.read(READ_BYTES):
            for frame in frames.feed(chunk):
                if isinstance(frame, Here):
                    return frame
                if isinstance(frame, Goodbye):
                    raise UnreachableError(f"{address}: {frame.reason}")
        raise UnreachableError(f"{address}: the connection was closed without an answer")
    finally:
        writer.close()
