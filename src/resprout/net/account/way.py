"""The way of one publication, as brokers remember it."""

import msgspec

from resprout.net.account.answering import PublicationId
from resprout.net.account.values import PassageAnswer


class PublicationWay(msgspec.Struct, frozen=True):
    """What `resprout trace --json` prints."""

    id: PublicationId
    brokers: tuple[PassageAnswer, ...]
    """That remember it, in the order in which it came to them by their clocks."""
    unanswered: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the publication, in short: `resprout trace` takes it as an id."""
        return f"{self.id.publisher}.{self.id.incarnation}/{self.id.stream}:{self.id.seq}"
