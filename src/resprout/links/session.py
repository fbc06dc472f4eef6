"""One FIFO session with one peer: sequence numbers, acknowledgement, windows. No connections, no time.

What is sent stays in the outbox until the peer has acknowledged it, so a new connection resumes by shipping again
whatever the peer has not received. Nothing is lost, doubled or reordered while the session lasts.

The window counts bytes (`cost`) from the beginning of the session: a peer may send until its total reaches the grant,
which is what was received plus the window, and stands still while the session is held. Messages without a cost always
pass. A message may *begin* while any room is left: its sender then exceeds the grant by a part of that one message,
and more than that is the peer's fault. So memory is bounded by window plus one message, and a message larger than
the window still passes.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from resprout.core import limits
from resprout.core.errors import PeerError
from resprout.links.frames import Data
from resprout.links.options import LinkOptions

MESSAGES_PER_FRAME: Final = limits.FRAME_ITEMS
BYTES_PER_FRAME: Final = limits.BUNDLE_BYTES
"""What may share a frame, `cost` and `bulk` together; a larger message travels alone. Far below what the wire refuses,
because every message has a few bytes more."""


class Session:
    __slots__ = (
        "_ack_messages_max", "_ends", "_outbox_bytes_max", "_outbox_messages_max", "_window", "announced", "confirmed",
        "confirmed_bytes", "epoch", "full_at", "full_at_bytes", "grant", "granted", "held", "incarnation", "limit",
        "outbox", "peer", "peer_window", "received", "received_bytes", "role", "sent", "sent_bytes", "shipped",
        "told_granted", "told_received",
    )  # fmt: skip

    def __init__(self, peer: str, epoch: int, options: LinkOptions) -> None:
        self.peer = peer
        self.epoch = epoch
        self.role = ""
        self.incarnation = 0
        self._window = options.window_bytes
        self._ack_messages_max = options.ack_messages_max
        self._outbox_messages_max = options.outbox_messages_max
        self._outbox_bytes_max = options.outbox_bytes_max

        self.sent = 0
        """Messages put into the session so far; `shipped` of them left in frames, `confirmed` were acknowledged."""
        self.shipped = 0
        self.confirmed = 0
        self.sent_bytes = 0
        self.confirmed_bytes = 0
        self.full_at = self._outbox_messages_max
        """When `sent` or `sent_bytes` is beyond these, too much waits in the outbox."""
        self.full_at_bytes = self._outbox_bytes_max
        self.outbox: deque[Any] = deque()
        self._ends: deque[int] = deque()
        """Beside each message in the outbox: `sent_bytes` right after it."""
        self.grant = 0
        """`sent_bytes` may reach this, says the peer."""
        self.limit = 0
        """The grant, or less where the outbox could not keep so much."""
        self.announced = 0
        """The limit that the stack knows."""
        self.peer_window = 1

        self.received = 0
        self.received_bytes = 0
        self.granted = self._window
        self.held = False
        self.told_received = 0
        """What the peer was last told of `received` and `granted`."""
        self.told_granted = 0

    # -- its beginning, and each time it finds a new connection -----------------------------------------------------

    def begin(self, role: str, incarnation: int, received: int, grant: int) -> None:
        """The first handshake. Raises PeerError when the peer claims to have received what was never sent."""
        self.role = role
        self.incarnation = incarnation
        self.confirm(received, grant)
        self.peer_window = max(1, self.limit)
        self.announced = self.limit

    def resume(self, received: int, grant: int) -> None:
        """Another connection: what the peer has not received is shipped again. Old news are no fault here, because a
        connection that was given up may be noticed later than the one that replaced it."""
        self.confirm(max(received, self.confirmed), max(grant, self.grant))
        self.shipped = self.confirmed

    # -- to the peer ------------------------------------------------------------------------------------------------

    def put(self, message: Any, cost: int) -> None:
        """Queue a message; `cost` is its own, looked up once where it goes to many peers."""
        self.sent += 1
        self.sent_bytes = end = self.sent_bytes + cost
        self.outbox.append(message)
        self._ends.append(end)

    def standing(self) -> tuple[int, int]:
        """What the peer is told now: how much was received, and how much is granted."""
        self.told_received = self.received
        self.told_granted = self.granted
        return self.received, self.granted

    def frames(self) -> list[Data[Any]]:
        """What has not been shipped yet, in as few frames as the limits allow."""
        self.standing()
        first = self.shipped + 1
        self.shipped = self.sent
        frames: list[Data[Any]] = []
        messages: list[Any] = []
        skip = first - self.confirmed - 1
        before = self._ends[skip - 1] if skip else self.confirmed_bytes
        full_at = before + BYTES_PER_FRAME
        for message, end in islice(zip(self.outbox, self._ends, strict=True), skip, None):
            bulk = message.bulk
            if bulk:
                full_at -= bulk
            if messages and (end > full_at or len(messages) == MESSAGES_PER_FRAME):
                frames.append(Data(first, self.received, self.granted, tuple(messages)))
                first += len(messages)
                messages = []
                full_at = before + BYTES_PER_FRAME - bulk
            messages.append(message)
            before = end
        if messages:
            frames.append(Data(first, self.received, self.granted, tuple(messages)))
        return frames

    def empty_frame(self) -> Data[Any]:
        """An acknowledgement, or a sign of life."""
        self.standing()
        return Data(self.shipped + 1, self.received, self.granted, ())

    @property
    def room(self) -> int:
        """Bytes that may still be sent; negative when the last message took more than there was."""
        return self.limit - self.sent_bytes

    def room_to_announce(self) -> int | None:
        """The room, when the stack should be told: it knows of less than half a window, and there is more than half."""
        if 2 * (self.announced - self.sent_bytes) < self.peer_window < 2 * (self.limit - self.sent_bytes):
            self.announced = self.limit
            return self.room
        return None

    @property
    def unconfirmed(self) -> int:
        return len(self.outbox)

    @property
    def unconfirmed_bytes(self) -> int:
        return self.sent_bytes - self.confirmed_bytes

    # -- from the peer ----------------------------------------------------------------------------------------------

    def take(self, data: Data[Any]) -> Sequence[Any]:
        """The messages of a frame that are new, in order. Raises PeerError for whatever an honest peer cannot send;
        the session is then good for nothing."""
        if data.received != self.confirmed or data.grant != self.grant:
            self.confirm(data.received, data.grant)
        messages = data.messages
        expected = self.received + 1
        if data.first != expected:
            if data.first > expected:
                raise PeerError(f"message {expected} is missing: the next is {data.first}")
            if data.first < 1:
                raise PeerError(f"messages are numbered from 1, not {data.first}")
            messages = messages[expected - data.first :]
        if not messages:
            return messages
        total = self.received_bytes
        for message in messages:
            cost = message.cost
            if cost:
                if total >= self.granted:
                    raise PeerError(f"{total + cost} bytes were sent, {self.granted} were granted")
                total += cost
        self.received += len(messages)
        self.received_bytes = total
        if not self.held:
            self.granted = total + self._window
        return messages

    def confirm(self, received: int, grant: int) -> None:
        """The peer says how far it has come. Raises PeerError when that cannot be."""
        count = received - self.confirmed
        if count < 0:
            raise PeerError(f"acknowledged {self.confirmed} messages before, now {received}")
        if received > self.sent:
            raise PeerError(f"acknowledged {received} messages, but {self.sent} were sent")
        if count:
            outbox, ends = self.outbox, self._ends
            for _ in range(count):
                outbox.popleft()
                self.confirmed_bytes = ends.popleft()
            self.confirmed = received
            self.full_at = received + self._outbox_messages_max
            self.full_at_bytes = self.confirmed_bytes + self._outbox_bytes_max
        if grant < self.grant:
            raise PeerError(f"granted {self.grant} bytes before, now {grant}")
        self.grant = grant
        self.limit = min(grant, self.confirmed_bytes + self._outbox_bytes_max // 2)

    def hold(self) -> None:
        """Grant nothing more until `release`."""
        self.held = True

    def release(self) -> None:
        self.held = False
        self.granted = max(self.granted, self.received_bytes + self._window)

    @property
    def acknowledge_now(self) -> bool:
        """Whether the peer should hear at once how far this side is. At half a window, a peer that has used up its room
        is always told of more than half a window: it never waits for a timer."""
        return (
            self.received - self.told_received >= self._ack_messages_max
            or 2 * (self.granted - self.told_granted) >= self._window
        )
