"""What clients and neighbours say they want."""

from resprout.core.contract import Send
from resprout.core.errors import PeerError, UsageError
from resprout.edge.broker.quotas import LimitError
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Subscribe, SubscribeRefused, Unsubscribe
from resprout.filters.predicate import parse_predicate
from resprout.order.link import Link
from resprout.spread.interest import INTERESTS_MAX
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.shell.desk import Handler


class Wishes:
    def __init__(self, core: Core, book: ClientBook) -> None:
        self._core = core
        self._book = book
        self.of_neighbours: dict[type, Handler] = {
            Interested: self._interested,
            InterestConfirmed: self._confirmed,
            Uninterested: self._uninterested,
        }
        self.of_clients: dict[type, Handler] = {
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
        }

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def _interested(self, link: Link, message: Interested) -> None:
        core = self._core
        try:
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            raise PeerError(str(error)) from None
        core.confirmed(core.interest.asked_by(link.name, message, predicate, core.outbound))

    def _confirmed(self, link: Link, message: InterestConfirmed) -> None:
        core = self._core
        core.confirmed(core.interest.confirmed_by(link.name, message, core.outbound))

    def _uninterested(self, link: Link, message: Uninterested) -> None:
        core = self._core
        core.confirmed(core.interest.withdrawn_by(link.name, message, core.outbound))

    # -- clients -------------------------------------------------------------------------------------------------------

    def _subscribe(self, client: ClientSession, message: Subscribe) -> None:
        core = self._core
        if message.where is not None:
            try:
                core.sessions.quotas.charge_parsing(client, len(message.where), core.now_us)
            except LimitError as error:
                core.sessions.quotas.refuse(client, error, core.out)
                core.out.append(Send(client.name, SubscribeRefused(message.id, str(error))))
                return
        if core.interest.is_full and not self._is_known(message):
            reason = f"{core.seat.name} knows {INTERESTS_MAX} interests, the most it may (limit interests)"
            core.out.append(Send(client.name, SubscribeRefused(message.id, reason)))
            return
        self._book.listeners.came(client.name)
        core.sessions.subscribe(client, message, core.out)
        if core.disk is not None and message.filter.startswith("$"):
            core.disk.asked()

    def _is_known(self, message: Subscribe) -> bool:
        """Whether it adds no interest; what cannot be read is refused elsewhere."""
        try:
            return self._core.interest.knows(parse_predicate(message.filter, message.where))
        except UsageError:
            return True

    def _unsubscribe(self, client: ClientSession, message: Unsubscribe) -> None:
        self._core.sessions.unsubscribe(client, message, self._core.out)
