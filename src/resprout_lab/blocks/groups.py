"""The routing table of a broker: for each group, which brokers nearby take part (section 3.2.2 of seed 001's thesis).

A group is a topic. A broker is a member of the groups that match the topic filters of its clients, and the table is
kept by filter. A broker *takes part* in a group if it is a member, or stands on the path to one. Each broker tells each
neighbour who takes part behind it, itself included, as far as the neighbour can send to them (`hops`). So the size of
the table depends on the filters and on the neighbourhood, not on the number of brokers.

*Confirmation.* What a broker has told a neighbour is numbered. The neighbour says that a number is recorded when it has
told its other neighbours what follows from it, and these have recorded that. A subscription is confirmed when all
neighbours have recorded everything that the broker has told them. Nothing is covered by a wider filter.

*A neighbour that is away* keeps its place in the table. When its session begins anew, both tell each other everything.
Until then no subscription is confirmed past it.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.message_fields import Mark, Reached, from_marks
from resprout.filters.predicate import Predicate, heard_predicate
from resprout_lab.blocks import parts_of
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.recorded import Confirmed, Recorded
from resprout_lab.blocks.subscriptions import SUBSCRIPTIONS_MAX, Subscriptions

PART_BYTES: Final = 1 << 16
"""Of one message, more or less."""
GroupRow = tuple[str, tuple[str, ...]]
"""(topic filter, the sender and those behind it that take part); nobody: none takes part any more."""


class TakingPart(ProtocolMessage, frozen=True, tag=306):
    """Who takes part in these groups, at the sender and behind it. It replaces what was said of them before."""

    number: int
    """Of the list that this is a part of."""
    is_all: bool
    """The first list of a session: in other groups nobody takes part."""
    is_last: bool
    """The list ends with this part."""
    groups: tuple[GroupRow, ...]

    @property
    def bulk(self) -> int:
        return sum([_row_bytes(row) for row in self.groups])


class TakingPartRecorded(ProtocolMessage, frozen=True, tag=307):
    """The list with this number is known to all brokers behind the sender that have to know it."""

    number: int


GROUP_MESSAGES: Final = (TakingPart, TakingPartRecorded)


class _Link:
    """What a neighbour was told, and has told."""

    __slots__ = ("heard", "is_up", "number", "recorded", "told")

    def __init__(self) -> None:
        self.is_up = False
        self.number = 0
        """Of the last list that it was told."""
        self.recorded = 0
        self.told: dict[Predicate, tuple[str, ...]] = {}
        self.heard: list[GroupRow] = []
        """The parts so far of a list that has not ended."""


class _Wait(NamedTuple):
    needs: dict[str, int]
    """By neighbour: the number that it must have recorded."""
    number: int
    """Of a neighbour's list, or of a subscription."""
    wish: tuple[str, Predicate] | None = None
    """(client, predicate) of a subscription."""


