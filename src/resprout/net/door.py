"""Who may come in: decides about greetings on connections that others opened, before the machine hears of them.

Without TLS everybody is believed, as far as this file is concerned.
"""

from resprout.links.frames import Hello
from resprout.links.handshake import shorten
from resprout.net.frames import Who
from resprout.net.tls.keyring import Keyring
from resprout.net.tls.proven import ProvenPeer


class Door:
    """`keyring`: what this node proves itself with, if connections are encrypted. `clients_certified`: a client needs a
    certificate, too; a broker always does where there is TLS."""

    def __init__(self, keyring: Keyring | None = None, clients_certified: bool = False) -> None:
        self.keyring = keyring
        self._clients_certified = clients_certified

    def fault_of(self, hello: Hello, proven: ProvenPeer | None) -> str:
        """Why somebody may not be who it says, in a part of a sentence about it; empty when it may. One of a few texts:
        they are counted by it."""
        if self.keyring is None:
            return ""
        role = "client" if hello.role == "client" else "broker"
        if proven is None:
            if role == "client" and not self._clients_certified:
                return ""
            return f"it has no certificate, and a {role} needs one here"
        if not proven.says(role, hello.name):
            return f"its certificate does not say that it is this {role}"
        return ""

    def as_proven(self, asked: Who, proven: ProvenPeer | None) -> Who:
        """Of a question, what can be believed: which network a broker is in, only that broker says."""
        if self.keyring is None or (proven is not None and proven.says("broker", asked.name)):
            return asked
        return Who(asked.name)


def told(hello: Hello, proven: ProvenPeer | None) -> str:
    """Who it says it is, for the log."""
    role = "client" if hello.role == "client" else "broker"
    certified = f", whose certificate says {proven}," if proven is not None else ""
    return f"{role} {shorten(hello.name)}{certified}"
