"""Topics whose publishers wait, in the whole network, because a subscriber has more unread than its share.

The broker that serves such a subscriber announces a *pause*: who it is, and its filters. The announcement goes through
the tree, and every broker keeps back publications of its local clients that match (`ClientPublishing.drain`). No other
publisher waits.

An announcement holds all pauses of one broker and replaces the one before. It is soft state: the broker repeats it with
every heartbeat, with current figures, and others forget it when it has not been repeated for `PAUSE_LEASES` leases. So
the pauses of a broker that died, or whose last word was lost in a repair, end by themselves.
"""

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import Departure, NeighbourMessage
from resprout.core.errors import PeerError, UsageError
from resprout.core.message_fields import BoundedNumber, Microseconds, next_number
from resprout.edge.broker.sessions import ClientSessions
from resprout.filters.predicate import check_filter, topic_matches
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.overlay import lineage
from resprout.overlay.messages import Life
from resprout.spread.messages import Outbound
from resprout.stacks.resprout.life import BrokerLife

PAUSE_LEASES: Final = 4
READERS_MAX: Final = 1_000
"""Subscribers in one announcement; of more, the first ones."""
FILTERS_MAX: Final = 1_000
"""Filters in one announcement; a subscriber for which there is no room is announced with `#`."""
LIVES_MAX: Final = 10_000
TOPICS_MAX: Final = 10_000
"""Remembered answers."""


class PausedReader(msgspec.Struct, frozen=True, array_like=True):
    """A subscriber that publishers wait for."""

    reader: str
    """The client, `=` and the name of a durable subscription, or what else its broker calls it."""
    filters: tuple[str, ...]
    bytes: BoundedNumber
    """Unread, when this was said."""
    for_us: Microseconds
    """How long it had been paused for by then."""


class ReadersPaused(NeighbourMessage, frozen=True, tag=309):
    """Through the tree, to everybody: these are all subscribers of this broker that publishers have to wait for."""

    leaves: ClassVar[Departure] = Departure.TURN

    home: Life
    edition: BoundedNumber
    readers: tuple[PausedReader, ...]
    again: bool = False
    """Nothing has changed but the figures."""

    @property
    def bulk(self) -> int:
        return sum(64 + sum(4 + len(filter) for filter in reader.filters) for reader in self.readers)

    @property
    def background(self) -> bool:
        return self.again


class PauseSeen(msgspec.Struct, frozen=True):
    """A pause as this broker knows it."""

    broker: str
    reader: PausedReader
    since_us: int

    @property
    def label(self) -> str:
        """The subscriber as people know it."""
        name = self.reader.reader
        kind = "durable subscription " if name.startswith("=") else "subscriber "
        return f"{kind}{name[1:] if name.startswith('=') else name} at {self.broker}"

    @property
    def reason(self) -> str:
        """Why a publication waits."""
        filters = ", ".join(self.reader.filters[:3]) + (", ..." if len(self.reader.filters) > 3 else "")
        return f"waits for {self.label}, which has too much unread of {filters}"


class _Announced(msgspec.Struct):
    way: str
    """The neighbour that said it."""
    edition: int
    readers: tuple[PausedReader, ...]
    heard_us: int


