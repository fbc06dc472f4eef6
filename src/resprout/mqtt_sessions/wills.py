"""Encodes wills for session notes, as a PUBLISH packet of MQTT 5."""

from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V5, Publish, Will


def packed_will(will: Will) -> bytes:
    """Return the will without its delay, which is no property of PUBLISH."""
    known = {field: getattr(will.properties, field) for field in will.properties.__struct_fields__}
    properties = type(will.properties)(**{**known, "will_delay": None})
    return encode(Publish(will.topic, will.payload, will.qos, int(will.qos > 0), will.retain, False, properties), V5)


def unpacked_will(data: bytes) -> Will | None:
    """Return the will from a note; None if there is none or the bytes are invalid."""
    items = PacketDecoder(version=V5).feed(data) if data else []
    if len(items) != 1 or not isinstance(items[0], Publish):
        return None
    packet = items[0]
    return Will(packet.topic, packet.payload, packet.qos, packet.retain, packet.properties)
