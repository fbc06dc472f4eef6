"""What a client may do: the decision, and nothing else.

Rights are lists of topic filters. What no filter allows is not allowed; there are no exceptions that take back what one
of them allows. A subscription is allowed as a whole or not at all: every topic that its filter matches must be matched
by a single filter of the list, so that nobody sees less than it asked for without knowing.
"""

from typing import Final

import msgspec

from resprout.filters.topics import filter_covers, topic_matches

REPLIES: Final = "$reply"
"""The first level of the topics on which clients are answered."""


class Rights(msgspec.Struct, frozen=True):
    publish: tuple[str, ...] = ()
    """Filters of the topics to publish on."""
    subscribe: tuple[str, ...] = ()
    """Filters that cover every subscription."""
    operate: bool = False
    """May tell the network to forget brokers, and see what it is like."""
    observe: bool = False
    """May see what it is like: `resprout status` and the like."""

    @property
    def sees(self) -> bool:
        return self.operate or self.observe


NOTHING = Rights()


def reply_topic(client: str) -> str:
    """Where this client, and no other, hears replies to its requests."""
    return f"{REPLIES}/{client}"


def may_publish(rights: Rights, topic: str) -> bool:
    return any(topic_matches(allowed, topic) for allowed in rights.publish)


def may_subscribe(rights: Rights, topic_filter: str) -> bool:
    return any(filter_covers(allowed, topic_filter) for allowed in rights.subscribe)


def includes(wide: Rights, narrow: Rights) -> bool:
    """Whether whoever has the first may do all that the second allows. False also where only several filters together
    would do: then it is taken for narrower."""
    return (
        all(any(filter_covers(allowed, one) for allowed in wide.publish) for one in narrow.publish)
        and all(may_subscribe(wide, one) for one in narrow.subscribe)
        and (wide.operate or not narrow.operate)
        and (wide.sees or not narrow.sees)
    )
