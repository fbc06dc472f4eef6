"""Which new durable subscriptions a broker accepts: it checks names, terms and limits before it begins one."""

from typing import Final

from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.edge.broker.consumers import Consumers
from resprout.edge.broker.quotas import LimitError
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.durable_messages import Consume, Consuming, Standing, Terms, WhenFull
from resprout.filters.predicate import parse_predicate
from resprout.stacks.resprout.dead_letters import fault_of_name, fault_of_store, store_name, store_terms
from resprout.stacks.resprout.durable_book import SUBSCRIPTIONS_MAX, DurableBook
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.spilling import Spilling

ACK_WAIT_MIN_US: Final = 100_000
"""The shortest time after which a message is taken back from its consumer: less would keep the broker busy."""


class DurableAdmission:
    def __init__(
        self, life: BrokerLife, sessions: ClientSessions, book: DurableBook, spilling: Spilling, consumers: Consumers
    ) -> None:
        self._life = life
        self._sessions = sessions
        self._book = book
        self._spilling = spilling
        self._consumers = consumers

    def refusal(self, session: ClientSession, message: Consume, state: DurableState | None) -> Consuming | None:
        """Return why a client may not begin a subscription that no broker holds. None: it may, and is charged for it.

        `state`: what this broker knows of the subscription.
        """
        if message.turn:
            if state is not None:
                return Consuming(Standing.ENDED, f"{message.subscription!r} was ended")
            return Consuming(
                Standing.INCOMPLETE, f"no broker knows {message.subscription!r} any more: messages may be missing"
            )
        try:
            check_name(message.subscription, "name of a durable subscription")
            self._sessions.quotas.charge_parsing(session, len(message.terms.where or ""), self._life.now_us)
            predicate = parse_predicate(message.terms.filter, message.terms.where)
        except UsageError as error:
            return Consuming(Standing.REFUSED, str(error))
        if (retry := message.terms.retry) is not None:
            store = self._book.states.get(store_name(message.subscription))
            fault = fault_of_name(message.subscription) or fault_of_store(store, message.terms, session.identity)
            if 0 < retry.ack_wait_us < ACK_WAIT_MIN_US:
                fault = f"ack_wait is {retry.ack_wait_us} us; at least {ACK_WAIT_MIN_US}"
            if fault:
                return Consuming(Standing.REFUSED, fault)
        if self._book.is_full():
            limit = f"the network has {SUBSCRIPTIONS_MAX} durable subscriptions, the most it may have"
            return Consuming(Standing.REFUSED, f"{limit} (limit durable_subscriptions)")
        if message.terms.when_full is WhenFull.DROP_OLDEST and not message.terms.max_pending:
            return Consuming(Standing.REFUSED, "nothing may wait, so nothing would be left")
        if message.terms.when_full is WhenFull.SPILL and not self._spilling.is_offered:
            reason = f"{self._life.seat.name} spills nothing to disk (its spill_bytes is 0)"
            return Consuming(Standing.UNSUPPORTED, reason)
        quotas = self._sessions.quotas
        try:
            quotas.take_durable(session, message.subscription, predicate)
            if self.needs_store(message.subscription, message.terms):
                filter = store_terms(message.terms).filter
                quotas.take_durable(session, store_name(message.subscription), parse_predicate(filter, None))
        except LimitError as error:
            quotas.end_durable(message.subscription)
            quotas.refuse(session, error, self._life.out)
            return Consuming(Standing.REFUSED, str(error))
        return None

    def needs_store(self, subscription: str, terms: Terms) -> bool:
        """Return whether a subscription needs a store for its dead letters that no broker holds yet."""
        name = store_name(subscription)
        state = self._book.states.get(name)
        return terms.retry is not None and name not in self._consumers.held and (state is None or state.over)
