"""TLS: the certificates of a node, and one end of a TLS connection without a socket.

`Keyring` reads certificates from a folder, as `resprout certificates` makes it: the authority in `ca.pem`, and
`NAME.pem` and `NAME.key` of every node or client NAME. It tries files before it uses them, and reads them again on
demand. A faulty file is not taken; the node continues with what it had. Only TLS 1.3 is spoken: both ends are of this
kind. TLS sessions are not resumed, because a resumed one would not check the certificate again.

`TlsStream` turns bytes into bytes. The TLS of event loops differs in what it reports when it fails; some report nothing
to the listener. Here both ends learn why (`reason_of_tls`), a handshake counts against the same deadline and limits as
a greeting, and bytes are handed to the system in the same moment as without TLS.

A certificate names its holder in a URI among its alternative names, `resprout:broker:b0` or `resprout:client:teller-1`:
the role is proven together with the name, so that no client can pass for a broker. It may hold several. A client that
may operate the network where there are no rules has a second one, `resprout:operator:NAME`. Everything else in it,
including its subject and names of hosts, is for people.
"""

import contextlib
import hashlib
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.core.errors import ResproutError, UsageError
from resprout.wire.codec import MAGIC

WARNING_DAYS: Final = 30
"""From so long before a certificate expires, whoever starts a broker with it is told."""
_DAY_SECONDS: Final = 86_400
_ROUNDS: Final = 8
"""Turns of both ends within which a handshake is complete, or never will be."""

AUTHORITY: Final = "ca.pem"
CERTIFICATE: Final = ".pem"
KEY: Final = ".key"

READ_BYTES: Final = 65_536

SCHEME: Final = "resprout"
OPERATOR: Final = "operator"
"""What a certificate says of a client that may operate the network where there are no rules."""
ROLES: Final = ("broker", "client", OPERATOR)
NAMED_MAX: Final = 3
"""Names that a line of a log tells of one certificate."""

_OF_CERTIFICATES: Final = {
    9: "is not valid yet: compare the clocks",
    10: "has expired",
    18: "is of another authority",
    19: "is of another authority",
    20: "is of another authority",
    21: "is of another authority",
    23: "was revoked",
    26: "is not meant for this end of a connection",
    79: "was not made by an authority: the one that signed it may not sign",
}
"""By the numbers of X509_V_ERR."""

_OF_ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "has expired",
    "UNKNOWN_CA": "is of another authority",
    "BAD_CERTIFICATE": "is not good",
    "UNSUPPORTED_CERTIFICATE": "is not meant for this end of a connection",
    "CERTIFICATE_REVOKED": "was revoked",
    "CERTIFICATE_UNKNOWN": "is not accepted",
}


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


def as_uri(role: str, name: str) -> str:
    return f"{SCHEME}:{role}:{name}"


class ProvenPeer(msgspec.Struct, frozen=True):
    """What a valid certificate says, or the proof of a member that has the key of the network."""

    names: frozenset[tuple[str, str]]
    """Roles and names."""
    incarnation: int | None = None
    """The one life that it was proven for, by the key of the network; None: any."""

    def says(self, role: str, name: str) -> bool:
        return (role, name) in self.names

    def client_of(self, name: str) -> str | None:
        """The client in the certificate that may be called so: by its own name, or by that, a dot and anything. The
        consumers of its durable subscriptions have such names."""
        clients = [client for role, client in self.names if role == "client"]
        fits = [client for client in clients if name == client or name.startswith(f"{client}.")]
        return max(fits, key=len, default=None)

    def __str__(self) -> str:
        if not self.names:
            return "nothing about a broker or a client"
        told = [f"{role} {name}" for role, name in sorted(self.names)]
        return ", ".join(told[:NAMED_MAX]) + (", ..." if len(told) > NAMED_MAX else "")


def read_proven(certificate: Mapping[str, Any] | None) -> ProvenPeer | None:
    """From what the `ssl` module tells of a certificate that it has verified; None when there is none."""
    if not certificate:
        return None
    names = set()
    for kind, text in certificate.get("subjectAltName", ()):
        scheme, _, rest = str(text).partition(":")
        role, colon, name = rest.partition(":")
        if kind == "URI" and scheme == SCHEME and colon and role in ROLES:
            names.add((role, name))
    return ProvenPeer(frozenset(names))


