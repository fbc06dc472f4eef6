"""How a program subscribes: what it may ask for, and what it gets. Done by `Client`."""

import builtins
from typing import Any, TypeVar, overload

from resprout.client.durable import WhenFullWord
from resprout.client.durable_inbox import DurableInbox
from resprout.client.inbox import Inbox
from resprout.client.past import Start
from resprout.client.typed import TypedInbox, inbox_of_type
from resprout.core.errors import UsageError

T = TypeVar("T")


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
        most: int | None,
        window: int | None,
        by_hand: bool,
        replay_from: Start | str | None,
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
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
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
        most: int | None = None,
        window: int | None = None,
        by_hand: bool = False,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
    ) -> DurableInbox: ...
    @overload
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: TypedInbox[T] | None = None,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        most: int | None = None,
        window: int | None = None,
        by_hand: bool = False,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        type: builtins.type[T],
    ) -> TypedInbox[T]: ...
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: Inbox | TypedInbox[Any] | None = None,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        most: int | None = None,
        window: int | None = None,
        by_hand: bool = False,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        type: builtins.type[Any] | None = None,
    ) -> Inbox | TypedInbox[Any]:
        """Subscribe and return when it is confirmed: from then on nothing that matches is missed.

        With a name, `durable`, the subscription outlives this program and the broker that holds it: whoever consumes it
        next goes on where it was (`client.durable_inbox`, docs/client.md). Members of a `group` share one.

        With `replay_from` it begins in the past, with what the broker that serves this client keeps: "beginning", an
        offset or a time. ReadError when that broker does not keep all of it. Where events are missing, because the
        broker was down or its disk full, the inbox raises GapError; with `allow_gaps` it goes on behind the gap, and
        the client is told what is missing (`EventsMissing`).

        `when_full` says what the broker does when this program does not read fast enough (docs/client.md): "disconnect"
        ends its session, and inboxes raise SlowConsumerError; "drop_oldest" drops messages and tells how many; "block"
        lets publishers of these topics wait. All plain subscriptions of a client have the same; "disconnect" unless
        told otherwise. A durable one blocks unless told otherwise; it cannot disconnect, but it can "spill" to disk.

        With a `type`, each message has a `value` of that type, which is decoded from its payload when it is asked for.

        Every subscription has an inbox of its own, unless one is given. A message that matches several subscriptions
        is put once into each inbox concerned. Read them all: messages are acknowledged in the order in which they came,
        so an inbox that nobody reads holds the others back once it is full. Cancelled, it has subscribed to nothing.
        """
        if type is not None:
            fed = inbox_of_type(into, type)
        elif isinstance(into, TypedInbox):
            raise UsageError("this inbox has messages of a type: say which")
        else:
            fed = into
        inbox = await self._subscribe(
            filter, where, fed, durable, group, when_full, most, window, by_hand, replay_from, allow_gaps
        )  # fmt: skip
        if type is None:
            return inbox
        return into if isinstance(into, TypedInbox) else TypedInbox(inbox, type)
