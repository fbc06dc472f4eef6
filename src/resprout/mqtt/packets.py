"""The control packets of MQTT, one type each, for all versions.

Versions are those on the wire: 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5. What a version does not have, such as properties, is
empty in its packets, and its encoder leaves it out.
"""

from typing import Final, TypeAlias

import msgspec

V3_1: Final = 3
V3_1_1: Final = 4
V5: Final = 5

PACKET_ID_MAX: Final = 65_535


class Properties(msgspec.Struct, frozen=True, gc=False, kw_only=True, repr_omit_defaults=True):
    """All properties of MQTT 5; a packet has only those that the standard allows on it (`mqtt.properties`)."""

    payload_format: int | None = None
    message_expiry: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    """User properties, in their order; names may repeat."""
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES: Final = Properties()
"""What a packet without properties has: compare with `is`."""


class Will(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    client_id: str
    version: int = V5
    clean_start: bool = True
    """In MQTT 3: clean session."""
    keep_alive: int = 0
    """In seconds; 0 for none."""
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    session_present: bool = False
    reason: int = 0
    """In MQTT 3: the return code."""
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    topic: str
    payload: bytes
    qos: int = 0
    packet_id: int = 0
    """0 for QoS 0."""
    retain: bool = False
    dup: bool = False
    properties: Properties = NO_PROPERTIES


class Puback(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrec(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrel(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubcomp(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Wish(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One topic filter of a SUBSCRIBE, with its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    """0: send retained messages; 1: only for a new subscription; 2: never."""


class Subscribe(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    wishes: tuple[Wish, ...]
    properties: Properties = NO_PROPERTIES


class Suback(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    reasons: tuple[int, ...] = ()
    """Empty in MQTT 3."""
    properties: Properties = NO_PROPERTIES


class Pingreq(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    pass


class Pingresp(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    pass


class Disconnect(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


Packet: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
