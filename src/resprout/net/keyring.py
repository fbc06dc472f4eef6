"""The certificates of a node: where they lie, what it proves itself with, and whom it believes.

A folder, as `resprout certificates` makes it, has the authority in `ca.pem`, and of every node or client NAME
`NAME.pem` and `NAME.key`. A keyring is read from files, tried before it is used, and read again on demand. A faulty
file is not taken; the node goes on with what it had.

Only TLS 1.3 is spoken: both ends are of this kind. TLS sessions are not resumed, because a resumed one would not look
at the certificate again.
"""

import contextlib
import hashlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.net.tls_stream import TlsStream, fault_of_certificate, read_proven

WARNING_DAYS: Final = 30
"""From so long before a certificate expires, whoever starts a broker with it is told."""
_DAY_SECONDS: Final = 86_400
_ROUNDS: Final = 8
"""Turns of both ends within which a handshake is complete, or never will be."""

AUTHORITY: Final = "ca.pem"
CERTIFICATE: Final = ".pem"
KEY: Final = ".key"


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
        raise UsageError(
            f"{what} {path}: its key is encrypted, and nobody is here to be asked for a password"
        ) from None


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
