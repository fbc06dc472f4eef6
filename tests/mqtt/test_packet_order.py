"""Order of packets that one client receives, and the contents of acknowledgements, through a real broker."""

import pytest

from resprout.mqtt.packets import (
    V3_1,
    V3_1_1,
    FilterRequest,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
)
from resprout.mqtt.reasons import Reason
from tests.mqtt.peer import VERSIONS, mqtt_peer
from tests.mqtt.stage import mqtt_broker, mqtt_tree
from tests.net.stage import run


@pytest.mark.parametrize("qos", [0, 1])
def test_a_subscription_behind_a_retained_publication_gets_it_as_retained_message(qos: int) -> None:
    """Both packets may arrive in one read. The message comes once, with RETAIN set, after SUBACK."""

    async def work() -> None:
        async with mqtt_tree() as (first, second):
            for number, broker in enumerate((first, second)):
                async with mqtt_peer(broker.address) as one:
                    topic = f"lamp/{number}"
                    await one.connect(f"one{number}")
                    one.say(
                        Publish(topic, b"on", qos, 7 if qos else 0, True),
                        Subscribe(8, (FilterRequest(topic, 0),)),
                    )
                    await one.hear_a(Suback)
                    message = await one.receive()
                    assert (message.payload, message.retain) == (b"on", True)
                    one.say(Publish(topic, b"live"))
                    assert (await one.receive()).payload == b"live"

    run(work())


def test_a_publication_before_a_subscription_in_one_read_is_not_delivered_to_it() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            one.say(Publish("t", b"before"), Subscribe(1, (FilterRequest("t", 0),)))
            assert isinstance(await one.hear(), Suback)
            one.say(Publish("t", b"after"))
            packet = await one.hear()
            assert isinstance(packet, Publish)
            assert packet.payload == b"after"

    run(work())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_gets_the_acknowledgement_before_its_own_publication(version: int) -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address, version) as one:
            await one.connect("one")
            await one.subscribe("t")
            one.say(Publish("t", b"1", 1, 5))
            assert [type(await one.hear()) for _ in range(2)] == [Puback, Publish]
            one.say(Publish("t", b"2", 2, 6))
            assert [type(await one.hear()) for _ in range(2)] == [Pubrec, Publish]
            one.say(Pubrel(6))
            assert isinstance(await one.hear(), Pubcomp)

    run(work())


def test_puback_of_mqtt_5_says_that_no_subscription_matches() -> None:
    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address) as one,
            mqtt_peer(second.address) as other,
        ):
            await one.connect("one")
            await other.connect("other")
            assert await one.publish("t", b"x", 1) == Reason.NO_MATCHING_SUBSCRIBERS
            assert await one.publish("t", b"x", 2) == Reason.SUCCESS
            await other.subscribe("t")
            assert await one.publish("t", b"x", 1) == Reason.SUCCESS
            assert await one.publish("$SYS/t", b"x", 1) == Reason.NOT_AUTHORIZED

    run(work())


@pytest.mark.parametrize("version", [V3_1, V3_1_1])
def test_connack_of_mqtt_3_1_does_not_say_that_a_session_is_present(version: int) -> None:
    async def work() -> None:
        async with mqtt_broker() as broker:
            for present in (False, version == V3_1_1):
                async with mqtt_peer(broker.address, version) as one:
                    assert (await one.connect("one", clean_start=False)).session_present is present
                    one.leave()

    run(work())
