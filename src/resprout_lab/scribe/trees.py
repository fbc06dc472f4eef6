"""Scribe: a multicast tree for each topic, which grows along the routes from its subscribers to the root of the topic.

Castro and others, "Scribe: a large-scale and decentralized application-level multicast infrastructure" (2002), as the
second phase of seed 004 has it, with its corrections S1 and S2. The routes are those of a ring (`chord`); the owner of
this part decides who the root is.

*Growing.* A broker that wants a topic asks the next broker on its route to the root to be its parent (`JoinTree`). The
parent adds the child, asks on if it is not in the tree itself, and answers when it is (`TreeJoined`). So a tree forms
from its root, and a confirmed subscription has a path from there. Wish, parent and children are three separate states
(S2).

*Out of the tree.* A broker that has lost its path, a former root included, tells its children, and these theirs: all
wait until there is a path again, and nobody below is told to be in the tree meanwhile.

*Spreading.* The root numbers what it spreads, without gaps: its position. Each broker passes on what came from its
parent to all its children (S1), in that order. A position that was seen before is a duplicate.

*Repairing.* A broker that loses its parent asks the next broker on its route, and keeps its children. A parent tells
its position, so a child knows what it missed and asks the root for it (`AskMissed`); it does the same when a position
is left out. Heartbeats of the root (`TreeBeat`) go down the tree: a broker that has not received one for a while is not
in the tree, whatever its parent believes, and looks for another path. That also ends cycles, which can form while the
ring changes.

*Pruning.* A broker that no longer wants a topic, and has no children in its tree, leaves it.

*Departures.* In the paper the root spreads what it is given, and repairs lose what was in flight; here positions and
the root's memory make good for that. Heartbeats go down from the root, not only from each parent.

`Trees` is pure: its owner tells it what other brokers say and which of them cannot be reached (`unreachable`), and
executes what it wants (`TreeLines`).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from resprout_lab.scribe.options import TreeOptions
from resprout_lab.scribe.tree import MISSED_TOGETHER, Reporting, TreePlace
from resprout_lab.scribe.trees_messages import (
    NOWHERE,
    AskMissed,
    BeatDue,
    JoinOverdue,
    JoinTree,
    LeaveTree,
    NotKept,
    Scribed,
    TreeBeat,
    TreeGrown,
    TreeHas,
    TreeJoined,
    TreeLines,
)

PLACES_MAX: Final = 100_000
"""Topics in whose trees one broker is. It is nobody's parent in one more."""


