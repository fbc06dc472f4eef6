"""Asks who listens at an address, and what else can be asked without a session."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from resprout.core import limits
from resprout.core.errors import ResproutError, WireError
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.frames import Goodbye
from resprout.net.address import Address, reason_of
from resprout.net.connection import GREETING_BYTES_MAX
from resprout.net.identity.proofs import NetworkKey, OpenerMembership, OpenersProof, ProofError
from resprout.net.sessions import PROOFS, AccountTold, Here, Who, make_codec
from resprout.net.tls import Keyring, TlsError
from resprout.wire.codec import FrameReader, FrameWriter

READ_BYTES = 65_536

T = TypeVar("T", Here, AccountTold)
Prove = Callable[[bytes], OpenersProof]
"""Makes what is to be proven first, given the digest of the certificate of the other side; empty without TLS."""


class UnreachableError(ResproutError):
    """Nobody that speaks this protocol answers at the address.

    `retryable`: trying again may help. It is false when the host is no name at all, or when the peer speaks another
    protocol. A name that does not resolve may do so later: a resolver restarts, or an orchestrator registers names as
    machines come up. `refused`: the host says that no process listens there.
    """

    def __init__(self, reason: str, retryable: bool = True, refused: bool = False) -> None:
        super().__init__(reason)
        self.retryable = retryable
        self.refused = refused


async def who_is(
    address: Address,
    timeout_s: float | None,
    asker: str = "",
    network: str = "",
    keyring: Keyring | None = None,
    key: NetworkKey | None = None,
) -> Here:
    """The node that listens there; UnreachableError says in one line why there is none.

    `asker`: the name under which this side will open a session, if it has one. `network`: the one it is in. `keyring`:
    what it proves itself with; the answer is then proven, too. `key`: the same for a broker where there is no TLS.
    """
    prove = partial(_as_member, key, asker) if key is not None else None
    return await exchange(address, timeout_s, (Who(asker, network),), Here, keyring, prove)


def _as_member(key: NetworkKey, name: str, certificate: bytes) -> OpenersProof:
    return OpenerMembership(key, name, 0, None)


async def exchange(
    address: Address,
    timeout_s: float | None,
    said: Sequence[Any],
    wanted: type[T],
    keyring: Keyring | None = None,
    prove: Prove | None = None,
) -> T:
    """Say this at an address, on a connection of its own, and hear the answer, which has to be one of its kind.
    `prove`: what this side shows first."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(address, said, wanted, keyring, prove)
    except TimeoutError:
        raise UnreachableError(f"{address}: no answer within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        refused = isinstance(error, ConnectionRefusedError)
        raise UnreachableError(f"{address}: {reason_of(error)}", not isinstance(error, UnicodeError), refused) from None
    except WireError as error:
        raise UnreachableError(f"{address}: {error}", retryable=False) from None
    except ProofError as error:
        raise UnreachableError(f"{address}: {error}") from None


async def _exchange(
    address: Address, said: Sequence[Any], wanted: type[T], keyring: Keyring | None, prove: Prove | None
) -> T:
    reader, writer = await asyncio.open_connection(address.host or "localhost", address.port)
    line = _Line(reader, writer, keyring, address)
    try:
        await line.open()
        frames = _Frames(line, GREETING_BYTES_MAX if wanted is Here else limits.FRAME_BYTES)
        proof = prove(line.certificate) if prove is not None else None
        if proof is not None:
            await _prove(proof, frames)
        frames.say(*said)
        while True:
            frame = await frames.hear()
            if isinstance(frame, wanted):
                line.check(frame, proof)
                return frame
    finally:
        writer.close()


async def _prove(proof: OpenersProof, frames: "_Frames") -> None:
    frames.say(proof.begin())
    while not proof.is_over:
        frame = await frames.hear()
        if (work := proof.work_for(frame)) is not None:
            await asyncio.get_running_loop().run_in_executor(None, work)
        if (answer := proof.hear(frame)) is not None:
            frames.say(answer)


class _Frames:
    """The frames of one connection. UnreachableError when it ends."""

    def __init__(self, line: "_Line", first_bytes_max: int) -> None:
        codec = make_codec(CLIENT_MESSAGES)
        self._line = line
        self._writer = FrameWriter(codec)
        self._reader = FrameReader(codec, first_bytes_max, PROOFS)
        self._heard: list[Any] = []

    def say(self, *frames: Any) -> None:
        self._line.write(b"".join([self._writer.write(frame) for frame in frames]))

    async def hear(self) -> Any:
        while not self._heard:
            chunk = await self._line.read()
            if not chunk:
                raise UnreachableError(f"{self._line.address}: the connection was closed without an answer")
            self._heard = self._reader.feed(chunk)
        frame = self._heard.pop(0)
        if isinstance(frame, Goodbye):
            raise UnreachableError(f"{self._line.address}: {frame.reason}")
        return frame


class _Line:
    """The bytes of one connection, with TLS or without."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keyring: Keyring | None, address: Address
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.address = address
        self._tls = keyring.open() if keyring is not None else None

    @property
    def certificate(self) -> bytes:
        """The digest of the other side's; empty without TLS."""
        return self._tls.certificate if self._tls is not None else b""

    async def open(self) -> None:
        tls = self._tls
        if tls is not None:
            self._decrypt(b"")
            while not tls.standing:
                chunk = await self._reader.read(READ_BYTES)
                if not chunk:
                    raise UnreachableError(f"{self.address}: the connection was closed before TLS stood")
                self._decrypt(chunk)

    def write(self, data: bytes) -> None:
        self._writer.write(self._tls.encrypt(data) if self._tls is not None else data)

    async def read(self) -> bytes:
        """Empty at the end."""
        while chunk := await self._reader.read(READ_BYTES):
            if plain := self._decrypt(chunk) if self._tls is not None else chunk:
                return plain
        return b""

    def check(self, told: Here | AccountTold, proof: OpenersProof | None) -> None:
        """Whether it is whom its certificate, or the key of the network, says."""
        if isinstance(proof, OpenerMembership) and proof.proven != told.name:
            reason = f"{self.address}: it says {told.name}, and has proven to be {proof.proven}"
            raise UnreachableError(reason, retryable=False)
        role = told.role if isinstance(told, Here) else "broker"
        if self._tls is not None and (proven := self._tls.proven) is not None and not proven.says(role, told.name):
            reason = f"{self.address}: it says {role} {told.name}, its certificate {proven}"
            raise UnreachableError(reason, retryable=False)

    def _decrypt(self, chunk: bytes) -> bytes:
        tls = self._tls
        assert tls is not None
        try:
            return tls.receive(chunk)
        except TlsError as error:
            raise UnreachableError(f"{self.address}: {error}", retryable=False) from None
        finally:
            self._writer.write(tls.to_send())