def reason_of_tls(error: ssl.SSLError) -> str:
    """A part of a sentence about the other side, which is "it"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate {fault_of_certificate(error)}"
    reason = error.reason or str(error)
    for name, fault in _OF_ALERTS.items():
        if reason.endswith(f"ALERT_{name}"):
            return f"it says that the certificate of this side {fault}"
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "UNKNOWN_PROTOCOL" in reason:
        return "it does not speak TLS"
    if "ALERT" in reason:
        return f"it has ended TLS: {_plain(reason.partition('ALERT_')[2] or reason)}"
    return f"no TLS with it: {_plain(reason)}"


def fault_of_certificate(error: ssl.SSLCertVerificationError) -> str:
    return _OF_CERTIFICATES.get(error.verify_code, f"is not valid: {error.verify_message}")


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM form: the authority that all certificates of the network come from, and this node's own. A client
    may go without: it knows then who the brokers are, and they do not know who it is."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


def tls_of_broker(folder: Path, name: str) -> Tls:
    """Every broker has a certificate."""
    return Tls(_there(folder, AUTHORITY), folder / f"{name}{CERTIFICATE}", folder / f"{name}{KEY}")


def tls_of_client(folder: Path, name: str | None) -> Tls:
    """With the certificate of this name, if the folder has it."""
    authority = _there(folder, AUTHORITY)
    if name is None or not (folder / f"{name}{CERTIFICATE}").exists():
        return Tls(authority)
    return Tls(authority, folder / f"{name}{CERTIFICATE}", folder / f"{name}{KEY}")


def _there(folder: Path, file: str) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of certificates")
    return folder / file


class Keyring:
    """Of a broker called `broker`; of a client when that is None. UsageError when the files are not good."""

    def __init__(self, files: Tls, broker: str | None = None) -> None:
        self._files = files
        self._broker = broker
        self.warning = ""
        """What people should know about the certificate; of brokers only."""
        self.reload()

    def reload(self) -> None:
        """For connections from now on; those that stand go on. UsageError, and nothing has changed, when the files are
        not good."""
        opening, accepting = _context(self._files, ssl.PROTOCOL_TLS_CLIENT, ssl.CERT_REQUIRED), None
        certificate = b""
        if self._broker is not None:
            # Clients may come without a certificate; whether they may stay is decided when they say who they are.
            accepting = _context(self._files, ssl.PROTOCOL_TLS_SERVER, ssl.CERT_OPTIONAL)
            self.warning, certificate = _rehearse(self._files, self._broker, opening, accepting)
        self._opening, self._accepting, self._certificate = opening, accepting, certificate

    def open(self) -> TlsStream:
        """The end of whoever opens a connection."""
        return TlsStream(self._opening, server_side=False)

    def accept(self) -> TlsStream:
        """The end of whoever listens."""
        assert self._accepting is not None, "only brokers listen"
        return TlsStream(self._accepting, server_side=True, certificate=self._certificate)


def _context(files: Tls, protocol: int, verify: ssl.VerifyMode) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # who somebody is stands in its certificate, wherever it runs; see `proven`
    context.verify_mode = verify
    context.options |= ssl.OP_NO_TICKET
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    _read(files.authority, context.load_verify_locations, "authority")
    if (certificate := files.certificate) is not None:
        key = files.key or certificate

        def load(path: Path) -> None:
            context.load_cert_chain(path, key, password=_no_password)

        _read(key, Path.read_bytes, "key")
        _read(certificate, load, "certificate")
    return context


def _read(path: Path, load: Callable[[Path], object], what: str) -> None:
    try:
        load(path)
    except ssl.SSLError as error:
        mismatch = "KEY_VALUES_MISMATCH" in (error.reason or "")
        fault = "it does not belong to its key" if mismatch else f"there is no good {what} in it"
        raise UsageError(f"{what} {path}: {fault}") from None
    except OSError as error:
        raise UsageError(f"{what} {path}: {(error.strerror or str(error)).lower()}") from None
    except _PasswordWantedError:
        raise UsageError(f"{what} {path}: its key is encrypted; use a key without a password") from None


class _PasswordWantedError(Exception):
    pass


def _no_password() -> str:
    raise _PasswordWantedError


def _rehearse(files: Tls, broker: str, opening: ssl.SSLContext, accepting: ssl.SSLContext) -> tuple[str, bytes]:
    """Speak with oneself: whatever a peer would object to is found out here. Returns what people should know, and the
    SHA-256 digest of the certificate."""
    if files.certificate is None:
        raise UsageError(f"broker {broker} has no certificate: with TLS every broker needs one")
    here = opening.wrap_bio(first := ssl.MemoryBIO(), second := ssl.MemoryBIO())
    there = accepting.wrap_bio(second, first, server_side=True)
    try:
        for turn in range(_ROUNDS):
            with contextlib.suppress(ssl.SSLWantReadError):
                (there if turn % 2 else here).do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise UsageError(f"certificate {files.certificate} {fault_of_certificate(error)}") from None
    except ssl.SSLError as error:
        raise UsageError(f"certificate {files.certificate}: {error.reason or error}") from None
    told = here.getpeercert() or {}
    own = read_proven(told)
    assert own is not None, "it was required"
    if not own.says("broker", broker):
        raise UsageError(f"certificate {files.certificate} says {own}, and not broker {broker}")
    days = (ssl.cert_time_to_seconds(str(told["notAfter"])) - time.time()) / _DAY_SECONDS
    warning = f"certificate {files.certificate} expires in {days:.0f} days" if days < WARNING_DAYS else ""
    return warning, hashlib.sha256(here.getpeercert(binary_form=True) or b"").digest()
