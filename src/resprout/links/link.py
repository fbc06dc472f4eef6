"""A session with its connection: how it ships messages in frames, and when it acknowledges.

Where not everything may leave at once, a session ships as far as `flight` allows, and splits large messages into parts.

A session acknowledges at once if the peer asked for it or much has come; otherwise with the next message to the peer,
or after a delay (`ack_delay_us`). Messages without a cost (receipts, acknowledgements of deliveries) take no room in
the window. So between a client and its broker their acknowledgement may wait longer (`free_ack_delay_us`): usually
another message leaves earlier and carries it.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from resprout.core.contract import Effect, SetTimer, Timer, Transmit
from resprout.links.flight import Beginnings
from resprout.links.frames import AcknowledgeDue, Bodies, Data, FreeAcknowledgeDue, Part
from resprout.links.options import LinkOptions, LinkStatus
from resprout.links.session import MESSAGES_PER_FRAME, Session

T = TypeVar("T")

_ACKNOWLEDGE = AcknowledgeDue()
_ACKNOWLEDGE_FREE = FreeAcknowledgeDue()


def ship_in_parts(link: "LinkSession", now_us: int, out: list[Effect], *, bounded: bool = True) -> None:
    """Transmit what may leave now; all of it unless `bounded`. If something has to wait, ask the peer for an
    acknowledgement at once, so that the rest never waits for a timer."""
    _Shipping(link, now_us, out, bounded).ship()


class _Shipping:
    """One run of `ship_in_parts`: packs the unshipped messages of a link into frames."""

    def __init__(self, link: "LinkSession", now_us: int, out: list[Effect], bounded: bool) -> None:
        self._link = link
        self._now_us = now_us
        self._out = out
        self._bounded = bounded
        self._batch: list[Any] = []
        self._batch_bytes = 0

    def ship(self) -> None:
        link = self._link
        part_bytes = link.flight.part_bytes
        for message, begin, end in self._unshipped():
            weight = end - begin
            if self._batch and (self._batch_bytes + weight > part_bytes or len(self._batch) == MESSAGES_PER_FRAME):
                self._ship_batch()
            if weight and self._is_full(end - link.departed if message.pressing else 0):
                break
            if link.body is None and (weight <= part_bytes or not link.pack(message)):
                self._batch.append(message)
                self._batch_bytes += weight
                link.departed = end
            elif not self._ship_parts(begin, end):
                break
        if self._batch:
            self._ship_batch()
        if link.shipped < link.sent and not link.flight.marks:
            self._ask()

    def _unshipped(self) -> Iterator[tuple[Any, int, int]]:
        link = self._link
        skip = link.shipped - link.confirmed
        begin = link.weighs(skip)
        for place in range(skip, len(link.outbox)):
            end = link.weights[place]
            yield link.outbox[place], begin, end
            begin = end

    def _is_full(self, pressing_bytes: int = 0) -> bool:
        link = self._link
        return self._bounded and link.flight.is_full(link.departed - link.acknowledged, pressing_bytes)

    def _ship_batch(self) -> None:
        link = self._link
        first = link.shipped + 1
        received, granted = link.standing()
        link.shipped += len(self._batch)
        frame = Data(first, received, granted, tuple(self._batch), self._hurries())
        self._out.append(Transmit(link.connection, frame))
        self._batch = []
        self._batch_bytes = 0

    def _ship_parts(self, begin: int, end: int) -> bool:
        """Ship a large message in parts. Return False when the rest has to wait."""
        link = self._link
        number = link.shipped + 1
        body = link.body
        assert body is not None, "it was packed"
        size = len(body)
        while link.part_at < size:
            if self._is_full():
                return False
            at = link.part_at
            chunk = body[at : at + link.flight.part_bytes]
            link.part_at += len(chunk)
            link.departed = end if link.part_at == size else min(end, begin + link.part_at)
            self._out.append(Transmit(link.connection, Part(number, at, size, self._hurries(), chunk)))
        link.body = None
        link.part_at = 0
        link.shipped = number
        return True

    def _hurries(self) -> bool:
        """Whether to ask the peer to acknowledge this frame at once. Several frames ask while much is in flight, so
        that the link never runs empty; and any frame that uses the budget that all links share, so that it is
        returned soon."""
        link = self._link
        flight = link.flight
        since = link.departed - flight.marked
        if since <= 0:
            return False
        if (
            self._is_full()
            or 4 * since >= flight.bytes_max
            or link.sent_bytes >= link.announced
            or (flight.taken_bytes and not flight.marks)
        ):
            flight.mark(link.departed, link.acknowledged, self._now_us)
            return True
        return False

    def _ask(self) -> None:
        """Ask for an acknowledgement with an empty frame: the flight limit has shrunk, and no frame in flight asked
        for one."""
        link = self._link
        link.flight.mark(link.departed, link.acknowledged, self._now_us)
        self._out.append(Transmit(link.connection, Data(link.shipped + 1, *link.standing(), (), True)))


class LinkSession(Session):
    """A session and the connection on which it ships."""

    __slots__ = (
        "ack_due",
        "asked",
        "asked_again",
        "connection",
        "due",
        "free_ack_due",
        "greeted_us",
        "heard_us",
        "is_congested",
        "is_opener",
        "leaves_with_turn",
        "lingers",
        "over",
        "paid",
        "rested",
        "silent",
        "spoke_us",
        "stirred_us",
        "stood_us",
        "trip_us",
        "unsent",
    )

    def __init__(self, peer: str, epoch: int, options: LinkOptions, bodies: Bodies, *, is_opener: bool) -> None:
        super().__init__(peer, epoch, options, bodies)
        self.is_opener = is_opener
        """Whether this side opens the connections, and numbered the epoch."""
        self.connection = 0
        """The number of the connection; 0 while none has completed its handshake."""
        self.greeted_us = 0
        """When this side sent `Hello`."""
        self.trip_us = 0
        """Round-trip time of the handshake; 0 if the peer opened the session."""
        self.stood_us = 0
        """When the current, or last, connection was established."""
        self.heard_us = 0
        self.spoke_us = 0
        self.stirred_us = 0
        """When the stack was last told that a large message makes progress."""
        self.rested = 0
        """`weight` at the last call of `rest`."""
        self.silent = False
        """Whether the stack was told that the peer is silent."""
        self.unsent = False
        """Whether it is in the list of links that ship at the end of the step."""
        self.paid = False
        """Whether the message that put it there counts against a window."""
        self.due = 0
        """Messages up to this number leave as soon as they may; later ones wait for the end of the turn."""
        self.leaves_with_turn = False
        """Whether it is in the list of links that ship at the end of the turn."""
        self.ack_due = False
        """Whether it is in the list of links that `AcknowledgeDue` looks at."""
        self.free_ack_due = False
        """Whether it is in the list of links that `FreeAcknowledgeDue` looks at."""
        self.asked = False
        """Whether the peer asked for an acknowledgement at once. `asked_again`: also if there is nothing new to
        acknowledge."""
        self.asked_again = False
        self.lingers = False
        """Whether the timer `LingerOver` is set."""
        self.over = False
        self.is_congested = False
        """Whether the stack was told that too many messages wait for this broker's acknowledgement."""

    def ship(self, now_us: int, out: list[Effect]) -> None:
        """Transmit what has not left yet, within the flight limit. Without a connection it waits for the next one."""
        connection = self.connection
        first = self.shipped + 1
        sent = self.sent
        if not connection or first > sent:
            return
        self.spoke_us = now_us
        flight = self.flight
        end = self.weight
        if (
            end - self.departed > flight.part_bytes
            or end - self.acknowledged >= flight.bytes_max
            or self.body is not None
        ):
            ship_in_parts(self, now_us, out)
            return
        hurry = self.sent_bytes >= self.announced and flight.marked < end  # the stack waits to be told of room
        if hurry:
            flight.mark(end, self.acknowledged, now_us)
        if first == sent:  # by far the most frequent case, so it does without `frames`
            self.shipped = sent
            self.departed = end
            self.told_received = received = self.received
            self.told_granted = granted = self.granted
            self.told_bytes = self.received_bytes
            out.append(Transmit(connection, Data(sent, received, granted, (self.outbox[-1],), hurry)))
        else:
            out.extend([Transmit(connection, frame) for frame in self.frames(hurry)])

    def ship_all(self, now_us: int, out: list[Effect]) -> None:
        """Transmit everything, without a limit: the session, or this life, is about to end."""
        if self.connection:
            self.ship_express(now_us, out)
            if self.shipped < self.sent:
                ship_in_parts(self, now_us, out, bounded=False)

    def ship_express(self, now_us: int, out: list[Effect]) -> None:
        """Transmit the messages of the express lane."""
        frame = self.express.frame() if self.connection else None
        if frame is not None:
            self.spoke_us = now_us
            out.append(Transmit(self.connection, frame))

    def stand(self, connection: int, links: int, beginnings: Beginnings, now_us: int) -> None:
        """Take this connection into use; `links`: how many there are."""
        self.connection = connection
        self.share(links, beginnings)
        self.stood_us = self.heard_us = self.spoke_us = now_us

    def share(self, links: int, beginnings: Beginnings) -> None:
        """Adapt the flight limit to the number of connections."""
        self.flight.share(links, beginnings)
        self.allow()

    def came(self, now_us: int) -> None:
        """Adapt the flight limit to an acknowledgement that was asked for."""
        self.flight.acknowledged(self.acknowledged, now_us)
        self.allow()

    def fall(self) -> None:
        """Give up the connection; the session stays."""
        self.connection = 0
        self.flight.end()

    def rest(self, links: int, beginnings: Beginnings) -> None:
        """Reset the flight limit if nothing was sent since the last call. Called now and then."""
        if self.weight == self.rested and not self.outbox:
            self.flight.share(links, beginnings)
            self.flight.rest()
            self.allow()
        self.rested = self.weight

    def acknowledge(self, now_us: int, out: list[Effect]) -> None:
        """Ship what waits, which carries the acknowledgement; send it alone if nothing waits."""
        if self.shipped != self.sent:
            self.ship(now_us, out)
        if self.received != self.told_received:
            self.send_ack(now_us, out)

    def send_ack(self, now_us: int, out: list[Effect]) -> None:
        """Send an acknowledgement in an empty frame."""
        self.spoke_us = now_us
        out.append(Transmit(self.connection, self.empty_frame()))

    def status(self) -> LinkStatus:
        """Return this session as people and monitors see it."""
        return LinkStatus(
            self.peer, self.role, self.incarnation, self.epoch, self.connection != 0, self.sent, self.received,
            self.unconfirmed, self.unconfirmed_bytes, self.room, self.held != 0,
        )  # fmt: skip


