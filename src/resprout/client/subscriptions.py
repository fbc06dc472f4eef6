"""The subscriptions of one client, from being asked for to their confirmed end.

The network answers by filter and condition, so at most one subscription with the same two exists at a time: the next
waits until the end of the one before is confirmed. One that is given up (a cancelled `subscribe`) stays here, without
its inbox, until then: messages that still come for it are dropped.

`Subscribing` is the half of `Client` that subscribes: what a program may ask for, and what it gets.
"""

import asyncio
import builtins
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from resprout.client.arguments import check_count, check_filter_and_where, check_flag, check_kind, wrong
from resprout.client.durable import DurableInbox
from resprout.client.errors import ClosedError, SubscribeError
from resprout.client.inbox import Inbox, TypedInbox, inbox_of_type
from resprout.client.logs import log_of
from resprout.client.past_events import Start, read_start
from resprout.client.redelivery import Redelivery
from resprout.client.retaining import check_retained
from resprout.client.terms import WhenFullWord, check_durable_only
from resprout.core.errors import UsageError
from resprout.core.message import Message
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.requests import SubscribeRequest, SubscriptionRestarted
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate, parse_predicate

T = TypeVar("T")


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

    def inbox_of(self, request: SubscribeRequest) -> Inbox | None:
        """Return the inbox of one subscription; None if it was given up."""
        one = self._all.get(request)
        return one.inbox if one is not None else None

    def restart(self, news: SubscriptionRestarted) -> None:
        """Drop the last values that came for a subscription, because all of them come again."""
        one = self._all.get(SubscribeRequest(news.filter, news.where))
        if one is not None and one.inbox is not None and not one.confirmed.done():
            one.inbox.drop_retained(one.predicate)

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
        """Drop a subscription whose inbox the caller will never get."""
        self._stop_feeding(one)
        self._given_up += 1
        self._changed()

    def remove(self, request: SubscribeRequest, reason: str) -> None:
        """Forget a subscription. A task that waits for its confirmation gets the reason."""
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
        """Forget a subscription that was refused. If it was confirmed before, end its inbox with the reason, and return
        the other subscriptions that fed this inbox."""
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
        """End the inboxes of all confirmed subscriptions with the reason, because messages may be missing. Return the
        subscriptions that fed them."""
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
        assert inbox is not None, "a subscription without an inbox is not confirmed"
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