class Trees:
    def __init__(self, options: TreeOptions, lines: TreeLines, whole: str = "") -> None:
        """`whole`: a topic that everybody in its tree has from its beginning."""
        self._options = options
        self._lines = lines
        self._whole = whole
        self._reporting = Reporting(lines, options.report_bytes)
        self.places: dict[str, TreePlace] = {}
        self.handlers: dict[type, Callable[[str, Any], None]] = {
            JoinTree: self._asked, TreeJoined: self._joined, LeaveTree: self._left, TreeBeat: self._beat,
            Scribed: self._scribed, NotKept: self._not_kept, TreeHas: self._has,
        }  # fmt: skip

    def begin(self) -> None:
        self._lines.wake(BeatDue(), self._options.beat_us)

    def hear(self, name: str, message: Any) -> None:
        self.handlers[type(message)](name, message)

    @property
    def needed(self) -> Iterator[str]:
        """Whom sessions are needed with."""
        for place in self.places.values():
            yield from place.children
            yield from (name for name in (place.parent, place.asked) if name is not None)

    def is_in(self, topic: str) -> bool:
        return (place := self.places.get(topic)) is not None and place.is_in

    def has_readers(self, topic: str) -> bool:
        """By the root: somebody here or below wants the topic."""
        place = self.places.get(topic)
        return place is not None and (place.wanted or bool(place.children))

    def position(self, topic: str) -> int | None:
        """What lies up to here was delivered here, or is not wanted; None before that is known."""
        place = self.places.get(topic)
        return place.position if place is not None else None

    def floor(self, topic: str) -> int | None:
        """By the root: the whole tree has everything up to this position; None for a tree of nobody."""
        place = self.places.get(topic)
        return place.floor if place is not None else None

    # -- what is wanted here -------------------------------------------------------------------------------------------

    def want(self, topic: str, after: int | None = None) -> None:
        """`after`: everything behind this position, as far as it is kept; None: whatever is published from now on."""
        place = self._place(topic)
        place.wanted = True
        if place.position is None and after is not None:
            place.after = after if place.after is None else min(after, place.after)
        self._seek(place)

    def rewind(self, topic: str, after: int) -> None:
        """What lies behind this position is delivered here, also what was before. Children have had it."""
        place = self.places[topic]
        if place.position is None or place.position <= after:
            return
        reached, place.position = place.position, after
        place.missing = place.told = after
        self._reporting.look(place)
        if place.is_root:
            self._lines.spread_again(topic, after)
        else:
            self._look_for(place, reached)

    def unwant(self, topic: str) -> None:
        place = self.places.get(topic)
        if place is not None:
            place.wanted = False
            self._prune(place)

    # -- the root ------------------------------------------------------------------------------------------------------

    def root(self, topic: str, position: int, holder: str = "") -> int:
        """This broker, as this holder, is the root, which has come so far. Returns up to where the others here have:
        the owner has the rest spread (`spread`)."""
        place = self._place(topic)
        self._leave(place)
        place.is_root, place.parent, place.asked, place.root = True, None, None, holder
        place.is_asleep, place.beats = False, 0
        self._rest(place)
        place.begin_at(position)
        place.reported = place.floor or 0
        assert place.position is not None, "it begins somewhere"
        self._came_in(place)
        return place.position

    def unroot(self, topic: str) -> None:
        """Somebody else is, or nobody for now."""
        place = self.places.get(topic)
        if place is not None and place.is_root:
            place.is_root = False
            self._came_out(place)
            self._prune(place)
            self._seek(place)

    def spread(self, scribed: Scribed) -> None:
        """By the root."""
        place = self.places.get(scribed.bundle.topic)
        if place is not None and place.is_root:
            self._take(place, scribed, None)

    def catch_up(self, name: str, topic: str) -> None:
        """A child was left out, and can be told again."""
        place = self.places.get(topic)
        if place is not None and place.is_in and name in place.children:
            self._welcome(place, name)

    def skip(self, topic: str, position: int, begins: int = 0) -> None:
        """Skip what is not kept up to this position. A reader from the beginning misses nothing up to `begins`."""
        place = self.places.get(topic)
        if place is not None and place.position is not None and place.position < position:
            is_beginning = place.position == 0 and position == begins
            place.skip_to(position)
            if not is_beginning:
                self._lines.skipped(topic, position)
            self._go_on(place, None)
            self._reporting.look(place)

    def look(self, topic: str) -> None:
        """There may be a way now, or a shorter one."""
        place = self.places.get(topic)
        if place is not None:
            self._seek(place)

    def look_again(self) -> None:
        """Ways have changed."""
        for place in list(self.places.values()):
            self._seek(place)

    # -- growing -------------------------------------------------------------------------------------------------------

    def _place(self, topic: str) -> TreePlace:
        place = self.places.get(topic)
        if place is None:
            place = self.places[topic] = TreePlace(topic)
            if topic == self._whole:
                place.after = 0
        return place

    def _seek(self, place: TreePlace, again: bool = False, but: str | None = None) -> None:
        """A parent: the next one on the way as it is now. `again`: also if that one was asked before; `but`: not this
        one, now."""
        if place.is_in or not place.is_needed:
            return
        self._wait(place)
        hop, before = self._lines.next_hop(place.topic), place.asked
        if hop is None or hop == but or (hop == before and not again):
            return
        if before is not None and before != hop:
            self._lines.say(before, LeaveTree(place.topic))
        place.asked = hop
        self._lines.say(hop, JoinTree(place.topic))

    def _wait(self, place: TreePlace) -> None:
        if not place.is_waking:
            place.is_waking = True
            after_us = min(self._options.retry_us << place.tries, self._options.join_us)
            place.tries += after_us < self._options.join_us
            self._lines.wake(JoinOverdue(place.topic), after_us)

    def _rest(self, place: TreePlace) -> None:
        place.tries = 0
        if place.is_waking:
            place.is_waking = False
            self._lines.let_sleep(JoinOverdue(place.topic))

    def join_overdue(self, timer: JoinOverdue) -> None:
        place = self.places.get(timer.topic)
        if place is not None:
            place.is_waking = False
            self._seek(place, again=True)

    def met(self, name: str) -> None:
        """It can be reached from now on: what it was asked before was lost."""
        for place in self.places.values():
            if place.asked == name:
                self._lines.say(name, JoinTree(place.topic))

    def _asked(self, name: str, message: JoinTree) -> None:
        if len(self.places) >= PLACES_MAX and message.topic not in self.places:
            return
        place = self._place(message.topic)
        if place.parent == name:  # it has lost its own, and came here
            place.parent = None
            self._came_out(place)
        self._adopt(place, name)
        if place.is_in and (not place.is_root or self._lines.is_sole_root(place.topic)):
            place.waiting.pop(name, None)
            self._welcome(place, name)
        else:
            place.waiting[name] = None
            self._seek(place)

    def _adopt(self, place: TreePlace, name: str) -> None:
        """The parent knows its child (S2)."""
        place.children[name] = None

    def _welcome(self, place: TreePlace, name: str) -> None:
        assert place.position is not None, "whoever is in the tree has a position"
        place.floors[name] = place.position
        self._lines.say(name, TreeJoined(place.topic, place.position, place.root, place.is_asleep))

    def _joined(self, name: str, message: TreeJoined) -> None:
        place = self.places.get(message.topic)
        if place is None or place.is_root or name not in (place.asked, place.parent):
            self._lines.say(name, LeaveTree(message.topic))
            return
        if message.position == NOWHERE:
            self._cut_off(place, name)
            return
        self._attach(place, name)
        place.is_asleep = message.sleeps
        self._hear_root(place, message.root)
        place.begin_at(message.position)
        self._look_for(place, message.position)
        self._reporting.joined(place, message.position)
        self._came_in(place)

    def _hear_root(self, place: TreePlace, root: str) -> None:
        if root and root != place.root:
            place.root = root
            self._lines.rooted(place.topic, root)

    def _attach(self, place: TreePlace, name: str) -> None:
        """The child knows its parent (S2)."""
        place.parent, place.asked, place.hears_us = name, None, self._lines.now_us
        self._rest(place)

    def _came_in(self, place: TreePlace) -> None:
        waiting, place.waiting = place.waiting, {}
        for name in waiting:
            self._welcome(place, name)
        self._lines.tell(TreeGrown(place.topic))

    def _came_out(self, place: TreePlace) -> None:
        """No way leads from the root to here any more: those below wait with this broker, and tell nobody that it is in
        the tree."""
        for name in place.children:
            if name not in place.waiting:
                place.waiting[name] = None
                place.floors.pop(name, None)
                self._lines.say(name, TreeJoined(place.topic, NOWHERE))

    def _cut_off(self, place: TreePlace, name: str) -> None:
        """The parent is in the tree no more. It may be waited for, like one that was asked just now, if it still is on
        the way. But not the second time within a short while: while ways are not settled, brokers may wait for each
        other in a ring, around which "in" and "out" would chase each other without end. Whoever has seen both twice
        steps out of it, and asks again when that is due."""
        if place.parent != name:
            return
        before, place.cut_off_us = place.cut_off_us, self._lines.now_us
        place.parent = None
        if before is None or place.cut_off_us - before >= self._options.join_us:
            place.asked = name
            self._came_out(place)
            self._seek(place)
        else:
            self._lines.say(name, LeaveTree(place.topic))
            self._came_out(place)
            self._seek(place, but=name)

    # -- leaving -------------------------------------------------------------------------------------------------------

    def unreachable(self, name: str) -> None:
        """It cannot be reached, or has lost what was said to it."""
        for place in list(self.places.values()):
            self._lose_child(place, name)
            if name in (place.parent, place.asked):
                place.parent = place.asked = None
                self._came_out(place)
                self._seek(place, but=name)
            self._prune(place)

    def _left(self, name: str, message: LeaveTree) -> None:
        place = self.places.get(message.topic)
        if place is not None:
            self._lose_child(place, name)
            self._prune(place)

    def _lose_child(self, place: TreePlace, name: str) -> None:
        place.children.pop(name, None)
        place.waiting.pop(name, None)
        if place.floors.pop(name, None) is not None:
            self._reporting.look(place)

    def _prune(self, place: TreePlace) -> None:
        if not place.is_needed:
            self._leave(place)
            self._rest(place)
            self.places.pop(place.topic, None)

    def _leave(self, place: TreePlace) -> None:
        for name in (place.parent, place.asked):
            if name is not None:
                self._lines.say(name, LeaveTree(place.topic))

    # -- publications --------------------------------------------------------------------------------------------------

    def _scribed(self, name: str, message: Scribed) -> None:
        place = self.places.get(message.bundle.topic)
        if place is None:
            self._lines.say(name, LeaveTree(message.bundle.topic))
        elif place.position is not None and message.position > place.position:
            if name == place.parent:
                place.hears_us = self._lines.now_us  # signs of life wait behind publications
            self._take(place, message, name)

    def _has(self, name: str, message: TreeHas) -> None:
        place = self.places.get(message.topic)
        if place is not None:
            self._reporting.heard(place, name, message.position)

    def _take(self, place: TreePlace, scribed: Scribed, source: str | None) -> None:
        place.put(scribed)
        if scribed.position > place.missing:  # it is new, and not what this broker missed: the root is awake
            place.is_asleep, place.beats = False, 0
        self._go_on(place, source)
        if place.early:
            self._look_for(place, max(place.early) - 1)

    def _go_on(self, place: TreePlace, source: str | None) -> None:
        while (scribed := place.take()) is not None:
            onward = Scribed(scribed.bundle, scribed.position, scribed.hops + 1, scribed.tseq)
            for name in self._onward(place):
                if name != source:
                    self._lines.push(name, onward)
            self._lines.deliver(scribed, source)
        assert place.position is not None, "something was taken"
        self._reporting.took(place)
        if place.told <= place.position < place.missing and not place.is_root:
            self._ask(place)

    def _onward(self, place: TreePlace) -> list[str]:
        """Down the tree: to the children (S1). What is published goes to the root first, so nothing goes up."""
        return list(place.children)

    def _look_for(self, place: TreePlace, position: int) -> None:
        """Others have come so far."""
        assert place.position is not None, "it has begun"
        if place.position < position and not place.is_root:
            was_missing, place.missing = place.missing > place.position, max(place.missing, position)
            if not was_missing:
                self._ask(place)

    def _ask(self, place: TreePlace) -> None:
        assert place.position is not None, "it lacks something"
        place.told = min(place.missing, place.position + MISSED_TOGETHER)
        self._lines.ask_root(AskMissed(place.topic, place.position, place.told))

    def missed(self, topic: str) -> AskMissed | None:
        """What the root was asked for and has not come."""
        place = self.places.get(topic)
        if place is None or place.position is None or place.is_root or place.position >= place.told:
            return None
        return AskMissed(topic, place.position, place.told)

    def _not_kept(self, name: str, message: NotKept) -> None:
        self.skip(message.topic, message.position, message.begins)

    # -- signs of life -------------------------------------------------------------------------------------------------

    def beat_due(self, timer: BeatDue) -> None:
        self._lines.wake(timer, self._options.beat_us)
        for place in list(self.places.values()):
            if place.is_root:
                self._beat_as_root(place)
            elif place.is_asleep:
                continue
            elif place.parent is not None and self._lines.now_us - place.hears_us > self._options.silent_us:
                place.asked = place.parent  # one by one: compiled, both at once were taken for None
                place.parent = None
                self._came_out(place)
                self._seek(place, again=True)

    def _beat_as_root(self, place: TreePlace) -> None:
        assert place.position is not None, "a root has begun"
        if not place.is_asleep:
            place.beats += 1
            place.is_asleep = 0 < self._options.idle_beats <= place.beats
            self._beat_on(place, place.position)

    def _beat(self, name: str, message: TreeBeat) -> None:
        place = self.places.get(message.topic)
        if place is None or name not in (place.parent, place.asked):
            self._lines.say(name, LeaveTree(message.topic))
        if place is None or name != place.parent:
            return
        place.hears_us = self._lines.now_us
        place.is_asleep = message.sleeps
        self._hear_root(place, message.root)
        self._look_for(place, message.position)
        self._beat_on(place, message.position)

    def _beat_on(self, place: TreePlace, position: int) -> None:
        for name in place.children:
            if name not in place.waiting:
                self._lines.say(name, TreeBeat(place.topic, position, place.root, place.is_asleep))
