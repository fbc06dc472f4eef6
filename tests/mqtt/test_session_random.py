"""Random tests of a session: a correct client, a tree and failing connections. Checks the guarantees of each QoS.

Also hostile clients that send any packets in any order: the machine answers or ends the connection, and raises nothing.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from resprout.core.message import Message
from resprout.mqtt import packets
from resprout.mqtt.actions import (
    AckMessages,
    Action,
    BeginSubscriptions,
    EndSubscriptions,
    OpenSession,
    PublishMessage,
    SaveSession,
    SendPacket,
    SendRetained,
)
from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.limits import ServerLimits
from resprout.mqtt.packets import (
    V3_1_1,
    V5,
    FilterRequest,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
)
from resprout.mqtt.session import Phase
from resprout.mqtt.state import SessionState
from tests.mqtt.rig import Rig, tree_message
from tests.mqtt.test_round_trip import GOLDEN
from tests.soak import cases

LIMITS = ServerLimits(receive_maximum=8, flight_max=6, waiting_max=5, topic_alias_max=2)
TOPICS = ("t/a", "t/b", "t/c")


class Client:
    """Correct client that keeps its session."""

    def __init__(self, dice: random.Random, version: int) -> None:
        self.dice = dice
        self.version = version
        self.upward: deque[Any] = deque()
        """Packets on their way to the server."""
        self.unacknowledged: dict[int, Publish] = {}
        self.releasing: dict[int, None] = {}
        """Packet identifiers between PUBREC and PUBCOMP."""
        self.held: set[int] = set()
        """QoS 2 packet identifiers of the server that are not released yet."""
        self.received: list[tuple[int, bytes]] = []
        self.published = 0
        self.sent: dict[int, list[int]] = {0: [], 1: [], 2: []}
        """Numbers of the publications, by QoS."""
        self.quota = 0
        self.receive_maximum = 0
        self.unfinished: set[int] = set()
        """Packet identifiers of the server that count against the client's receive maximum."""
        self.aliases: dict[int, str] = {}
        self.last_id = 0

    def connected(self, server_maximum: int, receive_maximum: int) -> None:
        self.upward.clear()
        self.quota = server_maximum - len(self.unacknowledged)
        self.receive_maximum = receive_maximum
        self.unfinished.clear()
        self.aliases.clear()
        for packet_id in self.releasing:
            self.upward.append(Pubrel(packet_id))
        for publish in self.unacknowledged.values():
            self.upward.append(
                Publish(publish.topic, publish.payload, publish.qos, publish.packet_id, publish.retain, True)
            )

    def publish(self) -> None:
        qos = self.dice.randrange(3)
        if qos and self.quota - len(self.releasing) <= 0:
            return
        packet_id = 0
        if qos:
            packet_id = self.last_id % 30 + 1
            while packet_id in self.unacknowledged or packet_id in self.releasing:
                packet_id = packet_id % 30 + 1
            self.last_id = packet_id
        self.published += 1
        self.sent[qos].append(self.published)
        publish = Publish(self.dice.choice(TOPICS), b"%d" % self.published, qos, packet_id)
        if qos:
            self.unacknowledged[packet_id] = publish
            self.quota -= 1
        self.upward.append(publish)

    def hear(self, packet: Any) -> None:
        match packet:
            case Publish():
                self._published(packet)
            case Puback():
                assert self.unacknowledged.pop(packet.packet_id).qos == 1
                self.quota += 1
            case Pubrec():
                if packet.packet_id not in self.releasing:
                    assert self.unacknowledged.pop(packet.packet_id).qos == 2
                    self.quota += 1
                    self.releasing[packet.packet_id] = None
                self.upward.append(Pubrel(packet.packet_id))
            case Pubcomp():
                self.releasing.pop(packet.packet_id, None)
            case Pubrel():
                self.held.discard(packet.packet_id)
                self.unfinished.discard(packet.packet_id)
                self.upward.append(Pubcomp(packet.packet_id))
            case _:
                raise AssertionError(packet)

    def _published(self, packet: Publish) -> None:
        alias = packet.properties.topic_alias
        if alias is not None:
            assert alias <= 2
            if packet.topic:
                self.aliases[alias] = packet.topic
        topic = packet.topic or self.aliases[alias or 0]
        assert topic in TOPICS
        if packet.qos:
            assert packet.packet_id not in self.unfinished
            self.unfinished.add(packet.packet_id)
            assert len(self.unfinished) <= self.receive_maximum
        if packet.qos == 2 and packet.packet_id in self.held:
            assert packet.dup
        else:
            self.received.append((packet.qos, packet.payload))
        if packet.qos == 1:
            self.unfinished.discard(packet.packet_id)
            self.upward.append(Puback(packet.packet_id))
        elif packet.qos == 2:
            self.held.add(packet.packet_id)
            self.upward.append(Pubrec(packet.packet_id))


