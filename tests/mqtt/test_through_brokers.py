"""MQTT and native clients through real brokers, at the same broker and at two brokers."""

import asyncio

import pytest

import resprout
from resprout.mqtt.packets import (
    V3_1_1,
    V5,
    Disconnect,
    FilterRequest,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from resprout.mqtt.reasons import Reason
from tests.mqtt.peer import VERSIONS, MqttPeer, mqtt_peer
from tests.mqtt.stage import mqtt_broker, mqtt_tree
from tests.net.stage import run
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_of_every_qos_come_once_with_that_qos_at_another_broker(version: int) -> None:
    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address, version) as one,
            mqtt_peer(second.address, version) as other,
        ):
            assert not (await one.connect("one")).reason
            assert not (await other.connect("other")).reason
            assert (await other.subscribe("a/+")).reasons == (2,)
            for qos in (0, 1, 2, 2, 1):
                assert await one.publish("a/b", b"%d" % qos, qos) == 0
            got = [await other.receive() for _ in range(5)]
            assert [(message.payload, message.qos) for message in got] == [
                (b"0", 0), (b"1", 1), (b"2", 2), (b"2", 2), (b"1", 1),
            ]  # fmt: skip

    run(work())


def test_native_and_mqtt_clients_see_each_others_messages() -> None:
    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address) as one,
            resprout.connect(second.native, name="native") as native,
        ):
            await one.connect("one")
            await one.subscribe("to/mqtt")
            inbox = await native.subscribe("to/native", where="colour = 'red'")
            values = Properties(user=(("colour", "blue"),))
            await one.publish("to/native", b"passed over", 1, properties=values)
            values = Properties(user=(("colour", "red"),), content_type="text/plain")
            await one.publish("to/native", b"hello", 2, properties=values)
            message = await inbox.next()
            assert (message.payload, message.publisher) == (b"hello", "one")
            assert message.attributes["mqtt.content_type"] == "text/plain"
            await native.publish("to/mqtt", b"and back", attributes={"size": 3})
            received = await one.receive()
            assert (received.payload, received.qos) == (b"and back", 2)
            assert ("size", "3") in received.properties.user

    run(work())


def test_a_guarantee_is_chosen_by_user_property_and_by_rule() -> None:
    async def work() -> None:
        from resprout.core.guarantee import Guarantee

        rules = (("bank/#", Guarantee.TOTAL),)
        async with (
            mqtt_broker(settings={"guarantees": rules}) as broker,
            mqtt_peer(broker.address) as one,
            resprout.connect(broker.native, name="native") as native,
        ):
            await one.connect("one")
            inbox = await native.subscribe("#")
            await one.publish("bank/pt", b"1")
            await one.publish("other", b"2")
            await one.publish("other", b"3", properties=Properties(user=(("resprout-guarantee", "fifo"),)))
            found = [(await inbox.next()).guarantee for _ in range(3)]
            assert found == [Guarantee.TOTAL, Guarantee.CAUSAL, Guarantee.FIFO]
            refused = await one.publish("other", b"4", properties=Properties(user=(("resprout-guarantee", "best"),)))
            assert refused == Reason.IMPLEMENTATION_SPECIFIC_ERROR

    run(work())


@pytest.mark.parametrize("where", [0, 1])
def test_another_connection_takes_the_name_over_at_any_broker(where: int) -> None:
    async def work() -> None:
        async with mqtt_tree() as brokers, mqtt_peer(brokers[0].address) as one, mqtt_peer(
            brokers[where].address
        ) as other:  # fmt: skip
            await one.connect("same")
            await other.connect("same")
            heard = await one.ended()
            assert [packet.reason for packet in heard if isinstance(packet, Disconnect)] == [Reason.SESSION_TAKEN_OVER]
            other.say(Pingreq())
            await other.hear_a(Pingresp)

    run(work())


