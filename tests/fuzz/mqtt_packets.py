"""Packets of a hostile MQTT client: of every type, with fields at their bounds, in any order, and damaged."""

import random
from collections.abc import Callable
from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.mqtt import packets
from resprout.mqtt.body import REASON_CODES
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import NO_PROPERTIES, V5, FilterRequest, Packet, Properties, Will
from resprout.mqtt.properties import PUBACK, PUBCOMP, PUBREC, PUBREL
from resprout.mqtt.reasons import MqttError

IDS: Final = ("evil", "evil.1", "evil.2", "", "honest", "b0", "mqtt.1", "x" * 70, "\u202e", "evil/1")
"""Client identifiers: its own, those of others, and such as are no names."""
TOPICS: Final = (
    "evil/a", "evil/b", "evil/c/d", "honest/news", "$SYS/x", "$mqtt/sessions", "$mqtt/retained", "$mqtt/sync",
    "$share/g/evil/a", "$reply/honest", "/", "a" * 600, "evil" + "/x" * 40, "evil/\x7f\ufeff", "$", "b0.events",
)  # fmt: skip
FILTERS: Final = (
    "evil/#", "evil/+", "#", "+/#", "honest/#", "honest/news", "$SYS/#", "$mqtt/#", "$share/g/evil/#", "$share/g/#",
    "$share//evil", "$share/g", "$share/+/evil/a", "evil/#/b", "evil/a+", "/" * 31, "+/+/+/+/+/+/+/+/+/evil", "",
)  # fmt: skip
NUMBERS: Final = (0, 1, 2, 3, 5, 60, 255, 256, 1_000, 65_535, 65_536, 268_435_455, (1 << 31) - 1, (1 << 32) - 1)
TEXTS: Final = ("", "a", "total", "no such guarantee", "\x1b[2J", "x" * 5_000, "mqtt.retain", "\u202e")
PAYLOADS: Final = (b"", b"!", b"\xff", bytes(300), bytes(70_000), b'{"a": [[[[1]]]]}')
PACKET_IDS: Final = (1, 2, 3, 4, 5, 6, 7, 65_535)
REASONS: Final = (0, 0, 0, 0x10, 0x18, 0x80, 0x87, 0x92, 0x04, 0xFF)
DAMAGED: Final = 0.01
"""Share of the packets with bytes that are changed, dropped or added."""
FINAL: Final = 0.02
"""Share of what ends a connection by what it is: the rest of the conversation would not be heard."""
USERS: Final = (
    ("resprout-guarantee", "total"),
    ("resprout-guarantee", "x"),
    ("mqtt.retain", "1"),
    ("a", "1"),
    ("", ""),
)

CODES: Final = {packets.Puback: PUBACK, packets.Pubrec: PUBREC, packets.Pubrel: PUBREL, packets.Pubcomp: PUBCOMP}


