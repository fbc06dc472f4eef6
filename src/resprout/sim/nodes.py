"""What the world is made of: nodes, their processes, the ends of connections, and alarms. Plain state.

A *node* is a machine with a name, a disk and a network card; it outlives crashes. A *process* is one life of a protocol
machine on it: whatever still refers to a dead process refers to something that no longer acts, so nothing of an earlier
life can reach a later one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from resprout.core.contract import Answer, Deliver, Effect, Event, Machine
from resprout.sim.calendar import Action, CalendarEntry
from resprout.sim.disk import Disk
from resprout.sim.load import NodeLoad

Make = Callable[[int, Random], Machine]
"""Makes the machine of one life: `make(incarnation, rng)`."""

Step = Callable[[Event, int], Sequence[Effect]]
"""How a machine is told of an event, and when; it returns the effects."""


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
