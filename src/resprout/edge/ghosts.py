"""Stand-ins for the clients of dead brokers, so that those who return are given what they missed.

A ghost wants what the clients of the dead wanted, and is shown what they would have been shown. It takes nothing, so
all of it waits, and the log keeps it, until the ghost expires. Whoever returns takes its own share. When all have
returned that it was told to wait for, the ghost has nothing more to do.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.contract import Effect, Timer
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

ENDED_KEPT: Final = 1_024


class GhostOver(Timer, frozen=True):
    """When to stop keeping everything for the clients of a dead broker."""

    ghost: str


class Ghosts:
    """All ghosts of a broker. Their names are also those of directions, so no node may be called like one: they begin
    with `~`."""

    def __init__(self, lobby: Lobby, log: Log, interest: Interest) -> None:
        self._lobby = lobby
        self._log = log
        self._interest = interest
        self._brokers: dict[str, frozenset[Life]] = {}
        self._awaited: dict[str, set[str]] = {}
        """By ghost: the clients that have not returned."""
        self._idle: set[str] = set()
        """Those of which it was told that they wait for nobody."""
        self._ended: dict[Life, None] = {}
        """Brokers whose clients were stood in for here, the latest ones."""
        self._leaving: set[str] = set()
        """Those that are about to expire."""
        self._upto: dict[str, int] = {}
        """By ghost: the last place of what its repair brought it that was not shown yet."""

    def __contains__(self, name: str) -> bool:
        return name in self._brokers

    def add(
        self,
        name: str,
        brokers: frozenset[Life],
        predicates: Iterable[Predicate],
        says: Says,
        out: list[Effect],
        awaited: Iterable[str] | None = None,
    ) -> None:
        """A ghost for these clients of these dead brokers; None when nobody knows who they were: then it waits for one
        of its own name, that is, until it expires. What it wants already, because the interest of a neighbour was
        handed to it, is not asked again. What is accepted from now on will be shown to it."""
        assert name.startswith("~") and name not in self._brokers, "each ghost has a name of its own"
        self._brokers[name] = brokers
        self._awaited[name] = set(awaited) if awaited is not None else {name}
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

    def let_go(self, name: str) -> bool:
        """It will expire as soon as others have heard so; False when that is under way, or it is gone."""
        if name not in self._brokers or name in self._leaving:
            return False
        self._leaving.add(name)
        return True

    def lives(self) -> tuple[Life, ...]:
        """Whose clients are stood in for, those ghosts aside that are about to expire."""
        staying = [brokers for name, brokers in self._brokers.items() if name not in self._leaving]
        return tuple(sorted({life for brokers in staying for life in brokers}))

    def knows(self, home: Life) -> bool:
        """Whether somebody who was served by this broker is stood in for."""
        return any(home in brokers for brokers in self._brokers.values())

    def answers_for(self, home: Life) -> bool:
        """Whether somebody who was served by this broker is, or was, stood in for here: what they published and has no
        entry any more is delivered."""
        return home in self._ended or self.knows(home)

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

    def awaits(self, client: str) -> bool:
        return bool(self._awaited) and any(client in awaited for awaited in self._awaited.values())

    def unawait(self, client: str) -> None:
        """It has returned, or never will."""
        for awaited in self._awaited.values():
            awaited.discard(client)

    def idle(self) -> list[str]:
        """Those that wait for nobody any more, each once. Asked at the end of every step."""
        if not self._awaited:
            return []
        idle = [name for name, awaited in self._awaited.items() if not awaited and name not in self._idle]
        self._idle.update(idle)
        return idle

    def expire(self, name: str, says: Says, out: list[Effect]) -> set[str]:
        """Nobody is waited for any more. Tells who has not returned."""
        self._ended.update(dict.fromkeys(sorted(self._brokers.pop(name))))
        for life in list(self._ended)[:-ENDED_KEPT]:
            del self._ended[life]
        self._leaving.discard(name)
        self._idle.discard(name)
        self._upto.pop(name, None)
        self._lobby.leave(name, says, out)
        return self._awaited.pop(name)

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