class Pauses:
    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        outbound: Outbound,
        log: Log,
        sessions: ClientSessions,
        drain: Callable[[], None],
    ) -> None:
        """`drain` is called when publications that waited may go on."""
        self._life = life
        self._links = links
        self._outbound = outbound
        self._log = log
        self._sessions = sessions
        self._drain = drain
        self._own: dict[str, tuple[tuple[str, ...], int]] = {}
        """By subscriber: its filters, and since when."""
        self._edition = 0
        self._announced: dict[Life, _Announced] = {}
        """What others said, also that they have none any more, until it is too old."""
        self.seen: list[PauseSeen] = []
        """All that hold."""
        self._found: dict[tuple[str, ...], PauseSeen | None] = {}
        self.unbelieved = 0
        """Announcements in the name of a broker that lies in another direction."""
        self.unsaid: list[str] = []
        """Subscribers whose pauses have begun or ended in this step."""

    # -- here ----------------------------------------------------------------------------------------------------------

    def begin(self, name: str, filters: Iterable[str]) -> None:
        """Publishers have to wait for this subscriber, unless they do already."""
        if name not in self._own:
            self._own[name] = (tuple(sorted(set(filters))), self._life.now_us)
            self.unsaid.append(name)

    def end(self, name: str) -> None:
        if self._own.pop(name, None) is not None:
            self.unsaid.append(name)

    def is_own(self, name: str) -> bool:
        return name in self._own

    @property
    def own_count(self) -> int:
        return len(self._own)

    def say(self) -> None:
        """At the end of a step in which something has changed."""
        self.unsaid.clear()
        self._tell(again=False)
        self._look()

    def tick(self) -> None:
        if self._own:
            self._tell(again=True)
            self._look()
        if self._announced:
            self._forget_old()

    def _tell(self, again: bool) -> None:
        self._edition = next_number(self._edition)
        news = ReadersPaused(self._me, self._edition, self._readers(), again)
        self._outbound.extend([(name, news) for name in self._links])

    @property
    def _me(self) -> Life:
        return Life(self._life.seat.name, self._life.seat.incarnation)

    def _readers(self) -> tuple[PausedReader, ...]:
        readers: list[PausedReader] = []
        room = FILTERS_MAX
        for name, (filters, since_us) in list(self._own.items())[:READERS_MAX]:
            told = filters if len(filters) <= room else ("#",)
            room = max(0, room - len(told))
            readers.append(PausedReader(name, told, self._unread_bytes(name), self._life.now_us - since_us))
        return tuple(readers)

    def _unread_bytes(self, name: str) -> int:
        """Return how many bytes a subscriber of this broker has unread."""
        session = self._sessions.all.get(name)
        return session.owed_bytes if session is not None else self._log.stuck_bytes

    # -- others --------------------------------------------------------------------------------------------------------

    def heard(self, link: Link, message: ReadersPaused) -> None:
        _check(message)
        life, home = self._life, message.home
        if home == self._me or self._is_over(home):
            return
        way = self.way_to(home.name)
        if way not in (None, link.name):
            self.unbelieved += 1
            return
        known = self._announced.get(home)
        is_corrected = known is not None and way is not None and known.way != way
        if known is not None and message.edition <= known.edition and not is_corrected:
            return
        if len(self._announced) >= LIVES_MAX:
            del self._announced[next(iter(self._announced))]
        self._announced[home] = _Announced(link.name, message.edition, message.readers, life.now_us)
        self._outbound.extend([(name, message) for name in self._links if name != link.name])
        self._look()

    def way_to(self, name: str) -> str | None:
        """The neighbour behind which a broker is, as far as the tree is in view. What it announces comes from there:
        nobody else is believed about it. Of brokers out of view, whoever says something is believed; but what is false
        is not passed on by brokers that are closer to it."""
        view = self._life.view
        _, way = lineage.branches(view, view.reach + 1).get(name, (0, None))
        return way

    def meet(self, neighbour: str) -> None:
        """A new link begins with all that is known on both sides."""
        told = [ReadersPaused(home, one.edition, one.readers) for home, one in self._announced.items()]
        if self._edition:
            self._edition = next_number(self._edition)
            told.append(ReadersPaused(self._me, self._edition, self._readers()))
        self._outbound.extend([(neighbour, news) for news in told])

    def _is_over(self, home: Life) -> bool:
        view = self._life.view
        return view.is_dead_life(home) or view.incarnation_of(home.name) > home.incarnation

    def _forget_old(self) -> None:
        before_us = self._life.now_us - PAUSE_LEASES * self._life.options.lease_us
        old = [home for home, one in self._announced.items() if one.heard_us < before_us or self._is_over(home)]
        for home in old:
            del self._announced[home]
        if old:
            self._look()

    # -- what waits ----------------------------------------------------------------------------------------------------

    def find(self, bundle: Bundle) -> PauseSeen | None:
        """The pause that a publication of a local client has to wait for."""
        if not self.seen:
            return None
        topics = bundle.topics
        if topics in self._found:
            return self._found[topics]
        if len(self._found) >= TOPICS_MAX:
            self._found.clear()
        found = next((pause for pause in self.seen if _matches(pause.reader.filters, topics)), None)
        self._found[topics] = found
        return found

    def _look(self) -> None:
        """Make the list of all that hold."""
        life, before = self._life, {(pause.broker, pause.reader.reader) for pause in self.seen}
        self.seen = [PauseSeen(life.seat.name, reader, life.now_us - reader.for_us) for reader in self._readers()]
        for home, one in self._announced.items():
            self.seen += [PauseSeen(home.name, reader, one.heard_us - reader.for_us) for reader in one.readers]
        self._found.clear()
        if before - {(pause.broker, pause.reader.reader) for pause in self.seen}:
            self._drain()


def _matches(filters: tuple[str, ...], topics: tuple[str, ...]) -> bool:
    return any(topic_matches(filter, topic) for filter in filters for topic in topics)


def _check(message: ReadersPaused) -> None:
    """PeerError for what no honest broker says."""
    if len(message.readers) > READERS_MAX or not message.edition:
        raise PeerError(f"{message.home.name} announces {len(message.readers)} pauses, edition {message.edition}")
    count = 0
    for reader in message.readers:
        count += len(reader.filters)
        if count > FILTERS_MAX + READERS_MAX:
            raise PeerError(f"{message.home.name} announces pauses of more than {FILTERS_MAX} filters")
        try:
            for filter in reader.filters:
                check_filter(filter)
        except UsageError as error:
            raise PeerError(str(error)) from None