class Play:
    """A client, its broker and the tree.

    The client's publications and the dumps of its session form one stream. If the broker dies, a prefix of the stream
    survives. Packets that the machine sends after a dump are held back until the dump is safe.
    """

    def __init__(self, seed: int, version: int, kills: float) -> None:
        self.dice = random.Random(seed)
        self.kills = kills
        self.client = Client(self.dice, version)
        self.downward: deque[Any] = deque()
        self.rig = Rig(version, LIMITS)
        self.given: list[tuple[int, Message]] = []
        self.next_given = 0
        """Index of the next message to deliver to the machine."""
        self.most_given = 0
        self.taken = 0
        self.stream: list[PublishMessage | bytes] = []
        """Publications and dumps, in order."""
        self.safe = 0
        """Length of the safe prefix of the stream."""
        self.published: list[PublishMessage] = []
        """Publications in the tree from brokers that died."""
        self.held: deque[tuple[int, Any]] = deque()
        """Held back packets and counts of done messages, each with the length of the stream that has to be safe
        first."""
        self.breaks = self.deaths = 0
        self._connect(None)
        self.run(self.rig.machine.receive(Subscribe(1, (FilterRequest("t/#", 2),)), 0))
        asked = self.rig.take_one(BeginSubscriptions)
        self.run(self.rig.machine.subscribed(asked.token, (0,), 0))
        while self.safe < len(self.stream):
            self.make_safe()
        self.downward.clear()

    def _connect(self, state: SessionState | None) -> None:
        values: dict[str, Any] = {}
        most = 65_535
        if self.rig.version == V5:
            values = {"session_expiry": 1_000, "topic_alias_maximum": self.dice.choice((0, 2))}
            if self.dice.random() < 0.7:
                most = values["receive_maximum"] = self.dice.randrange(1, 8)
        self.rig.ask(clean=False, **values)
        self.rig.take_one(OpenSession)
        self.run(self.rig.machine.opened(state, "c", 0))
        while not self.downward:  # a dump for an earlier connection is in flight
            self.make_safe()
        assert isinstance(self.downward.popleft(), packets.Connack)
        self.client.connected(LIMITS.receive_maximum, most)

    def run(self, actions: Sequence[Action]) -> None:
        """Execute the actions, like the driver."""
        for action in actions:
            match action:
                case SendPacket():
                    (packet,) = self.rig.run([action])
                    self.held.append((self._needed(), packet))
                case AckMessages():
                    self.held.append((self._needed(), action.count))
                case SaveSession():
                    self.stream.append(self.rig.state.dump())
                case PublishMessage():
                    self.stream.append(action)
                case _:
                    self.rig.run([action])
        assert not self.rig.is_closed, self.rig.actions
        self._let_go()

    def _needed(self) -> int:
        """Length of the stream up to and including the last dump."""
        dumps = [place for place in range(self.safe, len(self.stream)) if isinstance(self.stream[place], bytes)]
        return dumps[-1] + 1 if dumps else 0

    def _let_go(self) -> None:
        while self.held and self.held[0][0] <= self.safe:
            packet = self.held.popleft()[1]
            if isinstance(packet, int):
                self.taken += packet
                assert self.taken <= self.next_given
            else:
                self.downward.append(packet)

    def step(self, is_draining: bool = False) -> bool:
        """Take one possible step; return False if only new work could be started."""
        choices: list[Callable[[], None]] = []
        if self.client.upward:
            choices += [self.pass_up] * 3
        if self.downward:
            choices += [self.pass_down] * 3
        if self.safe < len(self.stream):
            choices += [self.make_safe] * 3
        if self.next_given < self.most_given and self.rig.machine.room:
            choices += [self.give] * 3
        if not is_draining:
            choices += [self.client.publish, self.give]
            if self.dice.random() < 0.04:
                choices = [self.die if self.dice.random() < self.kills else self.break_connection]
        if not choices:
            return False
        self.dice.choice(choices)()
        return True

    def pass_up(self) -> None:
        self.run(self.rig.machine.receive(self.client.upward.popleft(), 0))

    def pass_down(self) -> None:
        self.client.hear(self.downward.popleft())

    def make_safe(self) -> None:
        one = self.stream[self.safe]
        self.safe += 1
        if isinstance(one, PublishMessage) and one.waits:
            self.run(self.rig.machine.safe(one.token, 0))
        self._let_go()

    def give(self) -> None:
        if not self.rig.machine.room:
            return
        if self.next_given == len(self.given):
            qos = self.dice.randrange(3)
            message = tree_message(self.dice.choice(TOPICS), b"%d" % len(self.given), qos=qos)
            self.given.append((qos, message))
        message = self.given[self.next_given][1]
        if self.next_given < self.most_given:
            message = msgspec.structs.replace(message, redelivered=True)
        self.next_given += 1
        self.most_given = max(self.most_given, self.next_given)
        self.run(self.rig.machine.deliver(message, 0, "t/#"))

    def break_connection(self) -> None:
        """Drop the packets in flight in both directions and reconnect the client."""
        self.breaks += 1
        self.run(self.rig.machine.lost(0))
        self.downward.clear()
        self.held = deque([(needed, one) for needed, one in self.held if isinstance(one, int)])
        while self.safe < len(self.stream) and self.dice.random() < 0.5:
            self.make_safe()
        state = self.rig.state
        self.rig = self.rig.again(LIMITS)
        self._connect(state)

    def die(self) -> None:
        """Kill the broker: another one continues with the safe prefix and part of the rest."""
        self.deaths += 1
        kept = self.stream[: self.dice.randint(self.safe, len(self.stream))]
        self.published += [one for one in kept if isinstance(one, PublishMessage)]
        last = max(place for place, one in enumerate(kept) if isinstance(one, bytes))
        dump = kept[last]
        assert isinstance(dump, bytes)
        state = SessionState.load(dump, "c", "c")
        for one in kept[last:]:
            if isinstance(one, PublishMessage) and one.packet_id:
                state.mark_received(one.packet_id)
        self.stream = [state.dump()]
        self.safe = 1
        self.held.clear()
        self.downward.clear()
        self.next_given = self.taken
        self.rig = self.rig.again(LIMITS)
        self._connect(state)


