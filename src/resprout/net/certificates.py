"""Makes a first set of certificates: an authority, and one certificate for each broker and client.

The only file that needs `cryptography`; whoever runs brokers with certificates from elsewhere does without.
"""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from resprout.core.errors import UsageError
from resprout.net.tls import AUTHORITY, CERTIFICATE, KEY, OPERATOR, as_uri

AUTHORITY_KEY: Final = "ca.key"
AUTHORITY_DAYS: Final = 3650
EARLIER: Final = datetime.timedelta(minutes=5)
"""Certificates are valid from a little before they are made: clocks differ."""


class IssuedCertificate(msgspec.Struct, frozen=True):
    """One that was made."""

    role: str
    name: str
    certificate: str
    key: str
    expires: str


class Authority:
    """Who vouches for everybody in one network. Its key is needed to make certificates and for nothing else."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    def issue(self, folder: Path, role: str, name: str, days: int) -> IssuedCertificate:
        """An operator is a client, too: its certificate says both."""
        roles = ("client", OPERATOR) if role == OPERATOR else (role,)
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        end = min(now + datetime.timedelta(days=days), self._certificate.not_valid_after_utc)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role == "broker":
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        certificate = (
            _builder(f"{role} {name}", self._certificate.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(as_uri(one, name)) for one in roles]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = (folder / f"{name}{CERTIFICATE}", folder / f"{name}{KEY}")
        _write_key(files[1], key)
        _write(files[0], certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        return IssuedCertificate(role, name, str(files[0]), str(files[1]), end.date().isoformat())


def authority_of(folder: Path) -> Authority:
    """The one in the folder; a new one where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from None
    certificate, key = folder / AUTHORITY, folder / AUTHORITY_KEY
    if certificate.exists():
        return _read_authority(certificate, key)
    if key.exists():
        raise UsageError(f"{key}: the key of an authority without its certificate, {certificate}")
    return _new_authority(certificate, key)


def check_free(folder: Path, names: Sequence[str]) -> None:
    """Raise UsageError if a certificate or key of one of these names exists already."""
    for name in names:
        for file in (folder / f"{name}{CERTIFICATE}", folder / f"{name}{KEY}"):
            if file.exists():
                raise UsageError(f"{file} is there already: --renew makes a new one in its place")


def _read_authority(certificate: Path, key: Path) -> Authority:
    try:
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        secret = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; new certificates need the authority's key") from None
    except (ValueError, TypeError):  # TypeError: it is encrypted
        raise UsageError(f"{certificate}, {key}: no good authority, or an encrypted key") from None
    if not isinstance(secret, ec.EllipticCurvePrivateKey) or secret.public_key() != known.public_key():
        raise UsageError(f"{key} does not belong to {certificate}")
    if known.not_valid_after_utc <= datetime.datetime.now(datetime.UTC):
        raise UsageError(f"{certificate} has expired: make a new set in another folder")
    return Authority(known, secret)


def _new_authority(certificate: Path, key: Path) -> Authority:
    secret = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = _subject("authority")
    made = (
        _builder("authority", subject, secret, now, now + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(secret.public_key()), critical=False)
        .sign(secret, hashes.SHA256())
    )
    _write_key(key, secret)
    _write(certificate, made.public_bytes(serialization.Encoding.PEM), 0o644)
    return Authority(made, secret)


def _subject(what: str) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Resprout"), x509.NameAttribute(NameOID.COMMON_NAME, what)]
    return x509.Name(names)


def _builder(
    what: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(what[:64]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now - EARLIER, end))
        .not_valid_after(end)
    )


def _key_usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(path, data, 0o600)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Never half, and never readable by others while it is written, if it is not to be."""
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
