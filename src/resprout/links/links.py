"""The links floor as a machine: it lets a stack that knows peers by name run on connections that may break.

A connection that breaks between two live peers ends nothing: the session stays, what is sent meanwhile waits in its
outbox, the side that opened it connects again, and both resume. The stack hears `Silent` and `Heard`, which it may
ignore. It hears `LinkDown` when a session is over for good, and never for one that it closed itself. A `Send` to a peer
without a session is lost.

Order: effects of the stack keep theirs, except that messages wait for the end of the step or the next `Persist`, so
that those to the same peer share frames. Nothing listed after a `Persist` is ever transmitted before it, and
everything listed before a `Retire` is.

Both sides may `Open` each other; one of the two attempts wins, and either side notices when the other is gone.

Not done here: proving who a peer is, and telling anybody that a peer is dead. Silence only leads to a new connection
(and to a row `suspect` in the trace); what it means is for the stack to decide. Between brokers it ends no session.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from resprout.core import limits
from resprout.core.contract import (
    Adopt,
    Arrived,
    Close,
    Congested,
    Connected,
    Departure,
    Disconnected,
    Effect,
    EndCause,
    Event,
    Hold,
    HoldRoles,
    LinkUp,
    Machine,
    Open,
    Persist,
    Received,
    Release,
    Retire,
    Send,
    SetTimer,
    Stirred,
    Timer,
    TimerFired,
    Trickled,
    Writable,
)
from resprout.core.errors import PeerError, UsageError
from resprout.core.limits import DEFAULT_LIMITS, ClientLimits, check_name
from resprout.journal.interface import RecordEvent, StoreRecord
from resprout.links.frames import (
    AcknowledgeDue,
    Bodies,
    Data,
    Express,
    FreeAcknowledgeDue,
    LingerOver,
    Part,
    Parted,
    ReconnectDue,
    SharedBodies,
    TurnOver,
    WatchDue,
)  # fmt: skip
from resprout.links.handshake import ROLES, Identity, KnowsBrokers, KnowsLives, shorten
from resprout.links.link import Acknowledging, LinkSession, gives
from resprout.links.options import LinkOptions, LinkStatus
from resprout.links.session import DRIVER
from resprout.links.switchboard import Switchboard, Watch

Effects = list[Effect]
Handler = Callable[[Any, int, Effects], None]

_DEFAULTS: Final = LinkOptions()
_TURN_OVER: Final = TurnOver()

STIRRED_US: Final = 100_000
"""While a large message gets on, the stack is told so at most this often."""
EXPRESS_MAX: Final = 1024
"""What overtakes is little and acknowledged soon; a peer that does not is given up."""


class Links:
    """Wraps a stack; is itself a machine, for a driver."""

    def __init__(
        self,
        machine: Machine,
        *,
        name: str,
        role: str,
        incarnation: int,
        rng: Random,
        options: LinkOptions = _DEFAULTS,
        first_epoch: int = 1,
        bodies: Bodies | None = None,
        incarnation_max: Callable[[], int | None] = lambda: None,
        deliveries_last: bool = False,
    ) -> None:
        """`first_epoch`: where this life begins to number the sessions it opens. A driver whose incarnations are not
        certain to be unique draws it at random, so that two lives are never mistaken for one that resumes. `bodies`:
        how large messages become parts, for a driver that does not hand frames over as objects. `incarnation_max`: the
        highest number of a life that is believed now; None: any. A driver whose incarnations come from a clock knows
        it. `deliveries_last`: at the end of a step, ship deliveries to clients behind everything else (`gives`). Only
        the real driver asks for it, because there frames of one step leave one after the other."""
        if role not in ROLES:
            raise UsageError(f"a node is a broker or a client, not {role!r}")
        if incarnation < 1:
            raise UsageError(f"incarnations are numbered from 1, not {incarnation}")
        self.machine = machine
        self._step = machine.step
        self._options = options
        me = Identity(check_name(name), role, incarnation)
        board = self._board = Switchboard(me, options, rng, bodies or SharedBodies(), first_epoch, incarnation_max)
        board.knows_broker = self._knows_broker
        self._watch = Watch(board, options)
        self._up = board.sessions.up
        self._live = board.sessions.live
        self._news = board.sessions.news
        self._deliveries_last = deliveries_last
        self._is_broker = role == "broker"
        self._unsent: list[LinkSession] = []
        self._express: list[LinkSession] = []
        self._held_roles = HoldRoles(())
        self._with_turn: list[LinkSession] = []
        """Links on which something was sent that leaves at the end of the turn (`Departure.TURN`)."""
        self._acknowledging = Acknowledging(options, role == "client")
        self._on: dict[type[Event], Handler] = {
            Connected: board.connected,
            Disconnected: board.disconnected,
            Trickled: self._trickled,
            TimerFired: self._on_timer,
            HoldRoles: self._hold_roles,
        }
        self._take: dict[type[Any], Callable[[LinkSession, Any, int, Effects], Sequence[Any]]] = {
            Part: self._take_part,
            Parted: self._take_parted,
            Express: self._take_express,
        }
        self._do: dict[type[Effect], Handler] = {
            Open: lambda effect, now_us, out: board.open(effect.peer, now_us, out, effect.newcomer),
            Adopt: lambda effect, now_us, out: board.adopt(effect.key, effect.name),
            Close: self._do_close,
            Hold: self._do_hold,
            Release: self._do_release,
            Persist: self._do_ship,
            RecordEvent: self._do_ship,
            StoreRecord: self._do_ship,
            Retire: self._do_retire,
        }
        self.identity_of: Callable[[int], str] = lambda connection: ""
        """Whom the opener of a connection has proven to be: for a driver that asks for proof."""
        self.limits_of: Callable[[int], ClientLimits] = lambda connection: DEFAULT_LIMITS
        """How much the opener of a connection may use."""
        self.refusals = board.refusals
        """How often somebody was turned away, and why."""
        self.mistakes = 0
        """Sessions that were ended because the peer broke the protocol."""
        self._timers: dict[type[Any], Handler] = {
            AcknowledgeDue: self._acknowledging.over,
            FreeAcknowledgeDue: self._acknowledging.over,
            TurnOver: self._turn_over,
            WatchDue: self._watch.look,
            ReconnectDue: board.reconnect,
            LingerOver: board.linger_over,
        }

    def release(self) -> None:
        """Break the reference cycles of this object, which is not used any more, so that it is freed at once."""
        for handlers in (self._on, self._take, self._do, self._timers):
            handlers.clear()
        self._board.knows_broker = lambda name: False

    def start(self, now_us: int) -> Sequence[Effect]:
        out: Effects = []
        self._watch.set(now_us, out)
        self._apply(self.machine.start(now_us), now_us, out)
        self._settle(now_us, out)
        return out

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: Effects = []
        if type(event) is Arrived:
            link = self._arrived(event, now_us, out)
            if link is not None:
                if self._unsent or self._express:
                    self._ship_all(now_us, out)
                self._acknowledging.answer(link, now_us, out)
        else:
            self._on.get(type(event), self._tell)(event, now_us, out)
            if self._unsent and not self._news:
                self._ship_all(now_us, out)
        if self._unsent or self._news or self._express:
            self._settle(now_us, out)
        return out

    def steps(self, arrivals: Sequence[Arrived], now_us: int) -> Sequence[Effect]:
        """Handle frames that came together, in the order in which they came. The stack takes one step for each message.
        Everything that it sends meanwhile leaves after the last frame, and shares frames."""
        out: Effects = []
        links: dict[LinkSession, None] = {}
        for event in arrivals:
            link = self._arrived(event, now_us, out)
            if link is not None:
                links[link] = None
            if self._news:
                self._settle(now_us, out)
        self._settle(now_us, out)
        for link in links:
            if not link.over:
                self._acknowledging.answer(link, now_us, out)
        return out

    def sessions(self) -> list[LinkStatus]:
        """Every session that stands, with or without a connection, in the order in which they began."""
        return [link.status() for link in self._up.values()]

    @property
    def session_count(self) -> int:
        """Sessions that stand, with or without a connection."""
        return len(self._up)

    def has_session(self, peer: str) -> bool:
        return peer in self._up

    def lingers(self, peer: str) -> bool:
        """Whether the session with a peer waits for a connection, and ends after a while without one."""
        link = self._up.get(peer)
        return link is not None and link.lingers

    def unacknowledged_bytes(self, peer: str) -> int:
        """Return the bytes that were sent to a peer and not acknowledged, whether they count against the window or
        not."""
        link = self._up.get(peer)
        return link.weight - link.acknowledged if link is not None else 0

    def connection_of(self, peer: str) -> int:
        """Return the number of the connection of the session with this peer; 0 without one."""
        link = self._up.get(peer)
        return link.connection if link is not None else 0

    def latest_incarnation(self, peer: str) -> int:
        """The latest life of a peer that was met here, or that the stack has heard of; 0 for none."""
        heard = self.machine.latest_life(peer) if isinstance(self.machine, KnowsLives) else 0
        return max(heard, self._board.sessions.latest_incarnation(peer))

    def _knows_broker(self, name: str) -> bool:
        return isinstance(self.machine, KnowsBrokers) and self.machine.knows_broker(name)

    def put_between(self, machine: Machine) -> None:
        """Let this machine stand between the links and the stack from now on."""
        self.machine = machine
        self._step = machine.step

    # -- the stack: what it is told, what it wants ------------------------------------------------------------------

    def _tell(self, event: Event, now_us: int, out: Effects) -> None:
        effects = self._step(event, now_us)
        if effects:
            self._apply(effects, now_us, out)

    def _apply(self, effects: Sequence[Effect], now_us: int, out: Effects) -> None:
        """Execute the effects of the stack. A `Send` only queues its message in the session with the peer, and marks
        the session for shipping: at the end of the step, or of the turn of the event loop if the message says so
        (`Departure`). The driver executes the effects that have no handler here."""
        up = self._up
        previous: Any = None  # one message often goes to many peers
        cost = weight = 0
        express = False
        leaves = Departure.STEP
        for effect in effects:
            if type(effect) is Send:
                link = up.get(effect.peer)
                if link is not None:
                    message = effect.message
                    if message is not previous:
                        previous, cost, express = message, message.cost, message.express
                        weight = cost + message.bulk
                        leaves = message.leaves
                    if express:
                        link.express.put(message)
                        self._express.append(link)
                        continue
                    link.put(message, cost, weight)
                    if link.unsent:
                        link.due = link.sent
                    elif leaves is Departure.STEP:
                        link.due = link.sent
                        link.unsent = True
                        link.paid = cost > 0
                        self._unsent.append(link)
                    elif not link.leaves_with_turn:
                        link.leaves_with_turn = True
                        if not self._with_turn:
                            out.append(SetTimer(_TURN_OVER, now_us))
                        self._with_turn.append(link)
            else:
                handler = self._do.get(type(effect))
                if handler is None:
                    out.append(effect)
                else:
                    handler(effect, now_us, out)

    def _settle(self, now_us: int, out: Effects) -> None:
        """Tell the stack what happened to sessions, and ship what was sent, until neither is left."""
        while self._news or self._unsent or self._express:
            if not self._news:
                self._ship_all(now_us, out)
                continue
            news = self._news.pop(0)
            if isinstance(news, LinkSession):
                self._up[news.peer] = news
                news.announced = news.limit  # less than at the handshake where many links share what they begin with
                if news.role in self._held_roles.roles:
                    self._hold_for_driver(news, self._held_roles.told)
                up = LinkUp(
                    news.peer, news.role, news.incarnation, news.room,
                    trip_us=news.trip_us, identity=self.identity_of(news.connection),
                    limits=self.limits_of(news.connection),
                )  # fmt: skip
                self._tell(up, now_us, out)
            else:
                self._tell(news, now_us, out)

    def _do_close(self, effect: Close, now_us: int, out: Effects) -> None:
        if link := self._up.get(effect.peer):
            link.ship_all(now_us, out)
        self._board.close(effect.peer, shorten(effect.reason, limits.REASON_BYTES), out, effect.code)

    def _do_hold(self, effect: Hold, now_us: int, out: Effects) -> None:
        if link := self._up.get(effect.peer):
            link.hold()

    def _hold_roles(self, event: HoldRoles, now_us: int, out: Effects) -> None:
        before, self._held_roles = self._held_roles.roles, event
        for link in self._up.values():
            if link.role in event.roles:
                self._hold_for_driver(link, event.told)
            elif link.role in before:
                link.release(DRIVER)
                self._say_held(link, event.told)
                if link.connection:
                    link.send_ack(now_us, out)
        self._tell(event, now_us, out)

    def _hold_for_driver(self, link: LinkSession, told: Any) -> None:
        link.hold(DRIVER)
        self._say_held(link, told)

    def _say_held(self, link: LinkSession, told: Any) -> None:
        if told is not None and link.role == "client":
            link.express.put(told)
            self._express.append(link)

    def _do_release(self, effect: Release, now_us: int, out: Effects) -> None:
        if link := self._up.get(effect.peer):
            link.release()
            if link.connection and link.acknowledge_now:
                link.send_ack(now_us, out)

    def _do_ship(self, effect: Persist | RecordEvent | StoreRecord, now_us: int, out: Effects) -> None:
        """What was sent before leaves before."""
        self._ship_all(now_us, out)
        out.append(effect)

    def _do_retire(self, effect: Retire, now_us: int, out: Effects) -> None:
        """Ship everything that was sent: after `Retire` nothing leaves any more."""
        for link in self._up.values():
            link.ship_all(now_us, out)
        out.append(effect)

    # -- frames -----------------------------------------------------------------------------------------------------

    def _ship_all(self, now_us: int, out: Effects) -> None:
        if self._express:
            self._ship_express(now_us, out)
        unsent, self._unsent = self._unsent, []
        if len(unsent) > 1 and self._deliveries_last:
            unsent.sort(key=gives)
        for link in unsent:
            link.unsent = False
            link.ship(now_us, out)
            if link.unconfirmed >= self._options.congested_messages:
                self._congest(link)
            if link.is_full and not link.over:
                self._board.end(link, f"{link.peer} acknowledges too little", EndCause.LOST, True, now_us, out)

    def _congest(self, link: LinkSession) -> None:
        if link.role == "broker" and self._is_broker and not link.is_congested:
            link.is_congested = True
            self._news.append(Congested(link.peer, True))

    def _ship_express(self, now_us: int, out: Effects) -> None:
        links, self._express = self._express, []
        for link in links:
            link.ship_express(now_us, out)
            if len(link.express.outbox) > EXPRESS_MAX and not link.over:
                self._board.end(link, f"{link.peer} acknowledges no sign of life", EndCause.LOST, True, now_us, out)

    def _arrived(self, event: Arrived, now_us: int, out: Effects) -> LinkSession | None:
        """Handle one frame: tell the stack its messages. Return the session that may have to acknowledge them; None if
        there is none."""
        link = self._live.get(event.connection)
        frame = event.frame
        is_data = type(frame) is Data
        if link is None or not (is_data or type(frame) in self._take):
            self._board.greet_or_end(event.connection, frame, now_us, out)
            return None
        link.heard_us = now_us
        try:
            messages = link.take(frame) if is_data else self._take[type(frame)](link, frame, now_us, out)
        except PeerError as error:
            self.mistakes += 1
            self._board.end(link, str(error), EndCause.LOST, True, now_us, out)
            return None
        if not is_data and link.over:  # the stack was told that something stirs, and wanted no more of it
            return None
        if link.flight.marks:
            link.came(now_us)
        if link.is_congested and 4 * link.unconfirmed <= self._options.congested_messages:
            link.is_congested = False
            self._tell(Congested(link.peer, False), now_us, out)
        left = len(messages)
        for message in messages:
            left -= 1
            effects = self._step(Received(link.peer, message, left > 0), now_us)
            if effects:
                self._apply(effects, now_us, out)
                if self._news:
                    self._settle(now_us, out)
                if link.over:
                    return None
        if link.limit != link.announced and (room := link.room_to_announce()) is not None:
            self._tell(Writable(link.peer, room), now_us, out)
        if link.shipped < link.due and not link.unsent:
            link.unsent = True
            self._unsent.append(link)
        if frame.hurry:
            link.asked = True
            if not messages:  # for what has been told, or for part of a message
                link.asked_again = True
        return link

    def _take_part(self, link: LinkSession, frame: Part, now_us: int, out: Effects) -> Sequence[Any]:
        messages = link.take_part(frame)
        self._stirred(link, now_us, out)
        return messages

    def _take_parted(self, link: LinkSession, frame: Parted, now_us: int, out: Effects) -> Sequence[Any]:
        link.confirm_part(frame)
        self._stirred(link, now_us, out)
        return ()

    def _take_express(self, link: LinkSession, frame: Express[Any], now_us: int, out: Effects) -> Sequence[Any]:
        messages = link.express.take(frame)
        self._express.append(link)
        return messages

    def _trickled(self, event: Trickled, now_us: int, out: Effects) -> None:
        link = self._live.get(event.connection)
        if link is not None:
            link.heard_us = now_us
            self._stirred(link, now_us, out)

    def _stirred(self, link: LinkSession, now_us: int, out: Effects) -> None:
        if now_us - link.stirred_us >= STIRRED_US:
            link.stirred_us = now_us
            self._tell(Stirred(link.peer), now_us, out)

    def _turn_over(self, timer: Timer, now_us: int, out: Effects) -> None:
        """Ship what waited for the end of the turn, unless it has left with something else."""
        links, self._with_turn = self._with_turn, []
        for link in links:
            link.leaves_with_turn = False
            if link.shipped != link.sent:
                link.due = link.sent
                if not link.unsent:
                    link.unsent = True
                    self._unsent.append(link)

    def _on_timer(self, event: TimerFired, now_us: int, out: Effects) -> None:
        handler = self._timers.get(type(event.timer))
        if handler is None:
            self._tell(event, now_us, out)
        else:
            handler(event.timer, now_us, out)