class Subscribing:
    """A part of `Client`, which has what is said here."""

    async def _subscribe(
        self,
        filter: str,
        where: str | None,
        into: Inbox | None,
        durable: str | None,
        group: str | None,
        when_full: WhenFullWord | None,
        max_pending: int | None,
        window: int | None,
        manual_ack: bool,
        redelivery: Redelivery | None,
        replay_from: Start | None,
        allow_gaps: bool,
        retained: bool,
    ) -> Inbox:
        raise NotImplementedError

    async def _follow(
        self,
        filter: str,
        where: str | None,
        log: str,
        start: Start,
        durable: str | None,
        group: str | None,
        manual_ack: bool,
        allow_gaps: bool,
    ) -> Inbox:
        raise NotImplementedError

    @overload
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: Inbox | None = None,
        when_full: WhenFullWord | None = None,
        retained: bool = False,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
    ) -> Inbox: ...
    @overload
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        manual_ack: bool = False,
        redelivery: Redelivery | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
    ) -> DurableInbox: ...
    @overload
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: TypedInbox[T] | None = None,
        retained: bool = False,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        manual_ack: bool = False,
        redelivery: Redelivery | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
        type: builtins.type[T],
    ) -> TypedInbox[T]: ...
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: Inbox | TypedInbox[Any] | None = None,
        retained: bool = False,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        manual_ack: bool = False,
        redelivery: Redelivery | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
        type: builtins.type[Any] | None = None,
    ) -> Inbox | TypedInbox[Any]:
        """Subscribe; return an inbox once the subscription is confirmed. Every later match is delivered.

        A `durable` subscription has a name and survives this program and the broker that holds it; the next consumer
        resumes where the last one stopped (docs/client.md). Members of a `group` share one.

        `replay_from` begins with the events that the broker of this client stores: "earliest", an offset or a time;
        "latest", like None, replays nothing. Raises ReadError if that broker does not store all of them. At a gap,
        where the broker was down or its disk full, the inbox raises GapError; with `allow_gaps` it continues after the
        gap, and the client gets the event `EventsMissing`.

        With `log`, the inbox reads the log of that name (docs/logs.md) from `replay_from` on, and then what is added.
        Any broker will do. Order and offsets are those of the log, and it goes on at another broker when its own dies.
        It raises GapError as above, and ReadError when the log does not keep what comes next any more.

        With `redelivery`, a durable subscription delivers a message again that is not acknowledged in time, lets
        consumers reject messages (`message.nack()`, `message.term()`), and gives up what was delivered too often
        (`resprout.Redelivery`).

        `when_full` is the policy for a program that reads too slowly (docs/client.md): "disconnect", the default, ends
        its session, and inboxes raise SlowConsumerError; "drop_oldest" drops messages and reports how many; "block"
        makes publishers of these topics wait. All plain subscriptions of a client have the same policy. Durable ones
        block by default; they cannot disconnect, but can "spill" to disk.

        With `retained`, the inbox begins with the last value of each topic that matches (`message.retained`), and every
        later message follows.

        With a `type`, each message has a `value` of that type, decoded from its payload on first access.

        Each subscription has its own inbox, unless `into` names one. A message that matches several subscriptions comes
        once into each of their inboxes. Read all inboxes: messages are acknowledged in the order in which they came, so
        an unread inbox that is full holds back the others. Cancelling the call subscribes to nothing.
        """
        check_filter_and_where(filter, where)
        check_kind(into, "into", (Inbox, TypedInbox), "an inbox that subscribe() returned, or None")
        check_flag(manual_ack, "manual_ack")
        check_flag(allow_gaps, "allow_gaps")
        check_retained(retained, {"durable": durable, "group": group, "replay_from": replay_from, "log": log})
        if window is not None:
            check_count(window, "window", 1, NUMBER_MAX)
        if durable is None and group is None:
            check_durable_only(
                {"max_pending": max_pending, "window": window, "manual_ack": manual_ack, "redelivery": redelivery}
            )
            if allow_gaps and replay_from is None and log is None:
                raise UsageError(
                    "allow_gaps=True is for subscriptions that begin in the past: give replay_from as well"
                )
        if type is not None:
            fed = inbox_of_type(into, type)
        elif isinstance(into, TypedInbox):
            raise UsageError(f"into: this inbox has messages of a type: give type={into.kind!r} as well")
        else:
            fed = into
        start = read_start(replay_from, "replay_from") if replay_from is not None else "latest"
        read = log_of(log, start)
        if read is not None:
            _check_reads_log(
                read,
                {
                    "into": fed,
                    "when_full": when_full,
                    "max_pending": max_pending,
                    "window": window,
                    "redelivery": redelivery,
                },
            )
            inbox = await self._follow(filter, where, read, start, durable, group, manual_ack, allow_gaps)
        else:
            inbox = await self._subscribe(
                filter, where, fed, durable, group, when_full, max_pending, window, manual_ack, redelivery,
                start if start != "latest" else None, allow_gaps, retained,
            )  # fmt: skip
        if type is None:
            return inbox
        return into if isinstance(into, TypedInbox) else TypedInbox(inbox, type)


def _check_reads_log(log: str, arguments: Mapping[str, object]) -> None:
    """UsageError for what a subscription that reads a log does not have."""
    for name, value in arguments.items():
        if value is not None:
            raise wrong(name, value, f"is not for subscriptions that read a log ({log}): the log keeps what waits")
