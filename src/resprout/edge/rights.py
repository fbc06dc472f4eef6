"""What a client may do: rights on topics and on durable subscriptions. This module decides, and does nothing else.

Rights are lists of topic filters, and of names of durable subscriptions. What no entry allows is not allowed; there are
no exceptions that take back what an entry allows. A subscription is allowed as a whole or not at all: a single filter
of the list must match every topic that the subscription's filter matches, so that no client silently receives less than
it asked for.

A durable subscription belongs to the identity that created it. `edge.broker.guard` finds out what a client may do with
one (`DurableGrant`); the stack decides where the owner is known, at every broker in the same way. A subscription
without an owner was created where no client proved its identity, or by a release that knew no owners. The first
identity that consumes it becomes its owner, unless the rules let everybody consume it.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from resprout.edge.broker.session import ClientSession
from resprout.filters.predicate import filter_covers, topic_matches

REPLIES: Final = "$reply"
"""The first level of the topics on which clients are answered."""
ANY_NAME: Final = "*"
"""Fits every name."""

NOT_ITS_OWN = "the durable subscription belongs to another identity"
"""Why somebody was refused, for the log: one of a few texts."""


class Rights(msgspec.Struct, frozen=True):
    publish: tuple[str, ...] = ()
    """Filters of the topics to publish on."""
    subscribe: tuple[str, ...] = ()
    """Filters that cover every subscription."""
    operate: bool = False
    """May tell the network to forget brokers, and see what it is like."""
    observe: bool = False
    """May see what it is like: `resprout status` and the like."""
    consume: tuple[str, ...] = ()
    """Names of durable subscriptions of others that it may consume, or beginnings of names with a star behind them."""
    manage: tuple[str, ...] = ()
    """The same, of those that it may end."""
    unruled: bool = False
    """No rules say what it may do: it may publish, subscribe and consume as it likes."""
    block: tuple[str, ...] = ()
    """Filters that cover every subscription for which publishers may have to wait, plain or durable."""

    @property
    def sees(self) -> bool:
        return self.operate or self.observe


NOTHING = Rights()


def name_fits(pattern: str, name: str) -> bool:
    """Whether a name, or the beginning of one with a star behind it, is that of this client or subscription."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def is_listed(patterns: Iterable[str], name: str) -> bool:
    return any(name_fits(pattern, name) for pattern in patterns)


def reply_topic(client: str) -> str:
    """Where this client, and no other, hears replies to its requests."""
    return f"{REPLIES}/{client}"


def may_publish(rights: Rights, topic: str) -> bool:
    return rights.unruled or any(topic_matches(allowed, topic) for allowed in rights.publish)


def may_subscribe(rights: Rights, topic_filter: str) -> bool:
    return rights.unruled or any(filter_covers(allowed, topic_filter) for allowed in rights.subscribe)


def may_hear(rights: Rights, client: str, topic_filter: str) -> bool:
    """Whether a client may subscribe to a filter, consume it, or read its past. Replies to a client are for that client
    in any case, and for nobody else, whatever the rules say."""
    if topic_filter.startswith(f"{REPLIES}/"):
        return topic_filter == reply_topic(client)
    return may_subscribe(rights, topic_filter)


def may_block(rights: Rights, topic_filter: str) -> bool:
    """Whether publishers of these topics may have to wait for a subscriber that does not read."""
    return rights.unruled or any(filter_covers(allowed, topic_filter) for allowed in rights.block)


def includes(wide: Rights, narrow: Rights) -> bool:
    """Whether whoever has the first may do all that the second allows. False also where only several filters together
    would do: then it is taken for narrower."""
    return (
        (wide.unruled or not narrow.unruled)
        and all(any(filter_covers(allowed, one) for allowed in wide.publish) for one in narrow.publish)
        and all(may_subscribe(wide, one) for one in narrow.subscribe)
        and _lists_all(wide.consume, narrow.consume)
        and _lists_all(wide.manage, narrow.manage)
        and all(may_block(wide, one) for one in narrow.block)
        and (wide.operate or not narrow.operate)
        and (wide.sees or not narrow.sees)
    )


def _lists_all(wide: Iterable[str], narrow: Iterable[str]) -> bool:
    return all(any(name_fits(one, other) or one == other for one in wide) for other in narrow)


class DurableGrant(msgspec.Struct, frozen=True):
    """What a client may do with one durable subscription, whoever owns it."""

    lists: bool
    """Its rules list the name: it may consume the subscription of others."""
    creates: bool
    """It may create the subscription: the rules do not keep the name for others."""
    adopts: bool
    """It becomes the owner of one that has none."""
    manages: bool
    """It may end the subscription of others."""
    sees_terms: bool
    """It may be told what a subscription of others is."""
    hears: Callable[[str], bool]
    """Whether it may subscribe to a filter."""
    refused: Callable[[str], None]
    """Is told, in one of a few texts, why the client was refused."""


def fault_of_consumer(session: ClientSession, name: str, owner: str | None) -> str:
    """Why a client may not consume the subscription; empty when it may. `owner`: empty for one without, None when there
    is no such subscription yet."""
    grant = _grant(session, name)
    if grant is None or grant.lists or (owner and owner == session.identity) or (not owner and grant.creates):
        return ""
    if owner is None:
        grant.refused("the rules keep the name of the durable subscription for others")
        return f"{session.name} may not create {name!r}: the rules keep that name for other identities (`consume`)"
    grant.refused(NOT_ITS_OWN)
    return f"{session.name} may not consume {name!r}: it belongs to another identity, and no `consume` rule lists it"


def fault_of_end(session: ClientSession, name: str, owner: str) -> str:
    """Why a client may not end the subscription; empty when it may."""
    grant = _grant(session, name)
    if grant is None or grant.manages or (owner and owner == session.identity):
        return ""
    if not owner and (grant.lists or grant.creates):
        return ""
    grant.refused(NOT_ITS_OWN)
    return f"{session.name} may not end {name!r}: it belongs to another identity, and no `manage` rule lists it"


def fault_of_peek(session: ClientSession, topic_filter: str) -> str:
    """Why a client may not be shown messages of a subscription to this filter that it may consume; empty when it
    may."""
    grant = _grant(session, "")
    if grant is None or grant.hears(topic_filter):
        return ""
    grant.refused("it may not subscribe to that")
    return f"{session.name} may not subscribe to {topic_filter}"


def sees_terms(session: ClientSession, name: str, owner: str) -> bool:
    """Whether a client that asks for something else under the same name may be told what is there."""
    grant = _grant(session, name)
    return grant is None or grant.sees_terms or (bool(owner) and owner == session.identity)


def adopter(session: ClientSession, name: str) -> str:
    """Who owns a subscription without an owner once this client consumes it; empty: still nobody."""
    grant = _grant(session, name)
    return session.identity if grant is not None and grant.adopts else ""


def _grant(session: ClientSession, name: str) -> DurableGrant | None:
    return session.grant(name) if session.grant is not None else None
