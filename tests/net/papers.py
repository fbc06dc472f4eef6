"""Certificates for tests: good ones, expired ones, and those of a foreign authority."""

import ssl
from pathlib import Path

from resprout.net.certificates import Authority, authority_of
from resprout.net.door import Door
from resprout.net.tls import Keyring, Tls, tls_of_broker, tls_of_client


class Papers:
    """A folder of certificates, and what is needed of it."""

    def __init__(self, folder: Path, brokers: str = "b0 b1", clients: str = "teller") -> None:
        self.folder = folder
        self.authority: Authority = authority_of(folder)
        for role, names in (("broker", brokers), ("client", clients)):
            for name in names.split():
                self.issue(role, name)

    def issue(self, role: str, name: str, days: int = 1) -> None:
        """With `days` below 0, it has expired."""
        self.authority.issue(self.folder, role, name, days)

    def door(self, broker: str, clients_certified: bool = False) -> Door:
        return Door(Keyring(tls_of_broker(self.folder, broker), broker), clients_certified)

    def client(self, name: str | None = None) -> Tls:
        return tls_of_client(self.folder, name)

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """For a connection that is not ours."""
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        context.check_hostname = False
        if name is not None:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context


def foreign(own: Papers, folder: Path, certificate: str) -> Tls:
    """Believes the authority of `own`, and shows a certificate of another one."""
    other = Papers(folder, brokers="b0 b1", clients="teller")
    files = other.client(certificate)
    return Tls(own.folder / "ca.pem", files.certificate, files.key)
