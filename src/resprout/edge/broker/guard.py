"""The one place where a client's rights are looked at: what it says, before the stack hears it.

What it may not do is answered the way a stack refuses anything: a publication by `PublishRefused`, which is definite, a
subscription by `SubscribeRefused`. One that it brings along from another broker and may not have is taken from it, and
it is told so when it has said that it has come. Who may do what with a durable subscription depends on its owner, whom
the stack knows: a consumer is given a `DurableGrant`, and the stack decides (`edge.rights`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import (
    Consume,
    Consuming,
    DurableAction,
    FollowedUp,
    FollowUp,
    Standing,
    WhenFull,
)
from resprout.edge.messages import (
    AskAudience,
    Attend,
    AudienceTold,
    BrokersForgotten,
    ForgetBrokers,
    HeldSubscription,
    Publish,
    PublishRefused,
    Subscribe,
    SubscribeRefused,
)
from resprout.edge.position_messages import AskPosition, ChangeLog, LogChanged
from resprout.edge.rights import ANY_NAME, DurableGrant, Rights, is_listed, may_block, may_hear, may_publish
from resprout.edge.value_messages import AskValues, ValuesTold
from resprout.values.rows import RETAIN_KEY

TOPICS_KEPT: Final = 1024
"""Decisions about topics that are remembered for one client."""

Guarded = tuple[Any, tuple[ProtocolMessage, ...]]
"""What is heard in place of what was said, None for nothing; and what the client is told."""


class Permit:
    """The rights of a client as they are used: each topic is looked up once."""

    __slots__ = ("_topics", "rights")

    def __init__(self, rights: Rights) -> None:
        self.rights = rights
        self._topics: dict[str, bool] = {}

    def publishes(self, topic: str) -> bool:
        allowed = self._topics.get(topic)
        if allowed is None:
            if len(self._topics) >= TOPICS_KEPT:
                self._topics.clear()
            allowed = self._topics[topic] = may_publish(self.rights, topic)
        return allowed

    def forbidden(self, bundle: Bundle) -> str | None:
        """A topic that the bundle would reach and may not: its own, or one of those whose keys it names
        (`core.bundle`). None when it may be published."""
        if not self.publishes(bundle.topic):
            return bundle.topic
        for key in bundle.keys:
            if "#" in key and key != RETAIN_KEY and not self.publishes(topic := key.partition("#")[0]):
                return topic
        return None


class Guard:
    """`permit`: of a client, by name, on the connection that it speaks on; `refused` is told who was refused what, in
    one of a few words. Names of durable subscriptions: `is_kept` for those whose rules list it; `is_for_anybody` to
    consume."""

    def __init__(
        self,
        permit: Callable[[str], Permit],
        refused: Callable[[str, str], None],
        is_kept: Callable[[str], bool] = lambda durable: False,
        is_for_anybody: Callable[[str], bool] = lambda durable: False,
    ) -> None:
        self._permit = permit
        self._refused = refused
        self._is_kept = is_kept
        self._is_for_anybody = is_for_anybody
        self._checks: dict[type, Callable[[ClientSession, Any, Permit], Guarded]] = {
            Publish: self._publish,
            Subscribe: self._subscribe,
            Attend: self._attend,
            ForgetBrokers: self._forget,
            Consume: self._consume,
            FollowUp: self._follow_up,
            AskAudience: self._ask_audience,
            AskPosition: self._ask_position,
            ChangeLog: self._change_log,
            AskValues: self._ask_values,
        }

    def __call__(self, session: ClientSession, message: Any) -> Guarded:
        check = self._checks.get(type(message))
        return check(session, message, self._permit(session.name)) if check is not None else (message, ())

    def _publish(self, session: ClientSession, message: Publish, permit: Permit) -> Guarded:
        bundle = message.bundle
        forbidden = permit.forbidden(bundle)
        if forbidden is None:
            return message, ()
        session.skip(bundle)
        self._refused(session.name, "it may not publish there")
        reason = f"{session.name} may not publish on {forbidden}"
        return None, (PublishRefused(bundle.stream, bundle.first, bundle.count, reason),)

    def _follow_up(self, session: ClientSession, message: FollowUp, permit: Permit) -> Guarded:
        forbidden = permit.forbidden(message.bundle)
        if forbidden is None:
            return message, ()
        self._refused(session.name, "it may not publish there")
        return None, (FollowedUp(message.span, f"{session.name} may not publish on {forbidden}"),)

    def _subscribe(self, session: ClientSession, message: Subscribe, permit: Permit) -> Guarded:
        if not may_hear(permit.rights, session.name, message.filter):
            return None, (self._no_subscription(session, message.id, message.filter),)
        session.may_block = session.may_block and may_block(permit.rights, message.filter)
        if message.when_full is WhenFull.BLOCK and not session.may_block:
            return None, (SubscribeRefused(message.id, self._no_block(session, message.filter)),)
        return message, ()

    def _attend(self, session: ClientSession, message: Attend, permit: Permit) -> Guarded:
        if len(message.subscriptions) > session.held_at_once:  # each takes some microseconds
            session.hears = partial(self._hears, session, permit)
            return message, ()
        kept: list[HeldSubscription] = []
        for held in message.subscriptions:
            if may_hear(permit.rights, session.name, held.filter):
                kept.append(held)
            else:
                session.withhold(self._no_subscription(session, held.id, held.filter))
        if session.withheld:
            message = msgspec.structs.replace(message, subscriptions=tuple(kept))
        session.may_block = all(may_block(permit.rights, held.filter) for held in kept)
        if message.when_full is WhenFull.BLOCK and not session.may_block:
            message = msgspec.structs.replace(message, when_full=WhenFull.DISCONNECT)
        return message, ()

    def _hears(self, session: ClientSession, permit: Permit, id: int, topic_filter: str) -> SubscribeRefused | None:
        """Check one of many subscriptions that a client brings along."""
        if not may_hear(permit.rights, session.name, topic_filter):
            return self._no_subscription(session, id, topic_filter)
        session.may_block = session.may_block and may_block(permit.rights, topic_filter)
        return None

    def _consume(self, session: ClientSession, message: Consume, permit: Permit) -> Guarded:
        """What it subscribes to is looked at here, and whose it is where that is known."""
        session.grant = partial(self._grant, session, permit)
        if message.ends or message.action is not DurableAction.CONSUME:
            return message, ()
        terms = message.terms
        if not may_hear(permit.rights, session.name, terms.filter):
            self._refused(session.name, "it may not subscribe to that")
            reason = f"{session.name} may not subscribe to {terms.filter}"
        elif (retry := terms.retry) is not None and not (
            permit.publishes(retry.topic) and may_hear(permit.rights, session.name, retry.topic)
        ):
            self._refused(session.name, "it may not have dead letters there")
            reason = f"{session.name} may not publish and subscribe to {retry.topic}, the topic of its dead letters"
        elif terms.when_full is WhenFull.DROP_OLDEST or may_block(permit.rights, terms.filter):
            return message, ()
        else:
            reason = self._no_block(session, terms.filter)
        return None, (Consuming(Standing.REFUSED, reason),)

    def _ask_position(self, session: ClientSession, message: AskPosition, permit: Permit) -> Guarded:
        """Positions of logs belong to identities, too. The leader of the log knows the owner."""
        session.grant = partial(self._grant, session, permit)
        return message, ()

    def _grant(self, session: ClientSession, permit: Permit, durable: str) -> DurableGrant:
        """A star lists what others own; whoever has one does not become the owner of what it happens to look at."""
        rights, kept = permit.rights, self._is_kept(durable)
        lists = rights.unruled or is_listed(rights.consume, durable)
        creates = lists or (bool(session.identity) and not kept)
        names = [name for name in rights.consume if name != ANY_NAME]
        is_its_name = is_listed(names, durable) if kept else len(names) == len(rights.consume)
        adopts = is_its_name and bool(session.identity) and not (rights.unruled or self._is_for_anybody(durable))
        manages = rights.operate if rights.unruled else is_listed(rights.manage, durable)
        hears = partial(may_hear, rights, session.name)
        return DurableGrant(
            lists, creates, adopts, manages, rights.unruled, hears, partial(self._refused, session.name)
        )

    def _no_block(self, session: ClientSession, topic_filter: str) -> str:
        """All subscriptions of a client have one policy, so it counts for all of them."""
        self._refused(session.name, "it may not make publishers wait")
        what = f"{session.name} may not make publishers of {topic_filter} wait, or of another filter that it has"
        return f"{what}: choose another `when_full`, or let the rules `block` for these filters"

    def _no_subscription(self, session: ClientSession, id: int, topic_filter: str) -> SubscribeRefused:
        self._refused(session.name, "it may not subscribe to that")
        return SubscribeRefused(id, f"{session.name} may not subscribe to {topic_filter}")

    def _ask_audience(self, session: ClientSession, message: AskAudience, permit: Permit) -> Guarded:
        """Who may not publish there learns nothing about who listens, and is refused when it publishes."""
        if all(map(permit.publishes, message.topics)):
            return message, ()
        return None, (AudienceTold(message.id, True),)

    def _ask_values(self, session: ClientSession, message: AskValues, permit: Permit) -> Guarded:
        """Last values are for those who may subscribe to them."""
        if may_hear(permit.rights, session.name, message.filter):
            return message, ()
        self._refused(session.name, "it may not subscribe to that")
        reason = f"{session.name} may not subscribe to {message.filter}"
        return None, (ValuesTold(message.id, (), -1, reason=reason),)

    def _forget(self, session: ClientSession, message: ForgetBrokers, permit: Permit) -> Guarded:
        if permit.rights.operate:
            return message, ()
        self._refused(session.name, "it is no operator")
        return None, (BrokersForgotten(message.names, f"{session.name} may not say so: it is no operator"),)

    def _change_log(self, session: ClientSession, message: ChangeLog, permit: Permit) -> Guarded:
        if permit.rights.operate:
            return message, ()
        self._refused(session.name, "it is no operator")
        return None, (LogChanged(message.id, f"{session.name} may not change logs: it is no operator"),)