@pytest.mark.parametrize("leaves", [True, False])
def test_a_will_is_published_unless_the_client_leaves(leaves: bool) -> None:
    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address) as one,
            mqtt_peer(second.address) as other,
        ):
            await other.connect("other")
            await other.subscribe("will/#")
            await one.connect("one", will=Will("will/one", b"gone", 1))
            if leaves:
                one.leave()
                async with mqtt_peer(first.address) as third:
                    await third.connect("third", will=Will("will/third", b"gone", 1))
                    third.vanish()
                assert (await other.receive()).topic == "will/third"
            else:
                one.vanish()
                message = await other.receive()
                assert (message.topic, message.payload, message.qos) == ("will/one", b"gone", 1)

    run(work())


def test_retained_messages_are_found_at_a_broker_that_starts_later() -> None:
    async def work() -> None:
        async with mqtt_broker("b0") as first, mqtt_peer(first.address) as one:
            await one.connect("one")
            await one.publish("state/a", b"old", 1, retain=True)
            await one.publish("state/a", b"new", 2, retain=True)
            await one.publish("state/b", b"gone", 1, retain=True)
            await one.publish("state/b", b"", 1, retain=True)
            async with mqtt_broker("b1", parent=first.parent) as second, mqtt_peer(second.address) as other:
                await other.connect("other")
                await other.subscribe("state/#")
                message = await other.receive()
                assert (message.topic, message.payload, message.retain) == ("state/a", b"new", True)
                await one.publish("state/c", b"live", 1, retain=True)
                message = await other.receive()
                assert (message.topic, message.payload, message.retain) == ("state/c", b"live", False)

    run(work())


def test_native_and_mqtt_clients_have_the_same_last_values() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            await one.publish("state/a", b"mqtt", 1, retain=True)
            async with resprout.connect(str(broker.parent[1]), name="native") as native:
                await (await native.publish("state/b", b"native", retain=True)).delivered()
                inbox = await native.subscribe("state/#", retained=True)
                found = [await inbox.next(PATIENCE_S) for _ in range(2)]
                assert [(each.payload, each.retained) for each in found] == [(b"mqtt", True), (b"native", True)]
            await one.subscribe("state/b")
            message = await one.receive()
            assert (message.payload, message.retain) == (b"native", True)

    run(work())


def test_a_session_is_kept_while_its_client_is_away() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            async with mqtt_peer(broker.address) as away:
                await away.connect("away", properties=Properties(session_expiry=100))
                await away.subscribe("a")
                away.vanish()
            await one.publish("a", b"1", 1)
            await one.publish("a", b"2", 2)
            async with mqtt_peer(broker.address) as back:
                answer = await back.connect("away", clean_start=False, properties=Properties(session_expiry=100))
                assert answer.session_present
                assert [(await back.receive()).payload for _ in range(2)] == [b"1", b"2"]
            async with mqtt_peer(broker.address) as anew:
                assert not (await anew.connect("away", clean_start=True)).session_present

    run(work())


def test_a_message_that_was_not_acknowledged_comes_again() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address, V3_1_1) as one:
            await one.connect("one", clean_start=False)
            await one.subscribe("a", qos=1)
            one.say(Publish("a", b"x", 1, 77))
            first = await one.hear_a(Publish)
            one.vanish()
            async with mqtt_peer(broker.address, V3_1_1) as again:
                assert (await again.connect("one", clean_start=False)).session_present
                second = await again.hear_a(Publish)
                assert (second.packet_id, second.payload, second.dup) == (first.packet_id, b"x", True)
                again.say(Puback(second.packet_id))
                again.say(Pingreq())
                await again.hear_a(Pingresp)

    run(work())


def test_subscriptions_end_and_begin_again() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            one.say(
                Subscribe(1, (FilterRequest("a", 1),)), Unsubscribe(2, ("a", "b")),
                Subscribe(3, (FilterRequest("a", 1),)), Unsubscribe(4, ("a",)),
                Subscribe(5, (FilterRequest("a", 1), FilterRequest("$share/x", 1))),
            )  # fmt: skip
            assert (await one.hear_a(Unsuback)).reasons == (0, Reason.NO_SUBSCRIPTION_EXISTED)
            await one.publish("a", b"x")
            assert (await one.receive()).payload == b"x"
            one.say(Unsubscribe(6, ("a",)))
            await one.hear_a(Unsuback, lambda ack: ack.packet_id == 6)
            await one.publish("a", b"unheard")
            await one.subscribe("b", "a")
            await one.publish("b", b"heard")
            assert (await one.receive()).payload == b"heard"

    run(work())