class HostilePackets:
    def __init__(self, rng: random.Random, username: str, password: bytes) -> None:
        self._rng = rng
        self._login = {"username": username, "password": password}
        self._aliases: set[int] = set()
        """Topic aliases that were defined on some connection."""
        self._kinds: tuple[Callable[[int], Packet], ...] = (
            *[self._publish] * 6, *[self._subscribe] * 3, *[self._ack] * 2, self._unsubscribe,
        )  # fmt: skip

    def connect(self, version: int) -> packets.Connect:
        rng = self._rng
        login: dict[str, Any] = self._login if rng.random() < 0.97 else {"username": rng.choice(IDS), "password": b"x"}
        will = None
        if rng.random() < 0.4:
            values = self._properties(version, "will_delay", "message_expiry", "content_type", "user")
            will = Will(
                rng.choice(TOPICS[:4] if rng.random() < 0.9 else TOPICS),
                rng.choice(PAYLOADS)[:60_000],
                rng.randrange(3),
                rng.random() < 0.3,
                values,
            )
        values = self._properties(
            version, "session_expiry", "receive_maximum", "maximum_packet_size", "topic_alias_maximum", "user",
            "request_problem_information", "authentication_method",
        )  # fmt: skip
        name = rng.choice(IDS[:4] if rng.random() < 0.95 else IDS)
        keep_alive = rng.choice((0, 1, 60, 65_535))
        return packets.Connect(name, version, rng.random() < 0.5, keep_alive, will, properties=values, **login)

    def packet(self, version: int) -> bytes:
        """Return the bytes of a packet, which may be damaged."""
        rng = self._rng
        while True:
            try:
                kind = self._rare if rng.random() < FINAL else rng.choice(self._kinds)
                data = encode(kind(version), version)
            except (UsageError, MqttError, ValueError, OverflowError, KeyError):
                continue  # no packet has such a value
            return self._damage(data) if rng.random() < DAMAGED else data

    def _damage(self, data: bytes) -> bytes:
        rng, changed = self._rng, bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(changed) + 1)
            match rng.randrange(4):
                case 0:
                    changed[at : at + 1] = bytes((rng.randrange(256),))
                case 1:
                    del changed[at : at + rng.randrange(1, 4)]
                case 2:
                    changed[at:at] = rng.randbytes(rng.randrange(1, 6))
                case _:
                    changed = changed[:at]
        return bytes(changed)

    def _publish(self, version: int) -> Packet:
        rng, qos = self._rng, self._rng.randrange(3)
        values = self._properties(
            version, "topic_alias", "message_expiry", "payload_format", "content_type", "response_topic",
            "correlation_data", "user", "subscription_identifiers",
        )  # fmt: skip
        topic = rng.choice(TOPICS[:3] if rng.random() < 1 - FINAL else TOPICS)
        if values.topic_alias in self._aliases and rng.random() < 0.5:
            topic = "" if rng.random() < 0.2 else topic
        elif values.topic_alias is not None:
            self._aliases.add(values.topic_alias)
        packet_id = rng.choice(PACKET_IDS) if qos else 0
        dup = qos > 0 and rng.random() < 0.2
        return packets.Publish(topic, rng.choice(PAYLOADS), qos, packet_id, rng.random() < 0.3, dup, values)

    def _subscribe(self, version: int) -> Packet:
        rng = self._rng
        requests = [self._request(version) for _ in range(rng.choice((1, 1, 2, 5, 40)))]
        values = self._properties(version, "user")
        if version == V5 and rng.random() < 0.5:
            values = Properties(subscription_identifiers=(rng.choice((1, 127, 128, 268_435_455)),))
        return packets.Subscribe(rng.choice(PACKET_IDS), tuple(requests), values)

    def _request(self, version: int) -> FilterRequest:
        rng = self._rng
        topic_filter = rng.choice(
            FILTERS[:3] if rng.random() < 0.5 else FILTERS[:-1] if rng.random() < 1 - FINAL else FILTERS
        )
        if version != V5:
            return FilterRequest(topic_filter, rng.randrange(3))
        flags = rng.random() < 0.3, rng.random() < 0.5
        return FilterRequest(topic_filter, rng.randrange(3), *flags, rng.randrange(3))

    def _unsubscribe(self, version: int) -> Packet:
        filters = self._rng.choices(FILTERS, k=self._rng.choice((1, 2, 20)))
        return packets.Unsubscribe(self._rng.choice(PACKET_IDS), tuple(filters), self._properties(version, "user"))

    def _ack(self, version: int) -> Packet:
        rng = self._rng
        kind = rng.choice((packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp))
        known = sorted(REASON_CODES[CODES[kind]] & {0, 0x10, 0x80, 0x87, 0x92})
        reason = 0 if version != V5 else rng.choice(known if rng.random() < 1 - FINAL else REASONS)
        return kind(rng.choice(PACKET_IDS), reason, self._properties(version, "reason_string", "user"))

    def _rare(self, version: int) -> Packet:
        rng = self._rng
        match rng.randrange(6):
            case 0:
                return self.connect(version)
            case 1 if version == V5:
                return packets.Auth(rng.choice((0, 0x18, 0x19)), self._properties(version, "authentication_method"))
            case 2:
                reason = rng.choice(REASONS) if version == V5 else 0
                return packets.Disconnect(reason, self._properties(version, "session_expiry", "reason_string"))
            case 3:
                return packets.Suback(rng.choice(PACKET_IDS), (0,))
            case _:
                return packets.Pingreq()

    def _properties(self, version: int, *names: str) -> Properties:
        rng = self._rng
        if version != V5 or rng.random() < 0.5:
            return NO_PROPERTIES
        found: dict[str, Any] = {}
        for name in rng.sample(names, rng.choice((1, 1, 2, len(names)))):
            if name in ("authentication_method", "subscription_identifiers") and rng.random() > FINAL:
                continue
            match name:
                case "user":
                    found[name] = tuple(rng.choices(USERS, k=rng.choice((1, 2, 40))))
                case "subscription_identifiers":
                    found[name] = (max(1, min(rng.choice(NUMBERS), 268_435_455)),)
                case "correlation_data":
                    found[name] = rng.choice(PAYLOADS)[:5_000]
                case "payload_format" | "request_problem_information":
                    found[name] = rng.randrange(2)
                case "response_topic":
                    found[name] = rng.choice(TOPICS if rng.random() < 1 - FINAL else TEXTS)
                case "content_type" | "reason_string" | "authentication_method":
                    found[name] = rng.choice(TEXTS)
                case "topic_alias":
                    found[name] = rng.choice((1, 2, 64) if rng.random() < 1 - FINAL else (0, 65))
                case "session_expiry" | "message_expiry" | "will_delay" | "maximum_packet_size":
                    found[name] = rng.choice(NUMBERS[name == "maximum_packet_size" :])
                case _:
                    found[name] = max(1, rng.choice(NUMBERS) & 0xFFFF)
        return Properties(**found)
