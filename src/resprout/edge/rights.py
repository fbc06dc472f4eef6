"""What a client may do: the decision, and nothing else.

Rights are lists of topic filters, and of names of durable subscriptions. What no entry allows is not allowed; there are
no exceptions that take back what one of them allows. A subscription is allowed as a whole or not at all: every topic
that its filter matches must be matched by a single filter of the list, so that nobody sees less than it asked for
without knowing.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.filters.predicate import filter_covers, topic_matches

REPLIES: Final = "$reply"
"""The first level of the topics on which clients are answered."""
ANY_NAME: Final = "*"
"""Fits every name."""


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
