"""The virtual world: nodes with protocol machines, virtual time, and a driver that executes effects.

The same inputs give the same run: integer microseconds, one calendar in which equal times keep the order of entry, one
random generator per node and life. A step takes no virtual time. What a machine delivers or answers reaches the
application after the step is complete, never inside it.

The run is *quiescent* when nothing is pending but housekeeping (background timers, the greetings and empty frames they
cause, and signs of life), when that stays so for `settle_us`, and when nobody is `busy`. Things that wait at a frozen
node do not count: they move only when a fault wakes it, and that fault would be pending.
"""

import gc
import heapq
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from resprout.core.contract import (
    Answer,
    Arrived,
    CancelTimer,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    Event,
    Forget,
    HoldRoles,
    Locate,
    Note,
    Persist,
    Recovered,
    Remember,
    Request,
    Retire,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
)  # fmt: skip
from resprout.core.errors import UsageError
from resprout.edge.messages import HoldTold
from resprout.journal.interface import (
    FetchStore,
    OpenStore,
    RecordEvent,
    ResetStore,
    StoreFetched,
    StoreForget,
    StoreOpened,
    StoreRecord,
    StoreTrim,
)
from resprout.links.frames import Data, Express, SessionWelcome
from resprout.scenario.model import random_for
from resprout.sim.disk import StoreOnDisk
from resprout.sim.network import Distances, Network, Weigh, is_background, is_sign_of_life
from resprout.sim.nodes import Above, Action, Calendar, End, Make, Node, Process, Step, VirtualAlarms

Ended = Literal["quiescent", "timeout"]
OnNote = Callable[[Process, Note], None]

ALL_ROLES: Final = ("client", "broker", "newcomer")
RESTART_US: Final = 1_000
"""From the end of a life that retired to the beginning of the next."""


class StoreDriver:
    """Executes the effects of machines on named journals (`journal.interface`)."""

    def __init__(self, calendar: Calendar, hand: Callable[[Process, Event], None]) -> None:
        """`hand` gives an event to a running process."""
        self._calendar = calendar
        self._hand = hand

    def open(self, process: Process, effect: OpenStore) -> None:
        store = process.node.disk.stores.setdefault(effect.store, StoreOnDisk())
        records = store.open(effect.options, effect.is_read)
        found = records.read() if effect.is_read else []
        self._answer(process, StoreOpened(effect.store, found, records.journal.first, records.journal.next))

    def forget(self, process: Process, effect: StoreForget) -> None:
        process.node.disk.forget_in_store(effect.store, effect.count, self._calendar.now_us)

    def trim(self, process: Process, effect: StoreTrim) -> None:
        process.node.disk.trim_store(effect.store, effect.position)

    def reset(self, process: Process, effect: ResetStore) -> None:
        process.node.disk.stores[effect.store].reset(effect.position)

    def fetch(self, process: Process, effect: FetchStore) -> None:
        reader = process.node.disk.stores[effect.store].records.journal.reader()
        position = max(effect.position, reader.first)
        records = reader.read(position, effect.size) if position < reader.end else []
        self._answer(process, StoreFetched(effect.token, records, reader.first, reader.end))

    def _answer(self, process: Process, event: Event) -> None:
        """Give the process an answer after one latency of the disk."""
        self._calendar.at(self._calendar.now_us + process.node.disk_latency_us, self._tell, process, event)

    def _tell(self, process: Process, event: Event) -> None:
        if process.step is not None:
            self._hand(process, event)
        elif not process.dead:
            process.put_off(self._tell, process, event)


