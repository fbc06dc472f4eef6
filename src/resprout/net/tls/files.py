"""Where a node's certificates lie.

A folder, as `resprout certificates` makes it, has the authority in `ca.pem`, and of everybody NAME `NAME.pem` and
`NAME.key`.
"""

from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import UsageError

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
