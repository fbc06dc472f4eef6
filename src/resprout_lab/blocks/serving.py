"""Serving clients: their sessions, what they may say, and the parts of a broker that serves any client.

`ClientDesk` serves a client as soon as the broker is ready (`is_ready`) and the stack admits it (`door`): a stack may
let a client of a dead broker wait, or send it elsewhere. Unless the stack makes good what such a client missed
(`welcome`), the broker keeps nothing for it: the client is told that it may have missed messages, and subscribes again.

`SessionEvents` passes on that a session begins, ends or has room: to the desk for a client, to `BrokerSessions` for a
broker.

`ServingShell` is the base of a broker that passes publications on to its neighbours. It creates the shared parts; a
subclass adds its own parts and then says which part handles which message (`_open`). Each step ends in this order:
waiting clients are served, the stack acts, clients and neighbours are told.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from resprout.core.contract import Close, EndCode, Heard, LinkDown, LinkUp, Send, SetTimer, Silent, Timer, Writable
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import check_offered
from resprout.edge.broker.owed import read_held
from resprout.edge.broker.ports import SubscriptionPort
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, GoTo, Publish, Serving, Subscribe, Successor, Successors, Taken, Unsubscribe
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox
from resprout.stacks.shell import EndOfStep, Shell, Step, Table
from resprout.stacks.status import StackStatus, TopicReaders, readers_here
from resprout.wire.bundles import check_columns
from resprout_lab.blocks.retention import KeptItem, Passing, Retention
from resprout_lab.blocks.subscriptions import Matches

RECEIPTS_US: Final = 10_000
"""How long receipts that nobody waits for may wait for company."""

ClientDoor = Callable[[ClientSession, Attend, int], bool | Successor]
"""Of a client that has waited for so many microseconds: True to serve it, False to let it wait, or where to send it."""


class ReceiptsDue(Timer, frozen=True):
    """When to tell clients the receipts, and neighbours the news, that nobody waits for."""


class ClientDesk:
    def __init__(
        self,
        step: Step,
        sessions: ClientSessions,
        *,
        publish: Callable[[ClientSession, Publish], None],
        is_ready: Callable[[], bool] = lambda: True,
        successors: Callable[[], tuple[Successor, ...]] = tuple,
        attend: Callable[[ClientSession, Attend], None] | None = None,
        door: ClientDoor = lambda session, attend, waited_us: True,
        welcome: Callable[[ClientSession, Attend], None] | None = None,
        left: Callable[[str], None] = lambda name: None,
        news: Callable[[bool], bool] = lambda everything: False,
        receipts_us: int = RECEIPTS_US,
    ) -> None:
        """`publish` is told of bundles that a client may publish, to this network, now; `left`, who is gone. `attend`
        is told who comes, by a stack with a waiting room of its own. `news` tells neighbours what they wait for, or
        everything, and whether something is left to be told soon."""
        self._step = step
        self._sessions = sessions
        self._publish = publish
        self._is_ready = is_ready
        self._successors = successors
        self._attend = attend or self.wait
        self._door = door
        self._welcome = welcome or self._begin_anew
        self._left = left
        self._news = news
        self._receipts_us = receipts_us
        self._waiting: dict[str, tuple[Attend, int]] = {}
        """Clients that are not served yet, and since when."""
        self._told: tuple[Successor, ...] = ()
        self._is_timer_set = False

    def desk(self, more: Mapping[type, Handler] | None = None) -> Desk:
        """What clients may say; `more`: what else the stack lets them."""
        sessions, step = self._sessions, self._step
        return Desk(
            sessions.all.get,
            {
                Attend: self._attend,
                Publish: self._published,
                Taken: lambda session, message: sessions.taken(session, message, step.out),
                Subscribe: lambda session, message: sessions.subscribe(session, message, step.out),
                Unsubscribe: lambda session, message: sessions.unsubscribe(session, message, step.out),
                **(more or {}),
            },
            check=ClientSession.check_turn,
            is_only=True,
            is_guarded=True,
        )

    # -- sessions ------------------------------------------------------------------------------------------------------

    def up(self, event: LinkUp) -> None:
        self._sessions.arrive(event.peer, event.incarnation, event.room, event.internal, event.identity, event.limits)

    def readers(self, topic: str) -> TopicReaders:
        """For people who ask."""
        return readers_here(self._sessions, topic)

    def has(self, name: str) -> bool:
        return name in self._sessions.all

    def writable(self, name: str, room: int) -> None:
        self._sessions.writable(self._sessions.all[name], room, self._step.out)

    def leave(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._sessions.leave(name, self._step.out)
        self._left(name)

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        self._step.out.append(Close(name, reason, code))
        self.leave(name)

    # -- what they say -------------------------------------------------------------------------------------------------

    def wait(self, session: ClientSession, message: Attend) -> None:
        """It is served when the broker is ready, and the door open."""
        read_held(message.subscriptions)  # now, while it is its sender that is blamed
        self._waiting[session.name] = (message, self._step.now_us)

    def _published(self, session: ClientSession, message: Publish) -> None:
        bundle = message.bundle
        session.check_next(bundle)
        check_columns(bundle)
        try:
            check_offered(bundle.guarantee, self._sessions.serving.guarantees, self._sessions.serving.stack)
        except UsageError as error:
            raise PeerError(str(error)) from None
        self._sessions.accepted(session, bundle, message.prompt)
        self._publish(session, message)

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Those that wait, if they need not; and whoever is served hears where to turn when this broker is gone."""
        sessions, out, successors = self._sessions, self._step.out, self._successors()
        if successors != self._told:
            self._told = successors
            out.extend(Send(one.name, Successors(successors)) for one in sessions.all.values() if one.attending)
        if self._waiting and self._is_ready():
            for name, (attend, since_us) in list(self._waiting.items()):
                session = sessions.all[name]
                verdict = self._door(session, attend, self._step.now_us - since_us)
                if verdict is not False:
                    del self._waiting[name]
                if verdict is True:
                    self._welcome(session, attend)
                elif verdict is not False:
                    out.append(Send(name, GoTo(verdict)))

    def _begin_anew(self, session: ClientSession, attend: Attend) -> None:
        self._sessions.welcome(session, attend, self._told, not attend.subscriptions, self._step.out)

    def tell(self) -> None:
        """Receipts and news: those that somebody waits for now, the others soon."""
        sessions = self._sessions
        if sessions.turned or sessions.ending:
            sessions.flush(self._step.out)
        is_more = self._news(False)
        if (is_more or sessions.lazy_receipts) and not self._is_timer_set:
            self._is_timer_set = True
            self._step.out.append(SetTimer(ReceiptsDue(), self._step.now_us + self._receipts_us))

    def receipts_due(self, timer: ReceiptsDue) -> None:
        self._is_timer_set = False
        self._sessions.flush_all(self._step.out)
        self._news(True)