def test_a_client_without_a_word_is_cut_off_when_its_keep_alive_is_over() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one", keep_alive=1)
            heard = await one.ended()
            assert [getattr(packet, "reason", 0) for packet in heard] == [Reason.KEEP_ALIVE_TIMEOUT]

    run(work())


def test_a_name_of_a_broker_is_refused() -> None:
    async def work() -> None:
        async with mqtt_tree() as (_, second):
            for name in ("b0", "b1"):
                async with mqtt_peer(second.address) as one:
                    assert (await one.connect(name)).reason == Reason.CLIENT_IDENTIFIER_NOT_VALID

    run(work())


def test_many_publishers_and_a_subscriber_lose_nothing_and_keep_the_order_of_each() -> None:
    async def work() -> None:
        async with mqtt_tree() as brokers, mqtt_peer(brokers[1].address) as sink:
            await sink.connect("sink")
            await sink.subscribe("n/#", qos=1)

            async def publish(number: int) -> None:
                async with mqtt_peer(brokers[number % 2].address, VERSIONS[number % 2]) as one:
                    await one.connect(f"p{number}")
                    for count in range(100):
                        one.say(Publish(f"n/{number}", b"%d" % count, 1, count + 1))
                    for _ in range(100):
                        await one.hear_a(Puback)

            work = [asyncio.create_task(publish(number)) for number in range(6)]
            got: dict[str, list[int]] = {}
            for _ in range(600):
                message = await sink.receive()
                got.setdefault(message.topic, []).append(int(message.payload))
            await asyncio.gather(*work)
            assert got == {f"n/{number}": list(range(100)) for number in range(6)}

    run(work())


async def says(one: MqttPeer) -> None:
    """Check that the broker serves the client."""
    one.say(Pingreq())
    await one.hear_a(Pingresp)


assert V5 in VERSIONS


SURVIVES = Properties(session_expiry=100)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_goes_on_at_another_broker(version: int) -> None:
    async def work() -> None:
        values = {"properties": SURVIVES} if version == V5 else {}
        async with mqtt_tree() as (first, second), mqtt_peer(second.address) as one:
            await one.connect("one")
            async with mqtt_peer(first.address, version) as away:
                assert not (await away.connect("away", clean_start=False, **values)).session_present
                await away.subscribe("a/+", "b", qos=2)
                await one.publish("a/x", b"1", 2)
                message = await away.receive()
                assert message.payload == b"1"
                away.vanish()
            await one.publish("a/y", b"2", 2)
            await one.publish("b", b"3", 1)
            async with mqtt_peer(second.address, version) as back:
                assert (await back.connect("away", clean_start=False, **values)).session_present
                got = [await back.receive() for _ in range(2)]
                assert sorted(message.payload for message in got) == [b"2", b"3"]
                await one.publish("a/z", b"4", 1)
                assert (await back.receive()).payload == b"4"
                await one.publish("a/w", b"once", 1)
                unacknowledged = await back.hear_a(Publish)
                assert (unacknowledged.payload, unacknowledged.dup) == (b"once", False)
                back.vanish()
            async with mqtt_peer(first.address, version) as back:
                assert (await back.connect("away", clean_start=False, **values)).session_present
                again = await back.receive()
                assert (again.payload, again.dup) == (b"once", True)
            async with mqtt_peer(first.address, version) as anew:
                assert not (await anew.connect("away", clean_start=True)).session_present
                await one.publish("a/z", b"5", 1)
                await anew.subscribe("b")
                await one.publish("b", b"6", 1)
                assert (await anew.receive()).payload == b"6"

    run(work())


