"""One connection of an MQTT client: bytes in, packets up; packets in, bytes out.

A client that sends much at once is read from in turns with others (`HeavyLine`), and not read from while too much of
what it has published waits to be safe. A client that does not read is given no more messages (`is_writable`); what it
is told beyond that is bounded by `WRITE_BYTES_MAX`, and then it is cut off. Whoever opens a connection has a short time
for CONNECT, TLS and WebSocket included.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from resprout.mqtt.decoder import Heard, PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V3_1_1, Packet
from resprout.net.mqtt.layers import LayerError, Layers
from resprout.net.tls import ProvenPeer

if TYPE_CHECKING:
    from resprout.net.mqtt.server import MqttServer

WRITE_BYTES_HIGH: Final = 256 << 10
"""With so much unwritten the client is given no more messages."""
WRITE_BYTES_MAX: Final = 8 << 20
"""With so much unwritten the client is cut off: it does not read even what it asked for."""
TURN_PACKETS: Final = 256
"""Packets of one connection that are taken before others have their turn."""
CLOSE_SECONDS: Final = 2.0
"""What was sent on a connection that is being closed has this long to leave."""

Take = Callable[[Sequence[Heard]], None]


class MqttConnection(asyncio.Protocol):
    """`take` is given what was heard, in order, and `lost` is told once that the connection is gone; both are set by
    the server when the connection is made. `kind`: the name of the listener."""

    def __init__(self, server: "MqttServer", kind: str, layers: Layers) -> None:
        self._server = server
        self.kind = kind
        self.address = ""
        """Of the other end, without the port."""
        self.number = 0
        self.peer: object = None
        self.take: Take = _nothing
        self.lost: Callable[[str], None] = _nothing
        self.drained: Callable[[], None] = _nothing
        """Told that the client has read enough to be given more messages."""
        self._layers = layers
        self._decoder = PacketDecoder(server.settings.packet_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._reason = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting: list[Heard] = []
        """Heard, and not taken yet."""
        self._held = False
        """No more is read until `release`."""
        self._in_line = False
        self._out: list[bytes] = []

    # -- asyncio -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        plug = transport.get_extra_info("socket")
        if plug is not None:
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place = transport.get_extra_info("peername")
        self.address = str(place[0]) if isinstance(place, tuple | list) and place else ""
        loop = self._server.loop
        self._deadline = loop.call_later(self._server.settings.connect_seconds, self._too_late)
        self._server.entered(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        data, answer, fault = self._layers.receive(data)
        self._write(answer)
        if data:
            heard = self._decoder.feed(data)
            self._server.figures.bytes_received += len(data)
            if heard:
                self._server.figures.packets_received += len(heard)
                self._waiting += heard
                if not self._in_line:
                    self._take_some()
        if fault is not None and not self._closing:
            self.close(str(fault))

    def eof_received(self) -> None:
        self._reason = self._reason or "the client closed the connection"

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_deadline()
        self._transport = None
        self._closing = True
        self._waiting.clear()
        self._server.left(self)
        lost, self.lost = self.lost, _nothing
        lost(self._reason or (str(error) if error else "the client closed the connection"))
        self.take = self.drained = _nothing

    def pause_writing(self) -> None:
        """`is_writable` tells it to those who ask."""

    def resume_writing(self) -> None:
        self.drained()

    # -- for the session -----------------------------------------------------------------------------------------------

    @property
    def proven(self) -> ProvenPeer | None:
        """What the certificate of the client says."""
        return self._layers.proven

    @property
    def is_writable(self) -> bool:
        """The client reads: more messages may be sent to it."""
        transport = self._transport
        return transport is not None and not self._closing and transport.get_write_buffer_size() < WRITE_BYTES_HIGH

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._closing

    @property
    def version(self) -> int:
        return self._decoder.version or V3_1_1

    def send(self, packet: Packet) -> None:
        """It leaves with the next `flush`."""
        if self._closing:
            return
        data = encode(packet, self.version)
        self._server.figures.packets_sent += 1
        self._server.figures.bytes_sent += len(data)
        self._out.append(data)

    def flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            try:
                self._write(self._layers.wrap(data))
            except LayerError as error:
                self.abort(str(error))

    def close(self, reason: str) -> None:
        """After what was sent has left; a client that does not take it in time is cut off."""
        if self._closing:
            return
        self.flush()
        self._write(self._layers.end())
        self._closing = True
        self._reason = self._reason or reason
        self.stop_deadline()
        transport = self._transport
        if transport is None:
            return
        # What the client still sends is read and forgotten: a system that has to refuse it would tell the client so at
        # once, and what was sent last, which says why, would be lost.
        self._deadline = self._server.loop.call_later(CLOSE_SECONDS, self.abort, reason)
        self._waiting.clear()
        try:
            transport.write_eof()
        except OSError:  # it is gone already
            transport.abort()
        else:
            if self._held or self._in_line:
                transport.resume_reading()

    def abort(self, reason: str) -> None:
        self._closing = True
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    def hold(self) -> None:
        """Read no more until `release`."""
        if not self._held:
            self._held = True
            if self._transport is not None and not self._in_line and not self._transport.is_closing():
                self._transport.pause_reading()

    def release(self) -> None:
        """Go on reading."""
        if self._held:
            self._held = False
            if self._in_line:
                self._server.line.join(self._next_turn)
            else:
                self._read_on()

    def stop_deadline(self) -> None:
        """CONNECT has come."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- packets, taken in turns with other connections ----------------------------------------------------------------

    def _take_some(self) -> None:
        some, self._waiting = self._waiting[:TURN_PACKETS], self._waiting[TURN_PACKETS:]
        if some and not self._closing:
            self.take(some)
        if self._closing:
            self._waiting.clear()
        elif self._waiting:
            self._stand_in_line()

    def _stand_in_line(self) -> None:
        if not self._in_line:
            self._in_line = True
            if not self._held and self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()
        self._server.line.join(self._next_turn)

    def _next_turn(self) -> None:
        if self._transport is None or self._closing or self._held:  # `release` joins the line again
            return
        self._in_line = False
        self._take_some()
        if not self._in_line and not self._held:
            self._read_on()

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _too_late(self) -> None:
        self._deadline = None
        self._server.refused(self, "no CONNECT came in time")
        self.abort("no CONNECT came in time")

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if not data or transport is None or transport.is_closing():
            return
        transport.write(data)
        if transport.get_write_buffer_size() > WRITE_BYTES_MAX:
            self.abort("the client does not read")


def _nothing(*_: object) -> None:
    """Nobody listens yet, or any more."""