@pytest.mark.parametrize("version", [V3_1_1, V5])
@pytest.mark.parametrize("kills", [0, 0.5])
@pytest.mark.parametrize("seed", range(6))
def test_promises_hold_whatever_breaks(version: int, kills: float, seed: int) -> None:
    play = Play(seed, version, kills)
    for _ in range(cases(2_000, 30_000)):
        play.step()
    while play.step(is_draining=True):
        pass
    assert play.breaks > 10
    assert (play.deaths > 10) is (kills > 0)
    play.published += [one for one in play.stream if isinstance(one, PublishMessage)]
    check_downward(play)
    check_upward(play)
    assert play.taken == len(play.given)
    assert not play.rig.state.outgoing.in_flight
    assert not play.rig.state.received
    assert not play.rig.state.publications


def check_downward(play: Play) -> None:
    """Check the messages that the client received: QoS 0 at most once, 1 at least once, 2 exactly once, each in
    order."""
    for qos in range(3):
        given = [message.payload for each, message in play.given if each == qos]
        received = [payload for each, payload in play.client.received if each == qos]
        first = list(dict.fromkeys(received))
        if qos == 0:
            assert len(received) == len(first)
            assert first == [payload for payload in given if payload in set(first)]
        else:
            assert first == given
            if qos == 2:
                assert received == given
        assert len(given) > 20


