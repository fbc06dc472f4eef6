"""Asks who listens at an address, and what else can be asked without a session."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from resprout.core import limits
from resprout.core.errors import ResproutError, WireError
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.frames import Goodbye
from resprout.net.address import Address, reason_of
from resprout.net.connection import GREETING_BYTES_MAX
from resprout.net.frames import AccountTold, Here, Who, make_codec
from resprout.net.tls.keyring import Keyring
from resprout.net.tls.stream import TlsError
from resprout.wire.framing import FrameReader, FrameWriter

READ_BYTES = 65_536

T = TypeVar("T", Here, AccountTold)


class UnreachableError(ResproutError):
    """Nobody that speaks this protocol answers at the address.

    `hopeless`: trying again cannot help; the host is no name at all, or what answers speaks something else. A name that
    does not resolve may do so later: a resolver restarts, or an orchestrator registers names as machines come up.
    `refused`: the host says that nobody listens there.
    """

    def __init__(self, reason: str, hopeless: bool = False, refused: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless
        self.refused = refused


async def who_is(
    address: Address, timeout_s: float, asker: str = "", network: str = "", keyring: Keyring | None = None
) -> Here:
    """The node that listens there; UnreachableError says in one line why there is none.

    `asker`: the name under which this side will open a session, if it has one. `network`: the one it is in. `keyring`:
    what it proves itself with; the answer is then proven, too.
    """
    return await exchange(address, timeout_s, (Who(asker, network),), Here, keyring)


async def exchange(
    address: Address, timeout_s: float, said: Sequence[Any], wanted: type[T], keyring: Keyring | None = None
) -> T:
    """Say this at an address, on a connection of its own, and hear the answer, which has to be one of its kind."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(address, said, wanted, keyring)
    except TimeoutError:
        raise UnreachableError(f"{address}: no answer within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        refused = isinstance(error, ConnectionRefusedError)
        raise UnreachableError(f"{address}: {reason_of(error)}", isinstance(error, UnicodeError), refused) from None
    except WireError as error:
        raise UnreachableError(f"{address}: {error}", hopeless=True) from None


async def _exchange(address: Address, said: Sequence[Any], wanted: type[T], keyring: Keyring | None) -> T:
    reader, writer = await asyncio.open_connection(address.host or "localhost", address.port)
    line = _Line(reader, writer, keyring, address)
    try:
        codec = make_codec(CLIENT_MESSAGES)
        words = FrameWriter(codec)
        await line.write(b"".join([words.write(frame) for frame in said]))
        frames = FrameReader(codec, GREETING_BYTES_MAX if wanted is Here else limits.FRAME_BYTES)
        while chunk := await line.read():
            for frame in frames.feed(chunk):
                if isinstance(frame, wanted):
                    line.check(frame)
                    return frame
                if isinstance(frame, Goodbye):
                    raise UnreachableError(f"{address}: {frame.reason}")
        raise UnreachableError(f"{address}: the connection was closed without an answer")
    finally:
        writer.close()


class _Line:
    """The bytes of one connection, with TLS or without."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keyring: Keyring | None, address: Address
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._address = address
        self._tls = keyring.open() if keyring is not None else None

    async def write(self, data: bytes) -> None:
        tls = self._tls
        if tls is not None:
            self._decrypt(b"")
            while not tls.standing:
                chunk = await self._reader.read(READ_BYTES)
                if not chunk:
                    raise UnreachableError(f"{self._address}: the connection was closed before TLS stood")
                self._decrypt(chunk)
            data = tls.encrypt(data)
        self._writer.write(data)

    async def read(self) -> bytes:
        """Empty at the end."""
        while chunk := await self._reader.read(READ_BYTES):
            if plain := self._decrypt(chunk) if self._tls is not None else chunk:
                return plain
        return b""

    def check(self, told: Here | AccountTold) -> None:
        """Whether it is whom its certificate says."""
        role = told.role if isinstance(told, Here) else "broker"
        if self._tls is not None and (proven := self._tls.proven) is not None and not proven.says(role, told.name):
            raise UnreachableError(f"{self._address}: it says {role} {told.name}, its certificate {proven}", True)

    def _decrypt(self, chunk: bytes) -> bytes:
        tls = self._tls
        assert tls is not None
        try:
            return tls.receive(chunk)
        except TlsError as error:
            raise UnreachableError(f"{self._address}: {error}", hopeless=True) from None
        finally:
            self._writer.write(tls.to_send())
