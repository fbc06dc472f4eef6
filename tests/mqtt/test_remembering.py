"""Session dumps: their contents, and the packets that wait until a dump is safe."""

import random
from typing import Any

import msgspec
import pytest

from resprout.core.errors import WireError
from resprout.mqtt.actions import AckMessages, Action, PublishMessage, SaveSession, SendPacket, SendRetained
from resprout.mqtt.limits import ServerLimits
from resprout.mqtt.outgoing import FINISHED_KEPT
from resprout.mqtt.packets import (
    V3_1_1,
    FilterRequest,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from resprout.mqtt.state import DUMP_BYTES_MAX, SessionState
from tests.mqtt.rig import Rig, tree_message


def surviving(**properties: Any) -> Rig:
    rig = Rig()
    rig.connect(clean=False, session_expiry=60, **properties)
    rig.subscribe("t/#")
    return rig


def after_death(rig: Rig, dump: bytes | None = None, **properties: Any) -> Rig:
    """Return the rig at another broker that has only the dump."""
    state = SessionState.load(rig.state.dump() if dump is None else dump, "c", "c")
    other = rig.again()
    other.connect(clean=False, session_expiry=60, state=state, **properties)
    return other


def shown(actions: list[Action]) -> list[type]:
    return [type(each.packet) if isinstance(each, SendPacket) else type(each) for each in actions]


def test_packets_that_rely_on_the_session_follow_remember() -> None:
    rig = Rig()
    rig.connect(clean=False, session_expiry=60)
    machine = rig.machine
    machine.receive(Subscribe(1, (FilterRequest("t", 2),)), 0)
    *confirmed, wanted = machine.subscribed(1, (0,), 0)
    assert shown(confirmed) == [SaveSession, Suback]
    assert isinstance(wanted, SendRetained)
    retained = machine.deliver_retained(tree_message("t", retain=True), wanted.subscription, 0)
    assert shown(retained) == [SaveSession, Publish]
    assert shown(machine.receive(Pubrec(1), 0)) == [SaveSession, Pubrel]
    assert shown(machine.receive(Pubcomp(1), 0)) == []
    assert shown(machine.deliver(tree_message("t"), 0)) == [SaveSession, Publish]
    assert shown(machine.receive(Pubrec(2), 0)) == [SaveSession, AckMessages, Pubrel]
    assert shown(machine.deliver(tree_message("t", qos=1), 0)) == [Publish]
    assert shown(machine.receive(Puback(3), 0)) == [AckMessages]
    assert shown(machine.deliver(tree_message("t", qos=0), 0)) == [Publish, AckMessages]
    (publication,) = machine.receive(Publish("t", b"", 2, 9), 0)
    assert isinstance(publication, PublishMessage)
    assert publication.packet_id == 9
    assert shown(machine.safe(publication.token, 0)) == [Pubrec]
    assert shown(machine.receive(Pubrel(9), 0)) == [SaveSession, Pubcomp]
    machine.receive(Unsubscribe(2, ("t",)), 0)
    assert shown(machine.unsubscribed(3, (0,), 0)) == [SaveSession, Unsuback]


def test_a_session_that_ends_with_its_connection_remembers_nothing() -> None:
    rig = Rig()
    rig.connect()
    rig.subscribe("t")
    rig.deliver("t")
    rig.hear(Pubrec(1))
    assert rig.dumps == []


def test_only_the_first_transmission_waits() -> None:
    rig = surviving()
    rig.deliver("t/a")
    rig.lose()
    again = rig.again()
    again.ask(clean=False, session_expiry=60)
    assert shown(again.machine.opened(rig.state, "c", 0))[1:] == [Publish]


def test_subscriptions_come_back() -> None:
    rig = surviving()
    values = Properties(subscription_identifiers=(268_435_455,))
    rig.hear(Subscribe(2, (FilterRequest("a/+", 1, True, True, 2), FilterRequest("$share/g/b", 0)), values))
    rig.confirm()
    state = SessionState.load(rig.state.dump(), "c", "c")
    assert list(state.subscriptions) == list(rig.state.subscriptions)
    assert state.subscriptions.bytes == rig.state.subscriptions.bytes
    other = after_death(rig)
    (publish,) = other.deliver("a/x", source="a/+", retain=True)
    assert (publish.qos, publish.retain) == (1, True)
    assert other.deliver("a/x", publisher="c", source="a/+") == []


def test_a_dump_leaves_out_publications_that_follow_it() -> None:
    rig = surviving()
    for packet_id in (1, 2):
        rig.publish("x", qos=2, packet_id=packet_id)
    other = after_death(rig, rig.state.dump({2}))
    assert other.publish("x", qos=2, packet_id=1, dup=True) == [Pubrec(1)]
    assert not other.take(PublishMessage)
    assert other.publish("x", qos=2, packet_id=2, dup=True) == []
    other.take_one(PublishMessage)


def test_publications_with_qos_2_are_not_published_again() -> None:
    rig = surviving()
    for packet_id in (1, 2, 3):
        rig.publish("x", qos=2, packet_id=packet_id)
    rig.safe(rig.take(PublishMessage)[0])
    rig.hear(Pubrel(1))
    other = after_death(rig)
    assert other.publish("x", qos=2, packet_id=2, dup=True) == [Pubrec(2)]
    assert not other.take(PublishMessage)
    other.publish("x", qos=2, packet_id=1)
    assert other.safe(other.take_one(PublishMessage)) == [Pubrec(1)], "it was released, and used again"
    other.state.mark_received(7)
    assert other.publish("x", qos=2, packet_id=7, dup=True) == [Pubrec(7)]
    assert other.hear(Pubrel(7)) == [Pubcomp(7)]


def test_messages_with_qos_2_have_their_packet_identifiers_again() -> None:
    rig = surviving()
    messages = [tree_message("t/a", str(number).encode()) for number in range(4)]
    for message in messages:
        rig.run(rig.machine.deliver(message, 0, "t/#"))
    rig.hear(Pubrec(2))
    rig.hear(Pubrec(3))
    rig.hear(Pubcomp(3))
    other = after_death(rig)
    assert other.sent[1:] == [Pubrel(2)]
    (new,) = other.deliver("t/a", b"new", source="t/#")
    assert (new.packet_id, new.dup) == (3, False), "1 and 4 are reserved, and 2 is in flight"
    again = []
    for message in messages:
        again += other.run(other.machine.deliver(msgspec.structs.replace(message, redelivered=True), 0, "t/#"))
    assert [(each.payload, each.packet_id, each.dup) for each in again] == [(b"0", 1, True), (b"3", 4, True)]
    for packet_id in (1, 3, 4):
        other.hear(Pubrec(packet_id))
    assert other.taken == 5
    for packet_id in (1, 2, 3, 4):
        other.hear(Pubcomp(packet_id))
    assert not other.state.outgoing.in_flight


def test_the_same_message_by_two_filters_is_two_messages() -> None:
    rig = surviving()
    rig.subscribe("t/a")
    message = tree_message("t/a")
    rig.run(rig.machine.deliver(message, 0, "t/#"))
    rig.run(rig.machine.deliver(message, 0, "t/a"))
    other = after_death(rig)
    (second,) = other.run(other.machine.deliver(message, 0, "t/a"))
    (first,) = other.run(other.machine.deliver(message, 0, "t/#"))
    assert (first.packet_id, second.packet_id) == (1, 2)


def test_a_client_acknowledges_before_the_tree_gives_the_message_again() -> None:
    rig = surviving()
    message = tree_message("t/a")
    rig.run(rig.machine.deliver(message, 0, "t/#"))
    other = after_death(rig)
    assert other.hear(Pubrec(1)) == [Pubrel(1)]
    assert other.run(other.machine.deliver(message, 0, "t/#")) == []
    assert other.taken == 1
    assert other.hear(Pubcomp(1)) == []


def test_a_message_in_flight_is_sent_again_after_its_subscription_ended() -> None:
    rig = surviving()
    message = tree_message("t/a")
    rig.run(rig.machine.deliver(message, 0, "t/#"))
    other = after_death(rig)
    other.hear(Unsubscribe(1, ("t/#",)))
    other.confirm()
    (again,) = other.run(other.machine.deliver(message, 0, "t/#"))
    assert (again.packet_id, again.qos, again.dup) == (1, 2, True)


def test_it_dies_twice() -> None:
    rig = surviving()
    messages = [tree_message("t/a") for _ in range(3)]
    for message in messages:
        rig.run(rig.machine.deliver(message, 0, "t/#"))
    rig.hear(Pubrec(2))
    third = after_death(after_death(rig))
    assert third.sent[1:] == [Pubrel(2)]
    sent = [publish for message in messages for publish in third.run(third.machine.deliver(message, 0, "t/#"))]
    assert [each.packet_id for each in sent] == [1, 3]


def test_messages_with_qos_0_do_not_come_again() -> None:
    rig = surviving()
    message = msgspec.structs.replace(tree_message("t/a", qos=0), redelivered=True)
    assert rig.run(rig.machine.deliver(message, 0, "t/#")) == []
    assert rig.taken == 1
    again = msgspec.structs.replace(message, attributes={"mqtt.qos": 1})
    (publish,) = rig.run(rig.machine.deliver(again, 0, "t/#"))
    assert publish.dup, "another broker may have sent it"


def test_mqtt_3_survives_too() -> None:
    rig = Rig(V3_1_1)
    rig.connect(clean=False)
    rig.subscribe("t")
    assert len(rig.dumps) == 1
    rig.deliver("t")
    assert len(rig.dumps) == 2


def test_finished_messages_are_bounded() -> None:
    rig = surviving()
    for _ in range(FINISHED_KEPT + 50):
        (publish,) = rig.deliver("t/a")
        rig.hear(Pubrec(publish.packet_id))
        rig.hear(Pubcomp(publish.packet_id))
    assert len(rig.state.outgoing.dump()) == FINISHED_KEPT


def test_dumps_of_the_largest_session_fit_into_a_message() -> None:
    limits = ServerLimits()
    rig = Rig(limits=limits)
    rig.connect(clean=False, session_expiry=60)
    filters = [f"{number:05}/" + "x" * 20 for number in range(limits.subscriptions_max)]
    for begin in range(0, len(filters), 1_000):
        rig.hear(Subscribe(1, tuple([FilterRequest(each, 2) for each in filters[begin : begin + 1_000]])))
        rig.confirm()
    assert rig.state.subscriptions.bytes <= limits.subscription_bytes_max
    assert len(rig.state.subscriptions) > 5_000
    for number in range(limits.flight_max):
        rig.run(rig.machine.deliver(tree_message(filters[0], publisher="p" * 64), 0, filters[0]))
        rig.hear(Publish("x", b"", 2, number + 1))
        if number < 200:
            rig.run(rig.machine.safe(rig.take(PublishMessage)[0].token, 0))
            rig.hear(Pubrel(number + 1))
    assert len(rig.state.dump()) <= DUMP_BYTES_MAX


def test_damaged_dumps_are_refused() -> None:
    rig = surviving()
    for _ in range(3):
        rig.deliver("t/a", source="t/#")
    rig.publish("x", qos=2, packet_id=1)
    dump = rig.state.dump()
    dice = random.Random(3)
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(dump)
        for _ in range(dice.randrange(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        cut = dice.choice((len(damaged), dice.randrange(len(damaged))))
        try:
            state = SessionState.load(bytes(damaged[:cut]), "c", "c")
        except WireError:
            refused += 1
        else:
            SessionState.load(state.dump(), "c", "c")
            other = rig.again()
            other.connect(clean=False, session_expiry=60, state=state)
    assert refused > 1_000


@pytest.mark.parametrize(
    "content",
    [
        [2, [], [], []],
        [1, [["a#", 0, 0]], [], []],
        [1, [["a", 3, 0]], [], []],
        [1, [["a", 64, 0]], [], []],
        [1, [["a", 0x30, 0]], [], []],
        [1, [["a", 0, 1 << 28]], [], []],
        [1, [], [0], []],
        [1, [], [65_536], []],
        [1, [], [], [[0, "t", "p", 1, "ordered", 1, False]]],
        [1, [], [], [[1, "t", "p/p", 1, "ordered", 1, False]]],
        [1, [], [], [[1, "t", "p", 1, "other", 1, False]]],
        [1, [], [], [[1, "t", "p", 1, "ordered", -1, False]]],
        [1, [], [], [[1, "t", "", 1, "ordered", 1, False]]],
    ],
)
def test_dumps_with_impossible_values(content: Any) -> None:
    with pytest.raises(WireError):
        SessionState.load(msgspec.msgpack.encode(content), "c", "c")


def test_dumps_that_are_too_large() -> None:
    with pytest.raises(WireError):
        SessionState.load(b"\0" * (DUMP_BYTES_MAX + 1), "c", "c")
