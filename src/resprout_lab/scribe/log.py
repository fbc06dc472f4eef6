"""The log of one topic, as all who hold it have it: what was published, in the one order, and how far it was spread.

A client's publications on the topic take places in the order of their numbers: each names the one before it, and gets
no place before that one has. What comes again is no second one. So nothing more need be remembered of a client than the
last number that has a place. What an earlier life of it left without a place gets none behind what the next one has
published: nobody was told that it is safe, and it would be out of order.

What was spread and is old enough is let go of, by a command (`Spread`): the *watermark*. Whatever lies above it is in
the log of whoever leads next, and goes to those who miss it.

A topic that nobody reads, and of which nothing is kept, ends by a command (`EndTopic`): all holders drop it. The next
log of the topic continues with its numbers, so that clients that come back late do not take one for the other, and
their repeats get no second place.
"""

from collections import deque
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, Origin, from_fields, to_fields
from resprout.core.errors import PeerError
from resprout.core.message_fields import Mark, Marks
from resprout_lab.scribe.messages import name_of

ORIGINS_KEPT: Final = 100_000
"""Clients whose last number is remembered, those that were met last. All holders forget the same one at a time."""


class _Command(msgspec.Struct, frozen=True, array_like=True):
    """As it stands in the log."""


class PlaceBundle(_Command, frozen=True, tag=1):
    bundle: Bundle
    previous: int


class Spread(_Command, frozen=True, tag=2):
    """Everything up to this position was spread, and is not kept any more."""

    position: int


class TakeLead(_Command, frozen=True, tag=3):
    """All that was decided before it is known to whoever has this decided."""

    holder: str
    position: int = 0
    """Where an earlier log of the topic ended: the first command of a log says where its positions begin."""
    tseq: int = 0
    last: Marks = ()
    """The last publications that have a place in that log."""


class TopicAnnounced(_Command, frozen=True, tag=4):
    """That there is this topic is known wherever somebody may ask."""


class Look(_Command, frozen=True, tag=5):
    """How far has it come? Answered when this is decided, by whoever asked for it."""

    holder: str
    number: int


class EndTopic(_Command, frozen=True, tag=6):
    """Nobody reads the topic, and nothing is kept of it: drop it, unless something was published meanwhile."""

    position: int


class SetReplica(_Command, frozen=True, tag=7):
    """An operator adds a holder to those that the ring gives the topic, or removes an added one."""

    holder: str
    is_added: bool


LogCommand = PlaceBundle | Spread | TakeLead | TopicAnnounced | Look | EndTopic | SetReplica


class PlacedAt(msgspec.Struct, frozen=True, array_like=True):
    position: int
    bundle: Bundle
    tseq: int


class _Image(msgspec.Struct, array_like=True):
    position: int
    next_tseq: int
    watermark: int
    is_announced: bool
    last: list[tuple[Origin, int]]
    recent: list[PlacedAt]
    begins: int
    added: list[str]


