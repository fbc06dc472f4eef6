"""One broker in the tree of one topic: its parent, its children, and how far it has come."""

from typing import Final

from resprout_lab.scribe.trees.messages import Scribed

EARLY_MAX: Final = 256
"""Publications of one topic that may wait for those before them; what comes beyond that is asked for later."""
MISSED_TOGETHER: Final = 128
"""Publications that a root sends for one question."""


class TreePlace:
    __slots__ = (
        "after", "asked", "beats", "children", "cut_off_us", "early", "floors", "hears_us", "is_asleep", "is_root",
        "is_waking", "missing", "parent", "position", "reported", "root", "told", "topic", "tries", "untold_bytes",
        "waiting", "wanted",
    )  # fmt: skip

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.wanted = False
        """Somebody here wants it."""
        self.is_root = False
        self.parent: str | None = None
        self.asked: str | None = None
        """Who was asked to be the parent."""
        self.is_waking = False
        """It will be seen to that somebody is asked again."""
        self.root = ""
        """Who the parent says leads the topic."""
        self.is_asleep = False
        """The root gives no signs of life, and nobody waits for one."""
        self.beats = 0
        """By the root: signs of life since something was published."""
        self.tries = 0
        """How often that was seen to since this broker was in the tree."""
        self.children: dict[str, None] = {}
        self.waiting: dict[str, None] = {}
        """Children that were not told yet that they are in the tree."""
        self.cut_off_us: int | None = None
        """When a parent said last that it is in the tree no more."""
        self.position: int | None = None
        """All up to here was passed on, or is not wanted; None before a parent has told where to begin."""
        self.after: int | None = None
        """Where to begin, if that is known; None: where the parent is."""
        self.early: dict[int, Scribed] = {}
        """By position: what came too early."""
        self.missing = 0
        """The root was asked for everything up to here, ..."""
        self.told = 0
        """... and will send up to here before it is asked again."""
        self.hears_us = 0
        """When the root was heard of last."""
        self.floors: dict[str, int] = {}
        """By child: up to here all below it have everything, as far as it has said."""
        self.reported = 0
        """What the parent takes all below here to have; at the root, what its owner does."""
        self.untold_bytes = 0
        """Of publications that were taken since."""

    @property
    def is_in(self) -> bool:
        """In the tree."""
        return self.is_root or self.parent is not None

    @property
    def floor(self) -> int | None:
        """All below here have everything up to this position."""
        return None if self.position is None else min([self.position, *self.floors.values()])

    @property
    def is_needed(self) -> bool:
        return self.wanted or self.is_root or bool(self.children)

    def begin_at(self, position: int) -> None:
        """Unless it was somewhere before: then it goes on from there."""
        if self.position is None:
            self.position = position if self.after is None else min(self.after, position)

    def put(self, scribed: Scribed) -> None:
        """What comes early; the furthest are let go of where there are too many."""
        self.early[scribed.position] = scribed
        if len(self.early) > EARLY_MAX:
            del self.early[max(self.early)]

    def take(self) -> Scribed | None:
        """The next one, if it is here."""
        assert self.position is not None, "whatever is taken follows something"
        scribed = self.early.pop(self.position + 1, None)
        if scribed is not None:
            self.position += 1
            self.untold_bytes += scribed.bundle.cost
        return scribed

    def skip_to(self, position: int) -> None:
        """What lies before is nowhere any more."""
        self.position = position
        self.early = {at: scribed for at, scribed in self.early.items() if at > position}
