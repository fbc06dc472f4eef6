"""Subscriptions that clients begin and end while neighbours lag behind with what they were told before.

Each may have to be told to every neighbour, and one that ends a wide subscription makes this broker ask for all that it
covered. These messages count against no window, and publications wait behind them. So while a neighbour has many
messages to acknowledge (`Congested`), such requests wait here: the clients that cause them wait, and nobody else. What
a client begins and ends meanwhile is told to nobody.

What waits has a bound: subscriptions count as if they were there, and only those that are there can be ended.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from resprout.core.contract import Congested, Send, SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.edge.broker.quotas import LimitError, Quotas, party_of
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Subscribe, SubscribeRefused, Unsubscribe, Unsubscribed
from resprout.stacks.shell.step import Step

PORTION: Final = 256
"""Requests that are taken up in one step."""
PORTION_US: Final = 1_000
"""Between two portions."""

Request = Subscribe | Unsubscribe


class TakeUpRequests(Timer, frozen=True):
    """When to take up the next portion of postponed requests."""


class _Waiting:
    """Requests of one client, by subscription."""

    __slots__ = ("requests", "session")

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.requests: dict[int, Request] = {}


class PostponedRequests:
    def __init__(
        self, step: Step, links: Mapping[str, object], quotas: Quotas, take: Callable[[ClientSession, Any], None]
    ) -> None:
        """`take` handles a request when its time has come."""
        self._step = step
        self._links = links
        self._quotas = quotas
        self._take = take
        self._congested: dict[str, None] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._begun: dict[str, int] = {}
        """By party: subscriptions that wait."""

    def __len__(self) -> int:
        """Return how many requests wait."""
        return sum(len(one.requests) for one in self._waiting.values())

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def congested(self, event: Congested) -> None:
        if event.is_congested:
            self._congested[event.peer] = None
        else:
            self.forget_peer(event.peer)

    def forget_peer(self, peer: str) -> None:
        """A session with it ends or begins, or its backlog is gone."""
        if peer in self._congested:
            del self._congested[peer]
            self.take_up()

    # -- clients -------------------------------------------------------------------------------------------------------

    def ask(self, session: ClientSession, message: Request) -> None:
        """Take a request now, or later if neighbours have enough to do."""
        if session.name in self._waiting or self._is_congested():
            self._postpone(session, message)
        else:
            self._take(session, message)

    def leave(self, name: str) -> None:
        """The session of a client is over."""
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            for message in waiting.requests.values():
                self._count(waiting.session, message)

    def take_up(self) -> None:
        """Take up a portion of what waits, one request of each client in turn."""
        for _ in range(PORTION):
            if not self._waiting or self._is_congested():
                break
            name = next(iter(self._waiting))
            waiting = self._waiting.pop(name)
            message = waiting.requests.pop(next(iter(waiting.requests)))
            self._count(waiting.session, message)
            if waiting.requests:
                self._waiting[name] = waiting
            self._take(waiting.session, message)
        if self._waiting and not self._is_congested():
            self._step.out.append(SetTimer(TakeUpRequests(), self._step.now_us + PORTION_US))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _is_congested(self) -> bool:
        return any(name in self._links for name in self._congested)

    def _postpone(self, session: ClientSession, message: Request) -> None:
        waiting = self._waiting.get(session.name)
        before = waiting.requests.get(message.id) if waiting is not None else None
        if isinstance(message, Subscribe):
            if before is not None or message.id in session.subscriptions:
                raise PeerError(f"subscription {message.id} exists already")
            if (error := self._excess(session)) is not None:
                self._quotas.refuse(session, error, self._step.out)
                self._step.out.append(Send(session.name, SubscribeRefused(message.id, str(error))))
                return
            self._begun[party_of(session)] = self._begun.get(party_of(session), 0) + 1
        elif before is not None or message.id not in session.subscriptions:
            if isinstance(before, Subscribe) and waiting is not None:
                del waiting.requests[message.id]
                self._count(session, before)
                if not waiting.requests:
                    del self._waiting[session.name]
            self._step.out.append(Send(session.name, Unsubscribed(message.id)))
            return
        if waiting is None:
            waiting = self._waiting[session.name] = _Waiting(session)
        waiting.requests[message.id] = message

    def _excess(self, session: ClientSession) -> LimitError | None:
        """Why a party may not let another subscription wait."""
        party, most = party_of(session), session.limits.identity_subscriptions
        begun = self._begun.get(party, 0)
        if begun < most:
            return None
        return LimitError("identity_subscriptions", most, f"{party} has {begun} subscriptions that wait to begin")

    def _count(self, session: ClientSession, message: Request) -> None:
        """A request waits no longer."""
        if isinstance(message, Subscribe):
            party = party_of(session)
            self._begun[party] -= 1
            if not self._begun[party]:
                del self._begun[party]
