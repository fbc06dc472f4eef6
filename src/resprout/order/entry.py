"""One bundle in one broker's log, and who still needs it."""

from typing import TYPE_CHECKING, Any

from resprout.core.bundle import Bundle

if TYPE_CHECKING:
    from resprout.order.link import Link


class Entry:
    """`level` k means: every broker within k hops that the bundle was sent to has it.

    It starts at 0 (this broker has it) and rises to k + 1 when every neighbour concerned has reported level k. Above f
    it is *stable*: no set of f crashes can bring a demand for this copy, and the log may forget it.
    """

    __slots__ = (
        "bundle", "client", "copies", "cost", "hops", "lacking", "last", "level", "no", "picks", "pins", "prompt",
        "readers", "shown", "source", "stream", "undone", "waits",
    )  # fmt: skip

    def __init__(self, no: int, bundle: Bundle, source: "Link | None", client: Any, hops: int) -> None:
        self.no = no
        """Its place in the log."""
        self.bundle: Bundle | None = bundle
        """None once it is stable and taken by every local reader."""
        self.cost = bundle.cost
        self.source = source
        """The neighbour it came from; None when a local client published it."""
        self.client = client
        """The local client that published it, if any; the log does not look inside."""
        self.prompt = False
        """Its publisher waits for the receipts."""
        self.last = bundle.last
        self.stream = bundle.stream
        self.hops = hops
        self.level = 0
        self.lacking: list[int] = []
        """lacking[k]: how many neighbours concerned have not yet reported level k."""
        self.copies = 1 + hops
        """Brokers that certainly have it: the path it took, and neighbours that said so."""
        self.pins = 1
        """Reasons to keep the bundle here: not yet shown, and local readers that have not taken it."""
        self.undone = 0
        """Neighbours behind which, and local readers to whom, it is not yet delivered."""
        self.waits = 0
        """Links that must catch up with it, and readers that were shown it and have not taken it."""
        self.readers: tuple[Any, ...] = ()
        """Local clients that it will be shown to."""
        self.picks: dict[str, tuple[int, ...]] | None = None
        """Where a content filter picked only some of its messages for a reader: their offsets, by the reader's name."""
        self.shown = False

    @property
    def delivered(self) -> bool:
        """Nobody on this side of the source is still owed it."""
        return self.undone == 0

    def __repr__(self) -> str:
        return f"<entry {self.no} level {self.level} {self.bundle!r}>"
