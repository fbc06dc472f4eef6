"""Stand-ins for the clients of dead brokers, so that clients that return are given what they missed.

A ghost is a reader of the log that wants what the clients of the dead wanted. It is shown their messages and takes none
of them, so the log keeps all of them until the ghost ends. A client that returns takes its own share (`claim`). The
ghost ends when all clients that it waits for have returned, or when it expires.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from resprout.core.bundle import Bundle, CausalKey, unpack_attributes, whole
from resprout.core.contract import Effect, Timer
from resprout.core.errors import WireError
from resprout.edge.broker.owed import Owed
from resprout.edge.broker.ports import HeldBundle, RetentionPort, SubscriptionPort
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate
from resprout.overlay.messages import Life

ENDED_KEPT: Final = 1_024
"""Brokers whose ghosts have ended that are remembered."""


Allows = Callable[[ClientSession, Life, HeldBundle], bool]
"""Whether a client of this home may claim the item."""


class GhostOver(Timer, frozen=True):
    """When to stop keeping everything for the clients of a dead broker."""

    ghost: str


class Ghosts:
    """All ghosts of a broker. A ghost is a session without a client. Its name begins with `~`, so no node can have
    it."""

    def __init__(
        self, sessions: ClientSessions, log: RetentionPort, subscriptions: SubscriptionPort, index: MatchIndex[str]
    ) -> None:
        """`index`: the interest of all directions, ghosts included."""
        self._sessions = sessions
        self._log = log
        self._subscriptions = subscriptions
        self._index = index
        self._brokers: dict[str, frozenset[Life]] = {}
        """By ghost: the dead brokers whose clients it stands for."""
        self._awaited: dict[str, set[str]] = {}
        """By ghost: the clients that have not returned."""
        self.idle: dict[str, None] = {}
        """Ghosts that wait for no client any more, until `take_idle`."""
        self._ended: dict[Life, None] = {}
        """The latest brokers whose ghosts have ended here."""
        self._leaving: set[str] = set()
        """Ghosts that are about to expire."""
        self._upto: dict[str, int] = {}
        """By ghost: the last place in the log of what its repair brought and was not shown yet."""
        self._members: dict[str, dict[Life, int]] = {}
        """By ghost: the members of its repair, and the version of each one's place before its Grant."""
        self._allowed: dict[str, Allows] = {}
        """By ghost that was made after a full restart: which client may claim which item. Other brokers keep the other
        items, so a publication without an item here need not be delivered (`answers_for`)."""

    def __contains__(self, name: str) -> bool:
        return name in self._brokers

    def __iter__(self) -> Iterator[str]:
        return iter(self._brokers)

    def add(
        self,
        name: str,
        brokers: frozenset[Life],
        predicates: Iterable[Predicate],
        out: list[Effect],
        awaited: Iterable[str] | None = None,
    ) -> None:
        """Create a ghost for clients of these dead brokers. `awaited`: the clients; None when nobody knows them, so
        that it waits until it expires. Predicates that it has already, because a neighbour's interest was handed to
        it, are not asked for again. What is accepted from now on is shown to it."""
        assert name.startswith("~") and name not in self._brokers, "each ghost has a name of its own"
        self._brokers[name] = brokers
        self._await(name, awaited)
        self._sessions.arrive(name, 0, 0)
        wanted = dict.fromkeys(self._index.predicates_of(name))
        for predicate in predicates:
            if predicate not in wanted:
                wanted[predicate] = None
                self._sessions.confirm(self._subscriptions.want(name, predicate, confirmed=True), out)

    def read(self, name: str, item: HeldBundle) -> None:
        """Let a ghost read an item that was accepted before the ghost existed, or is a copy without other readers,
        if the ghost wants it."""
        ghost = self._sessions.all[name]
        is_reader = ghost in item.readers
        if item.bundle is None or not (is_reader or self.wants(name, item.bundle)):
            return
        if not item.shown:
            self._upto[name] = max(item.no, self._upto.get(name, -1))
        if is_reader:
            return
        self._log.add_reader(item, ghost)
        if item.shown:
            item.readers = (*item.readers, ghost)
            self._sessions.owe(ghost, item)
            ghost.backlog.append(item)

    def stand_for(
        self, name: str, brokers: frozenset[Life], upto: int, awaited: Iterable[str] | None, allows: Allows
    ) -> None:
        """Say for which brokers a ghost stands that existed before that was known, after a full restart. Everything
        it was brought lies up to the place `upto`. `awaited`: as in `add`."""
        self._brokers[name] = brokers
        if awaited is not None:
            self._await(name, awaited)
        self._upto[name] = upto
        self._allowed[name] = allows

    def let_go(self, name: str) -> bool:
        """Mark a ghost as leaving: it expires as soon as others have heard so. Return False when it is leaving
        already, or gone."""
        if name not in self._brokers or name in self._leaving:
            return False
        self._leaving.add(name)
        return True

    def lives(self) -> tuple[Life, ...]:
        """Return the dead brokers whose clients have a ghost here that is not about to expire."""
        staying = [brokers for name, brokers in self._brokers.items() if name not in self._leaving]
        return tuple(sorted({life for brokers in staying for life in brokers}))

    def of(self, home: Life) -> list[str]:
        """Return the ghosts for clients of this broker."""
        return [name for name, brokers in self._brokers.items() if home in brokers]

    def knows(self, home: Life) -> bool:
        """Whether there is a ghost for clients of this broker."""
        return any(home in brokers for brokers in self._brokers.values())

    def answers_for(self, home: Life) -> bool:
        """Whether there is, or was, a ghost for clients of this broker. Then what they published and has no item any
        more is delivered."""
        return home in self._ended or any(name not in self._allowed for name in self.of(home))

    def upto(self, name: str) -> int:
        """Return the last place of what its repair brought this ghost."""
        return self._upto.get(name, -1)

    def note_members(self, name: str, members: dict[Life, int]) -> None:
        """Note the members of the ghost's repair, each with the version of its place before the Grant. The version
        grows when the member has its Grant."""
        self._members[name] = members

    def members(self, name: str) -> dict[Life, int]:
        return self._members.get(name, {})

    def brought_upto(self, home: Life) -> int:
        """Return the last place of what repairs brought the ghosts of this broker. Until everything up to there is
        shown, a share could lack a cause of something in it."""
        return max(map(self.upto, self.of(home)), default=-1)

    def named(self, broker: str) -> list[str]:
        """Return the ghosts for clients of any life of this broker."""
        return [name for name, lives in self._brokers.items() if any(life.name == broker for life in lives)]

    def wanted(self, broker: str) -> tuple[Predicate, ...]:
        """Return what was wanted behind this broker before it died, as far as clients are still waited for."""
        return tuple(dict.fromkeys(p for name in self.named(broker) for p in self._index.predicates_of(name)))

    def claim(
        self, session: ClientSession, attend: Attend, owed: Owed, ghosts: Iterable[str], out: list[Effect]
    ) -> list[HeldBundle]:
        """Give a returning client its share of what these ghosts were shown. Called after `welcome`, in the same
        step."""
        home = home_of(attend)
        found: dict[int, HeldBundle] = {}
        for name in ghosts:
            allows = self._allowed.get(name)
            for item in self._sessions.all[name].backlog:
                if allows is None or allows(session, home, item):
                    found[id(item)] = item
        if not found:
            return []
        # A back-up copy joins the backlog later than entries that depend on it: only stamps put all in causal order.
        shown = sorted(found.values(), key=_causally)
        claimed: list[HeldBundle] = []
        for item in shown:
            assert item.bundle is not None, "a ghost keeps it"
            if offsets := owed.offsets(item.bundle):
                self._sessions.hand_over(session, item, offsets, out)
                claimed.append(item)
        return claimed

    def _await(self, name: str, clients: Iterable[str] | None) -> None:
        self._awaited[name] = set(clients) if clients is not None else {name}
        if not self._awaited[name]:
            self.idle[name] = None

    def awaits(self, client: str) -> bool:
        return bool(self._awaited) and any(client in awaited for awaited in self._awaited.values())

    def is_awaited_by(self, name: str, client: str) -> bool:
        return client in self._awaited.get(name, ())

    def unawait(self, client: str) -> None:
        """Wait for a client no longer: it has returned, or never will."""
        for name, awaited in self._awaited.items():
            if client in awaited:
                awaited.remove(client)
                if not awaited:
                    self.idle[name] = None

    def take_idle(self) -> list[str]:
        """Return the ghosts that wait for no client any more, each once, the oldest first."""
        idle = [name for name in self._awaited if name in self.idle]
        self.idle.clear()
        return idle

    def expire(self, name: str, out: list[Effect]) -> set[str]:
        """End a ghost; return the clients that have not returned."""
        brokers = sorted(self._brokers.pop(name))
        if self._allowed.pop(name, None) is None:
            self._ended.update(dict.fromkeys(brokers))
        for life in list(self._ended)[:-ENDED_KEPT]:
            del self._ended[life]
        self._leaving.discard(name)
        self.idle.pop(name, None)
        self._upto.pop(name, None)
        self._members.pop(name, None)
        self._sessions.leave(name, out)
        return self._awaited.pop(name)

    def wants(self, name: str, bundle: Bundle) -> bool:
        """Whether a ghost wants the bundle: any message of it is enough."""
        index, topics = self._index, bundle.topics
        if name in index.match_any(topics, {}):
            return True
        if not any(index.plan(topic).conditional for topic in topics):
            return False
        bundle = whole(bundle)
        if not bundle.attributes:
            return False
        try:
            return any(name in index.match_any(topics, row) for row in unpack_attributes(bundle))
        except WireError:  # let in while nobody had to read it
            return False


def _causally(item: HeldBundle) -> CausalKey:
    assert item.bundle is not None, "a ghost keeps it"
    return item.bundle.causal_key


def home_of(attend: Attend) -> Life:
    """Return the life of the broker that served this client last."""
    return Life(attend.tried[0] if attend.tried else "", attend.home)