def check_upward(play: Play) -> None:
    """Check the publications that the tree received, by the same rules."""
    by_qos: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for publication in play.published:
        by_qos[int(publication.attributes.get("mqtt.qos", 2))].append(int(publication.payload))
    assert by_qos[2] == sorted(set(by_qos[2]))
    assert by_qos[0] == sorted(set(by_qos[0]))
    first = list(dict.fromkeys(by_qos[1]))
    assert first == sorted(first)
    assert len(by_qos[1]) > 20
    assert len(by_qos[2]) > 20
    assert not play.client.unacknowledged
    for qos in (1, 2):
        assert set(play.client.sent[qos]) == set(by_qos[qos]), "only QoS 0 is lost"


@pytest.mark.parametrize("version", [V3_1_1, V5])
@pytest.mark.parametrize("seed", range(5))
def test_hostile_packets_in_any_order(version: int, seed: int) -> None:
    """Valid packets with few packet identifiers, interleaved with deliveries and answers."""
    dice = random.Random(seed)
    ends = 0
    for _ in range(cases(60, 2_000)):
        rig = Rig(version, LIMITS)
        values: dict[str, Any] = {"session_expiry": 100} if version == V5 else {}
        rig.connect(clean=False, **values)
        rig.subscribe("#")
        for _ in range(40):
            tokens = [each.token for each in rig.take(PublishMessage) if each.waits]
            for token in tokens:
                if dice.random() < 0.7:
                    rig.run(rig.machine.safe(token, rig.now))
            for asked in rig.take(BeginSubscriptions):
                reasons = [dice.choice((0, 0x87)) for _ in asked.requests]
                rig.run(rig.machine.subscribed(asked.token, reasons, rig.now))
            for wanted in rig.take(SendRetained):
                rig.run(rig.machine.deliver_retained(tree_message("r", qos=1), wanted.subscription, rig.now))
            for ended in rig.take(EndSubscriptions):
                rig.run(rig.machine.unsubscribed(ended.token, [0] * len(ended.filters), rig.now))
            if rig.machine.room:
                rig.deliver("x", qos=dice.randrange(3))
            rig.hear(hostile(dice, version))
            if rig.machine.phase is not Phase.OPEN:
                break
        ends += rig.machine.phase is not Phase.OPEN
        assert rig.state.outgoing.unreported <= LIMITS.flight_max + LIMITS.waiting_max
        rig.lose()
    assert ends > 10


def hostile(dice: random.Random, version: int) -> Any:
    packet_id = dice.randrange(1, 8)
    match dice.randrange(10):
        case 0:
            (packet,) = PacketDecoder(version=version).feed(
                bytes.fromhex(dice.choice([golden for each, _, golden in GOLDEN if each == version]))
            )
            return packet
        case 1:
            return Puback(packet_id)
        case 2:
            return Pubrec(packet_id)
        case 3:
            return Pubrel(packet_id)
        case 4:
            return Pubcomp(packet_id)
        case 5:
            return packets.Unsubscribe(packet_id, (dice.choice(("x", "#", "a#")),))
        case 6:
            return Subscribe(
                packet_id, (FilterRequest(dice.choice(("x", "+", "$share/g/x", "a/#/")), dice.randrange(3)),)
            )
        case _:
            qos = dice.randrange(3)
            values = Properties(topic_alias=dice.randrange(1, 3)) if version == V5 and dice.random() < 0.2 else None
            return Publish("x", b"y", qos, packet_id if qos else 0, properties=values or packets.NO_PROPERTIES)


def test_hostile_packets_are_valid_themselves() -> None:
    dice = random.Random(1)
    for _ in range(200):
        packet = hostile(dice, V5)
        assert PacketDecoder(version=V5).feed(encode(packet, V5)) == [packet]
