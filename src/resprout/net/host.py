"""Runs one machine in an event loop: executes its effects, brings it events, and does nothing else.

One host is one life of a node. When it is over (`close`, or the machine retires) nothing that still refers to it acts
any more: timers are gone, what comes in on old connections is dropped, and effects go nowhere.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import Any, Final

from resprout.core.contract import (
    Answer,
    Arrived,
    CancelTimer,
    Connect,
    Connected,
    Deliver,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Forget,
    Locate,
    Machine,
    Note,
    Persist,
    Recovered,
    Remember,
    Retire,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
    Trickled,
)  # fmt: skip
from resprout.core.errors import UsageError
from resprout.core.limits import ClientLimits
from resprout.edge.broker.guard import Permit
from resprout.edge.rights import NOTHING
from resprout.journal.interface import DiskError, FetchEvents, FetchStore, OpenStore, RecordEvent, StoreOpened
from resprout.journal.journal import Journal, Records
from resprout.links.options import LinkOptions
from resprout.net.address import Address, AddressBook, Dials, ListeningPlace, take_place
from resprout.net.connection import CUT, GREETING_SECONDS_MAX, STEP_SECONDS_MAX, TcpConnection
from resprout.net.connection_limits import SessionDirectory
from resprout.net.disk import Rooms
from resprout.net.door import Door
from resprout.net.durable import DurableEffects, LostEvents
from resprout.net.event_loop import HeavyLine, LoopAlarms, TurnIntake, together
from resprout.net.log_stores import LogStores
from resprout.net.peer_connection import PeerConnection
from resprout.net.reception import Inquiries, Reception, refuse
from resprout.net.sessions import AskAccount, Here, Who
from resprout.wire.codec import Codec

CONNECTIONS_MAX = 10_000

_NO_PERMIT: Final = Permit(NOTHING)

Upward = Deliver | Answer | Note
HostEnd = Retire | DiskError
"""What ends a life without a call of `close`."""


class Host:
    """One life of one node. `find` tells where a peer listens that the address book does not know; `upward` takes what
    the machine has for those above; `ended` is told when the machine ends this life. Without `records` nothing can be
    persisted."""

    def __init__(
        self,
        machine: Machine,
        codec: Codec,
        here: Here,
        find: Callable[[str], Address | None],
        upward: Callable[[Upward], None],
        *,
        delays_s: dict[str, float] | None = None,
        connections_max: int = CONNECTIONS_MAX,
        greetings_max: int = LinkOptions().greetings_max,
        sessions_max: int = LinkOptions().sessions_max,
        greeting_s_max: float = GREETING_SECONDS_MAX,
        latest_incarnation: Callable[[str], int] = lambda name: 0,
        book: AddressBook | None = None,
        records: Records | None = None,
        events: Journal | None = None,
        rooms: Rooms | None = None,
        missed: Callable[[LostEvents], None] = lambda gap: None,
        gap_record: Callable[[LostEvents], bytes | None] = lambda gap: None,
        stores: LogStores | None = None,
        ended: Callable[[HostEnd], None] = lambda end: None,
        remember: Callable[[Remember], None] = lambda effect: None,
        asked: Callable[[Who], None] = lambda who: None,
        notices: Callable[[], tuple[str, ...]] = lambda: (),
        door: Door | None = None,
        tells: Callable[[AskAccount], bytes] | None = None,
    ) -> None:
        """`door`: who may come in; everybody, without one. `remember` keeps what the machine wants remembered; `asked`
        hears who wants to know who listens here, and `notices` is what such a one is told for people to read. `tells`:
        what is answered to those who ask how this node is, and may. `rooms`: the stores that records go to; `missed`
        hears of events that were not kept, and `gap_record` makes the record that stands for them in the journal.
        `stores`: where replicas of logs are kept."""
        self.machine = machine
        self.codec = codec
        self.here = here
        self.door = door or Door()
        self.loop = asyncio.get_running_loop()
        self._find = find
        self._book = book if book is not None else AddressBook()
        self._delays_s = delays_s or {}
        self.greeting_s_max = greeting_s_max
        self._ended = ended
        self.notices = notices
        self.inquiries = Inquiries(self, latest_incarnation, asked, tells)
        self.network = ""
        """Which network the machine is in, as it has said last."""
        self._connections: dict[int, PeerConnection] = {}
        self._shaking_hands: set[PeerConnection] = set()
        sessions = machine if isinstance(machine, SessionDirectory) else None
        self.reception = Reception(self, self.door, connections_max, greetings_max, sessions_max, sessions)
        self._numbers = 0
        self._steps = together(machine)
        self._intake = TurnIntake(self.loop, self._take, self._take_one)
        self.line = HeavyLine(self.loop)
        self._alarms = LoopAlarms(self.loop, self._fire)
        self._dials = Dials(self._where, self._new, self.handle)
        self._place: ListeningPlace | None = None
        self._barred: frozenset[str] = frozenset()
        self._records = records
        self._durable = (
            DurableEffects(
                records, self._execute, self._end, events, rooms, missed, self._is_client, gap_record, stores
            )
            if records is not None
            else None
        )
        self._run = self._execute if self._durable is None else self.perform
        self._closing = False
        self._do: dict[type, Callable[[Any], None]] = {
            SetTimer: self._set_timer,
            CancelTimer: lambda effect: self._alarms.cancel(effect.timer),
            Connect: self._connect,
            Disconnect: self._disconnect,
            Locate: self._locate,
            Remember: remember,
            Persist: self._cannot_persist,
            RecordEvent: self._cannot_persist,
            FetchEvents: self._fetch,
            OpenStore: self._use_store,
            FetchStore: self._use_store,
            Forget: _nothing,
            Retire: self._end,
        }
        self.tell(upward)

    def tell(self, upward: Callable[[Upward], None]) -> None:
        """Set who takes what the machine has for those above."""
        self._do[Deliver] = self._do[Answer] = self._do[Note] = upward

    # -- for those above -----------------------------------------------------------------------------------------------

    async def listen(self, address: Address) -> Address:
        """Accept connections; returns the address with the port that was really taken. ListenError when it cannot."""
        place = await take_place(address)
        await self.serve(place)
        return place.address

    async def serve(self, place: ListeningPlace) -> None:
        """Accept who connects there, unless this life is over already."""
        if self._closing:
            place.close()
            return
        self._place = place
        await place.serve(self._accept)

    def start(self) -> None:
        """DiskError when what was persisted cannot be read."""
        kept = self._records.read() if self._records is not None else []
        self._run(self.machine.start(self._alarms.now_us()))
        if kept:
            self.handle(Recovered(kept))

    async def settle(self) -> None:
        """Wait until the effects so far are executed; not for ever, because a disk may fail."""
        if self._durable is not None:
            await self._durable.settle()

    def handle(self, event: Event) -> None:
        """Step the machine with an event, after everything that came before it."""
        if self._intake.waiting:
            self._intake.take()
        if not self._closing:
            self._run(self.machine.step(event, self._alarms.now_us()))

    def perform(self, effects: Sequence[Effect]) -> None:
        """Execute effects, after those that wait for the disk."""
        self._execute(effects if self._durable is None else self._durable.pass_on(effects))

    def bar(self, peers: Collection[str]) -> None:
        """An emulated cut: from now on these peers, and no others, cannot be reached. Connections with them break at
        once, what is on the way is lost, and none comes about in either direction."""
        self._barred = frozenset(peers)
        for connection in list(self._connections.values()):
            if connection.name in self._barred:
                self.lost(connection, CUT)
                connection.abort(CUT)

    def is_barred(self, peer: str) -> bool:
        return peer in self._barred

    async def close(self, farewell: str | None = None) -> None:
        """Stop listening and close every connection after what was sent has left.

        With a farewell, clients are told that their sessions are over, and why; without one they try to reconnect.
        """
        if self._durable is not None:
            await self._durable.settle()
        if farewell is not None:
            self._say_farewell(farewell)
        self._stop()
        try:
            for _ in range(100):  # a peer that does not read must not keep this process alive
                if not self._connections:
                    break
                await asyncio.sleep(0.01)
        finally:
            for connection in list(self._connections.values()):
                connection.abort("closing")

    @property
    def is_over(self) -> bool:
        """Whether this life ends, or has ended."""
        return self._closing

    @property
    def connections(self) -> int:
        return len(self._connections)

    # -- for connections -----------------------------------------------------------------------------------------------

    def delay_s(self, peer: str | None) -> float:
        return self._delays_s.get(peer, 0.0) if peer is not None else 0.0

    def next_number(self) -> int:
        """Return the number of a connection that is about to begin."""
        self._numbers += 1
        return self._numbers

    def shakes_hands(self, connection: PeerConnection) -> None:
        """This side has opened it, and is finding out who is there."""
        self._shaking_hands.add(connection)

    def connected(self, connection: PeerConnection) -> None:
        self._shaking_hands.discard(connection)
        peer = connection.peer
        if self._closing:
            connection.abort("closing")
        elif peer is not None and peer in self._barred:  # it was under way when the cut came
            connection.abort(CUT)
            self.handle(Disconnected(0, peer, CUT))
        elif peer is not None or self.reception.enter(connection):
            self._connections[connection.number] = connection
            connection.announced = True
            self.handle(Connected(connection.number, peer))

    def all_connections(self) -> list[PeerConnection]:
        return list(self._connections.values())

    def permit_of(self, number: int) -> Permit:
        """What the opener of a connection may do; nothing, when it came in as something else than a client."""
        connection = self._connections.get(number)
        return connection.permit if connection is not None and connection.permit is not None else _NO_PERMIT

    def identity_of(self, number: int) -> str:
        """Whom the opener of a connection has proven to be; empty when nobody asked for proof."""
        connection = self._connections.get(number)
        return (connection.belongs_to or "") if connection is not None else ""

    def limits_of(self, number: int) -> ClientLimits:
        """How much the opener of a connection may use."""
        connection = self._connections.get(number)
        return connection.limits if connection is not None else self.door.limits

    def arrived(self, number: int, frames: Sequence[Any]) -> None:
        """Take the frames of one read. Other connections may have frames for the same turn of the loop
        (`event_loop`)."""
        if number in self._connections and not self._closing:
            self._intake.put(number, frames)

    def take_in(self) -> None:
        """Step the machine with all frames that have come so far."""
        self._intake.take()

    def _take(self, arrivals: Sequence[Arrived]) -> None:
        began = monotonic()
        self._run(self._steps(arrivals, self._alarms.now_us()))
        if monotonic() - began > STEP_SECONDS_MAX:
            for number in {arrival.connection for arrival in arrivals}:
                self._slow_down(number)

    def _take_one(self, arrival: Arrived) -> None:
        began = monotonic()
        self._run(self.machine.step(arrival, self._alarms.now_us()))
        if monotonic() - began > STEP_SECONDS_MAX:
            self._slow_down(arrival.connection)

    def _slow_down(self, number: int) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            connection.slow_down()

    def trickled(self, number: int) -> None:
        if number in self._connections:
            self.handle(Trickled(number))

    def lost(self, connection: PeerConnection, reason: str) -> None:
        self._intake.take()
        self.reception.left(connection)
        self._shaking_hands.discard(connection)
        if self._connections.pop(connection.number, None) is not None:
            if connection.announced:
                self.handle(Disconnected(connection.number, connection.peer, reason))
        elif connection.shaking_hands:
            self.handle(Disconnected(0, connection.peer, reason))

    # -- the end of a life ---------------------------------------------------------------------------------------------

    def _end(self, how: HostEnd) -> None:
        """The machine wants it, or the disk fails: nothing is done after this. Peers see their connections end."""
        if isinstance(how, Retire) and not how.again:
            self._say_farewell(f"{self.here.name} has left: {how.reason}")
        self._stop()
        self._ended(how)

    def _say_farewell(self, text: str) -> None:
        """Only to clients. A broker that ends a session by saying so is alive and wants nothing more of its neighbour,
        who would believe that it was declared dead; one that goes is simply gone, and its host refuses connections."""
        for connection in list(self._connections.values()):
            if connection.is_client:
                refuse(connection, text)

    def _stop(self) -> None:
        self._closing = True
        self._intake.clear()
        self.line.clear()
        for kind in self._do:
            self._do[kind] = _nothing
        if self._durable is not None:
            self._durable.stop()
        if self._place is not None:
            self._place.close()
        self._alarms.cancel_all()
        self._dials.cancel_all()
        for connection in list(self._connections.values()):
            connection.close("closing")
        for connection in list(self._shaking_hands):
            connection.abort("closing")

    # -- effects -------------------------------------------------------------------------------------------------------

    def _execute(self, effects: Sequence[Effect]) -> None:
        do = self._do
        timers: list[Effect] | None = None
        for effect in effects:
            if type(effect) is Transmit:  # nearly always, so it is done here
                connection = self._connections.get(effect.connection)
                if connection is not None and not self._closing:
                    connection.send(effect.frame)
            elif type(effect) is SetTimer or type(effect) is CancelTimer:
                # Nobody waits for these; what is sent goes first.
                if timers is None:
                    timers = []
                timers.append(effect)
            else:
                do[type(effect)](effect)
        if timers is not None:
            for effect in timers:
                do[type(effect)](effect)

    def _disconnect(self, effect: Disconnect) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.close(effect.reason)

    def _connect(self, effect: Connect) -> None:
        self._dials.dial(effect.peer)

    def where(self, peer: str) -> Address | None:
        """Return where a peer listens; None if unknown."""
        return self._book.find(peer) or self._find(peer)

    def _where(self, peer: str) -> Address | str:
        if peer in self._barred:
            return CUT
        return self.where(peer) or f"the address of {peer} is not known"

    def _accept(self) -> TcpConnection:
        return self._new(None)

    def _new(self, peer: str | None) -> TcpConnection:
        return TcpConnection(self, self.next_number(), peer)

    def _locate(self, effect: Locate) -> None:
        if not effect.address:
            return  # somebody who has none to tell
        try:
            self._book.locate(effect.peer, effect.address)
        except UsageError as error:
            self._do[Note](Note("note", {"detail": f"where {effect.peer} listens is not believed: {error}"}))

    def _fetch(self, effect: FetchEvents) -> None:
        if self._durable is not None:
            self._durable.fetch(effect, self.handle)

    def _use_store(self, effect: OpenStore | FetchStore) -> None:
        if self._durable is not None:
            self._durable.use_store(effect, self.handle)
        elif isinstance(effect, OpenStore):
            reason = "a replica of a log needs a data folder"
            self.loop.call_soon(self.handle, StoreOpened(effect.store, (), 0, 0, reason))

    def _cannot_persist(self, effect: Persist | RecordEvent) -> None:
        self._end(DiskError(f"{self.here.name} has something to keep, and no folder for it"))

    def _is_client(self, number: int) -> bool:
        connection = self._connections.get(number)
        return connection is not None and connection.is_client

    def _set_timer(self, effect: SetTimer) -> None:
        self._alarms.set(effect.timer, effect.at_us)

    def _fire(self, timer: Timer) -> None:
        self.handle(TimerFired(timer))


def _nothing(effect: Effect) -> None:
    """What a life that is over still wants is not done."""
