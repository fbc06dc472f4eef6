"""One connection of an MQTT client: decodes received bytes to packets, and encodes and writes packets.

Connections with many bytes or packets take turns (`HeavyLine`): a read is decoded in pieces. The server stops reading
from a client while too many of its publications are not safe. It sends no more messages to a client that does not read
(`is_writable`), and closes the connection if other packets fill `WRITE_BYTES_MAX`. CONNECT must arrive within a timeout
that includes the TLS and WebSocket handshakes.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from resprout.mqtt.decoder import Decoded, PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V3_1_1, Packet
from resprout.mqtt_sessions.ports import PacketHandler
from resprout.net.mqtt.layers import LayerError, Layers
from resprout.net.mqtt.proxy import ProxyLayer, is_proxy
from resprout.net.tls import ProvenPeer

if TYPE_CHECKING:
    from resprout.net.mqtt.server import MqttServer

WRITE_BYTES_HIGH: Final = 256 << 10
"""Size of the write buffer in bytes above which no more messages are sent to the client."""
WRITE_BYTES_MAX: Final = 8 << 20
"""Size of the write buffer in bytes above which the connection is aborted."""
TURN_PACKETS: Final = 64
"""Maximum number of packets handled per turn of a connection."""
TURN_FRAMES: Final = 256
"""Number of WebSocket frames after which the turn of a connection ends."""
PIECE_BYTES: Final = 16 << 10
"""Maximum number of bytes decoded at a time: packets of two bytes each take about 5 ms."""
FRAMED_PIECE_BYTES: Final = 2 << 10
"""The same for WebSocket, whose empty frames take six bytes and far more time."""
CLOSE_SECONDS: Final = 2.0
"""Maximum time to flush the write buffer of a closing connection."""


class MqttConnection(asyncio.Protocol):
    """Connection of an MQTT client. `kind` is the name of the listener. The driver sets the callbacks: `take` receives
    decoded packets in order, `lost` is called once when the connection has closed."""

    def __init__(self, server: "MqttServer", kind: str, layers: Layers) -> None:
        self._server = server
        self.kind = kind
        self.address = ""
        """Address of the client, without the port."""
        self.number = 0
        self.peer: object = None
        self.take: PacketHandler = _nothing
        self.lost: Callable[[str], None] = _nothing
        self.drained: Callable[[], None] = _nothing
        """Callback for when the write buffer has room for more messages."""
        self._layers = layers
        self._decoder = PacketDecoder(server.settings.packet_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._reason = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._piece_bytes = FRAMED_PIECE_BYTES if kind in ("ws", "wss") else PIECE_BYTES
        self._unread = b""
        """Received bytes, of which those before `_read_at` are decoded."""
        self._read_at = 0
        self._waiting: list[Decoded] = []
        """Decoded packets that are not handled yet."""
        self._held = False
        """Whether reading is paused until `release`."""
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
        if is_proxy(self.address, self._server.settings.proxies):
            self._layers.add_first(ProxyLayer(lambda address: self._server.found_address(self, address)))
        loop = self._server.loop
        self._deadline = loop.call_later(self._server.settings.connect_seconds, self._too_late)
        self._server.entered(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._unread = self._unread[self._read_at :] + data if self._read_at < len(self._unread) else data
        self._read_at = 0
        if not self._in_line:
            self._take_some()

    def eof_received(self) -> None:
        self._reason = self._reason or "the client closed the connection"

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_deadline()
        self._transport = None
        self._closing = True
        self._drop_received()
        self._server.left(self)
        lost, self.lost = self.lost, _nothing
        lost(self._reason or (str(error) if error else "the client closed the connection"))
        self.take = self.drained = _nothing

    def pause_writing(self) -> None:
        """Do nothing: senders check `is_writable`."""

    def resume_writing(self) -> None:
        self.drained()

    # -- for the session -----------------------------------------------------------------------------------------------

    @property
    def proven(self) -> ProvenPeer | None:
        """Peer proven by the client certificate; None without one."""
        return self._layers.proven

    @property
    def is_writable(self) -> bool:
        """Whether more messages may be sent: the connection is open and its write buffer is below
        `WRITE_BYTES_HIGH`."""
        transport = self._transport
        return transport is not None and not self._closing and transport.get_write_buffer_size() < WRITE_BYTES_HIGH

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._closing

    @property
    def version(self) -> int:
        return self._decoder.version or V3_1_1

    def send(self, packet: Packet) -> None:
        """Encode a packet and queue it for the next `flush`."""
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
        """Close the connection after flushing. Abort it if the client does not read within `CLOSE_SECONDS`."""
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
        # Keep reading and discard the data. Otherwise the kernel answers it with a reset, and the client may lose the
        # last packet, which has the reason.
        self._deadline = self._server.loop.call_later(CLOSE_SECONDS, self.abort, reason)
        self._drop_received()
        try:
            transport.write_eof()
        except OSError:  # already closed
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
        """Pause reading until `release`."""
        if not self._held:
            self._held = True
            if self._transport is not None and not self._in_line and not self._transport.is_closing():
                self._transport.pause_reading()

    def release(self) -> None:
        """Resume reading."""
        if self._held:
            self._held = False
            if self._in_line:
                self._server.line.join(self._next_turn)
            else:
                self._read_on()

    def stop_deadline(self) -> None:
        """Cancel the timeout for CONNECT."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- packets, taken in turns with other connections ----------------------------------------------------------------

    def _take_some(self) -> None:
        if not self._waiting:
            self._decode_some()
        some, self._waiting = self._waiting[:TURN_PACKETS], self._waiting[TURN_PACKETS:]
        if some and not self._closing:
            self.take(some)
        if self._closing:
            self._drop_received()
        elif self._waiting or self._read_at < len(self._unread):
            self._stand_in_line()

    def _decode_some(self) -> None:
        """Decode received bytes up to the next packets, or until the frames of one turn are used up."""
        frames = self._layers.frames
        while self._read_at < len(self._unread) and not self._waiting and self._layers.frames - frames < TURN_FRAMES:
            piece = self._unread[self._read_at : self._read_at + self._piece_bytes]
            self._read_at += len(piece)
            data, answer, fault = self._layers.receive(piece)
            self._write(answer)
            if data:
                self._server.figures.bytes_received += len(data)
                self._waiting = self._decoder.feed(data)
                self._server.figures.packets_received += len(self._waiting)
            if fault is not None:
                self._end_after_waiting(str(fault))
            if self._closing:
                return

    def _end_after_waiting(self, reason: str) -> None:
        """Handle the packets that came before a fault of a layer, and close the connection."""
        some, self._waiting = self._waiting, []
        if some and not self._closing:
            self.take(some)
        if not self._closing:
            self.close(reason)

    def _drop_received(self) -> None:
        self._waiting.clear()
        self._unread, self._read_at = b"", 0

    def _stand_in_line(self) -> None:
        if not self._in_line:
            self._in_line = True
            if not self._held and self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()
        self._server.line.join(self._next_turn)

    def _next_turn(self) -> None:
        if self._transport is None or self._closing or self._held:  # `release` rejoins the line
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
    """Ignore a callback that is not set, or no longer set."""
