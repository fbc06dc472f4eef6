"""The subscriptions of a client, whichever broker serves it.

`Attend` brings confirmed subscriptions to the next broker, each with its *base*: how far origins had come when it was
confirmed. The next broker resumes them from there. A subscription that is not confirmed is asked for again. A
subscription whose end was asked for is left out, which ends it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from resprout.core.bundle import Origin
from resprout.core.errors import UsageError, WireError
from resprout.core.message import Message
from resprout.core.message_fields import NOTHING, Marks, Reached, from_marks
from resprout.edge.durable_messages import WhenFull
from resprout.edge.messages import HeldSubscription, Subscribe, Subscribed, Unsubscribe
from resprout.edge.requests import SubscribeRequest, UnsubscribeRequest
from resprout.filters.predicate import parse_predicate

HELD_BYTES_MAX: Final = 2 << 20
"""Bound on the bytes of the subscriptions in one `Attend`, which has to fit into a frame. The rest is asked for as if
it were new."""
MARK_BYTES: Final = 32
"""Upper bound on the bytes of a mark on the wire, besides its names."""

WishMessage = Subscribe | Unsubscribe


class Wanting:
    """One subscription of the client."""

    __slots__ = ("base", "confirmed", "ending", "request", "retained")

    def __init__(self, request: SubscribeRequest) -> None:
        self.request = request.plain
        self.retained = request.retained
        """Whether it begins with last values."""
        self.confirmed = False
        self.base: Marks = ()
        """How far origins had come when it was confirmed."""
        self.ending = False
        """Whether the application has asked for its end."""


class Resumed(msgspec.Struct, frozen=True):
    """What becomes of the subscriptions when a new session begins."""

    asks: list[WishMessage]
    """Messages to send first."""
    ended: list[SubscribeRequest]
    """Subscriptions whose end was asked for: nothing of them can come any more."""
    restarted: list[SubscribeRequest]
    """Subscriptions whose last values all come again."""
    lost: int
    """Confirmed subscriptions that have to be asked for again, and may have missed messages meanwhile."""


class WantedSubscriptions:
    """All subscriptions of the client, by the number under which brokers know them."""

    def __init__(self) -> None:
        self._all: dict[int, Wanting] = {}
        """By the number under which brokers know it."""
        self._ids: dict[SubscribeRequest, int] = {}
        self._next_id = 1
        self.when_full = WhenFull.DISCONNECT
        """What brokers are to do when this client does not read fast enough."""
        self._has_ended = False
        """Whether any subscription is over."""
        self._held: frozenset[int] = frozenset()
        """What was brought along to the session that begins."""

    # -- what the application wants ------------------------------------------------------------------------------------

    def subscribe(self, request: SubscribeRequest) -> Subscribe:
        parse_predicate(request.filter, request.where)
        if request.plain in self._ids:
            raise UsageError(f"already subscribed to {_describe(request)}")
        id = self._next_id
        self._next_id += 1
        self._all[id] = Wanting(request)
        self._ids[request.plain] = id
        return Subscribe(id, request.filter, request.where, self.when_full, request.retained)

    def unsubscribe(self, request: UnsubscribeRequest) -> Unsubscribe:
        id = self._ids.pop(SubscribeRequest(request.filter, request.where), None)
        if id is None:
            raise UsageError(f"not subscribed to {_describe(request)}")
        self._all[id].ending = True
        return Unsubscribe(id)

    # -- what the broker says ------------------------------------------------------------------------------------------

    def confirm(self, message: Subscribed) -> SubscribeRequest | None:
        """Mark a subscription as confirmed; return its request, or None if that is not news."""
        wanting = self._all.get(message.id)
        if wanting is None or wanting.confirmed:
            return None
        wanting.base = (*wanting.base, *message.base)
        if message.more:
            return None
        wanting.confirmed = True
        return wanting.request

    def remove(self, id: int) -> SubscribeRequest | None:
        """Forget a subscription that was refused or has ended; return its request."""
        wanting = self._all.pop(id, None)
        if wanting is None:
            return None
        self._has_ended = True
        if not wanting.ending:
            del self._ids[wanting.request]
        return wanting.request

    def find_retained(self, id: int) -> SubscribeRequest:
        """Return the request of a subscription that waits for last values. Raises WireError if there is none."""
        wanting = self._all.get(id)
        if wanting is None or not wanting.retained or wanting.confirmed:
            raise WireError(f"last values for subscription {id}, which does not wait for any")
        return wanting.request

    def wants(self, message: Message) -> bool:
        """Return whether a subscription that is not over matches a message that came before."""
        if not self._has_ended:
            return True
        for wanting in self._all.values():
            predicate = parse_predicate(wanting.request.filter, wanting.request.where)
            if any(predicate.matches(topic, message.attributes) for topic in message.topics):
                return True
        return False

    # -- another session -----------------------------------------------------------------------------------------------

    def hold(self, received: Marks) -> tuple[HeldSubscription, ...]:
        """Return the confirmed subscriptions for `Attend`, with their bases. `received` is told beside them, so
        bases leave out what it covers."""
        reached = from_marks(received)
        held: list[HeldSubscription] = []
        left = HELD_BYTES_MAX
        for id, wanting in self._all.items():
            if wanting.confirmed and not wanting.ending:
                filter, where = wanting.request.filter, wanting.request.where
                base = _beyond(wanting.base, reached)
                left -= MARK_BYTES + 4 * (len(filter) + len(where or "")) + bytes_of(base)
                if left < 0:
                    break
                held.append(HeldSubscription(id, filter, where, base))
        self._held = frozenset(one.id for one in held)
        return tuple(held)

    def resume(self, resumed: bool) -> Resumed:
        """Return what to say and what ended when a broker serves. `resumed`: it has taken over what was held;
        otherwise everything is asked for again."""
        held = self._held if resumed else frozenset()
        asks: list[WishMessage] = []
        ended: list[SubscribeRequest] = []
        restarted: list[SubscribeRequest] = []
        lost = 0
        for id, wanting in list(self._all.items()):
            if id in held:
                if wanting.ending:
                    asks.append(Unsubscribe(id))
            elif wanting.ending:
                del self._all[id]
                self._has_ended = True
                ended.append(wanting.request)
            else:
                lost += wanting.confirmed
                wanting.confirmed = False
                wanting.base = ()
                request, retained = wanting.request, wanting.retained
                if retained:
                    restarted.append(request)
                asks.append(Subscribe(id, request.filter, request.where, self.when_full, retained))
        return Resumed(asks, ended, restarted, lost)


def bytes_of(marks: Marks) -> int:
    """Return an upper bound on the bytes of these marks on the wire."""
    return sum(MARK_BYTES + len(mark.publisher) + len(mark.stream) for mark in marks)


def _beyond(base: Marks, reached: Mapping[Origin, Reached]) -> Marks:
    return tuple(mark for mark in base if mark.seq > reached.get(mark.origin, NOTHING))


def _describe(request: SubscribeRequest | UnsubscribeRequest) -> str:
    return request.filter if request.where is None else f"{request.filter} where {request.where}"
