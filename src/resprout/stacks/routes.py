"""Which links and local clients get a bundle: the matching index with the answer per topic remembered."""

from collections.abc import Mapping

from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.errors import WireError
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.session import ClientSession
from resprout.filters.index import MatchIndex
from resprout.order.link import Link
from resprout.stacks.match_budget import FREE_STEPS, MatchBudget

ROUTES_MAX = 10_000
"""Remembered answers; beyond that all are forgotten and found again."""


class Route:
    """Who wants a bundle on these topics whose messages have no attributes."""

    __slots__ = ("conditional", "links", "sessions")

    def __init__(self, links: tuple[Link, ...], sessions: tuple[ClientSession, ...], conditional: bool) -> None:
        self.links = links
        self.sessions = sessions
        self.conditional = conditional
        """With attributes it may be others."""


class Routes:
    """Answers from the index, valid until `forget` is called because interest or links have changed."""

    def __init__(
        self,
        index: MatchIndex[str],
        links: Mapping[str, Link],
        sessions: Mapping[str, ClientSession],
        budget: MatchBudget,
    ) -> None:
        self._index = index
        self._links = links
        self._sessions = sessions
        self._budget = budget
        self._known: dict[tuple[str, ...], Route] = {}

    def forget(self) -> None:
        self._known.clear()

    def find(self, bundle: Bundle) -> tuple[tuple[Link, ...], tuple[ClientSession, ...], Picks | None]:
        """Links and local clients that want the bundle, and which messages of it where not all are wanted.

        A link gets the whole bundle when it wants any message of it: a bundle is never split between brokers.
        """
        topics = bundle.topics
        route = self._known.get(topics)
        if route is None:
            route = self._learn(topics)
        if not route.conditional or not bundle.attributes:
            return route.links, route.sessions, None
        return self._by_content(bundle, topics)

    def wants(self, link: Link, bundle: Bundle) -> bool:
        """Of a bundle that was accepted long ago. One that cannot be read now was let in while nobody had to read it;
        whoever passed it on would be blamed."""
        try:
            return link in self.find(bundle)[0]
        except WireError:
            return False

    def _learn(self, topics: tuple[str, ...]) -> Route:
        plan = self._index.plan_any(topics)
        bare = plan.match({})
        if len(self._known) >= ROUTES_MAX:
            self._known.clear()
        route = self._known[topics] = Route(
            tuple(self._links[id] for id in bare if id in self._links),
            tuple(self._sessions[id] for id in bare if id in self._sessions),
            plan.conditional,
        )
        return route

    def _by_content(
        self, bundle: Bundle, topics: tuple[str, ...]
    ) -> tuple[tuple[Link, ...], tuple[ClientSession, ...], Picks | None]:
        wanted: dict[str, list[int]] = {}
        plan, rows = self._index.plan_any(topics), unpack_attributes(bundle)
        if plan.most_steps * len(rows) > FREE_STEPS:
            wanted = self._budget.match(plan, rows)
        else:
            for offset, row in enumerate(rows):
                for id in plan.match(row):
                    wanted.setdefault(id, []).append(offset)
        links = tuple(self._links[id] for id in wanted if id in self._links)
        sessions = tuple(self._sessions[id] for id in wanted if id in self._sessions)
        picks = {
            session.name: tuple(wanted[session.name])
            for session in sessions
            if len(wanted[session.name]) < bundle.count
        }
        return links, sessions, picks or None
