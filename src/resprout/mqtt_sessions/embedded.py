"""Native clients that run inside the broker's process on behalf of MQTT clients.

An embedded client is an ordinary client: the tree knows its name, rules apply to it, a client with the same name
elsewhere replaces it, and it reconnects to another broker when the membership of its own broker ends. This module knows
nothing of MQTT.

Publications get their numbers at once. All publications from the same read of a socket are sent together (`flush`).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from resprout.core.contract import Answer, EndCode, Note, Request
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import NAME_BYTES, AttributeValue
from resprout.core.message import Message
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.requests import (
    AcknowledgeRequest,
    AudienceRequest,
    EndRequest,
    FlushRequest,
    LeaveRequest,
    SessionLost,
    SubscribeRequest,
    TakeRequest,
    UnsubscribeRequest,
)
from resprout.mqtt_sessions.ports import OpenerCredentials, OutwardDoor, Upward

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer

SAFE_ONLY: Final = ReceiptLevel.SAFE.bit
OPTIONS: Final = ClientOptions(
    takes_at_once=False, queue_bytes_high=64 << 10, unsafe_bytes_high=4 << 20, unsafe_bundles_high=512
)
"""Messages of other clients wait behind those that one client has under way, so it is read no further meanwhile."""


class OpenError(Exception):
    """Refusal by the tree to serve this client."""

    def __init__(self, reason: str, code: EndCode) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class EmbeddedClient:
    """Client inside the broker's process. `hear` is called with everything for the client, in the same turn of the
    event loop, and `door` holds the credentials for other brokers."""

    def __init__(
        self,
        server: "SessionServer",
        name: str,
        who: OpenerCredentials,
        hear: Callable[[Upward], None],
        door: OutwardDoor | None = None,
    ) -> None:
        self.name = name
        incarnation = server.next_incarnation(name)
        options = replace(OPTIONS, epoch_us=server.wall_us() - server.now_us())
        machine = self._machine = ClientMachine(name, incarnation, server.broker_name, options)
        machine.awaits = SAFE_ONLY
        machine.when_full = WhenFull.DISCONNECT
        self._host = server.make_host(machine, name, incarnation, who, hear, door)
        self._unsent = False

    def start(self) -> None:
        """Request a session. `hear` receives `SessionBegan`, or the reason for the failure (see `reason_of_end`)."""
        self._host.start()

    @property
    def crowded(self) -> bool:
        """Whether so many publications are not safe yet that the caller should stop reading until `RoomAgain`."""
        return self._machine.crowded

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: Guarantee,
        attributes: Mapping[str, AttributeValue],
        keys: Sequence[str] = (),
    ) -> tuple[str, int]:
        """Number a publication and return its stream and number; the next `flush` sends it. Raises UsageError, without
        any effect, if it is invalid."""
        publishing = self._machine.publishing
        target = publishing.target(topic, guarantee, tuple(keys))
        seq = publishing.add(target, payload, attributes)
        self._unsent = True
        return target.stream, seq

    def flush(self) -> None:
        if self._unsent:
            self._unsent = False
            self._request(FlushRequest())

    def subscribe(self, topic_filter: str, where: str | None = None) -> None:
        """Subscribe. `hear` receives `SubscriptionConfirmed` or `Refused`."""
        self._request(SubscribeRequest(topic_filter, where))

    def unsubscribe(self, topic_filter: str, where: str | None = None) -> None:
        """Unsubscribe. `hear` receives `SubscriptionEnded`."""
        self._request(UnsubscribeRequest(topic_filter, where))

    def ask_audience(self, topic: str) -> None:
        """Ask whether the topic has subscribers. `hear` receives `AudienceAnswered`."""
        self._request(AudienceRequest((topic,)))

    def take(self, deliveries: int) -> None:
        """Report that this many more deliveries are done, so the broker can free them."""
        if deliveries:
            self._request(TakeRequest(deliveries))

    async def close(self) -> None:
        """Leave the tree after sending what was published."""
        self.flush()
        self._request(LeaveRequest())
        await self._host.close()

    def _request(self, request: object) -> None:
        if not self._host.is_over:
            self._host.handle(Request(request))


class EmbeddedConsumer:
    """Consumer of a durable subscription for an MQTT session. It is a client of its own and connects to the broker that
    holds the subscription, wherever that is."""

    def __init__(
        self,
        server: "SessionServer",
        client: str,
        subscription: str,
        terms: Terms,
        who: OpenerCredentials,
        hear: Callable[[Upward], None],
        door: OutwardDoor | None = None,
        *,
        window: int | None = None,
        ends: bool = False,
    ) -> None:
        """`client` is the name of the client that it belongs to. With `ends`, it only ends the subscription."""
        name = consumer_name(client, subscription)
        incarnation = server.next_incarnation(name)
        machine = ConsumerMachine(
            name,
            incarnation,
            server.broker_name,
            subscription,
            terms,
            window=window,
            ends=ends,
            options=ClientOptions(epoch_us=server.wall_us() - server.now_us()),
        )
        self.subscription = subscription
        self._host = server.make_host(machine, name, incarnation, who, hear, door)

    def start(self) -> None:
        """Connect. `hear` receives `ConsumerBegan`, or `ConsumerOver` with the reason."""
        self._host.start()

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if messages and not self._host.is_over:
            self._host.handle(Request(AcknowledgeRequest(tuple(messages))))

    def end_subscription(self) -> None:
        """End the subscription for all consumers. `hear` receives `ConsumerOver`."""
        if not self._host.is_over:
            self._host.handle(Request(EndRequest()))

    async def close(self) -> None:
        """Disconnect the consumer and keep the subscription."""
        if not self._host.is_over:
            self._host.handle(Request(LeaveRequest()))
        await self._host.close()


def consumer_name(client: str, subscription: str) -> str:
    """Return the client name of a consumer. Its prefix is the client's name, so rules that restrict the names of an
    identity allow it."""
    digits = hashlib.sha256(subscription.encode()).hexdigest()[:12]
    return f"{client[: NAME_BYTES - len(digits) - 1]}.{digits}"


def reason_of_end(effect: Upward) -> tuple[str, EndCode] | None:
    """Return why a client's session ended or was refused; None if the effect is not an end."""
    if isinstance(effect, Note) and effect.kind == "link_refused":
        return str(effect.columns["detail"]), EndCode.NONE
    if isinstance(effect, Answer) and isinstance(effect.body, SessionLost) and effect.body.over:
        return effect.body.reason, effect.body.code
    return None
