"""What can be set about a tree of replicated sites."""

from typing import Annotated, Literal

import msgspec

from resprout.core.errors import UsageError
from resprout_lab.blocks import Period

_Positive = Annotated[int, msgspec.Meta(ge=1)]


class SitesOptions(msgspec.Struct, frozen=True):
    order: Literal["none", "fifo", "total"] = "total"
    """What is offered: `eventual`; that and `fifo`; or all four, with every publication through the root site."""
    routing: Literal["flooding", "filtering"] = "filtering"
    """Publications go to every site, or only where somebody asked for them. Filtering saves messages, and a
    subscription is confirmed only when it is known wherever it must be."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3
    """Brokers of each site; a minority of them may be down at a time. A broker without a site is one by itself."""
    sharing: Literal["leader", "links", "random"] = "leader"
    """Who speaks with neighbouring sites: the leader with all of them, or each broker of the site with some: one with
    the parent and the others with the children (`links`), or each with those that fall to it by chance. Sharing
    spreads the load, and a way to a site waits when any of its two brokers is gone, not only for leaders."""
    heartbeat_us: Period = 250_000
    """Between two signs of life of a leader, to the replicas of its site."""
    patience_us: Period = 1_000_000
    """A leader that its replicas do not hear for so long, and up to twice that by chance, is replaced."""
    return_us: Period = 30_000_000
    """So long publications are kept for clients that are gone, and for those of a broker that is. Longer: more is kept
    for nobody. Shorter: more clients are told that they may have missed something."""
    durable: bool = True
    """Brokers keep the log of their site on disk: a site that lost its majority serves again when a majority is back.
    Without disks it does not."""
    buffer: _Positive = 10_000
    """Bundles that may wait in a site for readers, or for one neighbouring site, before those who bring more are held
    back; nothing is dropped."""

    def __post_init__(self) -> None:
        if self.patience_us <= self.heartbeat_us:
            raise UsageError(f"patience_us must be more than heartbeat_us, {self.heartbeat_us}, not {self.patience_us}")
