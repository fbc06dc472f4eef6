"""Which links and local clients get a bundle: the matching index, with the answer per topic remembered.

A bundle whose matching may take long is matched within a budget (`MatchBudget`), and the work is charged to those who
subscribed with conditions. Each party pays for the conditions of its clients out of a budget per second
(`Quotas.spend`), which is looked at before each test. A client whose party has spent too much is tested no further, and
its session ends with the step.

A neighbour stands for many clients, so it is never cut off. Once one message of the bundle is wanted there, nothing
more is tested for it, because it is given the whole bundle. When its budget is spent it is given the bundle without a
test: passing it on costs less, and the brokers behind it test the same conditions themselves. Ghosts and durable
subscriptions stand for clients that are elsewhere, and are tested in any case.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.errors import WireError
from resprout.core.limits import Attributes
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.quotas import SECOND_US, Quotas
from resprout.edge.broker.session import ClientSession
from resprout.filters.index import MatchIndex, MatchPlan
from resprout.order.link import Link

FREE_STEPS: Final = 4_096
"""A bundle that can take at most this many steps is matched without counting them (less than 0.5 ms)."""
NEIGHBOUR_STEPS: Final = 500_000
"""What testing for one neighbour may take at once, and in a quarter of a second."""

ROUTES_MAX = 10_000
"""Remembered answers; beyond that all are forgotten and found again."""


class MatchBudget:
    def __init__(
        self,
        quotas: Quotas,
        links: Mapping[str, Any],
        sessions: Mapping[str, ClientSession],
        now_us: Callable[[], int],
    ) -> None:
        self._quotas = quotas
        self._links = links
        self._sessions = sessions
        self._now_us = now_us
        self._spent: dict[str, tuple[int, int]] = {}
        """By neighbour: steps that are not paid off yet, and when that was last computed."""

    def match(self, plan: MatchPlan[str], rows: Sequence[Attributes]) -> dict[str, list[int]]:
        """Return the places of the messages that each direction wants. Of a neighbour, the first place is enough."""
        wanted: dict[str, list[int]] = {}
        settled = {id for id in plan.always if id in self._links}
        """Directions for which nothing more is tested."""
        for offset, attributes in enumerate(rows):
            found: dict[int, str] = {}
            self._test(plan, attributes, settled, found)
            for id in plan.everyone(found):
                if id in self._links:
                    settled.add(id)
                wanted.setdefault(id, []).append(offset)
        for name in self._quotas.overspent:
            wanted.pop(name, None)
        return wanted

    def _test(self, plan: MatchPlan[str], attributes: Attributes, settled: set[str], found: dict[int, str]) -> None:
        characters = max([len(value) for value in attributes.values() if isinstance(value, str)], default=0)
        for row in plan.candidates(attributes):
            asking = {serial: id for serial, id in row.members.items() if id not in settled}
            if not asking:
                continue
            each = 1 + row.condition.price.of(characters) // len(asking)
            for serial, id in list(asking.items()):
                if not self._spend(id, each):
                    settled.add(id)
                    if id in self._links:
                        found[serial] = id
                    del asking[serial]
            if asking and row.test(attributes):
                found.update(asking)

    def _spend(self, id: str, steps: int) -> bool:
        session = self._sessions.get(id)
        if session is not None:
            return not session.attending or self._quotas.spend(session, steps, self._now_us())
        now_us = self._now_us()
        spent, at_us = self._spent.get(id, (0, now_us))
        spent = max(0, spent - (now_us - at_us) * 4 * NEIGHBOUR_STEPS // SECOND_US) + steps
        self._spent[id] = (spent, now_us)
        return spent <= NEIGHBOUR_STEPS

    def forget(self, neighbour: str) -> None:
        self._spent.pop(neighbour, None)


class Route:
    """Who wants a bundle on these topics if its messages have no attributes."""

    __slots__ = ("conditional", "links", "sessions")

    def __init__(self, links: tuple[Link, ...], sessions: tuple[ClientSession, ...], conditional: bool) -> None:
        self.links = links
        self.sessions = sessions
        self.conditional = conditional
        """Whether attributes may change the answer."""


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
        """Return the links and local clients that want the bundle, and the offsets of the wanted messages where not
        all are wanted. A link is given the whole bundle: bundles are never split between brokers."""
        topics = bundle.topics
        route = self._known.get(topics)
        if route is None:
            route = self._learn(topics)
        if not route.conditional or not bundle.attributes:
            return route.links, route.sessions, None
        return self._by_content(bundle, topics)

    def wants(self, link: Link, bundle: Bundle) -> bool:
        """Whether a link wants a bundle that was accepted earlier. A bundle that cannot be read counts as not
        wanted: whoever passed it on would be blamed."""
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
            self._readers(bare),
            plan.conditional,
        )
        return route

    def _readers(self, directions: Iterable[str]) -> tuple[ClientSession, ...]:
        """Return the sessions among the directions. A client that is still arriving is left out; it is given its
        share later."""
        found = [self._sessions[id] for id in directions if id in self._sessions]
        return tuple([session for session in found if not session.is_arriving])

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
        sessions = self._readers(wanted)
        picks = {
            session.name: tuple(wanted[session.name])
            for session in sessions
            if len(wanted[session.name]) < bundle.count
        }
        return links, sessions, picks or None
