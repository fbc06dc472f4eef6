"""A subscription table with confirmations: which neighbour was asked for what, and when all have recorded it.

The broker asks every neighbour but the one that a subscription came from. The subscription is recorded when all of them
have confirmed it. A neighbour that is being replaced has not answered, so nothing is confirmed past it; its successor
takes its place at once, so nothing is withdrawn either. Subscriptions are not covered: each is asked for by itself.
The default stack has `spread.interest`, which covers and tracks what is still on its way.

`Asking` connects the table with sessions: it sends the questions and confirms subscriptions to clients.

Used by `ginger`, `flood`, the causal multicasts, and `delta` for its clients.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from resprout.core.bundle import Origin
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.message_fields import Mark, Reached, from_marks
from resprout.edge.broker.sessions import ClientSessions
from resprout.filters.predicate import Predicate, heard_predicate
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested
from resprout.stacks.desk import Handler
from resprout.stacks.shell import Step
from resprout_lab.blocks.subscriptions import Subscriptions

ASKING_MESSAGES = (Interested, InterestConfirmed, Uninterested)


class Recorded(msgspec.Struct, frozen=True):
    """What a local client wants is recorded everywhere now; `base` had passed before."""

    direction: str
    predicate: Predicate
    base: dict[Origin, Reached]


Confirmed = list[Recorded]


class AskedMessage(Protocol):
    """In whatever message it comes."""

    @property
    def id(self) -> int: ...
    @property
    def filter(self) -> str: ...
    @property
    def where(self) -> str | None: ...


class _Ask:
    __slots__ = ("id", "recorded")

    def __init__(self, id: int) -> None:
        self.id = id
        self.recorded = False


class RecordedSubscriptions:
    """What is to be told to neighbours is appended to `outbound`."""

    def __init__(self, seen: Callable[[], Iterable[Mark]] = tuple) -> None:
        self._seen = seen
        """How far the origins have come here."""
        self.outbound: Outbound = []
        self.table = Subscriptions()
        self._open: dict[Predicate, dict[str, None]] = {}
        """Directions that wait to hear that theirs is recorded."""
        self._asks: dict[str, dict[Predicate, _Ask]] = {}
        self._asked: dict[tuple[str, int], Predicate] = {}
        """(neighbour, number): what was asked."""
        self._by_id: dict[str, dict[int, Predicate]] = {}
        """By neighbour: what it asked."""
        self._last_id = 0

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def add_link(self, name: str, asks: Sequence[AskedMessage]) -> None:
        """A new neighbour that was told these asks; it hears what has changed since."""
        self._by_id[name] = {}
        mine = self._asks[name] = {}
        for ask in asks:
            predicate = self._asked[name, ask.id] = heard_predicate(ask.filter, ask.where)
            mine[predicate] = _Ask(ask.id)
        self._last_id = max(self._last_id, *(ask.id for ask in asks), 0)
        needed = dict.fromkeys(self.table.add_neighbour(name))
        for predicate in needed:
            if predicate not in mine:
                self._ask(name, predicate)
        for predicate in list(mine):
            if predicate not in needed:
                self._unask(name, predicate)

    def has_link(self, name: str) -> bool:
        return name in self._asks

    def asks_for(self, name: str) -> tuple[Interested, ...]:
        """What a neighbour-to-be will be asked, and under which numbers: all that anybody else wants."""
        needed = self.table.wanted_beyond(name)
        first = self._last_id + 1
        self._last_id += len(needed)
        return tuple(Interested(id, one.filter, one.where_text) for id, one in enumerate(needed, start=first))

    def remove_link(self, name: str) -> Confirmed:
        """It is no neighbour any more, and its wishes are gone."""
        for ask in self._asks.pop(name, {}).values():
            self._asked.pop((name, ask.id), None)
        self.table.neighbours.pop(name, None)
        self.drop_all(name)
        del self._by_id[name]
        return self._check_all()

    def recorded_at(self, name: str) -> Subscriptions:
        """Return the subscriptions that this neighbour, and everything behind it, has recorded."""
        recorded = Subscriptions()
        for predicate, ask in self._asks[name].items():
            if ask.recorded:
                recorded.add(name, predicate, predicate)
        return recorded

    def set_aside(self, name: str, ghost: str) -> None:
        """The neighbour is gone. What it wanted and has not confirmed stands under another name, and nothing new is
        confirmed, until `remove_link` or `stop_asking` is called with that name."""
        for ask in self._asks[name].values():
            self._asked.pop((name, ask.id), None)
        self._asks[ghost] = self._asks.pop(name)
        self._by_id[ghost] = {}
        del self._by_id[name], self.table.neighbours[name]
        self.table.neighbours[ghost] = None
        for predicate in self.table.of(name):
            self.table.add(ghost, predicate, predicate)
            self.table.remove(name, predicate)
            if (waiting := self._open.get(predicate)) is not None and waiting.pop(name, 0) is None:
                waiting[ghost] = None

    def stop_asking(self, ghost: str) -> Confirmed:
        """Keep the subscriptions of a neighbour that was set aside, and no longer wait for its confirmations."""
        del self._asks[ghost], self.table.neighbours[ghost]
        return self._check_all()

    def hear(self, name: str, wish: AskedMessage) -> Confirmed:
        predicate = heard_predicate(wish.filter, wish.where)
        theirs = self._by_id[name]
        if wish.id in theirs or predicate in self.table.of(name):
            raise PeerError(f"{name} asked for {predicate} before")
        theirs[wish.id] = predicate
        return self.want(name, predicate)

    def hear_ended(self, name: str, message: Uninterested) -> Confirmed:
        predicate = self._by_id[name].pop(message.id, None)
        if predicate is None:
            raise PeerError(f"{name} never had the wish {message.id}")
        return self.drop(name, predicate)

    def hear_recorded(self, name: str, message: InterestConfirmed) -> Confirmed:
        predicate = self._asked.get((name, message.id))
        ask = self._asks[name].get(predicate) if predicate is not None else None
        if predicate is None or ask is None or ask.id != message.id:  # it was withdrawn meanwhile
            return []
        ask.recorded = True
        return self._check(predicate)

    # -- directions ----------------------------------------------------------------------------------------------------

    def want(self, direction: str, predicate: Predicate, confirmed: bool = False) -> Confirmed:
        """`confirmed`: it is known to be, and nobody waits to hear it."""
        for name in self.table.add(direction, predicate, predicate):
            self._ask(name, predicate)
        if confirmed:
            return []
        self._open.setdefault(predicate, {})[direction] = None
        return self._check(predicate)

    def drop(self, direction: str, predicate: Predicate) -> Confirmed:
        _, unneeded = self.table.remove(direction, predicate)
        if (waiting := self._open.get(predicate)) is not None and waiting.pop(direction, 0) is None and not waiting:
            del self._open[predicate]
        for name in unneeded:
            self._unask(name, predicate)
        return []

    def drop_all(self, direction: str) -> Confirmed:
        for predicate in self.table.of(direction):
            self.drop(direction, predicate)
        return []

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask(self, name: str, predicate: Predicate) -> None:
        self._last_id += 1
        self._asks[name][predicate] = _Ask(self._last_id)
        self._asked[name, self._last_id] = predicate
        self.outbound.append((name, Interested(self._last_id, predicate.filter, predicate.where_text)))

    def _unask(self, name: str, predicate: Predicate) -> None:
        id = self._asks[name].pop(predicate).id
        self._asked.pop((name, id), None)
        self.outbound.append((name, Uninterested(id)))

    def _check_all(self) -> Confirmed:
        return [confirmed for predicate in list(self._open) for confirmed in self._check(predicate)]

    def _check(self, predicate: Predicate) -> Confirmed:
        """Tell the directions of a predicate for which nobody is missing any more."""
        confirmed: Confirmed = []
        waiting = self._open.get(predicate, {})
        for direction in list(waiting):
            if all(name == direction or asks[predicate].recorded for name, asks in self._asks.items()):
                del waiting[direction]
                if direction not in self._by_id:
                    confirmed.append(Recorded(direction, predicate, from_marks(self._seen())))
                else:
                    ids = (id for id, wanted in self._by_id[direction].items() if wanted == predicate)
                    self.outbound.extend((direction, InterestConfirmed(id)) for id in ids)
        if not waiting:
            self._open.pop(predicate, None)
        return confirmed


class Asking:
    def __init__(
        self,
        step: Step,
        sessions: ClientSessions,
        wishes: RecordedSubscriptions,
        send: Callable[[str, ProtocolMessage], object],
        asks: bool = True,
    ) -> None:
        """`send` says something to a neighbour, behind what was said before. Unless it `asks`, neighbours send all they
        have, say nothing of what they want, and a wish is confirmed at once."""
        self._step = step
        self._send = send
        self._sessions = sessions
        self._wishes = wishes
        self._asks = asks
        self.handlers: dict[type, Handler] = {}
        """What neighbours may say; what their desk finds has a `name`."""
        if asks:
            self.handlers = {
                Interested: lambda link, message: self.confirm(wishes.hear(link.name, message)),
                InterestConfirmed: lambda link, message: self.confirm(wishes.hear_recorded(link.name, message)),
                Uninterested: lambda link, message: self.confirm(wishes.hear_ended(link.name, message)),
            }

    def begin_link(self, name: str) -> None:
        if self._asks:
            self._wishes.add_link(name, ())

    def end_link(self, name: str) -> None:
        if self._asks:
            self.confirm(self._wishes.remove_link(name))

    def confirm(self, confirmed: Confirmed) -> None:
        self._sessions.confirm(confirmed, self._step.out)

    def ask(self) -> None:
        """At the end of a step: what has changed, behind the publications that were passed on before."""
        outbound = self._wishes.outbound[:]
        self._wishes.outbound.clear()
        for name, message in outbound:
            self._send(name, message)