def gives(link: LinkSession) -> bool:
    """Whether a link is about to ship a delivery to a client: a sort key. Other links ship first, because publishers
    wait for receipts, and neighbours for the reports that lead to receipts."""
    return link.paid and link.role == "client"


class Acknowledging:
    """Decides when each link acknowledges what it has received."""

    def __init__(self, options: LinkOptions, is_client: bool) -> None:
        self._delay_us = options.ack_delay_us
        self._free_delay_us = options.free_ack_delay_us
        self._is_client = is_client
        self._soon: list[LinkSession] = []
        self._late: list[LinkSession] = []

    def answer(self, link: LinkSession, now_us: int, out: list[Effect]) -> None:
        """Acknowledge at once, or set a timer, after a frame was handled and the replies to it have left."""
        asked, again = link.asked, link.asked_again
        link.asked = link.asked_again = False
        if not link.connection:
            return
        if link.received != link.told_received:
            if asked or link.acknowledge_now:
                link.send_ack(now_us, out)
            elif not link.ack_due:
                self._wait(link, now_us, out)
        elif again:
            link.send_ack(now_us, out)

    def over(self, timer: Timer, now_us: int, out: list[Effect]) -> None:
        """Acknowledge on every link that the timer is for, unless that has happened meanwhile."""
        if isinstance(timer, FreeAcknowledgeDue):
            links, self._late = self._late, []
            for link in links:
                link.free_ack_due = False
        else:
            links, self._soon = self._soon, []
            for link in links:
                link.ack_due = False
        for link in links:
            if link.connection and link.received != link.told_received:
                link.acknowledge(now_us, out)

    def _wait(self, link: LinkSession, now_us: int, out: list[Effect]) -> None:
        patience_us = self._free_delay_us
        if patience_us is not None and link.received_bytes == link.told_bytes and self._is_with_client(link):
            if not link.free_ack_due:
                link.free_ack_due = True
                if not self._late:
                    out.append(SetTimer(_ACKNOWLEDGE_FREE, now_us + patience_us))
                self._late.append(link)
        else:
            link.ack_due = True
            if not self._soon:
                out.append(SetTimer(_ACKNOWLEDGE, now_us + self._delay_us))
            self._soon.append(link)

    def _is_with_client(self, link: LinkSession) -> bool:
        return self._is_client or link.role == "client"
