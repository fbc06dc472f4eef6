"""Subscriptions of one session: which match a topic, with which QoS and subscription identifiers.

A message that matches several subscriptions is sent once, with the highest QoS and all identifiers. Messages of shared
subscriptions are matched separately: the tree names the subscription that delivered them.
"""

from collections.abc import Iterator
from typing import Final

from resprout.core.errors import NameRefusedError
from resprout.filters.index import FilterMap
from resprout.filters.predicate import check_filter
from resprout.mqtt.packets import FilterRequest
from resprout.mqtt.reasons import MqttError, Reason, malformed
from resprout.mqtt.records import Match, Subscription

SHARE: Final = "$share/"
RESERVED: Final = ("$mqtt", "$share")
"""First topic levels that clients may neither publish nor subscribe to."""
READ_ONLY: Final = "$SYS"
MATCHES_KEPT: Final = 64
"""Maximum number of cached match results per session."""

FILTER_BYTES: Final = 16
"""Bytes charged per subscription in addition to its filter."""


def read_filter(topic_filter: str) -> tuple[str, str]:
    """Return the topic filter and the share name, or "". Raises MqttError if the filter is invalid: a malformed packet
    if its wildcards are wrong or it is empty, which the standard treats as a violation by the client."""
    if _is_malformed(topic_filter):
        raise malformed(f"{topic_filter[:60]!r} is no topic filter")
    group = ""
    if topic_filter.startswith(SHARE):
        group, mark, topic_filter = topic_filter[len(SHARE) :].partition("/")
        if not group or not mark or not topic_filter:
            raise MqttError(Reason.TOPIC_FILTER_INVALID, "a shared subscription is $share/NAME/FILTER")
    try:
        check_filter(topic_filter)
    except NameRefusedError as error:
        raise MqttError(Reason.TOPIC_FILTER_INVALID, str(error)) from None
    if topic_filter.partition("/")[0] in RESERVED:
        raise MqttError(Reason.NOT_AUTHORIZED, "this first topic level is reserved")
    return topic_filter, group


def _is_malformed(topic_filter: str) -> bool:
    levels = topic_filter.split("/")
    if "#" in levels:
        levels.remove("#")
        if topic_filter[-1] != "#":
            return True
    return not topic_filter or any("#" in level or ("+" in level and level != "+") for level in levels)


def size_of_filter(topic_filter: str) -> int:
    """Return the number of bytes that a subscription adds to `Subscriptions.bytes`."""
    return FILTER_BYTES + len(topic_filter.encode())


class _Slot:
    """Entry of the filter index."""

    __slots__ = ("subscription",)

    def __init__(self) -> None:
        self.subscription: Subscription | None = None


class Subscriptions:
    def __init__(self) -> None:
        self._all: dict[str, Subscription] = {}
        self._index: FilterMap[_Slot] = FilterMap(_Slot)
        """Index of the subscriptions that are not shared."""
        self._matches: dict[str, Match | None] = {}
        self.encoded = b""
        """Cached encoding of the subscriptions for `SessionState.dump`; empty after a change."""
        self.bytes = 0
        """Size of all subscriptions in bytes, as computed by `size_of_filter`."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._all.values())

    def get(self, topic_filter: str) -> Subscription | None:
        """Return the subscription with this filter, as the client sent it."""
        return self._all.get(topic_filter)

    def put(self, subscription: Subscription) -> None:
        """Add a subscription, or replace the one with the same filter."""
        topic_filter = subscription.request.filter
        if topic_filter not in self._all:
            self.bytes += size_of_filter(topic_filter)
        self._all[topic_filter] = subscription
        self.encoded = b""
        if not subscription.group:
            slot = self._index.find(subscription.topic_filter) or self._index.insert(subscription.topic_filter)
            slot.subscription = subscription
            self._matches.clear()

    def remove(self, topic_filter: str) -> Subscription | None:
        subscription = self._all.pop(topic_filter, None)
        if subscription is not None:
            self.bytes -= size_of_filter(topic_filter)
            self.encoded = b""
        if subscription is not None and not subscription.group:
            self._index.delete(subscription.topic_filter)
            self._matches.clear()
        return subscription

    def match(self, topic: str, is_own: bool, source: str = "") -> Match | None:
        """Return how to send a message; None if no subscription matches it. `is_own` is whether the client published it
        (No Local). `source` is the filter of the only subscription to consider, or "" for all."""
        if source:
            only = self._all.get(source)
            return None if only is None or (is_own and only.request.no_local) else _match([only])
        if is_own:
            return _match([each for each in self._matching(topic) if not each.request.no_local])
        if topic in self._matches:
            return self._matches[topic]
        found = _match(self._matching(topic))
        if len(self._matches) >= MATCHES_KEPT:
            self._matches.clear()
        self._matches[topic] = found
        return found

    def has_match(self, topic: str) -> bool:
        """Return whether a subscription that is not shared matches the topic."""
        return bool(self._matching(topic))

    def _matching(self, topic: str) -> list[Subscription]:
        return [slot.subscription for slot in self._index.matching(topic) if slot.subscription is not None]


def _match(found: list[Subscription]) -> Match | None:
    if not found:
        return None
    if len(found) == 1:
        request, identifier = found[0].request, found[0].identifier
        return Match(request.qos, request.retain_as_published, (identifier,) if identifier else ())
    return Match(
        max([each.request.qos for each in found]),
        any(each.request.retain_as_published for each in found),
        tuple(dict.fromkeys([each.identifier for each in found if each.identifier])),
    )


def match_of(subscription: Subscription) -> Match:
    """Return how to send a message for this subscription only."""
    identifier = subscription.identifier
    return Match(subscription.request.qos, True, (identifier,) if identifier else ())


def granted(request: FilterRequest, maximum_qos: int) -> FilterRequest:
    """Return the request with its QoS limited to the maximum."""
    if request.qos <= maximum_qos:
        return request
    return FilterRequest(
        request.filter, maximum_qos, request.no_local, request.retain_as_published, request.retain_handling
    )
