"""Stand-ins for the clients of dead brokers, so that those who return are given what they missed.

A ghost wants what the clients of the dead wanted, and is shown what they would have been shown. It takes nothing, so
all of it waits, and the log keeps it, until the ghost expires. Whoever returns takes its own share; a ghost does not
know how many will.
"""

from collections.abc import Iterable
from operator import attrgetter

from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.contract import Effect
from resprout.core.errors import WireError
from resprout.edge.guest import Guest
from resprout.edge.lobby import Lobby
from resprout.edge.messages import Attend
from resprout.edge.owed import Owed
from resprout.filters.predicate import Predicate
from resprout.order.entry import Entry
from resprout.order.log import Log
from resprout.overlay.places import Life
from resprout.spread.interest import Interest
from resprout.spread.says import Says


class Ghosts:
    """All ghosts of a broker. Their names are also those of directions, so no node may be called like one: they begin
    with `~`."""

    def __init__(self, lobby: Lobby, log: Log, interest: Interest) -> None:
        self._lobby = lobby
        self._log = log
        self._interest = interest
        self._brokers: dict[str, frozenset[Life]] = {}
        self._upto: dict[str, int] = {}
        """By ghost: the last place of what its repair brought it that was not shown yet."""

    def __contains__(self, name: str) -> bool:
        return name in self._brokers

    def add(
        self, name: str, brokers: frozenset[Life], predicates: Iterable[Predicate], says: Says, out: list[Effect]
    ) -> None:
        """A ghost for the clients of these dead brokers. What it wants already, because the interest of a neighbour was
        handed to it, is not asked again. What is accepted from now on will be shown to it."""
        assert name.startswith("~") and name not in self._brokers, "each ghost has a name of its own"
        self._brokers[name] = brokers
        self._lobby.arrive(name, 0, 0)
        wanted = dict.fromkeys(self._interest.index.predicates_of(name))
        for predicate in predicates:
            if predicate not in wanted:
                wanted[predicate] = None
                self._lobby.confirm(self._interest.want(name, predicate, says, confirmed=True), out)

    def read(self, name: str, entry: Entry) -> None:
        """Let a ghost have what was accepted before it was there, or is a copy that nobody else here reads, if that is
        something for it."""
        ghost = self._lobby.guests[name]
        is_reader = ghost in entry.readers
        if entry.bundle is None or not (is_reader or self._wants(name, entry.bundle)):
            return
        if not entry.shown:
            self._upto[name] = max(entry.no, self._upto.get(name, -1))
        if is_reader:
            return
        self._log.add_reader(entry, ghost)
        if entry.shown:
            entry.readers = (*entry.readers, ghost)
            ghost.backlog.append(entry)

    def lives(self, but: str | None = None) -> tuple[Life, ...]:
        """Whose clients are stood in for, one ghost aside."""
        return tuple(sorted({life for name, brokers in self._brokers.items() if name != but for life in brokers}))

    def knows(self, home: Life) -> bool:
        """Whether somebody who was served by this broker is stood in for."""
        return any(home in brokers for brokers in self._brokers.values())

    def brought_upto(self, home: Life) -> int:
        """The last place of what repairs brought those who stand in for its clients. Before everything up to there is
        shown, a share of it could be without a cause of something in it, which is not safe yet."""
        names = [name for name, brokers in self._brokers.items() if home in brokers]
        return max((self._upto.get(name, -1) for name in names), default=-1)

    def wanted(self, broker: str) -> tuple[Predicate, ...]:
        """What was wanted behind this broker before it died, as far as somebody is still waited for."""
        names = [name for name, lives in self._brokers.items() if any(life.name == broker for life in lives)]
        return tuple(dict.fromkeys(p for name in names for p in self._interest.index.predicates_of(name)))

    def claim(self, guest: Guest, attend: Attend, out: list[Effect]) -> list[Entry]:
        """Give a client that returns its share of what ghosts were shown; after `welcome`, and in the same step."""
        home = home_of(attend)
        lists = [self._lobby.guests[name].backlog for name, brokers in self._brokers.items() if home in brokers]
        if not any(lists):
            return []
        # Copies came into a backlog later than what others read here, too: only by their ids are all in order.
        shown = sorted({entry.no: entry for each in lists for entry in each}.values(), key=attrgetter("id"))
        owed = Owed(attend)
        claimed: list[Entry] = []
        for entry in shown:
            assert entry.bundle is not None, "a ghost keeps it"
            if offsets := owed.offsets(entry.bundle):
                self._lobby.hand_over(guest, entry, offsets, out)
                claimed.append(entry)
        return claimed

    def expire(self, name: str, says: Says, out: list[Effect]) -> None:
        """Nobody is waited for any more."""
        del self._brokers[name]
        self._upto.pop(name, None)
        self._lobby.leave(name, says, out)

    def _wants(self, name: str, bundle: Bundle) -> bool:
        """The whole bundle, if any message of it."""
        index, topics = self._interest.index, bundle.topics
        if name in index.match_any(topics, {}):
            return True
        if not bundle.attributes or not any(index.plan(topic).conditional for topic in topics):
            return False
        try:
            return any(name in index.match_any(topics, row) for row in unpack_attributes(bundle))
        except WireError:  # let in while nobody had to read it
            return False


def home_of(attend: Attend) -> Life:
    """The broker that served this client last."""
    return Life(attend.tried[0] if attend.tried else "", attend.home)
