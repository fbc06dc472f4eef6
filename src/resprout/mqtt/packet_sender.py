"""Sends packets with reason codes: adapts them to the protocol version and the client's maximum packet size."""

from typing import Final, TypeAlias

from resprout.mqtt.actions import Action, SendPacket
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import (
    NO_PROPERTIES,
    V5,
    Connack,
    Disconnect,
    Properties,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    Suback,
    Unsuback,
)
from resprout.mqtt.reasons import MqttError, Reason

Explained: TypeAlias = Puback | Pubrec | Pubrel | Pubcomp | Suback | Unsuback | Disconnect | Connack

REASON_LETTERS_MAX: Final = 200
"""Maximum length of a reason string in characters."""


class PacketSender:
    """Sender of packets with reason codes, with the options that the client set in CONNECT."""

    __slots__ = ("bytes_max", "is_live", "problem_information", "version")

    def __init__(self) -> None:
        self.version = 0
        self.bytes_max = 0
        """Maximum packet size of the client in bytes; 0 for no limit."""
        self.problem_information = True
        """Request Problem Information: whether packets other than CONNACK and DISCONNECT may carry reason strings."""
        self.is_live = False
        """Whether the connection is open for sending."""

    def send(self, packet: Explained, text: str, out: list[Action]) -> None:
        """Send the packet, with the text as reason string if the client requested it and it fits. If the packet itself
        is too large for the client, drop it if it is CONNACK or DISCONNECT, otherwise raise MqttError."""
        if text and self.version == V5 and (self.problem_information or isinstance(packet, Disconnect | Connack)):
            values = _explaining(packet.properties, text)
            explained = _with(packet, values)
            if self.fits(explained):
                packet = explained
        if self.fits(packet):
            out.append(SendPacket(packet))
        elif not isinstance(packet, Disconnect | Connack):
            text = f"{type(packet).__name__.upper()} is larger than the maximum packet size of the client"
            raise MqttError(Reason.PACKET_TOO_LARGE, text)

    def fits(self, packet: Explained) -> bool:
        return not self.bytes_max or len(encode(packet, self.version)) <= self.bytes_max


def _explaining(values: Properties, text: str) -> Properties:
    text = text[:REASON_LETTERS_MAX].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if values is NO_PROPERTIES:
        return Properties(reason_string=text)
    known = {name: value for name in values.__struct_fields__ if (value := getattr(values, name)) not in (None, ())}
    return Properties(**{**known, "reason_string": text})


def _with(packet: Explained, values: Properties) -> Explained:
    match packet:
        case Disconnect():
            return Disconnect(packet.reason, values)
        case Connack():
            return Connack(packet.session_present, packet.reason, values)
        case Suback():
            return Suback(packet.packet_id, packet.reasons, values)
        case Unsuback():
            return Unsuback(packet.packet_id, packet.reasons, values)
        case _:
            return type(packet)(packet.packet_id, packet.reason, values)
