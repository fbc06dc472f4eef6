"""What the world is made of: nodes, their processes, the ends of connections, and alarms. Plain state.

A *node* is a machine with a name, a disk and a network card; it outlives crashes. A *process* is one life of a protocol
machine on it: whatever still refers to a dead process refers to something that no longer acts, so nothing of an earlier
life can reach a later one.

`Calendar` holds what is to happen, by virtual time. Entries of one instant happen in the order in which they were
entered, so a run is a function of its inputs. Most entries share their instant with others (a flood over links of equal
latency), therefore a heap of distinct times with a list for each: a third of the cost of a heap of (time, counter)
pairs, and the same order. An entry is *idle* when it will not make work of its own accord: housekeeping, and what was
cancelled. When only idle entries are pending, nothing more happens that anybody waits for.

Alarms are the timers of machines and the wake-ups of applications, each a call when its time has come. An alarm that is
moved to a later time keeps its calendar entry and moves on when that comes: timers that are pushed back with every
frame would otherwise fill the calendar with cancelled entries.

`NodeLoad` counts what a node sent and received: frames, and bytes as they would be encoded or as a stack's paper counts
them. A frame counts as sent when it is put on a connection that stands, and as received when it is taken from one; the
difference was lost. Messages are counted by type as they are sent. Sizes are known only where a bandwidth or the
scenario asks for them (they cost time): otherwise `bytes_sent` of a node is unknown. How long its network card was busy
is known where it has a bandwidth.

Sizes are computed, not encoded (`wire.sizes`). To verify them, every hundredth frame is really encoded, with names as
wide as the computation takes them for, and compared: a difference is a fault of this program. A message that claims a
`paper_bytes` is the header of a document's formula in bytes, without the payload. It is counted beside the encoded
bytes and takes no bandwidth: what passes through a network card is what was encoded.

A message that no connection would take stops the run (`WeighedBodies`). In the virtual world nothing is encoded, so a
message may be larger than any frame and arrive all the same. Between processes its connection would break, and the next
one as well, for ever. A stack that sends one has a bug.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappush
from random import Random
from typing import Any, Final, Protocol

from resprout.core.contract import Answer, Deliver, Effect, Event, Machine, ProtocolMessage, word_of
from resprout.core.errors import UsageError
from resprout.links.frames import Body, Data, Express, Part, SharedBodies, Slice
from resprout.sim.disk import Disk
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.wire.codec import Codec

COMPARED_EVERY: Final = 100
"""One per cent of the frames is encoded: enough to meet every type of message, and little beside the run."""


class NodeLoad:
    __slots__ = (
        "busy_us", "bytes_sent", "frames_received", "frames_sent", "has_bandwidth", "messages", "paper_bytes",
        "paper_bytes_max", "paper_messages",
    )  # fmt: skip

    def __init__(self) -> None:
        self.frames_sent = 0
        self.frames_received = 0
        self.bytes_sent: int | None = None
        self.paper_bytes = 0
        """Headers by the formula of a paper, of those messages that claim one."""
        self.paper_bytes_max = 0
        """The largest of them."""
        self.paper_messages = 0
        """How many these are."""
        self.has_bandwidth = False
        self.busy_us = 0
        """How long frames took to leave."""
        self.messages: defaultdict[type, int] = defaultdict(int)
        """Sent, by type."""

    def sent(self, frame: Any) -> None:
        self.frames_sent += 1
        if type(frame) is Data or type(frame) is Express:
            messages = self.messages
            for message in frame.messages:
                messages[type(message)] += 1
        elif type(frame) is Part:
            chunk: Any = frame.chunk
            if isinstance(chunk, Slice) and chunk.end == frame.size:  # counted once, with its last part
                self.messages[type(chunk.message)] += 1

    def counts(self) -> dict[str, int]:
        """What is known, but for the types of messages."""
        counts = {"frames_sent": self.frames_sent, "frames_received": self.frames_received}
        if self.bytes_sent is not None:
            counts["bytes_sent"] = self.bytes_sent
        if self.paper_messages:
            counts |= {"paper_bytes": self.paper_bytes, "paper_messages": self.paper_messages}
            counts["paper_bytes_max"] = self.paper_bytes_max
        if self.has_bandwidth:
            counts["busy_us"] = self.busy_us
        return counts

    def row(self, time_us: int, node: str) -> Row:
        counts = self.counts()
        counts |= {kinds.SENT + word_of(type_): count for type_, count in self.messages.items()}
        attributes = {name: str(count) for name, count in sorted(counts.items())}
        return Row(time_us=time_us, node=node, kind=kinds.LOAD, attributes=attributes)


class Scales:
    """Of one run. Which frames are compared depends on their order, so a run is compared alike each time."""

    def __init__(self, codec: Codec, compared_every: int = COMPARED_EVERY) -> None:
        self._codec = codec
        self._claiming = frozenset(kind for kind in codec.messages if claims_size(kind))
        self._every = compared_every
        self._next = 1
        self.compared = 0
        """Frames that were encoded, and were as long as told."""

    def weigh(self, frame: Any, load: NodeLoad) -> int:
        """The frame's bytes on a connection; `load` counts them."""
        size = self._codec.frame_bytes(frame)
        self._next -= 1
        if not self._next:
            self._compare(frame, size)
        load.bytes_sent = (load.bytes_sent or 0) + size
        if self._claiming:
            for message in _messages_of(frame):
                if type(message) in self._claiming and (claimed := message.paper_bytes) is not None:
                    load.paper_bytes += claimed
                    load.paper_bytes_max = max(load.paper_bytes_max, claimed)
                    load.paper_messages += 1
        return size

    def _compare(self, frame: Any, told: int) -> None:
        self._next = self._every
        real = self._codec.widest_bytes(frame)
        kinds = ", ".join(dict.fromkeys(type(message).__name__ for message in _messages_of(frame)))
        assert told == real, (
            f"a {type(frame).__name__} of {kinds or 'nothing'} takes {real} bytes, computed were {told}"
        )
        self.compared += 1


