"""A session with its connection: how it ships, and when it acknowledges.

Where not everything may leave at once, a session ships as far as `flight` allows, large messages in parts.

A peer is told how far this side has come at once where it asked or much has come, otherwise with the next message to
it, and after a delay without one. Messages without a cost (receipts, acknowledgements of deliveries) take no room in
the window, so between a client and its broker their acknowledgement may wait longer (`free_ack_delay_us`): as a rule
another message leaves before, and takes it along.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from resprout.core.contract import Effect, SetTimer, Timer, Transmit
from resprout.links.flight import Beginnings
from resprout.links.frames import AcknowledgeDue, Data, FreeAcknowledgeDue, Part
from resprout.links.options import LinkOptions
from resprout.links.parts import Bodies
from resprout.links.session import MESSAGES_PER_FRAME, Session

T = TypeVar("T")

_ACKNOWLEDGE = AcknowledgeDue()
_ACKNOWLEDGE_FREE = FreeAcknowledgeDue()


def ship_in_parts(link: "LinkSession", now_us: int, out: list[Effect], *, bounded: bool = True) -> None:
    """Transmit what may leave now; all of it unless `bounded`. If something has to wait, an acknowledgement is asked
    for, and comes at once: whoever waits never depends on a timer."""
    _Shipping(link, now_us, out, bounded).ship()


class _Shipping:
    """One time that a link ships."""

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
        for message, end in zip(_behind(link.outbox, skip), _behind(link.weights, skip), strict=True):
            yield message, begin, end
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
        """False when the message has to go on later."""
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
        """Whether the frame that leaves now is to be acknowledged at once. Several are while a lot is on its way, so
        that the link never runs empty; and whatever took of what all have in common, so that others may."""
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
        """What may be on its way was more before, and nobody was asked to acknowledge it."""
        link = self._link
        link.flight.mark(link.departed, link.acknowledged, self._now_us)
        self._out.append(Transmit(link.connection, Data(link.shipped + 1, *link.standing(), (), True)))


def _behind(line: deque[T], skip: int) -> Iterable[T]:
    """What lies behind the first ones, without a walk along those where they are the most."""
    left = len(line) - skip
    if left >= skip:
        return islice(line, skip, None)
    last = list(islice(reversed(line), left))
    last.reverse()
    return last


class LinkSession(Session):
    """A session and where it goes out."""

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
        """This side opens the connections, and numbered the epoch."""
        self.connection = 0
        """0 while there is none on which the handshake is complete."""
        self.greeted_us = 0
        """When this side said Hello."""
        self.trip_us = 0
        """How long the answer to that took; 0 where the peer opened the session."""
        self.stood_us = 0
        """Since when the connection stands, or stood when it broke."""
        self.heard_us = 0
        self.spoke_us = 0
        self.stirred_us = 0
        """When the stack was last told that a large message gets on."""
        self.rested = 0
        """What had been sent when it was last asked whether this link rests."""
        self.silent = False
        """The stack was told that the peer is not heard."""
        self.unsent = False
        """Stands in the list of links that have something to ship before the step ends."""
        self.paid = False
        """What brought it there counts against a window."""
        self.due = 0
        """What was sent up to here leaves as soon as it may; the rest waits for the end of the turn."""
        self.leaves_with_turn = False
        """Stands in the list of links that ship at the end of the turn."""
        self.ack_due = False
        """Stands in the list of links that `AcknowledgeDue` looks at."""
        self.free_ack_due = False
        """The same for `FreeAcknowledgeDue`."""
        self.asked = False
        """The peer wants to hear at once how far this side is; again: even if it was told so before."""
        self.asked_again = False
        self.lingers = False
        """`LingerOver` is set."""
        self.over = False
        self.is_congested = False
        """The stack was told that much waits for the acknowledgement of this broker."""

    def ship(self, now_us: int, out: list[Effect]) -> None:
        """Transmit what has not left yet, as far as it may be on its way; without a connection it waits for the
        next."""
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
        """The session, or this life, is about to end: what is sent leaves now or never."""
        if self.connection:
            self.ship_express(now_us, out)
            if self.shipped < self.sent:
                ship_in_parts(self, now_us, out, bounded=False)

    def ship_express(self, now_us: int, out: list[Effect]) -> None:
        """What overtakes everything else."""
        frame = self.express.frame() if self.connection else None
        if frame is not None:
            self.spoke_us = now_us
            out.append(Transmit(self.connection, frame))

    def stand(self, connection: int, links: int, beginnings: Beginnings, now_us: int) -> None:
        """There is a connection, one of so many."""
        self.connection = connection
        self.share(links, beginnings)
        self.stood_us = self.heard_us = self.spoke_us = now_us

    def share(self, links: int, beginnings: Beginnings) -> None:
        """There are so many connections now."""
        self.flight.share(links, beginnings)
        self.allow()

    def came(self, now_us: int) -> None:
        """The peer has acknowledged something that it was asked to acknowledge."""
        self.flight.acknowledged(self.acknowledged, now_us)
        self.allow()

    def fall(self) -> None:
        """The connection is gone."""
        self.connection = 0
        self.flight.end()

    def rest(self, links: int, beginnings: Beginnings) -> None:
        """To be called now and then: whoever has sent nothing since the last time begins again with little."""
        if self.weight == self.rested and not self.outbox:
            self.flight.share(links, beginnings)
            self.flight.rest()
            self.allow()
        self.rested = self.weight

    def acknowledge(self, now_us: int, out: list[Effect]) -> None:
        """Say how far this side has come, along with what waits for company."""
        if self.shipped != self.sent:
            self.ship(now_us, out)
        if self.received != self.told_received:
            self.nod(now_us, out)

    def nod(self, now_us: int, out: list[Effect]) -> None:
        """Say how far this side has come, without waiting for data to say it with."""
        self.spoke_us = now_us
        out.append(Transmit(self.connection, self.empty_frame()))


def gives(link: LinkSession) -> bool:
    """What leaves is for a client to read. Others go first: publishers wait for their receipts, and neighbours for
    reports that make receipts and let their own clients read."""
    return link.paid and link.role == "client"


class Acknowledging:
    def __init__(self, options: LinkOptions, is_client: bool) -> None:
        self._delay_us = options.ack_delay_us
        self._free_delay_us = options.free_ack_delay_us
        self._is_client = is_client
        self._soon: list[LinkSession] = []
        self._late: list[LinkSession] = []

    def answer(self, link: LinkSession, now_us: int, out: list[Effect]) -> None:
        """After what came in a frame has been heard, and what was said because of it has left."""
        asked, again = link.asked, link.asked_again
        link.asked = link.asked_again = False
        if not link.connection:
            return
        if link.received != link.told_received:
            if asked or link.acknowledge_now:
                link.nod(now_us, out)
            elif not link.ack_due:
                self._wait(link, now_us, out)
        elif again:
            link.nod(now_us, out)

    def over(self, timer: Timer, now_us: int, out: list[Effect]) -> None:
        """Whoever has not heard it meanwhile hears it now."""
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
