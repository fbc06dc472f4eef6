"""A session with its connection."""

from resprout.core.contract import Effect, Transmit
from resprout.links.flight import Beginnings
from resprout.links.frames import Data
from resprout.links.options import LinkOptions
from resprout.links.parts import Bodies
from resprout.links.session import Session
from resprout.links.shipping import ship_in_parts


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
