"""The clients of a broker that serves whoever comes: their coming and going, what they may say, what they are told.

A client is served as soon as the broker is ready (`is_ready`), and until then it waits. Nothing is kept for clients of
brokers that are gone: one that returns with subscriptions is told that it may have missed something, and subscribes
again. A stack that makes good what was missed, or sends clients elsewhere, gives an `attend` of its own.
"""

from collections.abc import Callable, Mapping
from typing import Final

from resprout.core.contract import Close, LinkUp, Send, SetTimer, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import check_offered
from resprout.edge.broker.owed import read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, Publish, Subscribe, Successor, Successors, Taken, Unsubscribe
from resprout.stacks.shell.desk import Desk, Handler
from resprout.stacks.shell.step import Step
from resprout.wire.columns import check_columns

RECEIPTS_US: Final = 10_000
"""How long receipts that nobody waits for may wait for company."""


class ReceiptsDue(Timer, frozen=True):
    """When to tell clients the receipts that nobody waits for."""


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
        left: Callable[[str], None] = lambda name: None,
        receipts_us: int = RECEIPTS_US,
    ) -> None:
        """`publish` is told of bundles that a client may publish, to this network, now; `left`, who is gone."""
        self._step = step
        self._sessions = sessions
        self._publish = publish
        self._is_ready = is_ready
        self._successors = successors
        self._attend = attend or self.wait
        self._left = left
        self._receipts_us = receipts_us
        self._waiting: dict[str, Attend] = {}
        """Clients that are not served yet."""
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
            check=lambda session, message: session.check_turn(message),
            is_only=True,
        )

    # -- sessions ------------------------------------------------------------------------------------------------------

    def up(self, event: LinkUp) -> None:
        self._sessions.arrive(event.peer, event.incarnation, event.room)

    def has(self, name: str) -> bool:
        return name in self._sessions.all

    def writable(self, name: str, room: int) -> None:
        self._sessions.writable(self._sessions.all[name], room, self._step.out)

    def leave(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._sessions.leave(name, self._step.out)
        self._left(name)

    def cut_off(self, name: str, reason: str) -> None:
        self._step.out.append(Close(name, reason))
        self.leave(name)

    # -- what they say -------------------------------------------------------------------------------------------------

    def wait(self, session: ClientSession, message: Attend) -> None:
        """It is served when the broker is ready."""
        read_held(message.subscriptions)  # now, while it is its sender that is blamed
        self._waiting[session.name] = message

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
        """Those that wait, when the broker is ready; and whoever is served hears where to turn when it is gone."""
        sessions, out, successors = self._sessions, self._step.out, self._successors()
        if successors != self._told:
            self._told = successors
            out.extend(Send(one.name, Successors(successors)) for one in sessions.all.values() if one.attending)
        if self._waiting and self._is_ready():
            for name, message in self._waiting.items():
                sessions.welcome(sessions.all[name], message, successors, not message.subscriptions, out)
            self._waiting.clear()

    def tell(self) -> None:
        """Receipts: those that somebody waits for now, the others soon."""
        self._sessions.flush(self._step.out)
        if self._sessions.patient and not self._is_timer_set:
            self._is_timer_set = True
            self._step.out.append(SetTimer(ReceiptsDue(), self._step.now_us + self._receipts_us))

    def receipts_due(self, timer: ReceiptsDue) -> None:
        self._is_timer_set = False
        self._sessions.flush_all(self._step.out)
