"""Layers between the socket and MQTT packets: TLS, WebSocket, both or none.

A layer converts bytes in both directions. It never blocks and has no timers: the timeout of CONNECT also covers the
handshakes. `LayerError` ends the connection; `to_send` then returns the alert or close frame for the client, if there
is one.

WebSocket needs `wsproto` (the extra `mqtt`). Clients request the subprotocol `mqtt` and send binary messages. Any path
and any origin is accepted: authentication is up to the broker's rules, and cookies are ignored.
"""

from typing import Any, Final, Protocol

from resprout.core.errors import ResproutError, UsageError
from resprout.net.tls import ProvenPeer, TlsError, TlsStream

SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
"""Accepted subprotocols, in order of preference."""
HEAD_BYTES_MAX: Final = 8_192
"""Maximum size in bytes of the HTTP request that opens a WebSocket."""


class LayerError(ResproutError):
    """Failure of a layer that ends the connection. `data` is the payload that came before it."""

    def __init__(self, text: str, data: bytes = b"") -> None:
        super().__init__(text)
        self.data = data


class Layer(Protocol):
    @property
    def proven(self) -> ProvenPeer | None:
        """Peer proven by the client certificate; None without one."""

    @property
    def frames(self) -> int:
        """Number of frames received so far, each of which takes time however short it is; 0 for layers without."""

    def receive(self, data: bytes) -> bytes:
        """Return the payload of received bytes. Raises LayerError if the connection must be closed."""

    def wrap(self, data: bytes) -> bytes:
        """Return the bytes to write for a payload."""

    def to_send(self) -> bytes:
        """Return and clear the bytes that the layer itself has to write."""

    def end(self) -> bytes:
        """Return the bytes that close the layer."""


class TlsLayer:
    frames = 0
    """TLS bounds the cost of a record by its size."""

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
    """Server side of a WebSocket connection."""

    proven: ProvenPeer | None = None

    def __init__(self) -> None:
        self._library = websocket_library()
        self._socket = self._library.WSConnection(self._library.ConnectionType.SERVER)
        self._answers = bytearray()
        self._head_bytes = 0
        self._is_open = False
        self.frames = 0

    def receive(self, data: bytes) -> bytes:
        if not self._is_open:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                raise LayerError("the WebSocket request is longer than 8 KiB")
        got = bytearray()
        errors = self._library.utilities
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                self.frames += 1
                self._take(event, got)
        except LayerError as error:
            raise LayerError(str(error), bytes(got)) from None
        except errors.RemoteProtocolError as error:
            if not self._is_open and error.event_hint is not None:
                self._answers += self._socket.send(error.event_hint)
            raise LayerError(f"WebSocket protocol error: {error}", bytes(got)) from None
        except errors.LocalProtocolError as error:
            raise LayerError(f"the WebSocket is closed: {error}", bytes(got)) from None
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
                raise LayerError("the WebSocket request lacks the subprotocol mqtt")
            self._answers += self._socket.send(events.AcceptConnection(subprotocol=chosen))
            self._is_open = True
        elif isinstance(event, events.CloseConnection):
            self._answers += self._socket.send(event.response())
            raise LayerError("the client closed the WebSocket")
        elif isinstance(event, events.TextMessage):
            raise LayerError("WebSocket text message; MQTT needs binary messages")

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
        except self._library.utilities.LocalProtocolError:  # already closed by the client
            return b""
        return sent


def websocket_library() -> Any:
    """Import and return wsproto. Raises UsageError if it is not installed."""
    try:
        import wsproto
        import wsproto.events
        import wsproto.utilities
    except ImportError:
        raise UsageError("MQTT over WebSocket needs wsproto: pip install 'resprout[mqtt]'") from None
    return wsproto


class Layers:
    """Layers of one connection, ordered from the socket upwards."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers

    def add_first(self, layer: Layer) -> None:
        """Add a layer next to the socket, before anything is received."""
        self._layers = (layer, *self._layers)

    @property
    def proven(self) -> ProvenPeer | None:
        return next((layer.proven for layer in self._layers if layer.proven is not None), None)

    @property
    def frames(self) -> int:
        return sum([layer.frames for layer in self._layers])

    def receive(self, data: bytes) -> tuple[bytes, bytes, LayerError | None]:
        """Return the payload, the bytes to write, and the error that ends the connection, if any."""
        sent = b""
        for number, layer in enumerate(self._layers):
            try:
                data = layer.receive(data)
            except LayerError as error:
                is_top = number == len(self._layers) - 1
                return error.data if is_top else b"", sent + self._down(number, layer.to_send()), error
            sent += self._down(number, layer.to_send())
            if not data:
                break
        return data, sent, None

    def wrap(self, data: bytes) -> bytes:
        """Return the bytes to write for a payload. Raises LayerError if the client has closed a layer."""
        return self._down(len(self._layers), data)

    def end(self) -> bytes:
        """Return the bytes that close all layers."""
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
