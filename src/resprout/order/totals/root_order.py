"""Topics whose ordered publications all pass the root, so that totals on them need not be closed.

A total is closed by all brokers because any of them may have accepted a plain publication on its keys. Where no broker
accepts any, the order of the root is enough: the root stamps the total, delivers it, and sends it to the neighbours
that want it, as if the root had published it. So only brokers with readers, those on the way to them, and those on the
way from its publisher are told of it.

A topic becomes *root-ordered* with the lock of one of its totals (`Lock.root_ordered`). A broker that knows the lock
accepts no plain `fifo` or `causal` publication with keys of the topic any more, and submits them to the root instead.
The topic is *settled* when that total is delivered, because every broker has closed it. From then on, the root
publishes by itself:

- a total all of whose keys are on settled topics;
- a total without keys, which no plain publication has to be compared with;
- a publication that is only carried as a total, which closes no keys.

Everything else is closed by all brokers, as ever: totals on other topics, totals that every broker has to apply
(`needs_all`), and, at the root, whatever comes while a total is being closed.

Topics stay root-ordered for the life of the network. Every broker knows all of them: newcomers are told, and a repair
merges what its members know.
"""

from collections.abc import Callable, Iterable
from typing import Final

from resprout.core.bundle import Bundle, pairs_of
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import TOPIC_BYTES
from resprout.order.messages import RootOrderedTopic

TOPICS_MAX: Final = 4_096
"""Topics that are root-ordered, or counted by the root. Others are closed by all brokers."""
HARD_FACTOR: Final = 4
"""A peer that names more than this many times `TOPICS_MAX` loses its session."""


class RootOrderedTopics:
    """The root-ordered topics that one broker knows."""

    def __init__(self, after: int = 0, needs_all: Callable[[Bundle], bool] = lambda bundle: False) -> None:
        """`after`: how many totals on a topic the root orders before it makes the topic root-ordered; 0: it never does.
        `needs_all`: whether every broker has to apply a total, whoever reads it."""
        self._after = after
        self._needs_all = needs_all
        self._known: dict[str, bool] = {}
        """By topic: whether it is settled."""
        self._counts: dict[str, int] = {}
        """At the root: by topic that is not root-ordered, the totals that it has ordered."""

    def __bool__(self) -> bool:
        """Whether there is any. If not, every total is closed by all brokers."""
        return bool(self._known)

    def gates(self, bundle: Bundle) -> bool:
        """Whether a publication names a key of a root-ordered topic. It is not accepted plainly then."""
        known = self._known
        return bool(known) and any(topic in known for topic in topics_of_keys(bundle))

    def allows(self, bundle: Bundle) -> bool:
        """Whether the root may publish a bundle by itself."""
        known = self._known
        if not known or not any(known.values()) or self._needs_all(bundle):
            return False
        return bundle.guarantee is not Guarantee.TOTAL or all(known.get(topic) for topic in topics_of_keys(bundle))

    def begins_with(self, bundle: Bundle) -> bool:
        """Count a total that the root orders, and return whether its topics become root-ordered with it."""
        topics = topics_of_keys(bundle)
        if not self._after or not topics or bundle.guarantee is not Guarantee.TOTAL or self._needs_all(bundle):
            return False
        new = [topic for topic in topics if topic not in self._known]
        for topic in new:
            if topic in self._counts or len(self._counts) < TOPICS_MAX:
                self._counts[topic] = self._counts.get(topic, 0) + 1
        if not all(self._counts.get(topic, 0) >= self._after for topic in new):
            return False
        return len(self._known) + len(new) <= TOPICS_MAX and bool(new)

    def begin(self, bundle: Bundle) -> None:
        """The lock of this total says that its topics are root-ordered."""
        for topic in topics_of_keys(bundle):
            self._add(topic, False)

    def settle(self, bundle: Bundle) -> None:
        """That total is delivered, so every broker knows."""
        for topic in topics_of_keys(bundle):
            self._add(topic, True)

    def rows(self) -> tuple[RootOrderedTopic, ...]:
        """Return what every parcel tells of them."""
        return tuple([RootOrderedTopic(topic, is_settled) for topic, is_settled in self._known.items()])

    def take(self, rows: Iterable[RootOrderedTopic]) -> None:
        """Take over what a parcel tells of them."""
        for row in rows:
            self._add(row.topic, row.is_settled)

    def _add(self, topic: str, is_settled: bool) -> None:
        if topic not in self._known and len(self._known) >= HARD_FACTOR * TOPICS_MAX:
            raise PeerError(f"more than {HARD_FACTOR * TOPICS_MAX} root-ordered topics")
        if len(topic) > TOPIC_BYTES:
            raise PeerError("a root-ordered topic that is longer than topics may be")
        self._known[topic] = self._known.get(topic, False) or is_settled
        self._counts.pop(topic, None)


def topics_of_keys(bundle: Bundle) -> tuple[str, ...]:
    """Return the topics of the (topic, key) pairs that a bundle names."""
    return tuple(dict.fromkeys(topic for topic, _ in pairs_of(bundle.topic, bundle.keys))) if bundle.keys else ()
