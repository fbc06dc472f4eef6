"""State of a session that outlives its connections, and the dump of it that lets another broker resume the session."""

from collections.abc import Collection
from typing import Final

import msgspec

from resprout.core.errors import UsageError, WireError
from resprout.core.limits import PAYLOAD_BYTES, check_name
from resprout.mqtt.outgoing import Outgoing
from resprout.mqtt.packets import PACKET_ID_MAX, FilterRequest
from resprout.mqtt.reasons import MqttError, Reason
from resprout.mqtt.records import Flight, Inbound, PendingRequest, Subscription
from resprout.mqtt.subscriptions import Subscriptions, read_filter

DUMP_VERSION: Final = 1
DUMP_BYTES_MAX: Final = PAYLOAD_BYTES
NUMBER_MAX: Final = 1 << 62
IDENTIFIER_MAX: Final = 268_435_455
_STREAMS: Final = ("eventual", "ordered")


class _Dump(msgspec.Struct, array_like=True):
    version: int
    subscriptions: list[tuple[str, int, int]]
    """Topic filter, subscription options byte, subscription identifier."""
    received: list[int]
    flights: list[Flight]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Dump).decode


class SessionState:
    """State of one session. The driver keeps it while the session lives and passes it to the machine of the next
    connection.

    Results from the tree belong to the session: the driver passes them to the machine that has the state now, even if
    another one made the request. Tokens are unique within the session.
    """

    __slots__ = (
        "client_id", "connection", "name", "outgoing", "pending_filters", "pending_requests", "publications",
        "received", "subscriptions", "token",
    )  # fmt: skip

    def __init__(self, client_id: str, name: str) -> None:
        self.client_id = client_id
        self.name = name
        """Name of the client in the tree; messages from this publisher are the client's own (No Local)."""
        self.subscriptions = Subscriptions()
        self.outgoing = Outgoing()
        self.received: dict[int, Inbound] = {}
        """QoS 2 publications from the client without PUBREL, by packet identifier."""
        self.publications: dict[int, Inbound] = {}
        """Publications that the tree has not answered, by token."""
        self.pending_requests: dict[int, PendingRequest] = {}
        """SUBSCRIBE and UNSUBSCRIBE packets that the tree has not answered, by token."""
        self.pending_filters = 0
        """Number of topic filters in these packets."""
        self.connection = 0
        """Number of connections of the session so far."""
        self.token = 0

    def next_token(self) -> int:
        self.token += 1
        return self.token

    # -- what survives a broker ----------------------------------------------------------------------------------------

    def mark_received(self, packet_id: int) -> None:
        """Record a QoS 2 packet identifier whose publication is in the tree, so retransmissions are dropped."""
        if packet_id not in self.received:
            self.received[packet_id] = Inbound(packet_id, 2, 0, Reason.SUCCESS)

    def dump(self, unpublished: Collection[int] = ()) -> bytes:
        """Return subscriptions and packet identifiers as bytes, without messages. Publications that the tree has not
        answered are included: the client publishes the dump after them, so they are in the tree wherever the dump
        is. `unpublished` are the packet identifiers of those that will be published after the dump."""
        self._encode_subscriptions()
        flights = self.outgoing.dump()
        received = [packet_id for packet_id in self.received if packet_id not in unpublished]
        return _encode((DUMP_VERSION, msgspec.Raw(self.subscriptions.encoded), received, flights))

    def dump_subscriptions(self) -> bytes:
        """Return the dump of a session that has these subscriptions and nothing in flight."""
        self._encode_subscriptions()
        return _encode((DUMP_VERSION, msgspec.Raw(self.subscriptions.encoded), (), ()))

    def _encode_subscriptions(self) -> None:
        subscriptions = self.subscriptions
        if not subscriptions.encoded:  # cached: there may be thousands, and they rarely change
            rows = [(each.request.filter, _options(each.request), each.identifier) for each in subscriptions]
            subscriptions.encoded = _encode(rows)

    @classmethod
    def load(cls, data: bytes, client_id: str, name: str) -> "SessionState":
        """Return the state from a dump. Raises WireError if the bytes are invalid."""
        if len(data) > DUMP_BYTES_MAX:
            raise WireError(f"{len(data)} bytes of a session; at most {DUMP_BYTES_MAX}")
        state = cls(client_id, name)
        try:
            dump = _decode(data)
            if dump.version != DUMP_VERSION:
                raise UsageError(f"version {dump.version} is unknown")
            for row in dump.subscriptions:
                state.subscriptions.put(_subscription(*row))
            for packet_id in dump.received:
                _check(packet_id, 1, PACKET_ID_MAX)
                state.mark_received(packet_id)
            for flight in dump.flights:
                _check_flight(flight)
            state.outgoing.restore(dump.flights)
        except (msgspec.DecodeError, MqttError, UsageError, UnicodeError) as error:
            raise WireError(f"invalid dump of an MQTT session: {error}") from None
        return state


def _options(request: FilterRequest) -> int:
    return request.qos | request.no_local << 2 | request.retain_as_published << 3 | request.retain_handling << 4


def _subscription(filter_: str, options: int, identifier: int) -> Subscription:
    _check(options, 0, 0x2F)
    _check(options & 3, 0, 2)
    _check(identifier, 0, IDENTIFIER_MAX)
    topic_filter, group = read_filter(filter_)
    request = FilterRequest(filter_, options & 3, options & 4 != 0, options & 8 != 0, options >> 4)
    return Subscription(request, topic_filter, group, identifier)


def _check_flight(flight: Flight) -> None:
    _check(flight.packet_id, 0 if flight.is_released else 1, PACKET_ID_MAX)
    if flight.publisher or not flight.is_released:
        check_name(flight.publisher)
        if flight.stream not in _STREAMS:
            raise UsageError(f"unknown stream {flight.stream!r}")
    for number in (flight.epoch, flight.seq):
        _check(number, 0, NUMBER_MAX)


def _check(number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise UsageError(f"{number} is not between {least} and {most}")
