"""Matches a bundle that may take long, and charges the work to those who subscribed with conditions.

Each party pays for the conditions of its clients out of a budget per second (`Quotas.spend`), which is looked at before
each test. A client whose party has spent too much is tested no further, and its session ends with the step.

A neighbour stands for many clients, so it is never cut off. Once one message of the bundle is wanted there, nothing
more is tested for it, because it is given the whole bundle. When its budget is spent it is given the bundle without a
test: passing it on costs less, and the brokers behind it test the same conditions themselves. Ghosts and durable
subscriptions stand for clients that are elsewhere, and are tested in any case.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from resprout.core.names import Attributes
from resprout.edge.broker.quotas import SECOND_US, Quotas
from resprout.edge.broker.session import ClientSession
from resprout.filters.index import MatchPlan

FREE_STEPS: Final = 4_096
"""A bundle that cannot take more is matched without counting: less than half a millisecond."""
NEIGHBOUR_STEPS: Final = 500_000
"""What testing for one neighbour may take at once, and in a quarter of a second."""


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
        """By neighbour: steps that are not paid off yet, and when that was so."""

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
