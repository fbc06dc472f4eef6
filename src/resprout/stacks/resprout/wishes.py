"""What clients and neighbours say they want."""

from collections.abc import Iterable, Mapping

from resprout.core.contract import Send
from resprout.core.errors import PeerError, UsageError
from resprout.edge.broker.quotas import LimitError
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Subscribe, SubscribeRefused, Unsubscribe
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.order.link import Link
from resprout.spread.interest import INTERESTS_MAX, Interest
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested
from resprout.spread.needs import Base, Wish
from resprout.stacks.resprout.client_book import ListenerBook
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.postponed import PostponedRequests
from resprout.stacks.routes import Routes


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
    ) -> None:
        self._life = life
        self._outbound = outbound
        self._interest = interest
        self._sessions = sessions
        self._routes = routes
        self._disk = disk
        self._listeners = listeners
        self.postponed = PostponedRequests(life, links, sessions.quotas, self._take)

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
            reason = f"{life.seat.name} knows {INTERESTS_MAX} interests, the most it may (limit interests)"
            life.out.append(Send(client.name, SubscribeRefused(message.id, reason)))
            return
        self._listeners.came(client.name)
        self._sessions.subscribe(client, message, life.out)
        if self._disk is not None and message.filter.startswith("$"):
            self._disk.asked()

    def _is_known(self, message: Subscribe) -> bool:
        """Whether it adds no interest; what cannot be read is refused elsewhere."""
        try:
            return self._interest.knows(parse_predicate(message.filter, message.where))
        except UsageError:
            return True