class BrokerSessions(Protocol):
    """Looks after the sessions with other brokers."""

    def knows(self, name: str) -> bool:
        """It is a broker's name."""

    def up(self, event: LinkUp) -> None: ...
    def down(self, event: LinkDown) -> None: ...
    def silent(self, event: Silent) -> None: ...
    def heard(self, event: Heard) -> None: ...
    def cut_off(self, name: str, reason: str) -> None:
        """It made a mistake."""


class SessionEvents:
    def __init__(
        self, step: Step, clients: ClientDesk, brokers: BrokerSessions, writable: Callable[[str, int], object]
    ) -> None:
        """`writable`: a broker has room again."""
        self._step = step
        self._clients = clients
        self._brokers = brokers
        self._writable = writable
        self.table: Table = {
            LinkUp: self._up, LinkDown: self._down, Silent: self._silent, Heard: self._heard, Writable: self._room,
        }  # fmt: skip

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        if self._clients.has(name):
            self._clients.cut_off(name, reason, code)
        else:
            self._brokers.cut_off(name, reason)

    def _up(self, event: LinkUp) -> None:
        name, is_client = event.peer, event.role == "client"
        if is_client and self._brokers.knows(name):
            self._step.out.append(Close(name, f"{name} is the name of a broker", EndCode.FORBIDDEN))
        else:
            (self._clients if is_client else self._brokers).up(event)

    def _down(self, event: LinkDown) -> None:
        if self._clients.has(event.peer):
            self._clients.leave(event.peer)
        else:
            self._brokers.down(event)

    def _silent(self, event: Silent) -> None:
        if not self._clients.has(event.peer):
            self._brokers.silent(event)

    def _heard(self, event: Heard) -> None:
        if not self._clients.has(event.peer):
            self._brokers.heard(event)

    def _room(self, event: Writable) -> None:
        if self._clients.has(event.peer):
            self._clients.writable(event.peer, event.room)
        else:
            self._writable(event.peer, event.room)


class TreeOfBrokers(BrokerSessions, Protocol):
    """Knows the other brokers, and hears what they say about the tree."""

    def begin(self) -> None: ...
    def status(self) -> StackStatus: ...
    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        """What brokers may say; `handlers`: what neighbours may, besides."""


class ServingShell(Shell):
    def __init__(self, serving: Serving, wishes: SubscriptionPort, buffer: int) -> None:
        """`buffer`: messages of one neighbour or client that are kept here before it is held back."""
        self._step = Step()
        self._outbox = Outbox(self._step)
        self._kept = Retention(buffer)
        self._passing = Passing(self._outbox, self._kept)
        self._sessions = ClientSessions(serving, self._kept, wishes)

    def _open(
        self,
        brokers: TreeOfBrokers,
        handlers: Mapping[type, Handler],
        *,
        publish: Callable[[ClientSession, Publish], None],
        is_ready: Callable[[], bool],
        door: ClientDoor = lambda session, attend, waited_us: True,
        welcome: Callable[[ClientSession, Attend], None] | None = None,
        successors: Callable[[], tuple[Successor, ...]] = tuple,
        events: Table | None = None,
        timers: Mapping[type, Any] | None = None,
        outcomes: Table,
        news: Callable[[bool], bool] = lambda everything: False,
        at_end: Sequence[EndOfStep | tuple[Collection[object], EndOfStep]] = (),
    ) -> None:
        """The last thing that a constructor does. `at_end`: before clients and neighbours are told."""
        step, kept = self._step, self._kept
        clients = ClientDesk(
            step,
            self._sessions,
            publish=publish,
            is_ready=is_ready,
            door=door,
            welcome=welcome,
            successors=successors,
            left=kept.forget,
            news=news,
        )
        sessions = SessionEvents(step, clients, brokers, self._passing.writable)
        self._brokers = brokers
        super().__init__(
            step,
            events={**sessions.table, **(events or {})},
            desks=(clients.desk(), *brokers.desks(handlers)),
            cut_off=sessions.cut_off,
            timers={ReceiptsDue: clients.receipts_due, **(timers or {})},
            outcomes=outcomes,
            at_end=(clients.serve, *at_end, clients.tell, lambda: kept.push_back(step.out)),
        )

    def begin(self) -> None:
        self._brokers.begin()

    def status(self) -> StackStatus:
        return self._brokers.status()

    def readers(self, topic: str) -> TopicReaders:
        return readers_here(self._sessions, topic)

    def _show_to(self, readers: Matches, item: KeptItem) -> None:
        """It is their turn to be shown it."""
        self._kept.place(item)
        self._sessions.address(item, item.bundle, readers)
        self._sessions.show(item, self._step.out)