def test_qos_2_is_exactly_once_through_a_change_of_brokers() -> None:
    async def work() -> None:
        async with mqtt_tree() as (first, second), mqtt_peer(second.address) as other:
            await other.connect("other")
            await other.subscribe("from/#", qos=2)
            async with mqtt_peer(first.address) as one:
                await one.connect("one", clean_start=True, properties=SURVIVES)
                await one.subscribe("to", qos=2)
                await other.publish("to", b"in flight", 2)
                sent = await one.hear_a(Publish)
                one.say(Publish("from/one", b"once", 2, 9))
                assert not (await one.hear_a(Pubrec)).reason
                one.vanish()
            assert (await other.receive()).payload == b"once"
            async with mqtt_peer(second.address) as one:
                assert (await one.connect("one", clean_start=False, properties=SURVIVES)).session_present
                one.say(Publish("from/one", b"once", 2, 9, dup=True))
                assert (await one.hear_a(Pubrec)).packet_id == 9
                one.say(Pubrel(9))
                assert (await one.hear_a(Pubcomp)).packet_id == 9
                again = await one.hear_a(Publish)
                assert (again.packet_id, again.payload, again.dup) == (sent.packet_id, b"in flight", True)
                one.say(Pubrec(again.packet_id))
                assert (await one.hear_a(Pubrel)).packet_id == sent.packet_id
                one.vanish()
            async with mqtt_peer(first.address) as one:
                assert (await one.connect("one", clean_start=False, properties=SURVIVES)).session_present
                assert (await one.hear_a(Pubrel)).packet_id == sent.packet_id
                one.say(Pubcomp(sent.packet_id))
                await one.publish("from/one", b"twice", 2)
                await other.publish("to", b"next", 2)
                assert (await one.receive()).payload == b"next"
            assert (await other.receive()).payload == b"twice"

    run(work())


def test_shared_subscriptions_give_each_message_to_one_session() -> None:
    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address) as one,
            mqtt_peer(second.address) as other,
            mqtt_peer(second.address) as source,
        ):
            await one.connect("one")
            await other.connect("other")
            await source.connect("source")
            for peer in (one, other):
                assert (await peer.subscribe("$share/workers/jobs/+")).reasons == (2,)
            for number in range(40):
                await source.publish("jobs/x", b"%d" % number, 1)
            got: list[bytes] = []

            async def collect(peer: MqttPeer) -> None:
                while len(got) < 40:
                    got.append((await peer.receive()).payload)

            tasks = [asyncio.create_task(collect(peer)) for peer in (one, other)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert sorted(map(int, got)) == list(range(40))

    run(work())


@pytest.mark.parametrize("is_leaving", [False, True])
def test_qos_2_of_a_shared_subscription_goes_to_no_other_client(is_leaving: bool) -> None:
    """Even if the session ends before PUBREC, or the client unsubscribes. A message with QoS 1 may."""

    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address) as one,
            mqtt_peer(second.address) as other,
            mqtt_peer(second.address) as source,
        ):
            await one.connect("one")
            await other.connect("other")
            await source.connect("source")
            await one.subscribe("$share/g/jobs")
            await source.publish("jobs", b"2", 2)
            assert (await one.hear_a(Publish)).payload == b"2"
            await other.subscribe("$share/g/jobs")
            if is_leaving:
                one.say(Unsubscribe(9, ("$share/g/jobs",)))
                await one.hear_a(Unsuback)
            else:
                one.vanish()
            taken = 0
            for number in range(10):
                await source.publish("jobs", b"%d" % (10 + number), 2)
                got = await other.receive()
                assert got.payload != b"2"
                taken += 1
                if got.payload == b"19":
                    break
            assert taken == 10

    run(work())


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_delayed_will_when_its_client_connects_elsewhere(is_clean: bool, is_away: bool) -> None:
    """A clean start ends the session, so the will is published at once; a client that resumes takes it back."""

    async def work() -> None:
        lasting = Properties(session_expiry=600)
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(second.address) as watch,
            mqtt_peer(first.address) as one,
            mqtt_peer(second.address) as again,
        ):
            await watch.connect("watch")
            await watch.subscribe("wills")
            will = Will("wills", b"gone", 1, False, Properties(will_delay=500))
            await one.connect("one", will=will, properties=lasting)
            await one.subscribe("a")
            if is_away:
                one.vanish()
            connack = await again.connect("one", clean_start=is_clean, properties=lasting)
            assert connack.session_present is not is_clean
            if is_clean:
                assert (await watch.receive()).payload == b"gone"
            await again.publish("wills", b"here", 1)
            assert (await watch.receive()).payload == b"here"

    run(work())
