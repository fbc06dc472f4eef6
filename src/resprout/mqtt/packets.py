"""MQTT control packets, one class each, for all versions.

Versions are protocol levels: 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5. Fields that a version does not have, such as
properties, are empty, and the encoder leaves them out.
"""

from typing import Final, TypeAlias

import msgspec

V3_1: Final = 3
V3_1_1: Final = 4
V5: Final = 5

PACKET_ID_MAX: Final = 65_535


class Properties(msgspec.Struct, frozen=True, gc=False, kw_only=True, repr_omit_defaults=True):
    """All properties of MQTT 5. `mqtt.properties` says which packets may carry which."""

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
    """User properties in order; names may repeat."""
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES: Final = Properties()
"""Properties of a packet that has none; compare with `is`."""


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
    """Clean Start; Clean Session in MQTT 3."""
    keep_alive: int = 0
    """Keep alive in seconds; 0 if disabled."""
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    session_present: bool = False
    reason: int = 0
    """Reason code; return code in MQTT 3."""
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    topic: str
    payload: bytes
    qos: int = 0
    packet_id: int = 0
    """Packet identifier; 0 for QoS 0."""
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


class FilterRequest(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One topic filter of a SUBSCRIBE with its subscription options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    """Retain Handling. 0: send retained messages; 1: only if the subscription is new; 2: never."""


class Subscribe(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    packet_id: int
    requests: tuple[FilterRequest, ...]
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
    """Reason codes, one per topic filter; empty in MQTT 3."""
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
