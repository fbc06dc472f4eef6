"""The clients of a broker that serves whoever comes: their coming and going, what they may say, what they are told.

A client is served as soon as the broker is ready (`is_ready`) and the door is open to it (`door`): a stack may let one
that comes from a dead broker wait, or send it elsewhere. Unless the stack makes good what such a client missed
(`welcome`), nothing is kept for it: it is told that it may have missed something, and subscribes again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from resprout.core.contract import Close, EndCode, LinkUp, Send, SetTimer, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import check_offered
from resprout.edge.broker.owed import read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, GoTo, Publish, Subscribe, Successor, Successors, Taken, Unsubscribe
from resprout.stacks.shell.desk import Desk, Handler
from resprout.stacks.shell.readers import readers_here
from resprout.stacks.shell.step import Step
from resprout.stacks.status import TopicReaders
from resprout.wire.checks import check_columns

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
        if (is_more or sessions.patient) and not self._is_timer_set:
            self._is_timer_set = True
            self._step.out.append(SetTimer(ReceiptsDue(), self._step.now_us + self._receipts_us))

    def receipts_due(self, timer: ReceiptsDue) -> None:
        self._is_timer_set = False
        self._sessions.flush_all(self._step.out)
        self._news(True)
