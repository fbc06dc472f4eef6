"""Faults, done to a world.

A crash ends a process: its host resets the connections, so peers learn of it one latency later, and of what it had
sent a prefix drawn by chance still arrives. When the whole host dies, peers learn nothing from the network. A frozen
process handles nothing; its frames and timers queue up and are handled in order when it goes on. A cut breaks
connections on both sides and loses what is on the way; while it lasts, nobody can connect across it. A fault that has
nothing to do (a crash of a node that does not run) changes nothing and is told as a note.

A stack that hangs (`HungStack`) handles nothing while the links below it go on: they keep the connections, acknowledge,
and give their signs of life. To its peers it is a broker that is there and answers nothing. What comes meanwhile waits,
and is handled in order when the stack goes on. What it then says in a session that has ended, or begun, in the meantime
is lost, as if it had been said in time. Room in a session is told as it is when the stack goes on: `Writable` replaces
the number known before, so an old one would grant once more what was just used.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from resprout.core.contract import Close, Effect, Event, Hold, LinkDown, LinkUp, Machine, Release, Send, Writable
from resprout.links.links import Links
from resprout.scenario.model import random_for
from resprout.sim.nodes import Node, Process
from resprout.sim.world import World
from resprout.trace import kinds

Tell = Callable[[str, str, str | None], None]
"""Told of each fault before it is done: the kind of row, the node, and a detail."""


class HungStack:
    """Stands in for the stack of one life while it hangs."""

    def __init__(self, links: Links) -> None:
        self.machine: Final[Machine] = links.machine
        """The one that hangs."""
        self._links = links
        self._waiting: deque[Event] = deque()
        self._replayed: Event | None = None
        links.put_between(self)

    def start(self, now_us: int) -> Sequence[Effect]:
        raise AssertionError("a stack that hangs has started before")

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if event is not self._replayed:
            self._waiting.append(event)
            return ()
        return [effect for effect in self.machine.step(event, now_us) if not self._is_late(effect)]

    def replay(self) -> Iterator[Event]:
        """The stack goes on: each of these is to be handed to the links, which hand it up."""
        while self._waiting:
            self._replayed = self._as_of_now(self._waiting[0])
            yield self._replayed
            self._waiting.popleft()
        self._links.put_between(self.machine)

    def _as_of_now(self, event: Event) -> Event:
        if not isinstance(event, Writable) or self._is_over(event.peer):
            return event
        session = self._links._up[event.peer]
        return Writable(event.peer, session.announced - session.sent_bytes)

    def _is_late(self, effect: Effect) -> bool:
        """For a session that is over by now, as the stack will hear in a moment."""
        return isinstance(effect, Send | Close | Hold | Release) and self._is_over(effect.peer)

    def _is_over(self, peer: str) -> bool:
        """Whether the session that the stack knows with this peer has ended since."""
        later = islice(self._waiting, 1, None)  # the first is the one that is being handled
        return any(isinstance(event, LinkDown | LinkUp) and event.peer == peer for event in later)


class VirtualFaults:
    def __init__(self, world: World, tell: Tell = lambda kind, node, detail: None) -> None:
        self._world = world
        self._network = world.network
        self._tell = tell
        self._chance = random_for(world.seed, "faults")
        self._leaving: dict[str, Process] = {}
        """Those that were asked to go, and take their time."""
        self._to_restart: deque[tuple[str, Any]] = deque()
        self._restarting: str | None = None

    def crash(self, name: str, host: bool = False) -> None:
        """The process ends. With `host` its machine falls silent."""
        if process := self._running(name, kinds.CRASH):
            self._tell(kinds.CRASH, name, "host" if host else None)
            for each in (process, *_inside(process)):
                self._network.abandon(each, self._chance, silently=host)
                self._world.halt(each)
                each.node.host_up = not host
            if process.node.guest is not None:
                process.node.guest.end()

    def recover(self, name: str, disk: bool = True, first: bool = False, found: bool = False) -> None:
        """A node that crashed starts its next life, with what it persisted or with an empty disk; `first`: as it was
        started at first, by somebody who knows nothing of what has happened since; `found`: it begins the network
        anew."""
        node = self._world.nodes.get(name)
        if node is None or node.process is not None:
            self._ignored(name, kinds.RECOVER, "there is no such node" if node is None else "it runs already")
            return
        self._tell(kinds.RECOVER, name, kinds.recovery(disk, found))
        node.first = first
        node.founds = found
        if not disk:
            node.disk.wipe()
            node.company, node.memory = (), b""
        if node.disk.is_full:
            self._tell(kinds.NOTE, name, "it waits for room on its disk")
        self._world.boot_with_room(node)

    def freeze(self, name: str) -> None:
        process = self._running(name, kinds.FREEZE)
        if process is None:
            return
        if process.waiting is not None:
            self._ignored(name, kinds.FREEZE, "it is frozen already")
            return
        self._tell(kinds.FREEZE, name, None)
        for each in (process, *_inside(process)):
            each.step = None
            each.waiting = []

    def unfreeze(self, name: str) -> None:
        """It goes on, and handles at once what has come meanwhile."""
        process = self._running(name, kinds.UNFREEZE)
        if process is None:
            return
        if process.waiting is None:
            self._ignored(name, kinds.UNFREEZE, "it is not frozen")
            return
        self._tell(kinds.UNFREEZE, name, None)
        for each in (process, *_inside(process)):
            waiting, each.waiting = each.waiting or [], None
            each.step = each.take_step
            for action, first, second in waiting:
                action(first, second)

    def suspend(self, name: str) -> None:
        """Its machine sleeps: as a freeze, but its clock stands still meanwhile."""
        process = self._running(name, kinds.FREEZE)
        if process is not None and process.waiting is None:
            process.node.asleep_since_us = self._world.now_us
            self.freeze(name)

    def resume(self, name: str) -> None:
        """Its machine wakes: to it no time has passed, and its timers are due later by what it has slept."""
        process = self._running(name, kinds.UNFREEZE)
        if process is not None and process.waiting is not None:
            slept_us = self._world.now_us - process.node.asleep_since_us
            process.node.ahead_us -= slept_us
            for each in (process, *_inside(process)):
                self._world.alarms.shift(each, slept_us)
            self.unfreeze(name)

    def leap(self, name: str, by_us: int) -> None:
        """Its clock leaps forward: timers that are due by then ring at once."""
        process = self._running(name, kinds.NOTE)
        if process is not None:
            self._tell(kinds.NOTE, name, f"the clock leaps forward by {by_us / 1e6:g} s")
            process.node.ahead_us += by_us
            for each in (process, *_inside(process)):
                self._world.alarms.shift(each, -by_us)

    def hang(self, name: str) -> None:
        """Its links go on, and the stack above them handles nothing."""
        process = self._running(name, kinds.HANG)
        if process is None:
            return
        links = process.machine
        if process.waiting is not None or not isinstance(links, Links):
            self._ignored(name, kinds.HANG, "it is frozen")
        elif isinstance(links.machine, HungStack):
            self._ignored(name, kinds.HANG, "it hangs already")
        else:
            self._tell(kinds.HANG, name, None)
            HungStack(links)

    def unhang(self, name: str) -> None:
        """It goes on, and handles at once what has come meanwhile."""
        process = self._running(name, kinds.UNHANG)
        if process is None:
            return
        hung = getattr(process.machine, "machine", None)
        if not isinstance(hung, HungStack):
            self._ignored(name, kinds.UNHANG, "it does not hang")
            return
        self._tell(kinds.UNHANG, name, None)
        for event in hung.replay():
            if process.step is None:
                return  # it has learnt that its life is over
            self._world.hand(process, event)

    def disk(self, name: str, kind: str) -> None:
        """The disk of a broker has little room, none, or enough again. It happens to the disk, whether the broker runs
        or not."""
        node = self._world.nodes.get(name)
        if node is None:
            self._ignored(name, kind, "there is no such node")
            return
        self._tell(kind, name, None)
        disk, process = node.disk, node.process
        disk.is_low, disk.is_full = kind == kinds.DISK_LOW, kind == kinds.DISK_FULL
        if process is not None:
            self._hold_soon(process)
            if not disk.is_full:
                self._world.make_room(process)
        elif node.waits_for_room and not disk.is_full:
            self._world.boot(node)

    def _hold_soon(self, process: Process) -> None:
        """A frozen process finds out when it goes on."""
        if process.step is not None:
            self._world.hold_for(process)
        else:
            process.put_off(lambda one, _: self._world.hold_for(one), process, None)

    def name(self, name: str, resolves: bool) -> None:
        """Whether connections can be opened to a broker by its name. Those that stand are not concerned."""
        unresolved = self._network.unresolved
        if (name not in unresolved) == resolves:
            kind = kinds.RESOLVE if resolves else kinds.UNRESOLVE
            self._ignored(name, kind, "it resolves" if resolves else "it does not resolve already")
            return
        self._tell(kinds.RESOLVE if resolves else kinds.UNRESOLVE, name, None)
        if resolves:
            unresolved.discard(name)
        else:
            unresolved.add(name)

    def cut(self, one: str, other: str) -> None:
        self._tell(kinds.CUT, one, other)
        self._network.cuts.cut(one, other)
        self._network.sever()

    def partition(self, side: Sequence[str]) -> None:
        """Nothing passes between these nodes and all others, those that join later included."""
        for name in side:
            self._tell(kinds.PARTITION, name, None)
        self._network.cuts.partition(side)
        self._network.sever()

    def heal(self, one: str, other: str) -> None:
        """This link passes again, whatever had cut it; whoever wants a connection makes it again."""
        self._tell(kinds.HEAL, one, other)
        self._network.cuts.heal(one, other)

    def heal_all(self) -> None:
        self._tell(kinds.HEAL, "world", None)
        self._network.cuts.heal_all()

    def join(self, name: str, seat: Callable[[], Node]) -> None:
        """A node that was added, or that has left, starts; one that is still leaving, when it has gone. Only then is it
        given its `seat`: while it runs, it is where it was."""
        node = self._world.nodes.get(name)
        if node is not None and node.process is not None:
            if node.process is self._leaving.get(name):
                node.then = partial(self._soon, partial(self.join, name, seat))
            else:
                self._ignored(name, kinds.JOIN, "it runs already")
            return
        seated = seat()
        self._tell(kinds.JOIN, name, None)
        self._world.boot(seated)

    def double(self, node: Node, name: str) -> None:
        """A node starts under the name of another one."""
        self._tell(kinds.DOUBLE, node.name, name)
        self._world.boot(node)

    def leave(self, name: str, request: Any, retires: bool = False) -> None:
        """The machine is asked to go. Its process ends when it has said what it wants to say; one that `retires` ends
        it by itself, when it has handed over what others need."""
        process = self._running(name, kinds.LEAVE)
        if process is None:
            return
        if process.waiting is not None:
            self._ignored(name, kinds.LEAVE, "it is frozen")
            return
        self._tell(kinds.LEAVE, name, None)
        if retires:
            self._leaving[name] = process
        if process.node.guest is not None and retires:
            process.node.guest.leave(partial(self._request, process, request))
        else:
            self._world.request(process, request)
        if not retires:
            self._network.close_all(process, "it leaves")
            self._world.halt(process)

    def restart(self, names: Sequence[str], request: Any) -> None:
        """One after the other, behind those that are being started again already."""
        self._to_restart.extend((name, request) for name in names)
        if self._restarting is None:
            self._restart_next()

    def placed(self, name: str) -> None:
        """A broker has its place in the network."""
        if name == self._restarting:
            self._soon(self._restart_next)

    def _restart_next(self) -> None:
        self._restarting = None
        while self._to_restart and self._restarting is None:
            name, request = self._to_restart.popleft()
            process = self._running(name, kinds.LEAVE)
            if process is not None and process.waiting is not None:
                self._ignored(name, kinds.LEAVE, "it is frozen")
            elif process is not None:
                self._restarting = name
                node = process.node
                node.then = partial(self._soon, partial(self.join, name, partial(_as_it_is, node)))
                self.leave(name, request, retires=True)

    def _soon(self, action: Callable[[], None]) -> None:
        """When what is being done now is done."""
        self._world.at(self._world.now_us, lambda _first, _second: action(), None)

    def _request(self, process: Process, request: Any) -> None:
        if not process.dead:
            self._world.request(process, request)

    def _running(self, name: str, kind: str) -> Process | None:
        node = self._world.nodes.get(name)
        if node is None or node.process is None:
            self._ignored(name, kind, "there is no such node" if node is None else "it does not run")
            return None
        return node.process

    def _ignored(self, name: str, kind: str, why: str) -> None:
        self._tell(kinds.NOTE, name, f"{kind} ignored: {why}")


def _inside(process: Process) -> list[Process]:
    """Processes that live in this one."""
    return process.node.guest.processes() if process.node.guest is not None else []


def _as_it_is(node: Node) -> Node:
    return node
