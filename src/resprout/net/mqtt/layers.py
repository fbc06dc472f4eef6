"""What lies between the bytes of a socket and the packets of MQTT: TLS, WebSocket, both or nothing.

A layer takes bytes from below and gives those for above, and the other way round. It never waits and has no timers: the
deadline of CONNECT counts for the handshakes too. `LayerError` ends the connection; what is in `to_send` then tells the
other side why, where it can be told.

WebSocket needs `wsproto` (the extra `mqtt`). A client asks for the subprotocol `mqtt`, sends binary messages, and any
path and origin is good: who may come in is decided by the rules, and no cookie is read here.
"""

from typing import Any, Final, Protocol

from resprout.core.errors import ResproutError, UsageError
from resprout.net.tls import ProvenPeer, TlsError, TlsStream

SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
"""In the order of preference."""
HEAD_BYTES_MAX: Final = 8_192
"""Of the HTTP request that opens a WebSocket."""


class LayerError(ResproutError):
    """The connection is of no use. The text is a part of a sentence about the other side, which is "it"."""


class Layer(Protocol):
    @property
    def proven(self) -> ProvenPeer | None:
        """What the certificate of the other side says."""

    def receive(self, data: bytes) -> bytes:
        """Bytes for above. LayerError when there is no use in going on."""

    def wrap(self, data: bytes) -> bytes:
        """Bytes for below."""

    def to_send(self) -> bytes:
        """What the layer itself has to say, for below."""

    def end(self) -> bytes:
        """Bytes for below that say goodbye."""


class TlsLayer:
    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream

    @property
    def proven(self) -> ProvenPeer | None:
        return self._stream.proven

    def receive(self, data: bytes) -> bytes:
        try:
            return self._stream.receive(data)
        except TlsError as error:
            raise LayerError(str(error)) from None

    def wrap(self, data: bytes) -> bytes:
        try:
            return self._stream.encrypt(data)
        except TlsError as error:
            raise LayerError(str(error)) from None

    def to_send(self) -> bytes:
        return self._stream.to_send()

    def end(self) -> bytes:
        return b""


class WebSocketLayer:
    """The listening end of a WebSocket."""

    proven: ProvenPeer | None = None

    def __init__(self) -> None:
        self._library = websocket_library()
        self._socket = self._library.WSConnection(self._library.ConnectionType.SERVER)
        self._answers = bytearray()
        self._head_bytes = 0
        self._is_open = False

    def receive(self, data: bytes) -> bytes:
        if not self._is_open:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                raise LayerError("it does not open a WebSocket within 8 KiB")
        got = bytearray()
        errors = self._library.utilities
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                self._take(event, got)
        except errors.RemoteProtocolError as error:
            if not self._is_open and error.event_hint is not None:
                self._answers += self._socket.send(error.event_hint)
            raise LayerError(f"it breaks the WebSocket protocol: {error}") from None
        except errors.LocalProtocolError as error:
            raise LayerError(f"nothing more can be said to it: {error}") from None
        return bytes(got)

    def _take(self, event: Any, got: bytearray) -> None:
        events = self._library.events
        if isinstance(event, events.BytesMessage):
            got += event.data
        elif isinstance(event, events.Ping):
            self._answers += self._socket.send(event.response())
        elif isinstance(event, events.Request):
            chosen = next((one for one in SUBPROTOCOLS if one in event.subprotocols), None)
            if chosen is None:
                self._answers += self._socket.send(events.RejectConnection(status_code=400))
                raise LayerError("it opens a WebSocket without the subprotocol mqtt")
            self._answers += self._socket.send(events.AcceptConnection(subprotocol=chosen))
            self._is_open = True
        elif isinstance(event, events.CloseConnection):
            self._answers += self._socket.send(event.response())
            raise LayerError("it has closed the WebSocket")
        elif isinstance(event, events.TextMessage):
            raise LayerError("it sends text, and MQTT is binary")

    def wrap(self, data: bytes) -> bytes:
        if not self._is_open:
            return b""
        sent: bytes = self._socket.send(self._library.events.BytesMessage(data=data))
        return sent

    def to_send(self) -> bytes:
        answers, self._answers = bytes(self._answers), bytearray()
        return answers

    def end(self) -> bytes:
        if not self._is_open:
            return b""
        self._is_open = False
        try:
            sent: bytes = self._socket.send(self._library.events.CloseConnection(code=1000))
        except self._library.utilities.LocalProtocolError:  # it was closed from the other side
            return b""
        return sent


def websocket_library() -> Any:
    """UsageError when it is not installed."""
    try:
        import wsproto
        import wsproto.events
        import wsproto.utilities
    except ImportError:
        raise UsageError("MQTT over WebSocket needs wsproto: pip install 'resprout[mqtt]'") from None
    return wsproto


class Layers:
    """Those of one connection, from the socket upwards."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers

    @property
    def proven(self) -> ProvenPeer | None:
        return next((layer.proven for layer in self._layers if layer.proven is not None), None)

    def receive(self, data: bytes) -> tuple[bytes, bytes, LayerError | None]:
        """Bytes for above, bytes to send, and why nothing more will come, if so."""
        sent = b""
        for number, layer in enumerate(self._layers):
            try:
                data = layer.receive(data)
            except LayerError as error:
                return b"", sent + self._down(number, layer.to_send()), error
            sent += self._down(number, layer.to_send())
            if not data:
                break
        return data, sent, None

    def wrap(self, data: bytes) -> bytes:
        """Bytes to send. LayerError when the other side has ended a layer."""
        return self._down(len(self._layers), data)

    def end(self) -> bytes:
        """Bytes that say goodbye on all layers."""
        sent = b""
        for number in range(len(self._layers) - 1, -1, -1):
            sent += self._down(number, self._layers[number].end())
        return sent

    def _down(self, number: int, data: bytes) -> bytes:
        for layer in reversed(self._layers[:number]):
            if not data:
                return data
            data = layer.wrap(data)
        return data
