"""One broker in the tree of one topic: its place, its reports to the root, and what it pushes to its children.

`TreePlace` has the parent, the children, and the position that the broker has reached.

`Reporting` tells the root how far the whole tree has come. The root keeps what somebody may lack, and holds back
publishers that publish more than the tree carries. A broker reports when it has taken enough since its last report, and
passes on what is true of all below it. So there are few reports where little is published, and the root lags by at most
one report's worth, however deep the tree is.

`ScribePushing` queues publications for children up to a bound for each link, and drops them beyond it: positions tell a
child what it missed, and the root has it. The child is told when there is room again.
"""

from collections.abc import Callable
from typing import Final

from resprout.stacks.peers import Outbox
from resprout_lab.scribe.trees_messages import Scribed, TreeHas, TreeLines

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


class Reporting:
    def __init__(self, lines: TreeLines, report_bytes: int) -> None:
        self._lines = lines
        self._report_bytes: Final = report_bytes

    def joined(self, place: TreePlace, position: int) -> None:
        """The parent takes this broker to have so much, until it hears otherwise."""
        place.reported = position
        self.look(place)

    def took(self, place: TreePlace) -> None:
        """Publications, at this broker."""
        if place.untold_bytes >= self._report_bytes or place.is_root:
            self.look(place)

    def heard(self, place: TreePlace, name: str, position: int) -> None:
        """From a child."""
        if name in place.floors:
            place.floors[name] = position
            self.look(place)

    def look(self, place: TreePlace) -> None:
        """Whether there is something to report."""
        floor = place.floor
        if floor is None or floor == place.reported:
            return
        if place.is_root:
            has_risen, place.reported = floor > place.reported, floor
            if has_risen:
                self._lines.spread_upto(place.topic)
        elif place.parent is not None:
            place.reported, place.untold_bytes = floor, 0
            self._lines.say(place.parent, TreeHas(place.topic, floor))


class ScribePushing:
    def __init__(self, outbox: Outbox, bytes_max: int, has_room: Callable[[str, str], None]) -> None:
        """`has_room`: for a child that was left out, and which topic."""
        self._outbox = outbox
        self._bytes_max = bytes_max
        self._has_room = has_room
        self._left_out: dict[str, dict[str, None]] = {}
        """By child: topics of which something was left out."""
        self._waiting: dict[str, int] = {}
        """By child: bytes of all that waits for room there."""

    def push(self, name: str, message: Scribed) -> None:
        if self._waiting.get(name, 0) > self._bytes_max:
            self._left_out.setdefault(name, {})[message.bundle.topic] = None
            return
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            self._waiting[name] = self._waiting.get(name, 0) + message.cost

    def writable(self, name: str, room: int) -> None:
        left = sum(message.cost for message in self._outbox.writable(name, room))
        if name in self._waiting:
            self._waiting[name] -= left
            if not self._outbox.waiting(name):
                del self._waiting[name]
                for topic in self._left_out.pop(name, {}):
                    self._has_room(name, topic)

    def end(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._left_out.pop(name, None)
