"""The native client of an MQTT client, inside the process of its broker.

It is a client like any other: the tree knows it by its name, the rules decide what it may do, a client of the same name
elsewhere takes its place, and when the broker's life ends it goes on at another broker. Here it is only asked and
heard; what MQTT makes of that is not known here.

Publications are numbered at once, and leave together with the others of the same read of a socket (`flush`).
"""

import hashlib
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from resprout.core.contract import Answer, EndCode, Machine, Note, Request
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
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.door import Door
from resprout.net.host import Host, Upward
from resprout.net.near import NearHost, NearOpener
from resprout.net.sessions import (
    CODEC,
    EncodedBodies,
    Here,
    incarnation_max,
    next_incarnation,
    random_epoch,
    with_signs_of_life,
)

SAFE_ONLY: Final = ReceiptLevel.SAFE.bit
HEARTBEAT_US: Final = 1_000_000
"""Between an embedded client and its broker nothing is lost; a broker hears it often enough not to suspect it."""


class EmbeddedClient:
    """`listener`: the host of the broker's current life. `hear` takes what the tree has for this client, in the turn of
    the event loop in which it comes. `door`: how it proves to other brokers who it is."""

    def __init__(
        self,
        name: str,
        listener: Callable[[], Host],
        who: NearOpener,
        hear: Callable[[Upward], None],
        door: Door | None = None,
        options: ClientOptions | None = None,
        links: LinkOptions | None = None,
    ) -> None:
        self.name = name
        broker = listener()
        incarnation = next_incarnation(broker.inquiries.latest_incarnation(name))
        machine = self._machine = ClientMachine(
            name, incarnation, broker.here.name, options or ClientOptions(takes_at_once=False)
        )
        machine.awaits = SAFE_ONLY
        machine.when_full = WhenFull.DISCONNECT
        carried = _links_of(machine, name, incarnation, links)
        self._host = NearHost(carried, Here(name, "client", incarnation), listener, who, hear, door)
        self._unsent = False

    def start(self) -> None:
        """Ask for a session; `hear` is told `SessionBegan`, or why there is none (`reason_of_end`)."""
        self._host.start()

    @property
    def broker(self) -> str:
        """The broker that serves it."""
        return self._machine.broker

    @property
    def crowded(self) -> bool:
        """So much waits to be safe that no more should be read until `RoomAgain`."""
        return self._machine.crowded

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: Guarantee,
        attributes: Mapping[str, AttributeValue],
        keys: Sequence[str] = (),
    ) -> tuple[str, int]:
        """Return the stream and the number of the publication, which leaves with the next `flush`. UsageError, and
        nothing has happened, for what cannot be published."""
        publishing = self._machine.publishing
        target = publishing.target(topic, guarantee, tuple(keys))
        seq = publishing.add(target, payload, attributes)
        self._unsent = True
        return target.stream, seq

    def flush(self) -> None:
        if self._unsent:
            self._unsent = False
            self._host.handle(Request(FlushRequest()))

    def subscribe(self, topic_filter: str, where: str | None = None) -> None:
        """Answered by `SubscriptionConfirmed`, or by `Refused`."""
        self._host.handle(Request(SubscribeRequest(topic_filter, where)))

    def unsubscribe(self, topic_filter: str, where: str | None = None) -> None:
        """Answered by `SubscriptionEnded`."""
        self._host.handle(Request(UnsubscribeRequest(topic_filter, where)))

    def ask_audience(self, topic: str) -> None:
        """Does anybody listen there? Answered by `AudienceAnswered`."""
        self._host.handle(Request(AudienceRequest((topic,))))

    def take(self, deliveries: int) -> None:
        """So many more deliveries are taken: the broker need not keep them for this client."""
        if deliveries and not self._host.is_over:
            self._host.handle(Request(TakeRequest(deliveries)))

    async def close(self, farewell: bool = True) -> None:
        """Without a farewell the broker keeps its session for a while, as if the process had died."""
        if farewell and not self._host.is_over:
            self.flush()
            self._host.handle(Request(LeaveRequest()))
        await self._host.close()


class EmbeddedConsumer:
    """A consumer of a durable subscription, for an MQTT session: a client of its own, like those of native clients. It
    goes to the broker that holds the subscription, wherever that is."""

    def __init__(
        self,
        client: str,
        subscription: str,
        terms: Terms,
        listener: Callable[[], Host],
        who: NearOpener,
        hear: Callable[[Upward], None],
        door: Door | None = None,
        *,
        window: int | None = None,
        ends: bool = False,
    ) -> None:
        """`client`: the name of the client that it belongs to. `ends`: it only says that the subscription is over."""
        name = consumer_name(client, subscription)
        broker = listener()
        incarnation = next_incarnation(broker.inquiries.latest_incarnation(name))
        machine = ConsumerMachine(name, incarnation, broker.here.name, subscription, terms, window=window, ends=ends)
        carried = _links_of(machine, name, incarnation)
        self.subscription = subscription
        self._host = NearHost(carried, Here(name, "client", incarnation), listener, who, hear, door)

    def start(self) -> None:
        """`hear` is told `ConsumerBegan`, or `ConsumerOver` with the reason."""
        self._host.start()

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if messages and not self._host.is_over:
            self._host.handle(Request(AcknowledgeRequest(tuple(messages))))

    def end_subscription(self) -> None:
        """For everybody. Answered by `ConsumerOver`."""
        if not self._host.is_over:
            self._host.handle(Request(EndRequest()))

    async def close(self) -> None:
        """The subscription stays."""
        if not self._host.is_over:
            self._host.handle(Request(LeaveRequest()))
        await self._host.close()


def consumer_name(client: str, subscription: str) -> str:
    """Of the session of a consumer: one that belongs to this client, also where rules say what its clients may be
    called."""
    digits = hashlib.sha256(subscription.encode()).hexdigest()[:12]
    return f"{client[: NAME_BYTES - len(digits) - 1]}.{digits}"


def _links_of(machine: Machine, name: str, incarnation: int, options: LinkOptions | None = None) -> Links:
    return Links(
        machine,
        name=name,
        role="client",
        incarnation=incarnation,
        rng=random.Random(secrets.randbits(64)),
        options=options or with_signs_of_life(LinkOptions(heartbeat_us=HEARTBEAT_US)),
        first_epoch=random_epoch(),
        bodies=EncodedBodies(CODEC),
        incarnation_max=incarnation_max,
    )


def reason_of_end(effect: Upward) -> tuple[str, EndCode] | None:
    """Why a client that asked for a session, or had one, is done; None for everything that is no end."""
    if isinstance(effect, Note) and effect.kind == "link_refused":
        return str(effect.columns["detail"]), EndCode.NONE
    if isinstance(effect, Answer) and isinstance(effect.body, SessionLost) and effect.body.over:
        return effect.body.reason, effect.body.code
    return None
