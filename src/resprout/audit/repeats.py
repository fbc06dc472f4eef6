"""Repeats: publications with one topic and one `message_id`, of which a durable subscription hands out the first.

- Of two, only one is handed out, if less than the window lies between the first publication and the second hand-out:
  so the broker of the subscription was given both within the window. A broker may die together with the consumer that
  was handed the first one, before others know; then the second may be handed out, as `redelivered`.
- One that is not handed out is not missing if another one was, or if another one expired or was dropped.

Which one came first is not judged: that is known only to the broker that had both.
"""

from collections.abc import Iterator
from typing import Final

from resprout.audit.records import PublicationRecord
from resprout.core.timing import MESSAGE_ID

SLACK_US: Final = 2_000_000
"""A window is longer than it says by up to a second, and rows of a process are late."""


class RepeatedMessages:
    def __init__(self, publications: list[PublicationRecord]) -> None:
        groups: dict[tuple[str, str], list[PublicationRecord]] = {}
        for p in publications:
            if p.attributes is not None and (id := p.attributes.get(MESSAGE_ID)) is not None:
                groups.setdefault((p.topic, id), []).append(p)
        self.groups = [group for group in groups.values() if len(group) > 1]
        """Publications that repeat each other, in the order of their rows."""
        self._group_of = {p.number: group for group in self.groups for p in group}

    def others(self, p: PublicationRecord) -> Iterator[PublicationRecord]:
        """Return the publications that repeat one, or are repeated by it."""
        return (other for other in self._group_of.get(p.number, ()) if other is not p)
