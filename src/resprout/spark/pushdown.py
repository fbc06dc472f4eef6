"""Filters of a batch query that need not be left to Spark: on the topic, which then is all that a broker is asked for,
and on the publisher, for which whole bundles are passed over."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from resprout.edge.messages import EventRead
from resprout.filters.topics import is_plain, topic_matches

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

TOPICS_MAX: Final = 64
"""That a broker is asked for by name."""


class Pushed(msgspec.Struct):
    """What is asked for; None: anything."""

    topics: frozenset[str] | None = None
    publishers: frozenset[str] | None = None

    def take(self, filters: "Iterable[Filter]") -> "Iterator[Filter]":
        """Those that are left to Spark."""
        from pyspark.sql.datasource import EqualTo, In

        for each in filters:
            name = getattr(each, "attribute", None)
            values = None
            if isinstance(each, EqualTo):
                values = frozenset((each.value,))
            elif isinstance(each, In):
                values = frozenset(each.value)
            if values is None or not all(isinstance(value, str) for value in values):
                yield each
            elif name == ("topic",):
                self.topics = values if self.topics is None else self.topics & values
            elif name == ("publisher",):
                self.publishers = values if self.publishers is None else self.publishers & values
            else:
                yield each

    def filters(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Instead of the filters that the user gave: topics by name, where that is less. A publication on another topic
        may match by one of its keys, so a topic that no filter matches may be in what they bring all the same."""
        if not self.topics or len(self.topics) > TOPICS_MAX:
            return wanted
        for topic in self.topics:
            if not is_plain(topic) or not any(topic_matches(one, topic) for one in wanted):
                return wanted
        return tuple(sorted(self.topics))

    def wants(self, event: EventRead) -> bool:
        bundle = event.bundle
        return (self.topics is None or bundle.topic in self.topics) and (
            self.publishers is None or bundle.publisher in self.publishers
        )
