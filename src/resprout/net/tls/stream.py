"""One end of a TLS connection, without a socket: bytes in, bytes out.

Event loops have TLS of their own, and they differ in what they tell when it fails: some say nothing at all to whoever
listens. Here both ends learn why, a handshake counts against the same deadline and the same limits as a greeting, and
what leaves is handed to the system in the same moment as without TLS.
"""

import hashlib
import ssl
from typing import Final

from resprout.core.errors import ResproutError
from resprout.net.tls.proven import ProvenPeer, read_proven
from resprout.net.tls.reasons import reason_of_tls
from resprout.wire.framing import MAGIC

READ_BYTES: Final = 65_536


class TlsError(ResproutError):
    """The connection is of no use. The text is a part of a sentence about the other side, which is "it"."""

    def __init__(self, reason: str, plain: bool = False) -> None:
        super().__init__(reason)
        self.plain = plain
        """The other side speaks this protocol, and no TLS: it can be told in its own language."""


class TlsStream:
    """`certificate`: the SHA-256 digest of the one that this side shows, if it listens."""

    def __init__(self, context: ssl.SSLContext, server_side: bool, certificate: bytes = b"") -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._server_side = server_side
        self._first = b""
        self.standing = False
        """The handshake is complete, as far as this side can tell."""
        self.proven: ProvenPeer | None = None
        """Who the other side is; None as long as that is not known, or when it has no certificate."""
        self.certificate = certificate
        """The SHA-256 digest of the certificate of the side that listens, which logins are bound to."""

    def receive(self, data: bytes) -> bytes:
        """Bytes of the connection in, bytes of the other side out. TlsError when there is no TLS with it; what is in
        `to_send` then tells it why. Whoever opened the connection begins by receiving nothing."""
        if not self.standing:
            self._refuse_plain(data)
        self._incoming.write(data)
        try:
            if not self.standing and not self._shake():
                return b""
            return self._read()
        except ssl.SSLError as error:
            raise TlsError(reason_of_tls(error)) from None

    def encrypt(self, data: bytes) -> bytes:
        """What to send for this; only while it stands. TlsError when the other side has ended it."""
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise TlsError(reason_of_tls(error)) from None
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """What the other side must be told, of TLS itself."""
        return self._outgoing.read()

    def _refuse_plain(self, data: bytes) -> None:
        if self._server_side and len(self._first) < len(MAGIC):
            self._first += data[: len(MAGIC)]
            if self._first.startswith(MAGIC):
                raise TlsError("it does not speak TLS", plain=True)

    def _shake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.standing = True
        self.proven = read_proven(self._tls.getpeercert())
        if not self._server_side:
            self.certificate = hashlib.sha256(self._tls.getpeercert(binary_form=True) or b"").digest()
        return True

    def _read(self) -> bytes:
        """Everything that is complete. One call reads one record; asking when nothing is there costs an exception."""
        records = []
        try:
            while self._incoming.pending or self._tls.pending():
                record = self._tls.read(READ_BYTES)
                if not record:
                    break
                records.append(record)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return records[0] if len(records) == 1 else b"".join(records)
