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
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappush
from random import Random
from typing import Any, Protocol

from resprout.core.contract import Answer, Deliver, Effect, Event, Machine
from resprout.sim.disk import Disk
from resprout.sim.load import NodeLoad

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


class Node:
    __slots__ = (
        "above", "ahead_us", "asleep_since_us", "bandwidth_bps", "book", "busy_until_us", "company", "disk",
        "disk_latency_us", "first", "founds", "host_up", "incarnation", "is_free", "is_weighed", "load", "make",
        "memory", "name", "process", "then", "toward", "waits_for_room",
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
