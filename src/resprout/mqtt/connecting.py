"""Validates CONNECT and builds CONNACK and DISCONNECT."""

from typing import Any, Final

from resprout.core.limits import PAYLOAD_BYTES
from resprout.mqtt.body import REASON_CODES
from resprout.mqtt.incoming import check_publish_topic
from resprout.mqtt.limits import NEVER_SECONDS, ServerLimits
from resprout.mqtt.mapping import attributes_of
from resprout.mqtt.packets import PACKET_ID_MAX, V3_1, V5, Connack, Connect, Disconnect, Properties, Will
from resprout.mqtt.properties import CONNACK, DISCONNECT
from resprout.mqtt.reasons import MqttError, Reason, return_code

_NOT_NOW: Final = (Reason.SERVER_UNAVAILABLE, Reason.SERVER_BUSY, Reason.SERVER_SHUTTING_DOWN)


def check_connect(packet: Connect, limits: ServerLimits) -> None:
    """Raise MqttError if the server cannot serve this CONNECT, regardless of authentication."""
    if packet.properties.authentication_method is not None:
        raise MqttError(Reason.BAD_AUTHENTICATION_METHOD, "enhanced authentication is not supported")
    if not packet.client_id and packet.version == V3_1:
        raise MqttError(Reason.CLIENT_IDENTIFIER_NOT_VALID, "MQTT 3.1 needs a client identifier")
    if not packet.client_id and not packet.clean_start and packet.version != V5:
        raise MqttError(Reason.CLIENT_IDENTIFIER_NOT_VALID, "an empty client identifier needs a clean session")
    if len(packet.client_id.encode()) > limits.client_id_bytes_max:
        text = f"a client identifier is at most {limits.client_id_bytes_max} bytes"
        raise MqttError(Reason.CLIENT_IDENTIFIER_NOT_VALID, text)
    if packet.will is not None:
        _check_will(packet.will, limits)


def _check_will(will: Will, limits: ServerLimits) -> None:
    if will.qos > limits.maximum_qos:
        raise MqttError(Reason.QOS_NOT_SUPPORTED, f"a will with QoS {will.qos}")
    if will.retain and not limits.retain_available:
        raise MqttError(Reason.RETAIN_NOT_SUPPORTED, "retained messages are not supported")
    check_publish_topic(will.topic)
    assert len(will.payload) <= PAYLOAD_BYTES, "its length has two bytes"
    if will.properties.payload_format:
        try:
            will.payload.decode()
        except UnicodeDecodeError:
            raise MqttError(Reason.PAYLOAD_FORMAT_INVALID, "the payload of the will is not UTF-8") from None
    attributes_of(will.qos, will.retain, will.properties, 0)


def expiry_of(packet: Connect, limits: ServerLimits) -> int:
    """Return the session expiry in seconds, limited by `session_expiry_max`."""
    if packet.version != V5:
        wanted = 0 if packet.clean_start else NEVER_SECONDS
    else:
        wanted = packet.properties.session_expiry or 0
    return min(wanted, limits.session_expiry_max)


def keep_alive_of(packet: Connect, limits: ServerLimits) -> int:
    """Return the effective keep alive in seconds; 0 if it is disabled."""
    most = limits.keep_alive_max
    return most if most and (not packet.keep_alive or packet.keep_alive > most) else packet.keep_alive


def accept(packet: Connect, limits: ServerLimits, is_present: bool, client_id: str, expiry: int, name: str) -> Connack:
    """Return the CONNACK for an opened session. `name` is the client's name in the tree, which can be a topic level."""
    if packet.version != V5:
        return Connack(is_present and packet.version != V3_1)  # in MQTT 3.1 this bit is reserved
    found: dict[str, Any] = {}
    asked = packet.properties
    if expiry != (asked.session_expiry or 0):
        found["session_expiry"] = expiry
    if limits.receive_maximum != PACKET_ID_MAX:
        found["receive_maximum"] = limits.receive_maximum
    found["maximum_packet_size"] = limits.packet_bytes_max
    if limits.topic_alias_max:
        found["topic_alias_maximum"] = limits.topic_alias_max
    if limits.maximum_qos < 2:
        found["maximum_qos"] = limits.maximum_qos
    if not limits.retain_available:
        found["retain_available"] = 0
    if not limits.shared_available:
        found["shared_subscription_available"] = 0
    if not packet.client_id:
        found["assigned_client_identifier"] = client_id
    if (keep_alive := keep_alive_of(packet, limits)) != packet.keep_alive:
        found["server_keep_alive"] = keep_alive
    if asked.request_response_information and limits.response_information:
        found["response_information"] = f"{limits.response_information}/{name}"
    return Connack(is_present, Reason.SUCCESS, Properties(**found))


def refuse(reason: int, version: int) -> Connack | None:
    """Return the CONNACK for a refused client; None if MQTT 3 has no return code for the reason."""
    if version == V5:
        return Connack(False, _nearest(reason, CONNACK))
    code = return_code(reason)
    return None if code is None else Connack(False, code)


def disconnect(reason: int) -> Disconnect:
    """Return the DISCONNECT with which the server closes a connection."""
    return Disconnect(_nearest(reason, DISCONNECT))


def _nearest(reason: int, kind: int) -> int:
    """Return the reason, or the closest one that is valid in this packet type."""
    if reason in REASON_CODES[kind]:
        return reason
    if reason in _NOT_NOW:
        return Reason.SERVER_UNAVAILABLE if kind == CONNACK else Reason.SERVER_BUSY
    return Reason.UNSPECIFIED_ERROR
