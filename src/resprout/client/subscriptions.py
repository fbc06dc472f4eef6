"""The subscriptions of one client, from being asked for to their confirmed end.

The network answers by filter and condition, so at most one subscription with the same two exists at a time: the next
waits until the end of the one before is confirmed. One that is given up (a cancelled `subscribe`) stays here, without
its inbox, until then: what still comes for it belongs to nobody.
"""

import asyncio
from collections import Counter

from resprout.client.errors import ClosedError, SubscribeError
from resprout.client.inbox import Inbox
from resprout.core.message import Message
from resprout.edge.requests import SubscribeRequest
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate, parse_predicate


class Subscription:
    __slots__ = ("confirmed", "ended", "inbox", "predicate", "request")

    def __init__(self, request: SubscribeRequest, predicate: Predicate, inbox: Inbox) -> None:
        self.request = request
        self.predicate = predicate
        self.inbox: Inbox | None = inbox
        """None for one that was given up."""
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] | None = None
        """There once its end is asked for; resolved by its end, whatever brought it about."""

    def __str__(self) -> str:
        filter, where = self.request.filter, self.request.where
        return filter if where is None else f"{filter} where {where}"

    def settle(self, error: Exception) -> None:
        if not self.confirmed.done():
            self.confirmed.set_exception(error)
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class ClientSubscriptions:
    """By what was asked for."""

    def __init__(self) -> None:
        self._all: dict[SubscribeRequest, Subscription] = {}
        self._fed: dict[Inbox, dict[SubscribeRequest, Subscription]] = {}
        self._uses: Counter[tuple[Inbox, Predicate]] = Counter()
        """Conditions that differ only in how they are written are one predicate."""
        self._given_up = 0
        self._index: MatchIndex[Inbox] = MatchIndex()
        self.sole: Inbox | None = None
        """The inbox that gets everything, when there is only one."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def find(self, request: SubscribeRequest) -> Subscription | None:
        return self._all.get(request)

    def of(self, inbox: Inbox) -> list[Subscription]:
        return list(self._fed.get(inbox, {}).values())

    def inboxes(self, message: Message) -> list[Inbox]:
        """Everyone who is to get it, each once."""
        return self._index.match_any(message.topics, message.attributes)

    # -- what happens to one -------------------------------------------------------------------------------------------

    def add(self, request: SubscribeRequest, inbox: Inbox) -> Subscription:
        """UsageError when the filter or the condition is wrong."""
        one = Subscription(request, parse_predicate(request.filter, request.where), inbox)
        self._all[request] = one
        self._fed.setdefault(inbox, {})[request] = one
        self._uses[inbox, one.predicate] += 1
        self._index.add(inbox, one.predicate)
        self._changed()
        return one

    def confirm(self, request: SubscribeRequest) -> None:
        one = self._all.get(request)
        if one is not None and not one.confirmed.done():
            one.confirmed.set_result(None)

    def give_up(self, one: Subscription) -> None:
        """Whoever asked for it will never see its inbox."""
        self._stop_feeding(one)
        self._given_up += 1
        self._changed()

    def remove(self, request: SubscribeRequest, reason: str) -> None:
        """Nothing of it comes any more. Whoever still waits for its confirmation is told the reason."""
        one = self._all.pop(request, None)
        if one is None:
            return
        if one.inbox is None:
            self._given_up -= 1
        else:
            self._stop_feeding(one)
        self._changed()
        one.settle(SubscribeError(reason))

    def refuse(self, request: SubscribeRequest, reason: str) -> list[Subscription]:
        """As `remove`. Where it was confirmed before, its inbox ends with the reason, whatever else feeds it;
        returns the subscriptions that are given up by that."""
        one = self._all.get(request)
        inbox = one.inbox if one is not None and one.confirmed.done() else None
        if inbox is not None:
            inbox.end(reason)
        self.remove(request, reason)
        others = self.of(inbox) if inbox is not None else []
        for other in others:
            self.give_up(other)
        return others

    def lose(self, reason: str) -> list[Subscription]:
        """What was confirmed may have missed something: the inboxes concerned end with the reason, whatever else feeds
        them. Returns the subscriptions that are given up by that."""
        concerned = dict.fromkeys(one.inbox for one in self._all.values() if one.confirmed.done())
        lost: list[Subscription] = []
        for inbox in concerned:
            if inbox is not None:
                inbox.end(reason)
                lost += self.of(inbox)
        for one in lost:
            if not one.confirmed.done():
                one.confirmed.set_exception(ClosedError(reason))
            self.give_up(one)
        return lost

    def shut(self, reason: str, failure: str | None, error: type[ClosedError] = ClosedError) -> None:
        """The client is closed, or its session is over: so is everything here."""
        for inbox in self._fed:
            inbox.end(failure, error)
        for one in self._all.values():
            one.settle(ClosedError(reason))
        self._all.clear()
        self._fed.clear()
        self.sole = None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _stop_feeding(self, one: Subscription) -> None:
        inbox, one.inbox = one.inbox, None
        assert inbox is not None, "nobody is fed by what was given up"
        place = (inbox, one.predicate)
        self._uses[place] -= 1
        if not self._uses[place]:
            del self._uses[place]
            self._index.remove(inbox, one.predicate)
        rest = self._fed[inbox]
        del rest[one.request]
        if not rest:
            del self._fed[inbox]
            inbox.end()

    def _changed(self) -> None:
        self.sole = next(iter(self._fed)) if len(self._fed) == 1 and not self._given_up else None