def claims_size(kind: type) -> bool:
    """Whether messages of this type may claim a paper size."""
    return issubclass(kind, ProtocolMessage) and kind.paper_bytes is not ProtocolMessage.paper_bytes


def _messages_of(frame: Any) -> Iterable[Any]:
    """Each message once: one that travels in parts counts with its last."""
    if type(frame) is Data or type(frame) is Express:
        return frame.messages
    if type(frame) is Part:
        chunk: Any = frame.chunk
        if isinstance(chunk, Slice) and chunk.end == frame.size:
            return (chunk.message,)
    return ()


class WeighedBodies(SharedBodies):
    def pack(self, number: int, message: Any) -> Body:
        try:
            return super().pack(number, message)
        except UsageError as error:
            raise AssertionError(f"no connection would take it: {error}") from None


Action = Callable[[Any, Any], None]
CalendarEntry = tuple[Action, Any, Any]

Make = Callable[[int, Random], Machine]
"""Makes the machine of one life: `make(incarnation, rng)`."""

Step = Callable[[Event, int], Sequence[Effect]]
"""How a machine is told of an event, and when; it returns the effects."""


class Calendar:
    """`World.run` empties it, and enters frames into it without calling `at`: that is the hot path."""

    __slots__ = ("entries", "idle", "now_us", "pending", "quiet", "times")

    def __init__(self) -> None:
        self.now_us = 0
        self.times: list[int] = []
        """A heap of the distinct times of `entries`."""
        self.entries: dict[int, list[CalendarEntry]] = {}
        self.pending = 0
        """How many entries there are in all."""
        self.idle = 0
        """How many of them are idle. Whoever cancels an entry counts it here, and takes it out again when it comes."""
        self.quiet = False
        """Whether what happens right now is housekeeping: an idle entry, and what it causes directly."""

    def at(self, time_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Call `action(first, second)` at a time that is not in the past."""
        entry = (action, first, second)
        bucket = self.entries.get(time_us)
        if bucket is None:
            self.entries[time_us] = [entry]
            heappush(self.times, time_us)
        else:
            bucket.append(entry)
        self.pending += 1

    def at_idly(self, time_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """The same as housekeeping: nobody waits for it."""
        self.at(time_us, self.housekeep, action, (first, second))
        self.idle += 1

    def housekeep(self, action: Action, arguments: tuple[Any, Any]) -> None:
        """The action of idle entries; only the calendar calls it."""
        self.idle -= 1
        self.quiet = True
        action(*arguments)
        self.quiet = False

    def erase(self, wanted: Callable[[Action, Any, Any], bool]) -> None:
        """Strike out the entries after this instant for which `wanted(action, first, second)` holds; they are offered
        in the order in which they would come.

        For rare events such as crashes: it walks through everything that is pending.
        """
        for time_us in sorted(self.times):
            if time_us <= self.now_us:
                continue  # what comes at this instant has arrived already
            bucket = self.entries[time_us]
            for place, (action, first, second) in enumerate(bucket):
                if action == self.housekeep:
                    if wanted(first, *second):
                        bucket[place] = (action, nothing, (None, None))
                elif wanted(action, first, second):
                    bucket[place] = (nothing, None, None)


def nothing(first: Any, second: Any) -> None:
    """The action of an entry that was struck out."""


class Above(Protocol):
    """Whoever uses a node: the application of a client, for instance."""

    def began(self, process: "Process") -> None:
        """A life begins; nothing is left of the one before."""
        ...

    def given(self, process: "Process", effect: Deliver | Answer) -> None:
        """Comes after the step that caused it is complete."""
        ...


class Guest(Protocol):
    """What lives in the process of a node, in nodes of its own: it begins, freezes and ends with it."""

    def boot(self) -> None:
        """The process begins. What goes on from its last life, which has retired, is left alone."""
        ...

    def leave(self, then: Callable[[], None]) -> None:
        """Leave in good order before the process does, and call `then`."""
        ...

    def processes(self) -> "list[Process]":
        """Those that run, or are frozen."""
        ...

    def end(self) -> None:
        """They have ended."""
        ...


class Node:
    __slots__ = (
        "above", "ahead_us", "asleep_since_us", "bandwidth_bps", "book", "busy_until_us", "company", "disk",
        "disk_latency_us", "first", "founds", "guest", "host_up", "incarnation", "inside", "is_free",
        "is_weighed", "load", "make", "memory", "name", "process", "then", "toward", "waits_for_room",
    )  # fmt: skip

    def __init__(self, name: str, make: Make, above: Above | None) -> None:
        self.name = name
        self.make = make
        self.bandwidth_bps: int | None = None
        self.is_weighed = False
        """Whether the bytes that it sends are counted."""
        self.is_free = False
        """Whether links to it cost nobody any bandwidth, and nothing that passes there is counted."""
        self.disk_latency_us = 0
        self.above = above
        self.inside: Node | None = None
        """The node in whose process this one lives."""
        self.guest: Guest | None = None
        """What lives in the process of this node."""
        self.disk = Disk()
        self.book: dict[str, str] = {}
        """Nodes that bear a name other than their own, as this one has heard; it outlives processes."""
        self.company: tuple[str, ...] = ()
        """On its disk, too: who else was in the network."""
        self.memory = b""
        """The same: what its last life wanted remembered."""
        self.first = False
        """It knows nobody but whom it was told at first and whom its disk remembers."""
        self.founds = False
        """Its next life joins nobody."""
        self.incarnation = 0
        """Of the current or latest process; the first is 1."""
        self.process: Process | None = None
        self.then: Callable[[], None] | None = None
        """What is to be done when the process that leaves has gone."""
        self.toward: str | None = None
        """Whom the life that retired last wants the next one to join."""
        self.waits_for_room = False
        """Its next life begins when there is room on its disk."""
        self.host_up = True
        """False after a silent crash: then not even a connection is refused."""
        self.ahead_us = 0
        """How far its clock is ahead of the time of the world; negative where it stood still."""
        self.asleep_since_us = 0
        self.busy_until_us = 0
        """When the network card will have sent what it was given."""
        self.load = NodeLoad()
        """Of all its lives."""

    @property
    def place(self) -> str:
        """The node where it lives, whose links are cut."""
        return self.name if self.inside is None else self.inside.name

    def limit(self, bandwidth_bps: int | None) -> None:
        """What its network card sends per second; None: at once."""
        self.bandwidth_bps = bandwidth_bps
        if bandwidth_bps is not None:
            self.is_weighed = True
            self.load.has_bandwidth = True

    def stop_sending(self, now_us: int) -> None:
        """What it was given and has not sent yet is never sent."""
        self.load.busy_us -= max(0, self.busy_until_us - now_us)
        self.busy_until_us = 0


class Process:
    __slots__ = (
        "alarms", "ends", "held", "held_roles", "incarnation", "load", "machine", "name", "node", "step", "stuck",
        "take_step", "waiting",
    )  # fmt: skip

    def __init__(self, node: Node, machine: Machine) -> None:
        self.node = node
        self.name = node.name
        self.load = node.load
        self.incarnation = node.incarnation
        self.machine = machine
        self.take_step: Step = machine.step
        """What `step` is while the process runs."""
        self.step: Step | None = machine.step
        """None when it does not run: frozen (then `waiting` is a list) or dead."""
        self.waiting: list[CalendarEntry] | None = None
        self.ends: dict[int, End] = {}
        """Its connections by number, in the order in which they were made."""
        self.alarms: dict[Any, Alarm] = {}
        self.stuck = 0
        """Records that wait for room on the disk."""
        self.held_roles: tuple[str, ...] = ()
        """Of peers that may send nothing more, because there is no room."""
        self.held: deque[Effect | None] = deque()
        """Effects behind a record that is not durable yet; None stands for the record itself."""

    @property
    def dead(self) -> bool:
        return self.step is None and self.waiting is None

    def put_off(self, action: Action, first: Any, second: Any) -> None:
        """Keep what is for a process that does not run: until it is unfrozen, or not at all when it is dead."""
        if self.waiting is not None:
            self.waiting.append((action, first, second))


class End:
    """One end of a connection; `far` is the other."""

    __slots__ = ("established", "far", "is_free", "latency_us", "number", "open", "peer", "process")

    far: "End"

    def __init__(self, process: Process, number: int, latency_us: int, peer: str | None) -> None:
        self.process = process
        self.number = number
        self.latency_us = latency_us
        self.peer = peer
        """Whom the opener asked for; None at the side that was connected to."""
        self.open = True
        """Whether what arrives here is still taken."""
        self.established = False
        """Whether its process knows of it."""
        self.is_free = False
        """Whether what is sent here takes no bandwidth, and is not counted."""


class Alarm:
    """A call that is due at a time: a timer of a machine or the wake-up of an application."""

    __slots__ = ("at_us", "background", "call", "entry_us", "key", "live", "process")

    def __init__(self, process: Process, key: Any, at_us: int, background: bool, call: Action) -> None:
        self.process = process
        self.key = key
        self.at_us = at_us
        self.background = background
        self.call = call
        """Called with the process and the key."""
        self.entry_us: int | None = None
        """When its calendar entry comes, which may be before `at_us` if it was moved; None: it has none."""
        self.live = True


class VirtualAlarms:
    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar

    def set(self, process: Process, key: Any, at_us: int, call: Action, background: bool = False) -> None:
        """Call `call(process, key)` at a time (at once when it has passed); an equal key replaces the earlier alarm."""
        at_us = max(at_us, self._calendar.now_us)
        alarm = process.alarms.get(key)
        if alarm is not None:
            if alarm.background == background and (alarm.entry_us is None or at_us >= alarm.entry_us):
                alarm.at_us = at_us
                return
            self._kill(alarm)
        alarm = process.alarms[key] = Alarm(process, key, at_us, background, call)
        self._enter(alarm)

    def shift(self, process: Process, by_us: int) -> None:
        """The clock of this process has moved: all its alarms ring so much later, or earlier if that is negative."""
        for alarm in list(process.alarms.values()):
            if by_us >= 0:
                alarm.at_us += by_us
            else:
                self.set(process, alarm.key, alarm.at_us + by_us, alarm.call, alarm.background)

    def cancel(self, process: Process, key: Any) -> None:
        alarm = process.alarms.pop(key, None)
        if alarm is not None:
            self._kill(alarm)

    def cancel_all(self, process: Process) -> None:
        for alarm in process.alarms.values():
            self._kill(alarm)
        process.alarms.clear()

    def _kill(self, alarm: Alarm) -> None:
        alarm.live = False
        if alarm.entry_us is not None and not alarm.background:
            self._calendar.idle += 1  # its entry stays where it is, and no longer means work

    def _enter(self, alarm: Alarm) -> None:
        alarm.entry_us = alarm.at_us
        if alarm.background:
            self._calendar.at_idly(alarm.at_us, self._come, alarm)
        else:
            self._calendar.at(alarm.at_us, self._come, alarm)

    def _come(self, alarm: Alarm, _: None) -> None:
        alarm.entry_us = None
        if not alarm.live and not alarm.background:
            self._calendar.idle -= 1
        self._ring(alarm, None)

    def _ring(self, alarm: Alarm, _: None) -> None:
        if not alarm.live:
            return
        if alarm.at_us > self._calendar.now_us:
            self._enter(alarm)
            return
        process = alarm.process
        if process.step is None:
            process.put_off(self._ring, alarm, None)
            return
        alarm.live = False
        del process.alarms[alarm.key]
        alarm.call(process, alarm.key)
