"""Who somebody is, as its certificate says.

A certificate speaks in a URI among its alternative names, `resprout:broker:b0` or `resprout:client:teller-1`: the role
is proven together with the name, so that no client can pass for a broker. It may hold several. A client that may
operate the network where there are no rules has a second one, `resprout:operator:NAME`. What else is in it, its subject
and the names of hosts above all, is for people.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

SCHEME: Final = "resprout"
OPERATOR: Final = "operator"
"""What a certificate says of a client that may operate the network where there are no rules."""
ROLES: Final = ("broker", "client", OPERATOR)
NAMED_MAX: Final = 3
"""Names that a line of a log tells of one certificate."""


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
