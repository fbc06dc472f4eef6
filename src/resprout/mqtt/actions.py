"""What a session machine wants from its driver. Actions are executed in the order of the list."""

from typing import TypeAlias

import msgspec

from resprout.core.limits import AttributeValue
from resprout.mqtt.packets import Packet, Will, Wish


class SendPacket(msgspec.Struct, frozen=True, gc=False):
    packet: Packet
    """To encode in the version of the session."""


class CloseConnection(msgspec.Struct, frozen=True, gc=False):
    """Close the connection when everything is sent. The machine hears nothing of it any more."""

    reason: int
    """The reason code, 0 when the client left."""
    text: str


class OpenSession(msgspec.Struct, frozen=True, gc=False):
    """Judge the client, and open its session: answered by `opened` or `refused`."""

    client_id: str
    """Empty: the driver assigns one."""
    clean_start: bool
    expiry: int
    """Seconds that the session shall live without a connection; 0xFFFFFFFF: for ever."""
    username: str | None
    password: bytes | None
    will: Will | None
    keep_alive: int


class PublishMessage(msgspec.Struct, frozen=True, gc=False):
    """Answered by `safe` or `publish_refused`, if `waits`; for QoS 0 the driver may answer `publish_refused` only."""

    token: int
    topic: str
    payload: bytes
    guarantee: str | None
    """The word that the client wrote, which may be none of the guarantees."""
    attributes: dict[str, AttributeValue]
    waits: bool
    packet_id: int = 0
    """With QoS 2: the packet identifier, which the session must not forget before PUBREL."""


class AskSubscriptions(msgspec.Struct, frozen=True, gc=False):
    """Answered by `subscribed`."""

    token: int
    wishes: tuple[tuple[str, str, Wish, bool], ...]
    """Topic filter, name of the shared subscription or "", the wish, and whether it is new in this session."""


class EndSubscriptions(msgspec.Struct, frozen=True, gc=False):
    """Answered by `unsubscribed`."""

    token: int
    filters: tuple[str, ...]
    """As the client wrote them: a shared one begins with `$share/`."""


class Remember(msgspec.Struct, frozen=True, gc=False):
    """Make `SessionState.dump` safe in the tree before any later packet of this connection is sent, and before any
    later `Take` is executed. Publications that came before must be in the tree if the dump is: the client publishes
    it, in its order."""


class Take(msgspec.Struct, frozen=True, gc=False):
    """So many more of the messages that `deliver` was given are done, in the order of delivery."""

    count: int


class PublishWill(msgspec.Struct, frozen=True, gc=False):
    """The will is due."""

    will: Will


class EndSession(msgspec.Struct, frozen=True, gc=False):
    """The session is over: its subscriptions and whatever is known of it end."""


Action: TypeAlias = (
    SendPacket
    | CloseConnection
    | OpenSession
    | PublishMessage
    | AskSubscriptions
    | EndSubscriptions
    | Remember
    | Take
    | PublishWill
    | EndSession
)
