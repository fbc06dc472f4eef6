"""A session with its connection."""

import msgspec

from resprout.core.contract import Effect, Transmit
from resprout.links.frames import Data
from resprout.links.options import LinkOptions
from resprout.links.session import Session


class Link(Session):
    """A session and where it goes out."""

    __slots__ = (
        "ack_due",
        "connection",
        "heard_us",
        "is_opener",
        "lingers",
        "over",
        "silent",
        "spoke_us",
        "stood_us",
        "unsent",
    )

    def __init__(self, peer: str, epoch: int, options: LinkOptions, *, is_opener: bool) -> None:
        super().__init__(peer, epoch, options)
        self.is_opener = is_opener
        """This side opens the connections, and numbered the epoch."""
        self.connection = 0
        """0 while there is none on which the handshake is complete."""
        self.stood_us = 0
        """Since when the connection stands, or stood when it broke."""
        self.heard_us = 0
        self.spoke_us = 0
        self.silent = False
        """The stack was told that the peer is not heard."""
        self.unsent = False
        """Stands in the list of links that have something to ship before the step ends."""
        self.ack_due = False
        """Stands in the list of links that `AcknowledgeDue` looks at."""
        self.lingers = False
        """`LingerOver` is set."""
        self.over = False

    def ship(self, now_us: int, out: list[Effect]) -> None:
        """Transmit what has not left yet; without a connection it waits for the next."""
        connection = self.connection
        first = self.shipped + 1
        sent = self.sent
        if not connection or first > sent:
            return
        self.spoke_us = now_us
        if first == sent:  # by far the most frequent case, so it does without `frames`
            self.shipped = sent
            self.told_received = received = self.received
            self.told_granted = granted = self.granted
            out.append(Transmit(connection, Data(sent, received, granted, (self.outbox[-1],))))
        else:
            out.extend([Transmit(connection, frame) for frame in self.frames()])

    def nod(self, now_us: int, out: list[Effect]) -> None:
        """Say how far this side has come, without waiting for data to say it with."""
        self.spoke_us = now_us
        out.append(Transmit(self.connection, self.empty_frame()))


class LinkStatus(msgspec.Struct, frozen=True):
    """One session as people and monitors see it."""

    peer: str
    role: str
    incarnation: int
    epoch: int
    connected: bool
    sent: int
    received: int
    unconfirmed: int
    """Messages that the peer has not acknowledged."""
    unconfirmed_bytes: int
    room: int
    """Bytes that may be sent now; negative when the last message took more than there was."""
    held: bool

    @classmethod
    def of(cls, link: Link) -> "LinkStatus":
        return cls(
            link.peer, link.role, link.incarnation, link.epoch, link.connection != 0, link.sent, link.received,
            link.unconfirmed, link.unconfirmed_bytes, link.room, link.held,
        )  # fmt: skip
