"""Test rig for the session machine: the test acts as the client and as the tree.

Packets pass through the codec in both directions, so everything that the machine sends is valid in the protocol version
of the connection.
"""

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.filters.predicate import topic_matches
from resprout.mqtt.actions import (
    AckMessages,
    Action,
    BeginSubscriptions,
    CloseConnection,
    EndSubscriptions,
    OpenSession,
    PublishMessage,
    SaveSession,
    SendPacket,
    SendRetained,
)
from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.limits import SECOND_US, ServerLimits
from resprout.mqtt.packets import V5, Connack, Connect, FilterRequest, Packet, Properties, Publish, Subscribe, Will
from resprout.mqtt.session import ServerSession
from resprout.mqtt.state import SessionState
from resprout.values.rows import RETAIN_KEY

WALL = 1_800_000_000_000_000
"""Microseconds since 1970 when the machine's clock is 0."""
DEFAULT = ServerLimits()

A = TypeVar("A")
_numbers = itertools.count(1)


class Rig:
    def __init__(self, version: int = V5, limits: ServerLimits = DEFAULT) -> None:
        self.version = version
        self.now = 0
        self.machine = ServerSession(limits, self.now, WALL)
        self._decoder = PacketDecoder()
        self.sent: list[Any] = []
        """All packets that the client received on this connection."""
        self.actions: list[Action] = []
        """All other actions that the test has not taken yet."""
        self.taken = 0
        """Number of messages reported as done."""
        self.dumps: list[bytes] = []
        """Session dumps that the machine requested, in order."""

    # -- the client ----------------------------------------------------------------------------------------------------

    def hear(self, packet: Packet) -> list[Any]:
        """Send a packet from the client; return the packets it receives in response."""
        out: list[Any] = []
        for heard in self._decoder.feed(encode(packet, self.version)):
            out += self.run(self.machine.receive(heard, self.now))
        return out

    def hear_bytes(self, data: bytes) -> list[Any]:
        out: list[Any] = []
        for heard in self._decoder.feed(data):
            out += self.run(self.machine.receive(heard, self.now))
        return out

    def connect(
        self,
        client_id: str = "c",
        clean: bool = True,
        state: SessionState | None = None,
        keep_alive: int = 0,
        will: Will | None = None,
        **properties: Any,
    ) -> Connack:
        """Send CONNECT and open the session."""
        self.ask(client_id, clean, keep_alive, will, **properties)
        return self.open(state)

    def ask(
        self,
        client_id: str = "c",
        clean: bool = True,
        keep_alive: int = 0,
        will: Will | None = None,
        **properties: Any,
    ) -> list[Any]:
        """Send CONNECT without opening the session."""
        values = Properties(**properties)
        return self.hear(Connect(client_id, self.version, clean, keep_alive, will, properties=values))

    def open(self, state: SessionState | None = None) -> Connack:
        self.take(OpenSession)
        sent = self.run(self.machine.opened(state, "c", self.now))
        assert isinstance(sent[0], Connack)
        return sent[0]

    def subscribe(self, *filters: str, qos: int = 2, **options: Any) -> None:
        """Subscribe and confirm the subscription."""
        self.hear(Subscribe(1, tuple([FilterRequest(each, qos, **options) for each in filters])))
        self.confirm()

    # -- the tree ------------------------------------------------------------------------------------------------------

    def confirm(self, retained: Sequence[Message] = ()) -> list[Any]:
        """Confirm all pending subscriptions; return the packets that the client receives."""
        out: list[Any] = []
        for asked in self.take(BeginSubscriptions):
            out += self.run(self.machine.subscribed(asked.token, [0] * len(asked.requests), self.now))
        for wanted in self.take(SendRetained):
            for message in retained:
                if topic_matches(wanted.subscription.topic_filter, message.topic):
                    out += self.run(self.machine.deliver_retained(message, wanted.subscription, self.now))
        for ended in self.take(EndSubscriptions):
            out += self.run(self.machine.unsubscribed(ended.token, [0] * len(ended.filters), self.now))
        return out

    def deliver(
        self, topic: str = "t", payload: bytes = b"x", publisher: str = "p", source: str = "", **attributes: Any
    ) -> list[Any]:
        """Deliver a message from the tree. Attributes are given without their prefix, such as `qos`."""
        message = tree_message(topic, payload, publisher, **attributes)
        return self.run(self.machine.deliver(message, self.now, source))

    def safe(self, publication: PublishMessage) -> list[Any]:
        return self.run(self.machine.safe(publication.token, self.now))

    # -- time and ends -------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> list[Any]:
        """Advance the clock, with a tick at each deadline; return the packets that the client receives."""
        end = self.now + int(seconds * SECOND_US)
        out: list[Any] = []
        while self.machine.next_deadline_us is not None and self.machine.next_deadline_us <= end:
            self.now = max(self.now, self.machine.next_deadline_us)
            out += self.run(self.machine.tick(self.now))
        self.now = end
        return out

    def lose(self) -> None:
        self.run(self.machine.lost(self.now))

    def again(self, limits: ServerLimits = DEFAULT) -> "Rig":
        """Return a rig for the next connection of the client, at the same time."""
        rig = Rig(self.version, limits)
        rig.now = self.now
        rig.machine = ServerSession(limits, self.now, WALL)
        return rig

    @property
    def state(self) -> SessionState:
        assert self.machine.state is not None
        return self.machine.state

    @property
    def is_closed(self) -> bool:
        return any(isinstance(action, CloseConnection) for action in self.actions)

    # -- actions -------------------------------------------------------------------------------------------------------

    def run(self, actions: Sequence[Action]) -> list[Any]:
        out: list[Any] = []
        for action in actions:
            if isinstance(action, SaveSession):
                assert actions.count(action) == 1
                self.dumps.append(self.state.dump())
            elif isinstance(action, SendPacket):
                assert not self.is_closed, "nothing is sent after the end"
                out += self._through_wire(action.packet)
            elif isinstance(action, AckMessages):
                assert action.count > 0
                self.taken += action.count
            else:
                self.actions.append(action)
        self.sent += out
        return out

    def _through_wire(self, packet: Packet) -> list[Any]:
        heard = PacketDecoder(version=self.machine.version or self.version).feed(
            encode(packet, self.machine.version or self.version)
        )
        assert heard == [packet]
        return heard

    def take(self, kind: type[A]) -> list[A]:
        """Return the actions of this type and remove them."""
        found: list[A] = [action for action in self.actions if isinstance(action, kind)]
        self.actions = [action for action in self.actions if not isinstance(action, kind)]
        return found

    def take_one(self, kind: type[A]) -> A:
        (found,) = self.take(kind)
        return found

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, packet_id: int = 0, **more: Any) -> list[Any]:
        return self.hear(Publish(topic, payload, qos, packet_id, **more))


def tree_message(topic: str = "t", payload: bytes = b"x", publisher: str = "p", **attributes: Any) -> Message:
    """Return a message of the tree. Attributes are given without their prefix; `user` is a dictionary of user
    properties."""
    found: dict[str, AttributeValue] = dict(attributes.pop("user", {}))
    found |= {f"mqtt.{name}": value for name, value in attributes.items()}
    keys = (RETAIN_KEY,) if attributes.get("retain") else ()
    return Message(publisher, 1, next(_numbers), topic, keys, Guarantee.CAUSAL, found, payload, 0)
