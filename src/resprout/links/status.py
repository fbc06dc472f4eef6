"""What people and monitors are shown of a session."""

import msgspec

from resprout.links.link import LinkSession


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
    def of(cls, link: LinkSession) -> "LinkStatus":
        return cls(
            link.peer, link.role, link.incarnation, link.epoch, link.connection != 0, link.sent, link.received,
            link.unconfirmed, link.unconfirmed_bytes, link.room, link.held != 0,
        )  # fmt: skip
