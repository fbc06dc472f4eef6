"""One TCP connection: bytes in, frames up; frames in, bytes out.

Reading goes as fast as the machine above takes frames, because it takes them in the same call; a peer that sends a lot
at once is read from in turns with the others. Writing is bounded by
the sessions' windows: a peer that does not read is granted nothing, so nothing more is written to it. What control
messages may add on top is bounded here: past `WRITE_BYTES_MAX` the peer is cut off.

The peer that opens a connection is unknown until it has said `Hello`: it has a short time and one small frame for that.
With TLS, that time includes the handshake, and the opener verifies the other side before it sends anything.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from functools import partial
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from resprout.core.errors import UsageError, WireError
from resprout.core.limits import PAYLOAD_BYTES
from resprout.links.frames import Data, Hello
from resprout.net.door import Pending, Prelude
from resprout.net.event_loop import LateBytes, weight_of
from resprout.net.peer_connection import PeerConnection
from resprout.net.reception import refuse
from resprout.net.sessions import PROOFS
from resprout.net.tls import ProvenPeer, TlsError, TlsStream
from resprout.wire.codec import FrameReader, FrameWriter

if TYPE_CHECKING:
    from resprout.net.host import Host

WRITE_BYTES_MAX = 64 << 20
"""Bytes that may wait in this process for one peer to read them. Several windows: only control messages, or a peer that
has stopped reading altogether, get there. Where payloads may be larger than usual, one of them comes on top."""

GREETING_SECONDS_MAX = 10.0
"""A connection that somebody opened must have said `Hello` by then."""

GREETING_BYTES_MAX = 4096
"""The first frame on a connection. A greeting has a few hundred bytes; decoding a large hostile frame costs many times
its size in memory."""

TURN_SECONDS_MAX = 0.002
"""After so long with frames of one peer, the others have their turn before the rest."""

TURN_BYTES = 64 << 10
"""A peer that sends so much at once stands in line with others that do (`HeavyLine`), and is not read from meanwhile:
some event loops would go on reading one connection while more comes, up to 8 MB of it in one turn."""

PACE_MAX = 64
PACE_FIRST = 1
STEP_SECONDS_MAX = 0.02
"""Messages of one peer that are taken in one step: one at first, and twice as many each time that was quick. After a
step that took longer than this it is a quarter. What comes in one read beyond that is taken in further steps, with a
look at the clock after each; a frame with more messages is cut. So nobody waits for all of what takes long."""

TRICKLE_SECONDS = 0.1
TRICKLE_BYTES = 512
"""While a frame comes in slowly, the machine is told so at most this often, and not of less than this: who sends a byte
now and then is not a slow link."""

CUT = "cut off"
"""Why nothing passes to or from a peer that is barred."""

CLOSE_SECONDS_MAX = 5.0
"""What was sent on a connection that is being closed has this long to leave."""

MALFORMED: Final = "it said what is no frame"
TOO_LATE: Final = "it did not say in time who it is"


class TcpConnection(PeerConnection, asyncio.Protocol):
    def __init__(self, host: "Host", number: int, peer: str | None) -> None:
        super().__init__(host, number, peer)
        self.member: ProvenPeer | None = None
        """Whom the opener has shown to be, by the key of the network."""
        self.pending_proof: Pending | None = None
        """What the opener has been asked to prove."""
        self._reader = FrameReader(host.codec, GREETING_BYTES_MAX, PROOFS)
        self._writer = FrameWriter(host.codec)
        self._tls = _tls_of(host, peer)
        self.shaking_hands = self._tls is not None and peer is not None
        self._prelude = Prelude(self, host)
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._closing = False
        self._trickle = 0
        """Bytes of frames that are not complete, since the machine was told of some."""
        self._trickled_at = 0.0
        self._pace = PACE_FIRST
        self._paused = False
        """Frames that have come, or are about to, wait for their turn, and no more are read."""
        self._delay_s = host.delay_s(peer) if peer is not None else 0.0
        self._late = LateBytes(host.loop, self._write_late)
        """Bytes that an emulated latency keeps back."""
        self._reason = ""
        self._deadline: asyncio.TimerHandle | None = None
        """When to give up an opener that has not said `Hello`, or a handshake; None once that is done."""
        self._cutoff: asyncio.TimerHandle | None = None
        """When to stop waiting for what was sent to leave."""

    # -- asyncio -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX + self._host.here.max_payload - PAYLOAD_BYTES)
        plug = transport.get_extra_info("socket")
        self._descriptor = plug.fileno() if plug is not None else -1
        if plug is not None:
            # Event loops differ in whether they do this for sockets that were accepted. Without it a small frame waits
            # in the system until the peer has acknowledged the one before, which the peer puts off for up to 40 ms.
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place = transport.get_extra_info("peername")
        self.address = str(place[0]) if isinstance(place, tuple | list) and place else ""
        if self.peer is None or self.shaking_hands:
            self.start_deadline()
        if self.shaking_hands:
            self._host.shakes_hands(self)
            self._decrypt(b"")
        else:
            self._begin()

    def data_received(self, data: bytes, in_line: bool = False) -> None:
        """`in_line`: it has stood there."""
        if len(data) >= TURN_BYTES and not in_line and self.hold():
            self._host.line.join(partial(self.data_received, data, True))
            return
        if self._transport is None:
            return  # it was lost while it stood in line, and what was not taken was not acknowledged
        if self._tls is not None:
            data = self._decrypt(data)
            if not data or self._closing:
                self.read_on()
                return
        try:
            frames = self._reader.feed(data)
        except WireError as error:
            self._host.reception.refusals.count(MALFORMED)
            refuse(self, str(error))
            return
        if not frames:
            self._trickled(len(data))
            self.read_on()
        elif self._deadline is None and not self._paused and weight_of(frames) <= self._pace:
            self._host.arrived(self.number, frames)
        else:
            self.take_in_turns(iter(frames))

    def eof_received(self) -> None:
        self.close("the peer closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_deadline()
        if self._cutoff is not None:
            self._cutoff.cancel()
            self._cutoff = None
        self._transport = None
        self._late.clear()
        del self._late, self._prelude  # both refer to this object; without cycles it is freed with its last reference
        self._host.lost(self, self._reason or (str(error) if error else "the peer closed the connection"))

    def pause_writing(self) -> None:
        self.abort("the peer does not read")

    # -- the host ------------------------------------------------------------------------------------------------------

    def send(self, frame: Any) -> None:
        transport = self._transport
        if transport is None or self._closing or transport.is_closing():
            return
        if self._tls is not None and not self._tls.standing:
            return  # nothing is said in the open; the end of the connection has to do
        try:
            parts = self._writer.parts(frame)
            if self._tls is not None:
                parts = self._tls.encrypt(b"".join(parts)), b""
        except (UsageError, TlsError) as error:
            self.abort(f"{type(frame).__name__} cannot be sent: {error}")
            return
        if self._delay_s:
            self._late.put(b"".join(parts), self._delay_s)
        elif transport.get_write_buffer_size():
            transport.write(b"".join(parts))
        else:
            # Bytes are handed to the system in this very moment. The event loop would do it at the end of its turn,
            # after everything else in it; the peer can start meanwhile.
            try:
                sent = os.writev(self._descriptor, parts)
            except OSError:  # full, or broken: the transport finds out and does what is right
                sent = 0
            header, body = parts
            if sent < len(header) + len(body):
                transport.write(body[sent - len(header) :] if sent >= len(header) else b"".join(parts)[sent:])

    def close(self, reason: str) -> None:
        """After what was sent has left; a peer that does not take it in time is cut off."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._reason = self._reason or reason
        self.stop_deadline()
        self._cutoff = self._host.loop.call_later(CLOSE_SECONDS_MAX + self._delay_s, self.abort, reason)
        if self._late:
            self._late.put(None, self._delay_s)
        else:
            self._transport.close()

    def abort(self, reason: str) -> None:
        self._closing = True
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_plain(self) -> bool:
        return self._tls is None

    @property
    def proven(self) -> ProvenPeer | None:
        return self._tls.proven if self._tls is not None else self.member

    @property
    def certificate(self) -> bytes:
        """The digest of the certificate of the side that listens; empty without TLS."""
        return self._tls.certificate if self._tls is not None else b""

    @property
    def has_proven_nothing(self) -> bool:
        """Neither a secret nor the key of the network."""
        return self.identity is None and self.member is None

    # -- TLS, and bytes that leave late or trickle in ------------------------------------------------------------------

    def _decrypt(self, data: bytes) -> bytes:
        tls = self._tls
        assert tls is not None
        try:
            plain = tls.receive(data)
        except TlsError as error:
            self._write_through(tls.to_send())
            if error.plain:
                self._tls = None  # it is answered in the only language it knows
            self._host.reception.distrust(self, "", str(error))
            return b""
        self._write_through(tls.to_send())
        if tls.standing and self.shaking_hands and not self._prelude.is_proving:
            self._shook_hands(tls)
        return plain

    def _shook_hands(self, tls: TlsStream) -> None:
        self.stop_deadline()
        assert self.peer is not None
        if tls.proven is None or not tls.proven.says("broker", self.peer):
            says = f", whose certificate says {tls.proven},"
            self._host.reception.distrust(self, says, "its certificate does not say that it is this broker")
        else:
            self.shaking_hands = False
            self._begin()

    def _begin(self) -> None:
        if self.peer is not None:
            self._prelude.open()
        else:
            self._host.connected(self)

    def _write_through(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _trickled(self, size: int) -> None:
        """Bytes that move are a sign of life, whole frame or not."""
        self._trickle += size
        now = self._host.loop.time()
        if self._deadline is None and self._trickle >= TRICKLE_BYTES and now - self._trickled_at >= TRICKLE_SECONDS:
            self._trickle = 0
            self._trickled_at = now
            self._host.trickled(self.number)

    # -- frames, taken in turns with other connections -----------------------------------------------------------------

    def take_in_turns(self, frames: Iterator[Any]) -> None:
        host, number = self._host, self.number
        until = monotonic() + TURN_SECONDS_MAX  # the time of some event loops stands still within a turn
        if self._deadline is not None:
            rest = self._prelude.take(frames)
            if rest is None:
                return
            frames = rest
        began = monotonic()
        while some := self._some(frames):
            if (weight := weight_of(some)) > self._pace:
                some, frames = self._cut(some, weight, frames)
            host.arrived(number, some)
            host.take_in()
            now = monotonic()
            self._set_pace(now - began)
            began = now
            if now > until:
                self._pause(frames)
                return
        self.read_on()

    def _some(self, frames: Iterator[Any]) -> list[Any]:
        """The next ones, as many as may be taken together; none when there are no more."""
        some: list[Any] = []
        weight = 0
        most = self._pace
        while weight < most and (frame := next(frames, None)) is not None:
            some.append(frame)
            weight += weight_of((frame,))
        return some

    def _cut(self, some: list[Any], weight: int, rest: Iterator[Any]) -> tuple[list[Any], Iterator[Any]]:
        """Cut the last frame in two: what is taken now, and what comes before the rest."""
        *whole, frame = some
        at = self._pace - (weight - len(frame.messages))
        first, received, grant, messages = frame.first, frame.received, frame.grant, frame.messages
        head = Data(first, received, grant, messages[:at])
        tail = Data(first + at, received, grant, messages[at:], frame.hurry)
        return [*whole, head], chain((tail,), rest)

    def slow_down(self) -> None:
        """What it has sent took long, perhaps because of what others sent in the same turn."""
        self._set_pace(STEP_SECONDS_MAX * 2)

    def _set_pace(self, seconds: float) -> None:
        if seconds > STEP_SECONDS_MAX:
            self._pace = max(1, self._pace // 4)
        elif seconds < TURN_SECONDS_MAX and self._pace < PACE_MAX:
            self._pace = min(PACE_MAX, self._pace * 2)

    def read_on(self) -> None:
        if not self._paused:
            return
        self._paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _pause(self, rest: Iterator[Any]) -> None:
        if self.hold():
            self._host.line.join(partial(self.take_in_turns, rest))

    def hold(self) -> bool:
        """Read no more for now; False when the connection is over, and what was not taken was not acknowledged."""
        if self._transport is None or self._transport.is_closing():
            return False
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()
        return True

    # -- the greeting, with a deadline ---------------------------------------------------------------------------------

    def greeted(self, frame: Any) -> bool:
        """Whatever it was: the machine refuses what is no greeting. False when nothing more is to be heard."""
        self.stop_deadline()
        self._host.reception.greeted(self)
        if type(frame) is Hello:
            self.name = frame.name
            self.is_client = frame.role == "client"
            self._delay_s = self._host.delay_s(frame.name)
            if self._host.is_barred(frame.name):
                self.abort(CUT)
            else:
                self._host.reception.check(self, frame)
        return not self._closing

    def start_deadline(self) -> None:
        self._deadline = self._host.loop.call_later(self._host.greeting_s_max, self._too_late)

    def stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        what = "greeting came" if self.peer is None else "TLS" if not self._prelude.is_proving else "answer to a login"
        self._host.reception.refusals.count(TOO_LATE)
        refuse(self, f"no {what} within {self._host.greeting_s_max:g} s")

    def _write_late(self, data: bytes | None) -> bool:
        """False when nothing can be written any more."""
        if self._transport is None:
            return False
        if data is None:
            self._transport.close()
        else:
            self._transport.write(data)
        return True


def _tls_of(host: "Host", peer: str | None) -> TlsStream | None:
    keyring = host.door.keyring
    if keyring is None:
        return None
    return keyring.open() if peer is not None else keyring.accept()
