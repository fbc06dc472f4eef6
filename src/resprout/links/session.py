"""One FIFO session with one peer: sequence numbers, acknowledgement, windows. No connections.

What is sent stays in the outbox until the peer has acknowledged it, so a new connection resumes by shipping again
whatever the peer has not received. Nothing is lost, doubled or reordered while the session lasts.

The window counts bytes (`cost`) from the beginning of the session: a peer may send until its total reaches the grant,
which is what was received plus the window, and stands still while the session is held. Messages without a cost always
pass. A message may *begin* while any room is left: its sender then exceeds the grant by a part of that one message,
and more than that is the peer's fault. So memory is bounded by window plus one message, and a message larger than
the window still passes.

`flight` bounds the bytes that are on their way at a time. A stack is told of little more room than that, because a
message that waits in the outbox delays every message behind it.

`ExpressLane` is a second queue of the session, for messages that may overtake everything else: signs of life. Within
the lane they keep their order, and none is lost or doubled while the session lasts. They are few, so the lane has no
window. They are acknowledged with frames that go the other way, or by a frame of its own after `ACKNOWLEDGED_AT`.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from resprout.core import limits
from resprout.core.errors import PeerError, UsageError
from resprout.links.flight import Flight
from resprout.links.frames import BODY_BYTES_MAX, Assembly, Bodies, Body, Data, Express, Part, Parted
from resprout.links.options import LinkOptions

ACKNOWLEDGED_AT: Final = 16
"""Express messages that may be unacknowledged before a frame of its own acknowledges them."""

MESSAGES_PER_FRAME: Final = limits.FRAME_ITEMS
"""Bound on the messages in one frame. Their bytes, `cost` and `bulk` together, are bounded by the size of a part of a
large message (`Flight.part_bytes`)."""
FREE_BYTES_MAX: Final = 128 << 20
"""Unacknowledged bytes that are kept for a client, those that do not count against its window included. Beyond that,
the session ends."""
STACK: Final = 1
DRIVER: Final = 2
"""Bits of `Session.held`."""
ROOM_BYTES_MIN: Final = 32 << 10
"""A stack is told of this much room at least, and of twice what may be on its way at most."""


class ExpressLane:
    """The express lane of a session: a FIFO queue of its own, without a window."""

    __slots__ = ("_shipped", "_told", "confirmed", "outbox", "received")

    def __init__(self) -> None:
        self.outbox: list[Any] = []
        """Messages that the peer has not acknowledged."""
        self.confirmed = 0
        self.received = 0
        self._shipped = 0
        self._told = 0

    def put(self, message: Any) -> None:
        self.outbox.append(message)

    def resume(self, received: int) -> None:
        """Ship again what the peer has not received: another connection stands."""
        self._confirm(max(received, self.confirmed))
        self._shipped = self.confirmed

    def standing(self) -> int:
        """Return how many messages were received, to tell the peer."""
        self._told = self.received
        return self.received

    def frame(self) -> Express[Any] | None:
        """Return a frame with what has not left yet, or an empty one if only an acknowledgement is due; None for
        neither."""
        skip = self._shipped - self.confirmed
        fresh = tuple(list(self.outbox)[skip:])
        if not fresh and self.received - self._told < ACKNOWLEDGED_AT:
            return None
        first = self._shipped + 1
        self._shipped += len(fresh)
        return Express(first, self.standing(), fresh)

    def take(self, frame: Express[Any]) -> Sequence[Any]:
        """Return the new messages of a frame. Raises PeerError for whatever an honest peer cannot send."""
        self._confirm(frame.received)
        expected = self.received + 1
        if not 1 <= frame.first <= expected:
            raise PeerError(f"sign of life {expected} is missing: the next is {frame.first}")
        messages = frame.messages[expected - frame.first :]
        for message in messages:
            if not message.express:
                raise PeerError(f"{type(message).__name__} overtakes what was said before it")
        self.received += len(messages)
        return messages

    def _confirm(self, received: int) -> None:
        count = received - self.confirmed
        if not 0 <= count <= len(self.outbox):
            raise PeerError(f"acknowledged {received} signs of life, but {self.confirmed + len(self.outbox)} were sent")
        del self.outbox[:count]
        self.confirmed = received
        self._shipped = max(self._shipped, received)


class Session:
    """Sequence numbers, outbox and window of one session."""

    __slots__ = (
        "_ack_messages_max", "_allowance", "_bodies", "_broker_messages_max", "_larger_bytes", "_outbox_bytes_max",
        "_outbox_messages_max", "_window",
        "acknowledged", "announced", "assembly", "body", "confirmed", "confirmed_bytes", "confirmed_weight",
        "departed", "ends", "epoch", "express", "flight", "full_at", "full_at_bytes", "full_at_weight", "grant",
        "granted", "held", "incarnation", "limit", "outbox", "part_at", "peer", "peer_window", "received",
        "received_bytes", "role", "sent", "sent_bytes", "shipped", "told_bytes", "told_granted", "told_received",
        "weight", "weights",
    )  # fmt: skip

    def __init__(self, peer: str, epoch: int, options: LinkOptions, bodies: Bodies) -> None:
        self.peer = peer
        self.epoch = epoch
        self.role = ""
        self.incarnation = 0
        self._window = options.window_bytes
        self._ack_messages_max = options.ack_messages_max
        self._outbox_messages_max = options.outbox_messages_max
        self._outbox_bytes_max = options.outbox_bytes_max
        self._larger_bytes = bodies.bytes_max - BODY_BYTES_MAX
        """How much larger than usual one message may be; it comes on top of the bounds on bytes in the outbox."""
        self._broker_messages_max = options.broker_messages_max

        self.sent = 0
        """Messages put into the session so far. `shipped` of them have left in frames; `confirmed` were
        acknowledged."""
        self.shipped = 0
        self.confirmed = 0
        self.sent_bytes = 0
        self.confirmed_bytes = 0
        self.weight = 0
        """Like `sent_bytes`, but with `bulk`: bytes in flight are bounded whatever the window counts. `departed` of
        them have left, `acknowledged` have arrived, down to parts of a message."""
        self.departed = 0
        self.acknowledged = 0
        self.confirmed_weight = 0
        self.flight = Flight(options.flight_us)
        self.part_at = 0
        """Bytes of the message after `shipped` that have left in parts."""
        self.body: Body | None = None
        """The encoded message whose parts are leaving; None if none is."""
        self._bodies = bodies
        self.assembly = Assembly(bodies)
        self.express = ExpressLane()
        self.full_at = self._outbox_messages_max
        """When `sent` or `sent_bytes` is beyond these, too much waits in the outbox."""
        self.full_at_bytes = self._outbox_bytes_max + self._larger_bytes
        self.full_at_weight = 1 << 62
        """The same for `weight`, for clients: answers that are outside the window are bounded, too."""
        self.outbox: list[Any] = []
        self.ends: list[int] = []
        """Beside each message in the outbox: `sent_bytes` right after it, and `weight` right after it."""
        self.weights: list[int] = []
        self.grant = 0
        """`sent_bytes` may reach this, says the peer."""
        self.limit = 0
        """`sent_bytes` may reach this: the grant, or less where the outbox could not keep so much, or would keep it
        too long (`_allowance`)."""
        self._allowance = 0
        """Bytes that the outbox may hold, from `flight` and the options."""
        self.allow()
        self.announced = 0
        """The limit that the stack was told last."""
        self.peer_window = 1
        """Bytes that the peer granted when the session began."""

        self.received = 0
        self.received_bytes = 0
        self.granted = self._window
        self.held = 0
        """Who holds the session, as bits: `STACK`, `DRIVER`. While any is set, nothing more is granted to the peer."""
        self.told_received = 0
        """The values of `received`, `granted` and `received_bytes` when the peer was last told the first two."""
        self.told_granted = 0
        self.told_bytes = 0

    # -- its beginning, and each time it finds a new connection -----------------------------------------------------

    def begin(self, role: str, incarnation: int, received: int, grant: int) -> None:
        """Take the peer's first handshake. Raises PeerError when the peer claims to have received what was never
        sent."""
        self.role = role
        self.incarnation = incarnation
        if role == "client":
            self.full_at_weight = FREE_BYTES_MAX + self._larger_bytes
        else:
            self.full_at = self._outbox_messages_max = self._broker_messages_max
        self.confirm(received, grant)
        self.peer_window = max(1, min(grant, self._outbox_bytes_max // 2))
        self.announced = self.limit

    def resume(self, received: int, grant: int, part: int, express: int) -> None:
        """Continue on another connection: ship again what the peer has not received, from byte `part` of the first
        message on. Numbers older than those known are no fault here: a connection that was given up may be noticed
        later than its successor."""
        is_old = received < self.confirmed
        self.confirm(max(received, self.confirmed), max(grant, self.grant))
        self.express.resume(express)
        self.shipped = self.confirmed
        self.departed = self.acknowledged = self.weighs(0)
        self.body = None
        self.part_at = 0
        if part and not is_old:
            self._resume_within(part)
        self.flight.begin(self.acknowledged)
        self.allow()

    def _resume_within(self, part: int) -> None:
        if not self.outbox:
            raise PeerError(f"received {part} bytes of a message that was never sent")
        self.body = self._bodies.pack(self.confirmed + 1, self.outbox[0])
        if part >= len(self.body):
            raise PeerError(f"received {part} bytes of a message of {len(self.body)}, and not the message")
        self.part_at = part
        self.departed = self.acknowledged = min(self.weights[0], self.acknowledged + part)

    # -- to the peer ------------------------------------------------------------------------------------------------

    def put(self, message: Any, cost: int, weight: int) -> None:
        """Queue a message. `cost`: its bytes that count against the window. `weight`: these and its other bytes
        (`bulk`). The caller looks both up once for all receivers."""
        self.sent += 1
        self.sent_bytes = end = self.sent_bytes + cost
        self.outbox.append(message)
        self.ends.append(end)
        self.weight = end = self.weight + weight
        self.weights.append(end)

    def standing(self) -> tuple[int, int]:
        """Return what the peer is told with each frame: messages received, and bytes granted."""
        self.told_received = self.received
        self.told_granted = self.granted
        self.told_bytes = self.received_bytes
        return self.received, self.granted

    def frames(self, hurry: bool) -> list[Data[Any]]:
        """Return frames with everything unshipped, where that is little; the last one carries `hurry`."""
        received, granted = self.standing()
        first = self.shipped + 1
        messages = tuple(islice(self.outbox, self.shipped - self.confirmed, None))
        self.shipped = self.sent
        self.departed = self.weight
        last = len(messages) - MESSAGES_PER_FRAME
        return [
            Data(first + at, received, granted, messages[at : at + MESSAGES_PER_FRAME], hurry and at >= last)
            for at in range(0, len(messages), MESSAGES_PER_FRAME)
        ]

    def empty_frame(self) -> Data[Any] | Parted:
        """Return a frame without messages: an acknowledgement, or a sign of life."""
        self.standing()
        if self.assembly.have:
            return Parted(self.received, self.granted, self.assembly.have)
        return Data(self.shipped + 1, self.received, self.granted, ())

    def weighs(self, count: int) -> int:
        """Return the weight up to the first `count` messages of the outbox."""
        return self.weights[count - 1] if count else self.confirmed_weight

    def pack(self, message: Any) -> bool:
        """Encode the message after `shipped` to send it in parts; False when it cannot be."""
        try:
            self.body = self._bodies.pack(self.shipped + 1, message)
        except UsageError:  # it has no form at all: the connection says so to people
            return False
        return True

    def allow(self) -> None:
        """Recompute the room after the flight limit has changed."""
        room = max(ROOM_BYTES_MIN, self.flight.room_bytes)
        self._allowance = min(room, self._outbox_bytes_max // 2)
        self.limit = min(self.grant, self.confirmed_bytes + self._allowance)

    @property
    def is_full(self) -> bool:
        """Whether the outbox holds more than it may."""
        return self.sent > self.full_at or self.sent_bytes > self.full_at_bytes or self.weight > self.full_at_weight

    @property
    def room(self) -> int:
        """Bytes that may still be sent; negative when the last message exceeded the grant."""
        return self.limit - self.sent_bytes

    def room_to_announce(self) -> int | None:
        """Return the room if the stack should be told: it knows of less than half of what is possible, and more than
        half is free."""
        most = min(self.peer_window, self._allowance)
        if 2 * (self.announced - self.sent_bytes) < most < 2 * (self.limit - self.sent_bytes):
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
        """Return the new messages of a frame, in order. Raises PeerError for whatever an honest peer cannot send;
        the session is then unusable."""
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
        if self.assembly.have:
            self.assembly.clear()
        self._count(messages)
        return messages

    def take_part(self, part: Part) -> Sequence[Any]:
        """Return the message that this part completes, if it does. Raises PeerError like `take`."""
        if part.number <= self.received:
            return ()
        if part.number > self.received + 1:
            raise PeerError(f"message {self.received + 1} is missing: the next is {part.number}")
        if not self.assembly.add(part):
            return ()
        messages = (self.assembly.finish(part.number),)
        self._count(messages)
        return messages

    def _count(self, messages: Sequence[Any]) -> None:
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

    def confirm(self, received: int, grant: int) -> None:
        """Take the peer's acknowledgement and grant. Raises PeerError when they cannot be."""
        count = received - self.confirmed
        if count < 0:
            raise PeerError(f"acknowledged {self.confirmed} messages before, now {received}")
        if received > self.sent:
            raise PeerError(f"acknowledged {received} messages, but {self.sent} were sent")
        if count:
            outbox, ends, weights = self.outbox, self.ends, self.weights
            if count == len(outbox):  # all of it, as nearly always
                self.confirmed_bytes, self.acknowledged = ends[-1], weights[-1]
                for queue in (outbox, ends, weights):
                    queue.clear()
            else:
                self.confirmed_bytes, self.acknowledged = ends[count - 1], weights[count - 1]
                del outbox[:count], ends[:count], weights[:count]
            self.confirmed = received
            self.confirmed_weight = self.acknowledged
            self.full_at = received + self._outbox_messages_max
            self.full_at_bytes = self.confirmed_bytes + self._outbox_bytes_max + self._larger_bytes
            if self.role == "client":
                self.full_at_weight = self.confirmed_weight + FREE_BYTES_MAX + self._larger_bytes
            if self.shipped < received:  # it came on an earlier connection, or the peer lies
                self.shipped = received
                self.departed = max(self.departed, self.confirmed_weight)
                self.body = None
                self.part_at = 0
        if grant < self.grant:
            raise PeerError(f"granted {self.grant} bytes before, now {grant}")
        self.grant = grant
        self.limit = min(grant, self.confirmed_bytes + self._allowance)

    def confirm_part(self, parted: Parted) -> None:
        """Take an acknowledgement of a part of a message."""
        self.confirm(parted.received, parted.grant)
        if not self.outbox or parted.part > self._bodies.bytes_max:
            raise PeerError(f"acknowledged {parted.part} bytes of a message that was never sent")
        come = min(self.weights[0], self.confirmed_weight + parted.part)
        if come > self.departed:
            raise PeerError(f"acknowledged {parted.part} bytes of a message, of which fewer were sent")
        self.acknowledged = max(self.acknowledged, come)

    def hold(self, by: int = STACK) -> None:
        """Grant nothing more until `release`."""
        self.held |= by

    def release(self, by: int = STACK) -> None:
        """Grant again, unless another party (stack or driver) still holds the session."""
        self.held &= ~by
        if not self.held:
            self.granted = max(self.granted, self.received_bytes + self._window)

    @property
    def acknowledge_now(self) -> bool:
        """Whether the peer should hear at once how far this side is. At half a window, a peer that has used up its room
        is always told of more than half a window: it never waits for a timer."""
        return (
            self.received - self.told_received >= self._ack_messages_max
            or 2 * (self.granted - self.told_granted) >= self._window
        )
