"""Subscriptions that clients and neighbours begin and end, and what this broker then asks of its neighbours.

`Wishes` hears the requests. `ClientInterest` is the interest of this broker's clients, as their sessions ask for it
(`edge.broker.ports`). Dropping the interest of a client takes some 30 µs for each subscription. When a client leaves
that has many, they are dropped a portion at a time (`drop_more`), so that no step takes seconds. Until then what
matches is given to no session, and a client of the same name has to wait. Filters with wildcards go last: without a
wide one, neighbours would be asked for all that it covered.

`PostponedRequests` keeps requests while neighbours lag behind with what they were told before. Each request may have to
be told to every neighbour, and one that ends a wide subscription makes this broker ask for all that it covered. These
messages count against no window, and publications wait behind them. So while a neighbour has many messages to
acknowledge (`Congested`), such requests wait here: the clients that cause them wait, and nobody else. What a client
begins and ends meanwhile is told to nobody. The number of requests that wait is bounded: subscriptions count as if they
were there, and only those that are there can be ended.

Requests wait for the next portion, too, when subscriptions have made this broker look at its whole log several times in
this step. A new subscription needs to know how far all origins have come. That is found once for all subscriptions
between two publications, so clients that publish and subscribe in turn would have it looked for each time.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from resprout.core.contract import Congested, Send, SetTimer, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.edge.broker.owed import BroughtSubscriptions
from resprout.edge.broker.quotas import LimitError, Quotas, party_of
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Subscribe, SubscribeRefused, Unsubscribe, Unsubscribed
from resprout.filters.predicate import Predicate, is_plain, parse_predicate
from resprout.order.link import Link
from resprout.spread.covers import Base, Wish
from resprout.spread.interest import INTERESTS_MAX, Interest
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested
from resprout.stacks.desk import end_code
from resprout.stacks.resprout.client_book import ListenerBook
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import BroughtAlong, ClientAtFault
from resprout.stacks.routes import Routes
from resprout.stacks.shell import Step

DROP_PORTION: Final = 1_000
"""Subscriptions of a client that leaves, which are dropped in one step."""
DROP_PORTION_US: Final = 5_000
"""Between two portions."""

TAKE_UP_PORTION: Final = 256
"""Requests that are taken up in one step."""
TAKE_UP_PORTION_US: Final = 1_000
"""Between two portions."""
UNPAID_US: Final = 20_000
"""Between two portions while all that waits has to pay first."""
SEARCHES_AT_ONCE: Final = 8
"""How often subscriptions may have the whole log looked at in one step: each takes about 16 ms for 60,000 entries."""

Request = Subscribe | Unsubscribe


class DropMore(Timer, frozen=True):
    """When to drop the next portion."""


class ClientInterest:
    """What neighbours must hear goes to `outbound`."""

    def __init__(self, interest: Interest, outbound: Outbound, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when somebody may want something else than before."""
        self._interest = interest
        self._outbound = outbound
        self.changed = changed
        self.leaving: dict[str, None] = {}
        """Clients that have left, and whose interest is not all dropped yet."""
        self._dropped = (-1, 0)
        """When clients left last, and how many of their wishes were dropped at once then."""

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> list[Wish]:
        self.changed()
        return self._interest.want(client, predicate, self._outbound, confirmed)

    def drop(self, client: str, predicate: Predicate) -> list[Wish]:
        self.changed()
        return self._interest.drop(client, predicate, self._outbound)

    def drop_all(self, client: str) -> list[Wish]:
        self.changed()
        if client in self.leaving:
            is_first = len(self.leaving) == 1 and len(self._interest.index.predicates_of(client)) > DROP_PORTION
            return self._drop_portion(client, DROP_PORTION) if is_first else []
        return self._interest.drop_all(client, self._outbound)

    def leave_slowly(self, client: str, now_us: int) -> None:
        """It is about to leave: if it wants much, or many that leave in this step do, `drop_more` drops the most."""
        count = len(self._interest.index.predicates_of(client))
        if self._dropped[0] != now_us:
            self._dropped = (now_us, 0)
        if self._dropped[1] + count > DROP_PORTION:
            self.leaving[client] = None
        else:
            self._dropped = (now_us, self._dropped[1] + count)

    def drop_more(self) -> list[Wish]:
        """Drop a portion of what those want that leave: all of them share it."""
        self.changed()
        most = max(1, DROP_PORTION // len(self.leaving)) if self.leaving else 0
        return [wish for client in list(self.leaving) for wish in self._drop_portion(client, most)]

    def _drop_portion(self, client: str, most: int) -> list[Wish]:
        predicates = self._interest.index.predicates_of(client)
        if len(predicates) <= most:
            del self.leaving[client]
            return self._interest.drop_some(client, predicates, self._outbound)
        plain = tuple(islice((one for one in predicates if is_plain(one.filter)), most))
        return self._interest.drop_some(client, plain or predicates[:most], self._outbound)


class TakeUpRequests(Timer, frozen=True):
    """When to take up the next portion of postponed requests."""


class _Waiting:
    """Requests of one client, by subscription; or what it brings along before it is served."""

    __slots__ = ("brought", "requests", "session")

    def __init__(self, session: ClientSession, brought: BroughtSubscriptions | None = None) -> None:
        self.session = session
        self.brought = brought
        self.requests: dict[int, Request] = {}


class PostponedRequests:
    def __init__(
        self,
        step: Step,
        links: Mapping[str, object],
        quotas: Quotas,
        take: Callable[[ClientSession, Any], None],
        take_brought: Callable[[ClientSession, BroughtSubscriptions], None],
        searches: Callable[[], int] = lambda: 0,
        may_have_values: Callable[[ClientSession], bool] = lambda session: True,
    ) -> None:
        """`take` handles a request when its time has come, `take_brought` one more of what a client brings along.
        `searches` tells how often the whole log was looked at so far (`Retained`). `may_have_values` tells whether a
        subscription of a client may begin with last values now (`ValueReads`)."""
        self._may_have_values = may_have_values
        self._step = step
        self._links = links
        self._quotas = quotas
        self._take = take
        self._take_brought = take_brought
        self._congested: dict[str, None] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._begun: dict[str, int] = {}
        """By party: subscriptions that wait."""
        self._searches = searches
        self._before = (-1, 0)
        """The time of the last step with a request, and the searches before it."""

    def __len__(self) -> int:
        """Return how many requests wait, and clients that bring subscriptions along."""
        return sum(len(one.requests) + (one.brought is not None) for one in self._waiting.values())

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
        now_us, searches = self._step.now_us, self._searches()
        if self._before[0] != now_us:
            self._before = (now_us, searches)
        if session.name in self._waiting or self._is_congested():
            self._postpone(session, message)
        elif searches - self._before[1] >= SEARCHES_AT_ONCE or not self._is_due(session, message):
            self._postpone(session, message)
            self._step.out.append(SetTimer(TakeUpRequests(), now_us + TAKE_UP_PORTION_US))
        else:
            self._take(session, message)

    def bring(self, session: ClientSession, brought: BroughtSubscriptions) -> None:
        """Take up what a client brings along that is not served yet."""
        self._waiting[session.name] = _Waiting(session, brought)
        if not self._is_congested():
            self._step.out.append(SetTimer(TakeUpRequests(), self._step.now_us + TAKE_UP_PORTION_US))

    def leave(self, name: str) -> None:
        """The session of a client is over."""
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            for message in waiting.requests.values():
                self._count(waiting.session, message)

    def take_up(self) -> None:
        """Take up a portion of what waits, one request of each client in turn."""
        is_idle, passed = True, 0
        for _ in range(TAKE_UP_PORTION):
            if not self._waiting or self._is_congested() or passed == len(self._waiting):
                break
            name = next(iter(self._waiting))
            waiting = self._waiting.pop(name)
            passed += 1
            if waiting.brought is not None:
                is_idle, passed = False, 0
                self._take_brought(waiting.session, waiting.brought)
                if not waiting.brought.is_whole:
                    self._waiting[name] = waiting
                continue
            message = next(iter(waiting.requests.values()))
            if not self._is_due(waiting.session, message):
                self._waiting[name] = waiting
                continue
            is_idle, passed = False, 0
            del waiting.requests[message.id]
            self._count(waiting.session, message)
            if waiting.requests:
                self._waiting[name] = waiting
            self._take(waiting.session, message)
        if self._waiting and not self._is_congested():
            pause_us = UNPAID_US if is_idle else TAKE_UP_PORTION_US
            self._step.out.append(SetTimer(TakeUpRequests(), self._step.now_us + pause_us))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _is_due(self, session: ClientSession, message: Request) -> bool:
        return not (isinstance(message, Subscribe) and message.retained) or self._may_have_values(session)

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


class Wishes:
    def __init__(
        self,
        life: BrokerLife,
        outbound: Outbound,
        interest: Interest,
        sessions: ClientSessions,
        routes: Routes,
        disk: DiskLog | None,
        listeners: ListenerBook,
        links: Mapping[str, Link],
        searches: Callable[[], int],
        begin_values: Callable[[ClientSession, int], None],
        may_have_values: Callable[[ClientSession], bool],
    ) -> None:
        """`searches`, `may_have_values`: see `PostponedRequests`. `begin_values` gives a subscription the last values
        that it asks for."""
        self._life = life
        self._outbound = outbound
        self._interest = interest
        self._sessions = sessions
        self._routes = routes
        self._disk = disk
        self._listeners = listeners
        self._begin_values = begin_values
        self.postponed = PostponedRequests(
            life, links, sessions.quotas, self._take, self._take_brought, searches, may_have_values
        )

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def interested(self, link: Link, message: Interested) -> None:
        try:
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            raise PeerError(str(error)) from None
        self._confirm(self._interest.asked_by(link.name, message, predicate, self._outbound))

    def confirmed(self, link: Link, message: InterestConfirmed) -> None:
        self._confirm(self._interest.confirmed_by(link.name, message, self._outbound))

    def uninterested(self, link: Link, message: Uninterested) -> None:
        self._confirm(self._interest.withdrawn_by(link.name, message, self._outbound))

    # -- links that begin and end --------------------------------------------------------------------------------------

    def reconcile(self, neighbour: str, asks: Iterable[tuple[int, Predicate, bool]]) -> None:
        """Take over what a new neighbour asks, in place of all that was asked on its link before."""
        self._confirm(self._interest.reconcile(neighbour, asks, self._outbound))

    def presume(self, neighbour: str, confirmed: Iterable[Predicate], base: Base) -> None:
        """Count what is asked of a new neighbour as confirmed, as far as it has confirmed it before."""
        self._confirm(self._interest.presume(neighbour, confirmed, base, self._outbound))

    def remove_neighbour(self, neighbour: str) -> None:
        self._confirm(self._interest.remove_neighbour(neighbour, self._outbound))

    def _confirm(self, wishes: list[Wish]) -> None:
        """Tell local clients which wishes are confirmed. Interest has changed."""
        if wishes:
            self._sessions.confirm(wishes, self._life.out)
        self._routes.forget()

    # -- clients -------------------------------------------------------------------------------------------------------

    def _take(self, client: ClientSession, message: Subscribe | Unsubscribe) -> None:
        if isinstance(message, Subscribe):
            self._subscribe(client, message)
        else:
            self._sessions.unsubscribe(client, message, self._life.out)

    def _take_brought(self, client: ClientSession, brought: BroughtSubscriptions) -> None:
        """Take one more subscription that a client brings along."""
        life = self._life
        try:
            held = brought.reader.read_one()
            if held is None:
                brought.is_whole = True
                life.outcomes.append(BroughtAlong(client.name))
            elif self._interest.is_full and not self._interest.knows(held.predicate):
                client.withhold(SubscribeRefused(held.id, self._too_many()))
            else:
                self._sessions.take_held(client, held, brought, life.out)
        except PeerError as error:
            brought.is_whole = True
            life.outcomes.append(ClientAtFault(client.name, str(error), end_code(error)))

    def _too_many(self) -> str:
        return f"{self._life.seat.name} knows {INTERESTS_MAX} interests, the most it may (limit interests)"

    def _subscribe(self, client: ClientSession, message: Subscribe) -> None:
        life = self._life
        if message.where is not None:
            try:
                self._sessions.quotas.charge_parsing(client, len(message.where), life.now_us)
            except LimitError as error:
                self._sessions.quotas.refuse(client, error, life.out)
                life.out.append(Send(client.name, SubscribeRefused(message.id, str(error))))
                return
        if self._interest.is_full and not self._is_known(message):
            life.out.append(Send(client.name, SubscribeRefused(message.id, self._too_many())))
            return
        self._listeners.came(client.name)
        self._sessions.subscribe(client, message, life.out)
        if message.retained and message.id in client.subscriptions:
            self._begin_values(client, message.id)
        if self._disk is not None and (predicate := client.subscriptions.get(message.id)) is not None:
            self._disk.asked((predicate,))

    def _is_known(self, message: Subscribe) -> bool:
        """Whether it adds no interest; what cannot be read is refused elsewhere."""
        try:
            return self._interest.knows(parse_predicate(message.filter, message.where))
        except UsageError:
            return True