class TopicLog:
    def __init__(self) -> None:
        self.position = 0
        """Publications that have a place, those of earlier logs of the topic included."""
        self.begins = 0
        """Where an earlier log of the topic ended."""
        self.next_tseq = 0
        self.watermark = 0
        self.is_ended = False
        self.is_announced = False
        self.recent: deque[PlacedAt] = deque()
        """What lies above the watermark."""
        self.bytes = 0
        """Of that."""
        self.added: dict[str, str] = {}
        """Holders that operators have added, by name of the broker."""
        self._last: dict[Origin, int] = {}
        """The last number of each origin that has a place, the latest origin last."""
        self._lives: dict[tuple[str, str], int] = {}
        """By publisher and stream: the latest life that has one."""

    def has(self, bundle: Bundle) -> bool:
        """It has a place."""
        return bundle.first <= self._last.get(bundle.origin, 0)

    def is_outlived(self, bundle: Bundle) -> bool:
        """A later life of its publisher has a place here: if it has none yet, it will never have one."""
        return bundle.incarnation < self._lives.get((bundle.publisher, bundle.stream), 0)

    def latest_marks(self, count: int) -> Marks:
        """Return the last publications of the clients that published last."""
        latest = list(self._last.items())[-count:]
        return tuple([Mark(publisher, stream, life, seq) for (publisher, stream, life), seq in latest])

    def after(self, position: int) -> list[PlacedAt]:
        return [placed for placed in self.recent if placed.position > position]

    def apply(self, command: LogCommand) -> PlacedAt | None:
        """What has a place by this command."""
        match command:
            case PlaceBundle():
                return self._place(command.bundle, command.previous)
            case Spread():
                self.watermark = max(self.watermark, min(command.position, self.position))
                while self.recent and self.recent[0].position <= self.watermark:
                    self.bytes -= self.recent.popleft().bundle.cost
            case TopicAnnounced():
                self.is_announced = True
            case TakeLead() if not self.position:
                self.position = self.watermark = self.begins = command.position
                self.next_tseq = command.tseq
                for mark in command.last:
                    self._remember(mark.origin, mark.seq)
            case SetReplica():
                self.added.pop(name_of(command.holder), None)
                if command.is_added:
                    self.added[name_of(command.holder)] = command.holder
            case EndTopic():
                self.is_ended = command.position == self.position and not self.recent
            case _:
                pass
        return None

    def _place(self, bundle: Bundle, previous: int) -> PlacedAt | None:
        origin = bundle.origin
        if self.has(bundle) or self.is_outlived(bundle) or self._last.get(origin, 0) < previous:
            return None
        self._remember(origin, bundle.last)
        self.position += 1
        placed = PlacedAt(self.position, bundle, self.next_tseq)
        self.next_tseq += bundle.count
        self.recent.append(placed)
        self.bytes += bundle.cost
        return placed

    def _remember(self, origin: Origin, last: int) -> None:
        publisher, stream, incarnation = origin
        self._last.pop(origin, None)
        self._last[origin] = last
        self._lives[publisher, stream] = max(incarnation, self._lives.get((publisher, stream), 0))
        if len(self._last) > ORIGINS_KEPT:
            publisher, stream, incarnation = oldest = next(iter(self._last))
            del self._last[oldest]
            if self._lives[publisher, stream] == incarnation:
                del self._lives[publisher, stream]

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        image = _Image(
            self.position, self.next_tseq, self.watermark, self.is_announced, list(self._last.items()),
            list(self.recent), self.begins, list(self.added.values()),
        )  # fmt: skip
        return _encoder.encode(image)

    @classmethod
    def load(cls, data: bytes) -> "TopicLog":
        """ValueError for what no honest holder keeps."""
        try:
            image = _image_decoder.decode(data)
        except (msgspec.MsgspecError, TypeError) as error:
            raise ValueError(f"the state of a topic cannot be read: {error}") from None
        log = cls()
        log.position, log.next_tseq, log.watermark = image.position, image.next_tseq, image.watermark
        log.is_announced, log.begins = image.is_announced, image.begins
        for origin, last in image.last:
            log._remember(origin, last)
        log.added = {name_of(holder): holder for holder in image.added}
        log.recent = deque(image.recent)
        log.bytes = sum(placed.bundle.cost for placed in log.recent)
        return log


# -- bytes -------------------------------------------------------------------------------------------------------------

_encoder: Final = msgspec.msgpack.Encoder(enc_hook=to_fields)
_decoder: Final[msgspec.msgpack.Decoder[LogCommand]] = msgspec.msgpack.Decoder(LogCommand, dec_hook=from_fields)
_image_decoder: Final = msgspec.msgpack.Decoder(_Image, dec_hook=from_fields)


def encode(command: LogCommand) -> bytes:
    return _encoder.encode(command)


def decode(data: bytes) -> LogCommand:
    """PeerError for bytes that no honest broker proposes."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise PeerError(f"a command that cannot be read: {error}") from None
