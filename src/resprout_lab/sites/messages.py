"""What brokers of sites say to each other, beside what replicas do (`replicas.messages`). Tags 256..271 of the wire
belong to this file.

Between sites, whatever has a `number` comes in the order of the link, once, and a `term` says under which leader it was
sent: what comes with an older term than was heard of before is refused.
"""

from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout_lab.sites.commands import SiteBroker


class Proposal(ProtocolMessage, frozen=True, tag=259):
    """To the leader of the site: have this decided."""

    command: bytes

    @property
    def cost(self) -> int:
        return len(self.command)


class SiteLed(ProtocolMessage, frozen=True, tag=260):
    """To all brokers of a neighbouring site: the sender speaks for its site to yours, from this term on."""

    site: str
    term: int
    brokers: tuple[SiteBroker, ...]
    parent_site: str
    """The site above that of the sender; empty if that is the root site."""
    heard: int
    """Of what your site sent, this is decided there."""
    sent: int
    """The last number that the sender's site gave to anything for yours."""


class SiteCarries(ProtocolMessage, frozen=True, tag=261):
    """A publication, on its way through the tree of sites."""

    term: int
    number: int
    previous: int
    bundle: Bundle
    hops: int
    place: int
    """In the one order, counted from 1; 0 while it has none."""

    @property
    def cost(self) -> int:
        return self.bundle.cost

    @property
    def bulk(self) -> int:
        return self.bundle.key_bytes


class SiteWants(ProtocolMessage, frozen=True, tag=262):
    term: int
    number: int
    previous: int
    filter: str
    where: str | None


class SiteWantsNot(ProtocolMessage, frozen=True, tag=263):
    term: int
    number: int
    previous: int
    ask: int


class SiteNotes(ProtocolMessage, frozen=True, tag=264):
    term: int
    number: int
    previous: int
    ask: int


class SiteHas(ProtocolMessage, frozen=True, tag=265):
    """Everything up to this number of the link is decided at the sender's site."""

    term: int
    number: int


class SiteMember(ProtocolMessage, frozen=True, tag=266):
    """The first message in a session between brokers of one site, and again when the sender begins to take part."""

    site: str
    birth: int
    """The life in which it became the member of the log that it is; 0: it is one of the first members."""
    address: str
    has_begun: bool
    """It takes part in the log."""
    known: int
    """The latest life of the receiver that took part, as far as the sender knows; 0: none."""


SITES_MESSAGES: Final = (
    Proposal, SiteLed, SiteCarries, SiteWants, SiteWantsNot, SiteNotes, SiteHas, SiteMember,
)  # fmt: skip
Shipped = SiteCarries | SiteWants | SiteWantsNot | SiteNotes
