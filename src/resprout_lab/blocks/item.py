"""A bundle at one broker, as sessions of clients look at it (`ports.Item`): what most stacks keep, and some add to."""

from resprout.core.bundle import Bundle
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.session import ClientSession


class KeptItem:
    __slots__ = (
        "awaits", "bundle", "client", "first", "hops", "last", "needed", "no", "picks", "position", "prompt", "readers",
        "shown", "source", "stream", "tseq",
    )  # fmt: skip

    def __init__(self, bundle: Bundle, hops: int, source: str | None, prompt: bool, tseq: int = -1) -> None:
        self.bundle = bundle
        self.stream = bundle.stream
        self.first = bundle.first
        self.last = bundle.last
        self.position = 0
        """In the order of its topic, in a stack where each has one of its own."""
        self.no = 0
        """Its place in this broker's order."""
        self.hops = hops
        self.source = source
        """The neighbour or client that it came from; None where nobody asks for clients."""
        self.prompt = prompt
        self.awaits = 0
        self.tseq = tseq
        """Of a total: its place in the one order of totals."""
        self.client: ClientSession | None = None
        """Of its publisher, if that is served here."""
        self.readers: tuple[ClientSession, ...] = ()
        self.picks: Picks | None = None
        self.shown = False
        self.needed = 0
        """How many here are not through with it: readers, and whoever else the stack counts."""

    @property
    def place(self) -> int:
        return self.tseq

    @property
    def undone(self) -> int:
        return self.needed