class World:
    def __init__(
        self,
        seed: int,
        distances: Distances,
        *,
        weigh: Weigh | None = None,
        is_background: Callable[[Any], bool] = is_background,
        is_housekeeping: Callable[[Process, Timer], bool] = lambda process, timer: timer.background,
        settle_us: int = 0,
        busy: Callable[[], bool] = lambda: False,
        on_note: OnNote = lambda process, note: None,
    ) -> None:
        self.seed = seed
        self.nodes: dict[str, Node] = {}
        self.calendar = Calendar()
        self.alarms = VirtualAlarms(self.calendar)
        self.network = Network(self.calendar, self.nodes, distances, self.hand, self._arrive, weigh, is_background)
        self.events = 0
        """How many entries of the calendar have happened: with the seed, a name for any moment of a run."""
        self.moments: list[tuple[int, int]] | None = None
        """Given a list, a run notes each of its instants in it, and how many events there were up to its end."""
        self.settle_us = settle_us
        """For so long it must stay calm until the run is over."""
        self._is_housekeeping = is_housekeeping
        self._busy = busy
        self._on_note = on_note
        self.watch: Callable[[Process], Step] | None = None
        """Wraps the step of each process that begins, to look at its machine after each step (`sim.checking`)."""
        self._trips: list[tuple[int, int, Callable[[], None]]] = []
        self._stores = StoreDriver(self.calendar, self.hand)
        self._execute: dict[type[Effect], Callable[[Process, Any], None]] = {
            Transmit: self.network.transmit,
            Connect: self.network.connect,
            Disconnect: self.network.disconnect,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Persist: lambda process, effect: self._persist(process, effect.record),
            Forget: self._forget,
            RecordEvent: self._record_event,
            StoreRecord: lambda process, effect: self._persist(process, (effect.store, effect.record)),
            OpenStore: self._stores.open,
            StoreForget: self._stores.forget,
            StoreTrim: self._stores.trim,
            ResetStore: self._stores.reset,
            FetchStore: self._stores.fetch,
            Deliver: self._pass_up,
            Answer: self._pass_up,
            Note: self._note,
            Retire: self._retire,
            Locate: self._locate,
            Remember: self._remember,
        }

    @property
    def now_us(self) -> int:
        return self.calendar.now_us

    # -- lives ------------------------------------------------------------------------------------------------------

    def add(self, name: str, make: Make, *, bandwidth_bps: int | None = None, above: Above | None = None) -> Node:
        """A node that does not run yet."""
        if name in self.nodes:
            raise UsageError(f"there is a node {name!r} already")
        node = self.nodes[name] = Node(name, make, above)
        node.limit(bandwidth_bps)
        return node

    def boot(self, node: Node) -> Process:
        """Begin the next life of a node that does not run. It finds the records that are on its disk."""
        node.incarnation += 1
        node.host_up = True
        node.waits_for_room = False
        machine = node.make(node.incarnation, random_for(self.seed, "node", node.name, node.incarnation))
        node.toward = None
        process = node.process = Process(node, machine)
        if self.watch is not None:
            process.take_step = process.step = self.watch(process)
        records = node.disk.records  # before anything is added to them
        self.perform(process, machine.start(self.calendar.now_us + node.ahead_us))
        if records and process.step is not None:
            self.hand(process, Recovered(records))
        self.hold_for(process)
        if node.above is not None:
            node.above.began(process)
        if node.guest is not None:
            node.guest.boot()
        return process

    def halt(self, process: Process) -> None:
        """End a life at once: timers, held effects and what was not durable are gone. Connections are not touched."""
        process.step = process.waiting = None
        process.held.clear()
        process.node.disk.crash()
        process.node.process = None
        process.node.stop_sending(self.calendar.now_us)
        self.alarms.cancel_all(process)

    def _retire(self, process: Process, effect: Retire) -> None:
        """A life ends by itself; what it has transmitted arrives, then its connections close."""
        self.network.close_all(process, effect.reason)
        self.halt(process)
        if effect.again:
            node = process.node
            node.toward = effect.toward
            node.incarnation = max(node.incarnation, effect.above)
            self.calendar.at(self.calendar.now_us + RESTART_US, self._return, node, node.incarnation)
            return
        if process.node.guest is not None:
            for inner in process.node.guest.processes():
                self.network.close_all(inner, effect.reason)
                self.halt(inner)
            process.node.guest.end()
        if process.node.then is not None:
            then, process.node.then = process.node.then, None
            then()

    def _return(self, node: Node, retired: int) -> None:
        if node.process is None and node.incarnation == retired:
            self.boot_with_room(node)

    def boot_with_room(self, node: Node) -> None:
        """A broker writes the number of its life before anything else: on a full disk it waits."""
        if node.disk.is_full:
            node.waits_for_room = True
        else:
            self.boot(node)

    def hold_for(self, process: Process) -> None:
        """Tell a process what its disk has room for."""
        disk = process.node.disk
        roles = ALL_ROLES if disk.is_full else ALL_ROLES[:1] if disk.is_low else ()
        if process.step is not None and roles != process.held_roles:
            process.held_roles = roles
            told = HoldTold("the disk is full" if roles else "")
            self.hand(process, HoldRoles(roles, told))

    def request(self, process: Process, body: Any, token: int = 0) -> None:
        """Ask something of a node, now; a frozen one is asked when it wakes up."""
        if process.step is None:
            process.put_off(self.hand, process, Request(body, token))
        else:
            self.hand(process, Request(body, token))

    # -- steps and their effects ------------------------------------------------------------------------------------

    def hand(self, process: Process, event: Event) -> None:
        """Let a process that runs take a step."""
        assert process.step is not None
        self.perform(process, process.step(event, self.calendar.now_us + process.node.ahead_us))

    def _arrive(self, end: End, frame: Any) -> None:
        process = end.process
        step = process.step
        if step is None or not end.open:
            self.network.arrive_late(end, frame)
            return
        process.load.frames_received += 1
        if effects := step(Arrived(end.number, frame), self.calendar.now_us + process.node.ahead_us):
            self.perform(process, effects)

    def perform(self, process: Process, effects: Sequence[Effect]) -> None:
        """Execute effects in order. The hot path: a frame that nobody weighs is entered right here."""
        calendar = self.calendar
        plain = not process.node.is_weighed and not calendar.quiet and not process.held
        for effect in effects:
            if plain and type(effect) is Transmit and not is_sign_of_life(effect.frame):
                end = process.ends.get(effect.connection)
                if end is not None:
                    process.load.sent(effect.frame)
                    time_us = calendar.now_us + end.latency_us
                    bucket = calendar.entries.get(time_us)
                    if bucket is None:
                        calendar.at(time_us, self._arrive, end.far, effect.frame)
                    else:
                        bucket.append((self._arrive, end.far, effect.frame))
                        calendar.pending += 1
            elif process.held and type(effect) not in _INTERNAL and not _overtakes(process, effect):
                self._hold(process, effect)
            else:
                self._execute[type(effect)](process, effect)
                if process.step is None:  # it has retired
                    return
                plain = plain and not process.held

    def _hold(self, process: Process, effect: Effect) -> None:
        """Hold back what must wait for the disk. While the disk is full, a client gets a sign of life for each frame,
        and heartbeats are left out, as with a real broker (`net.durable`)."""
        if process.stuck and type(effect) is Transmit and type(effect.frame) is Data:
            end = process.ends.get(effect.connection)
            sign = Transmit(effect.connection, _SIGN_OF_LIFE)
            if end is not None and end.far.process.node.above is not None and _overtakes(process, sign):
                self._execute[Transmit](process, sign)
                if not effect.frame.messages and not effect.frame.hurry:
                    return
        process.held.append(effect)

    def _set_timer(self, process: Process, effect: SetTimer) -> None:
        at_us = effect.at_us - process.node.ahead_us
        self.alarms.set(process, effect.timer, at_us, self._fire, self._is_housekeeping(process, effect.timer))

    def _cancel_timer(self, process: Process, effect: CancelTimer) -> None:
        self.alarms.cancel(process, effect.timer)

    def _fire(self, process: Process, timer: Timer) -> None:
        self.hand(process, TimerFired(timer))

    def _note(self, process: Process, effect: Note) -> None:
        self._on_note(process, effect)

    def _locate(self, process: Process, effect: Locate) -> None:
        """Names are addresses, but for those of nodes that bear another one's name."""
        if effect.address in self.nodes:
            process.node.book[effect.peer] = effect.address

    def _remember(self, process: Process, effect: Remember) -> None:
        process.node.company, process.node.memory = effect.names, effect.memory

    def _pass_up(self, process: Process, effect: Deliver | Answer) -> None:
        if process.node.above is not None:
            self.calendar.at(self.calendar.now_us, self._up, process, effect)

    def _up(self, process: Process, effect: Deliver | Answer) -> None:
        if process.step is None:
            process.put_off(self._up, process, effect)
        else:
            assert process.node.above is not None
            process.node.above.given(process, effect)

    def _persist(self, process: Process, record: bytes | tuple[str, bytes]) -> None:
        """A barrier: what follows is seen by nobody before the record is durable."""
        node = process.node
        node.disk.write(record)
        if node.disk.is_full:
            process.held.append(None)
            process.stuck += 1
        elif node.disk_latency_us == 0 and not process.held:
            node.disk.settle(self.calendar.now_us)
        else:
            process.held.append(None)
            self.calendar.at(self.calendar.now_us + node.disk_latency_us, self._durable, process)

    def make_room(self, process: Process) -> None:
        """What could not be written is written now."""
        count, process.stuck = process.stuck, 0
        for _ in range(count):
            self.calendar.at(self.calendar.now_us + process.node.disk_latency_us, self._durable, process)

    def _durable(self, process: Process, _: None) -> None:
        if process.node.disk.is_full and not process.dead:
            process.stuck += 1
        elif not process.dead:
            process.node.disk.settle(self.calendar.now_us)
            self._release(process, None)

    def _release(self, process: Process, _: None) -> None:
        """What the oldest record held back may go, up to the next one."""
        if process.step is None:
            process.put_off(self._release, process, None)
            return
        process.held.popleft()
        while process.held and (effect := process.held[0]) is not None:
            process.held.popleft()
            self._execute[type(effect)](process, effect)

    def _record_event(self, process: Process, effect: RecordEvent) -> None:
        """The same barrier. No virtual node reads events, so none are written."""
        latency_us = process.node.disk_latency_us
        if latency_us or process.held:
            process.held.append(None)
            self.calendar.at(self.calendar.now_us + latency_us, self._event_durable, process)

    def _event_durable(self, process: Process, _: None) -> None:
        if not process.dead:
            self._release(process, None)

    def _forget(self, process: Process, effect: Forget) -> None:
        process.node.disk.forget_before_latest(effect.count, self.calendar.now_us)

    # -- time -------------------------------------------------------------------------------------------------------

    def at(self, time_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Do something to the world at a time."""
        self.calendar.at(max(time_us, self.calendar.now_us), action, first, second)

    def at_event(self, number: int, action: Callable[[], None]) -> None:
        """Do something right after the event of this number (see `events`)."""
        heapq.heappush(self._trips, (number, len(self._trips), action))

    def run(self, until_us: int) -> Ended:
        """Let time pass until the run is quiescent, or until a time."""
        collecting = gc.isenabled()
        gc.disable()  # most of what a run allocates lives to its end, so looking for garbage in it is in vain
        try:
            return self._run(until_us)
        except Exception as error:
            error.add_note(f"in the virtual world: seed {self.seed}, event {self.events + 1}, {self.now_us} us")
            raise
        finally:
            if collecting:
                gc.enable()

    def _run(self, until_us: int) -> Ended:
        calendar = self.calendar
        times = calendar.times
        moments = self.moments
        trip = self._trips[0][0] if self._trips else sys.maxsize
        calm_since_us = self._calm_since(None)
        while times:
            deadline_us = until_us if calm_since_us is None else min(until_us, calm_since_us + self.settle_us)
            if times[0] > deadline_us or (calm_since_us is not None and self.settle_us == 0):
                calendar.now_us = deadline_us
                break
            now_us = calendar.now_us = times[0]
            bucket = calendar.entries[now_us]
            for action, first, second in bucket:  # what comes up for this very instant is added to it meanwhile
                action(first, second)
                self.events += 1
                if self.events >= trip:
                    trip = self._trip()
            heapq.heappop(times)
            del calendar.entries[now_us]
            calendar.pending -= len(bucket)
            if moments is not None:
                moments.append((now_us, self.events))
            calm_since_us = self._calm_since(calm_since_us)
        if calm_since_us is not None and (not times or calm_since_us + self.settle_us <= until_us):
            return "quiescent"
        calendar.now_us = max(calendar.now_us, until_us)
        return "timeout"

    def _calm_since(self, before_us: int | None) -> int | None:
        """Since when only housekeeping is pending; None when there is more than that."""
        if self.calendar.pending != self.calendar.idle or self._busy():
            return None
        return self.calendar.now_us if before_us is None else before_us

    def _trip(self) -> int:
        while self._trips and self._trips[0][0] <= self.events:
            heapq.heappop(self._trips)[2]()
        return self._trips[0][0] if self._trips else sys.maxsize


_INTERNAL = frozenset((SetTimer, CancelTimer, Persist, RecordEvent, StoreRecord, Note))
"""Effects that nobody outside the node can see: a record that is not durable does not hold them back."""


_SIGN_OF_LIFE: Final[Express[Any]] = Express(1, 0, ())
"""To a client: it has said nothing in this lane, so nothing is acknowledged."""


def _overtakes(process: Process, effect: Effect) -> bool:
    """Signs of life do not wait for the disk, unless a greeting waits on their connection."""
    if type(effect) is not Transmit or type(effect.frame) is not Express:
        return False
    waiting = (held for held in process.held if type(held) is Transmit and held.connection == effect.connection)
    return not any(type(held.frame) is SessionWelcome for held in waiting)
