"""What is not stable yet: the publications that a broker keeps, and how the two ends of a link agree to forget them.

A publication is needed by the links that it crossed (the one it came on included), and by the local clients that it is
given to. A link is through with it when everyone behind it has it, which both ends tell each other (`order.crossing`).
"""

from collections import deque
from collections.abc import Callable

from resprout.core.bundle import Bundle, Origin
from resprout.core.message_fields import Reached
from resprout_lab.blocks.crossing import CrossedLink
from resprout_lab.blocks.item import KeptItem
from resprout_lab.ginger.messages import ClientMessageId


def id_of(bundle: Bundle) -> ClientMessageId:
    return ClientMessageId(bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)


class WindowEntry(KeptItem):
    """One publication at one broker. Its source is the link it came on; None for a local client's."""

    __slots__ = ("id", "lock", "safe", "waiting")

    def __init__(self, bundle: Bundle, hops: int, source: str | None, prompt: bool, tseq: int = -1) -> None:
        super().__init__(bundle, hops, source, prompt, tseq)
        self.id = id_of(bundle)
        self.waiting: dict[str, None] = {}
        """Links that are not through with it."""
        self.lock = 0
        """Of a total: the number under which it was locked."""
        self.safe = hops > 0

    def done_but_for(self, peer: str) -> bool:
        return self.needed == (peer in self.waiting)


class GingerLink(CrossedLink[WindowEntry]):
    """A neighbour in the tree."""

    __slots__ = ("is_parent", "left", "news", "pool", "skips", "urgent")

    def __init__(self, name: str, is_parent: bool) -> None:
        super().__init__(name)
        self.is_parent = is_parent
        self.left = 0
        """So many of those sent have left: the others wait for room, and nothing may be said of them yet."""
        self.skips: dict[Origin, Reached] = {}
        """What passed and was not sent, to be told before the next that is."""
        self.pool: deque[tuple[WindowEntry | None, Callable[[], None]]] = deque()
        """Arrived behind something that a lock holds, and what is to be done with it."""
        self.news = False
        """There is something to report; `urgent`: somebody waits for it."""
        self.urgent = False