class GroupRoutes:
    """Also what local clients want (`SubscriptionPort`)."""

    def __init__(
        self,
        view: Neighbourhood,
        hops: int,
        send: Callable[[str, ProtocolMessage], object],
        *,
        seen: Callable[[], Iterable[Mark]] = tuple,
        changed: Callable[[str, bool, tuple[GroupRow, ...]], None] = lambda source, is_all, rows: None,
    ) -> None:
        """`hops`: how far a broker sends. `seen`: how far publishers have come here. `changed` is told what has to be
        restored in a next life: who said it, or this broker itself, whether it is all, and what."""
        self._view = view
        self._hops = hops
        self._send = send
        self._seen = seen
        self._changed = changed
        self.readers = Subscriptions()
        """What local clients want."""
        self._routes = Subscriptions()
        """By broker: the groups in which it takes part; this broker: of which it is a member."""
        self._links: dict[str, _Link] = {}
        self._dirty: dict[Predicate, None] = {}
        """Groups of which neighbours may have to hear."""
        self._came: dict[str, int] = {}
        """By neighbour: the number of a list that it told in this step."""
        self._wishes: dict[tuple[str, Predicate], int] = {}
        """(client, predicate) of each subscription that is not confirmed, and its number."""
        self._last_wish = 0
        self._fresh: list[tuple[str, Predicate]] = []
        """Those of this step."""
        self._waits: dict[str, deque[_Wait]] = {}
        """By neighbour, or "" for local clients: the lists and subscriptions that are not recorded everywhere."""
        self.is_known = False
        """A neighbour has told this broker, or an earlier life of it, everything."""

    # -- questions -----------------------------------------------------------------------------------------------------

    def taking_part(self, bundle: Bundle) -> list[str]:
        """Return the brokers within reach that take part in the group of this bundle."""
        return self._routes.index.plan_any(bundle.topics).match({})

    def _rows(self, names: Iterable[str]) -> list[GroupRow]:
        """Return what these take part in, by group."""
        found: dict[str, list[str]] = {}
        for name in names:
            for group in self._routes.of(name):
                found.setdefault(group.filter, []).append(name)
        return [(group, tuple(names)) for group, names in found.items()]

    def all_rows(self) -> list[tuple[str, tuple[GroupRow, ...]]]:
        """Return everything that a next life has to know, by who said it."""
        branches: dict[str, list[str]] = {self._view.name: [self._view.name]}
        for name in self._view.nodes(self._hops):
            branches.setdefault(self._view.branch(name), []).append(name)
        return [(source, tuple(self._rows(names))) for source, names in branches.items()]

    # -- local clients (`SubscriptionPort`) ----------------------------------------------------------------------------

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> Confirmed:
        self.readers.add(client, predicate, predicate)
        self._join(client, predicate)
        if not confirmed:
            self._last_wish += 1
            self._wishes[client, predicate] = self._last_wish
            self._fresh.append((client, predicate))
        return []

    def drop(self, client: str, predicate: Predicate) -> Confirmed:
        self.readers.remove(client, predicate)
        self._wishes.pop((client, predicate), None)
        self._leave(client, predicate)
        return []

    def drop_all(self, client: str) -> Confirmed:
        for predicate in self.readers.of(client):
            self.drop(client, predicate)
        return []

    def leave_for_returning(self) -> None:
        """Clients of earlier lives are not waited for any more."""
        for predicate in self._routes.of(self._view.name):
            self._leave("", predicate)

    def _join(self, client: str, predicate: Predicate) -> None:
        own, group = self._view.name, Predicate(predicate.filter)
        if own not in self._routes.holders(group):
            self._dirty[group] = None
            self._changed(own, False, ((group.filter, (own,)),))
        self._routes.add(own, (client, predicate), group)

    def _leave(self, client: str, predicate: Predicate) -> None:
        own, group = self._view.name, Predicate(predicate.filter)
        self._routes.remove(own, (client, predicate))
        if own not in self._routes.holders(group):
            self._dirty[group] = None
            self._changed(own, False, ((group.filter, ()),))

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        """A session with a neighbour begins: tell it everything."""
        link = self._links.setdefault(name, _Link())
        link.is_up = True
        link.told, link.heard = {}, []
        names = (self._view.name, *self._view.nodes(self._hops))
        self._tell_link(name, dict.fromkeys([group for one in names for group in self._routes.of(one)]), is_all=True)

    def end(self, name: str) -> None:
        if (link := self._links.get(name)) is not None:
            link.is_up = False
        self._waits.pop(name, None)
        self._came.pop(name, None)

    def heard(self, name: str, message: TakingPart) -> None:
        link = self._links.setdefault(name, _Link())
        rows = link.heard
        rows.extend(message.groups)
        if len(rows) > SUBSCRIPTIONS_MAX:
            raise PeerError(f"a list of more than {SUBSCRIPTIONS_MAX} groups")
        if message.is_last:
            link.heard = []
            nodes = self._behind(name)
            if any(one not in nodes for _, names in rows for one in names):
                raise PeerError(f"{name} speaks of brokers that are not behind it")
            self.restore(name, message.is_all, rows)
            self._changed(name, message.is_all, tuple(rows))
            self._came[name] = message.number

    def restore(self, source: str, is_all: bool, rows: Iterable[GroupRow]) -> None:
        """Take over what this neighbour has said, or what this broker itself was a member of."""
        view, routes = self._view, self._routes
        if source == view.name:
            for text, names in rows:
                group = Predicate(text)
                if names:
                    routes.add(source, ("", group), group)
                else:
                    routes.remove(source, ("", group))
            return
        nodes = self._behind(source)
        said = {heard_predicate(text, None): names for text, names in rows}
        if is_all:
            said = {**{group: () for name in nodes for group in routes.of(name)}, **said}
            self.is_known = True
        for group, names in said.items():
            holders = routes.holders(group)
            for name in nodes:
                if name in names and name not in holders:
                    routes.add(name, group, group)
                elif name in holders and name not in names:
                    routes.remove(name, group)
            self._dirty[group] = None

    def _behind(self, neighbour: str) -> list[str]:
        view = self._view
        return [name for name in view.nodes(self._hops) if view.branch(name) == neighbour]

    def recorded(self, name: str, message: TakingPartRecorded) -> None:
        link = self._links.get(name)
        if link is None or message.number > link.number:
            raise PeerError(f"{name} was not told a list number {message.number}")
        link.recorded = max(link.recorded, message.number)

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def tell(self) -> Confirmed:
        """Tell neighbours what has changed; return the subscriptions that are confirmed now."""
        if self._dirty:
            for name, link in self._links.items():
                if link.is_up:
                    self._tell_link(name, self._dirty)
            self._dirty = {}
        if self._came or self._fresh:
            self._wait()
        return self._settle() if self._waits else []

    def _tell_link(self, name: str, groups: Iterable[Predicate], is_all: bool = False) -> None:
        link, near = self._links[name], self._view.nodes(self._hops - 1)
        rows = [
            (group.filter, names)
            for group in groups
            if (names := self._told_to(name, group, near)) != link.told.get(group, ())
        ]
        if not rows and not is_all:
            return
        link.number += 1
        for text, names in rows:
            link.told[Predicate(text)] = names
        parts = parts_of(rows, PART_BYTES, _row_bytes) or [[]]
        for no, part in enumerate(parts, start=1):
            self._send(name, TakingPart(link.number, is_all, no == len(parts), tuple(part)))

    def _told_to(self, name: str, group: Predicate, near: Container[str]) -> tuple[str, ...]:
        """Return this broker and those of `near` behind it, seen from there, that take part."""
        view = self._view
        others = [one for one in self._routes.holders(group) if one == view.name or view.branch(one) != name]
        if not others:
            return ()
        return (view.name, *sorted([one for one in others if one in near]))

    def _wait(self) -> None:
        """Let lists and subscriptions of this step wait until all neighbours have recorded what follows from them."""
        needs = {name: self._needed(name) for name in self._view.own.neighbours}
        for source, number in self._came.items():
            others = {name: needed for name, needed in needs.items() if name != source}
            self._waits.setdefault(source, deque()).append(_Wait(others, number))
        if fresh := [wish for wish in self._fresh if wish in self._wishes]:
            waits = self._waits.setdefault("", deque())
            waits.extend([_Wait(needs, self._wishes[wish], wish) for wish in fresh])
        self._came, self._fresh = {}, []

    def _needed(self, name: str) -> int:
        link = self._links.get(name)
        if link is None:
            return 1
        return link.number if link.is_up else link.number + 1

    def _settle(self) -> Confirmed:
        confirmed: Confirmed = []
        base: dict[Origin, Reached] | None = None
        for source, waits in list(self._waits.items()):
            number = 0
            while waits and all(self._has_recorded(*need) for need in waits[0].needs.items()):
                wait = waits.popleft()
                if wait.wish is None:
                    number = wait.number
                elif self._wishes.get(wait.wish) == wait.number:
                    del self._wishes[wait.wish]
                    base = base if base is not None else from_marks(self._seen())
                    confirmed.append(Recorded(*wait.wish, base))
            if number:
                self._send(source, TakingPartRecorded(number))
            if not waits:
                del self._waits[source]
        return confirmed

    def _has_recorded(self, name: str, number: int) -> bool:
        return (link := self._links.get(name)) is not None and link.recorded >= number


def _row_bytes(row: GroupRow) -> int:
    return len(row[0]) + sum([len(name) + 2 for name in row[1]]) + 8
