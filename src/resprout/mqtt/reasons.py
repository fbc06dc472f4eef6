"""Reason codes of MQTT 5, return codes of MQTT 3, and `MqttError`.

Decoding raises or returns no other exception than `MqttError`. Its reason becomes the reason code of the DISCONNECT or
CONNACK.
"""

import enum
from collections.abc import Mapping
from typing import Final

from resprout.core.errors import PeerError


class Reason(enum.IntEnum):
    """Reason codes. Codes from 0x80 on are failures. Code 0 is `SUCCESS`, and also Normal disconnection and Granted QoS
    0."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


FAILURE: Final = 0x80
"""Smallest reason code that is a failure; the only failure code in a SUBACK of MQTT 3."""


class ReturnCode(enum.IntEnum):
    """Return codes of CONNACK in MQTT 3."""

    ACCEPTED = 0
    UNACCEPTABLE_PROTOCOL_VERSION = 1
    IDENTIFIER_REJECTED = 2
    SERVER_UNAVAILABLE = 3
    BAD_USER_NAME_OR_PASSWORD = 4
    NOT_AUTHORIZED = 5


_RETURN_CODES: Final[Mapping[int, ReturnCode]] = {
    Reason.SUCCESS: ReturnCode.ACCEPTED,
    Reason.UNSUPPORTED_PROTOCOL_VERSION: ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID: ReturnCode.IDENTIFIER_REJECTED,
    Reason.BAD_USER_NAME_OR_PASSWORD: ReturnCode.BAD_USER_NAME_OR_PASSWORD,
    Reason.BAD_AUTHENTICATION_METHOD: ReturnCode.NOT_AUTHORIZED,
    Reason.NOT_AUTHORIZED: ReturnCode.NOT_AUTHORIZED,
    Reason.BANNED: ReturnCode.NOT_AUTHORIZED,
    Reason.SERVER_UNAVAILABLE: ReturnCode.SERVER_UNAVAILABLE,
    Reason.SERVER_BUSY: ReturnCode.SERVER_UNAVAILABLE,
    Reason.SERVER_SHUTTING_DOWN: ReturnCode.SERVER_UNAVAILABLE,
    Reason.USE_ANOTHER_SERVER: ReturnCode.SERVER_UNAVAILABLE,
    Reason.SERVER_MOVED: ReturnCode.SERVER_UNAVAILABLE,
    Reason.QUOTA_EXCEEDED: ReturnCode.SERVER_UNAVAILABLE,
    Reason.CONNECTION_RATE_EXCEEDED: ReturnCode.SERVER_UNAVAILABLE,
}


def return_code(reason: int) -> int | None:
    """Return the MQTT 3 CONNACK return code for a reason; None if there is none and the server only closes the
    connection."""
    return _RETURN_CODES.get(reason)


def reason_name(reason: int) -> str:
    """Return the name of a reason code for logs and metrics, such as `protocol error`."""
    try:
        return Reason(reason).name.lower().replace("_", " ")
    except ValueError:
        return f"reason 0x{reason:02x}"


class MqttError(PeerError):
    """Protocol violation by a client, or a refusal: reason code, and text for the log and the reason string."""

    def __init__(self, reason: Reason, text: str, version: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.version = version
        """Protocol version of the CONNACK that refuses a CONNECT; 0 to close without a CONNACK."""


def malformed(text: str) -> MqttError:
    return MqttError(Reason.MALFORMED_PACKET, text)


def protocol_error(text: str) -> MqttError:
    return MqttError(Reason.PROTOCOL_ERROR, text)
