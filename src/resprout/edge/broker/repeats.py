"""Which messages of a durable subscription repeat another one, as their ids say (`core.message_ids`).

The first message with a topic and an id is handed out. Later ones within the window count as done at once. Which one
was the first is remembered by all brokers: what has an id stays in the log of this broker, and so in the logs of its
neighbours, until others were told of the id. So if this broker dies before, the next one is given the message again.

The next broker may be given both a message and its repeat without knowing which one came first at this one. Then it
waits for the consumers, who know what they have and what they have done: a message that one of them was handed is the
first. If none was, any of them may be.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Final

from resprout.core.bundle import Bundle, Origin
from resprout.core.limits import Attributes
from resprout.core.message_ids import WINDOW_US, digest_of_id, digest_of_publication, id_of
from resprout.edge.broker.known_ids import KnownIds, batches_of
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.durable_messages import IDS_MAX, IdBatches

Numbered = tuple[Origin, int]
"""A publication: its origin and number."""

DOUBTS_MAX: Final = 100_000
"""Messages that may have been handed out before, and of which it is not known whether they repeat another one. Of more,
a repeat is handed out."""


class Coming(enum.Enum):
    """What a message is when it comes."""

    FIRST = enum.auto()
    KNOWN = enum.auto()
    """It is the one that is remembered."""
    REPEAT = enum.auto()
    DOUBTFUL = enum.auto()
    """That is decided later: it may be the first one."""


class Repeats:
    def __init__(self, window_us: int = WINDOW_US, ids: IdBatches = ()) -> None:
        """`window_us`: 0: nothing repeats anything. `ids`: what an earlier broker has told."""
        self.dropped = 0
        """Messages that were dropped at this broker."""
        self.window_us = window_us
        self._known = KnownIds(ids)
        self._untold: list[tuple[int, bytes]] = []
        self._doubts: dict[bytes, dict[Numbered, HeldBundle]] = {}
        """By id: the messages of which one is the first."""
        self._doubted = 0

    def come(self, topic: str, id: str, message: Numbered, wall_us: int, item: HeldBundle | None) -> Coming:
        """Note a message. `item`: of one that an earlier broker may have handed out."""
        key, publication = digest_of_id(topic, id), digest_of_publication(*message)
        known = self._known.find(key, self._since_s(wall_us))
        if known is not None:
            return Coming.KNOWN if known == publication else Coming.REPEAT
        if item is not None and self._doubted < DOUBTS_MAX:
            self._doubts.setdefault(key, {})[message] = item
            self._doubted += 1
            return Coming.DOUBTFUL
        if key in self._doubts:
            return Coming.REPEAT
        self._note(key, publication, wall_us)
        return Coming.FIRST

    def among(
        self,
        item: HeldBundle,
        bundle: Bundle,
        offsets: Sequence[int],
        rows: Sequence[Attributes],
        wall_us: int,
        again: bool,
    ) -> tuple[list[int], bool]:
        """Note messages of a bundle. Return those that are repeats, and whether there is an id that other brokers do
        not know. `again`: an earlier broker may have handed them out."""
        repeats: list[int] = []
        is_new = False
        for at in offsets if self.window_us else ():
            if id := id_of(rows[at]):
                coming = self.come(
                    bundle.topic, id, (bundle.origin, bundle.first + at), wall_us, item if again else None
                )
                is_new |= coming in (Coming.FIRST, Coming.DOUBTFUL)
                if coming is Coming.REPEAT:
                    repeats.append(at)
        return repeats, is_new

    @property
    def doubts(self) -> bool:
        return bool(self._doubts)

    def doubted_items(self) -> list[HeldBundle]:
        return [item for messages in self._doubts.values() for item in messages.values()]

    def decide(self, was_handed: Callable[[Numbered], bool], is_final: bool, wall_us: int) -> list[Numbered]:
        """Decide which of the doubtful messages are repeats, and return them. Unless it is final, only where a consumer
        was handed one of them."""
        repeats: list[Numbered] = []
        for key, messages in list(self._doubts.items()):
            first = next(filter(was_handed, messages), next(iter(messages)) if is_final else None)
            if first is not None:
                del self._doubts[key]
                self._doubted -= len(messages)
                self._note(key, digest_of_publication(*first), wall_us)
                repeats += [message for message in messages if message != first]
        return repeats

    def take_untold(self) -> IdBatches:
        """Return what other brokers were not told."""
        told, self._untold = self._untold[-IDS_MAX:], []
        return batches_of(told)

    def forget_old(self, wall_us: int) -> None:
        if self._known:
            self._known.forget(self._since_s(wall_us))

    def _since_s(self, wall_us: int) -> int:
        return (wall_us - self.window_us) // 1_000_000

    def _note(self, key: bytes, publication: bytes, wall_us: int) -> None:
        at_s = wall_us // 1_000_000
        self._known.note(key, publication, at_s)
        self._untold.append((at_s, key + publication))
