"""Authenticates MQTT clients, maps client identifiers to names in the tree, and applies the broker's rules.

A user name is an identity in the rules, and the password is its secret. Without rules both are ignored. Client
certificates work as on the broker's own port. The client identifier is the client's name in the tree, and the rules say
which names an identity may use. An identifier that is not a valid name is replaced by a digest of it.
"""

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

from resprout.core.errors import NameRefusedError
from resprout.core.limits import check_name
from resprout.mqtt.reasons import Reason
from resprout.mqtt_sessions.ports import AdmissionError
from resprout.net.basic_logins import TOO_MANY, BasicLogins
from resprout.net.connection_limits import source_of
from resprout.net.door import Door
from resprout.net.tls import ProvenPeer

if TYPE_CHECKING:
    from resprout.net.broker import RunningBroker

WRONG_LOGIN: Final = "wrong user name or password"
DIGEST_LETTERS: Final = 32


class Admission:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._logins = BasicLogins(door)

    def close(self) -> None:
        self._logins.close()

    async def identify(self, address: str, username: str | None, password: bytes | None) -> str | None:
        """Check user name and password and return the identity; None without a user name or without rules. Raises
        AdmissionError if they are wrong or too many checks are pending."""
        if username is None or not self._door.has_rules:
            return None
        try:
            secret = (password or b"").decode()
            identity = check_name(username)
        except (UnicodeDecodeError, NameRefusedError):
            raise AdmissionError(Reason.BAD_USER_NAME_OR_PASSWORD, WRONG_LOGIN) from None
        fault = await self._logins.check(identity, secret, source_of(address))
        if fault == TOO_MANY:
            raise AdmissionError(Reason.SERVER_BUSY, fault)
        if fault:
            raise AdmissionError(Reason.BAD_USER_NAME_OR_PASSWORD, WRONG_LOGIN)
        return identity

    def judge(self, broker: "RunningBroker", name: str, proven: ProvenPeer | None, identity: str | None) -> None:
        """Raise AdmissionError if the client may not connect or may not use this name."""
        knows = getattr(broker.books.machine, "knows_broker", None)
        if name == broker.name or (knows is not None and knows(name)):
            raise AdmissionError(Reason.CLIENT_IDENTIFIER_NOT_VALID, "its name is that of a broker")
        entrance = self._door.judge("client", name, proven, identity)
        if entrance.fault:
            is_name = "name" in entrance.fault
            reason = Reason.CLIENT_IDENTIFIER_NOT_VALID if is_name else Reason.NOT_AUTHORIZED
            raise AdmissionError(reason, entrance.fault)


def name_of(client_id: str, identity: str | None) -> tuple[str, str]:
    """Return the name in the tree and the client identifier, which is assigned if the client sent an empty one."""
    if not client_id:
        assigned = f"{identity or 'mqtt'}.{secrets.token_hex(10)}"
        return assigned, assigned
    try:
        return check_name(client_id), client_id
    except NameRefusedError:
        return f"mqtt.{hashlib.sha256(client_id.encode()).hexdigest()[:DIGEST_LETTERS]}", client_id
