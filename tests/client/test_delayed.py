"""Messages that are delayed or expire, as programs use them."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import resprout
import resprout.sync
from resprout.client.local import Local
from resprout.edge.client.options import ClientOptions
from resprout.testing import Broker
from tests.cli.processes import resprout as command
from tests.client.test_durable import with_network
from tests.patience import PATIENCE_S


def test_a_delayed_message_comes_after_its_time_to_every_kind_of_subscriber() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("s", broker=1) as subscriber:
            inboxes = [
                await subscriber.subscribe("t"),
                await subscriber.subscribe("t", durable="d"),
                await subscriber.subscribe("t", group="g"),
            ]
            begun = time.time()
            await publisher.publish("t", b"late", delay=0.5)
            await publisher.publish("t", b"later", deliver_at=datetime.now(UTC) + timedelta(seconds=1))
            await publisher.publish("t", b"now")
            for inbox in inboxes:
                assert (await inbox.next(PATIENCE_S)).payload == b"now"
                late = await inbox.next(PATIENCE_S)
                later = await inbox.next(PATIENCE_S)
                assert (late.payload, later.payload) == (b"late", b"later")
                assert late.published_at is not None and late.deliver_at is not None and later.deliver_at is not None
                assert begun <= late.published_at < late.deliver_at - 0.499
                assert late.deliver_at <= time.time()
                assert later.deliver_at <= time.time()
                assert late.guarantee is resprout.Guarantee.EVENTUAL

    with_network(scene)


def test_a_message_that_has_expired_is_given_to_no_consumer() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w") as worker:
            inbox = await worker.subscribe("t", group="g")
            await inbox.close()
            brief = await publisher.publish("t", b"brief", ttl=0.1)
            await publisher.publish("t", b"lasting", ttl=10 * PATIENCE_S)
            await brief.delivered()  # once it has expired, the group does not wait for it
            inbox = await worker.subscribe("t", group="g")
            message = await inbox.next(PATIENCE_S)
            assert message.payload == b"lasting"
            assert message.expires_at is not None and message.expires_at > time.time()

    with_network(scene)


def test_a_delayed_message_that_expires_before_its_time_never_comes() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("s") as subscriber:
            inbox = await subscriber.subscribe("t")
            await publisher.publish("t", b"never", delay=0.3, ttl=0.1)
            await publisher.publish("t", b"due", delay=0.4)
            assert (await inbox.next(PATIENCE_S)).payload == b"due"

    with_network(scene)


def test_publications_tell_their_times_if_the_client_is_asked_to() -> None:
    async def scene(network: Local) -> None:
        options = ClientOptions(publish_times=True)
        async with network.connect("p", options=options) as telling, network.connect("q") as other:
            inbox = await other.subscribe("t")
            before = time.time()
            for _ in range(2):
                await telling.publish("t", b"1")
            await telling.publish_bundle("t", [b"2", b"3"], attributes=[{"a": 1}, {}])
            messages = [await inbox.next(PATIENCE_S) for _ in range(4)]
            assert all(before <= (message.published_at or 0) <= time.time() for message in messages)
            assert messages[2].attributes["a"] == 1
            await other.publish("t", b"5")
            silent = await inbox.next(PATIENCE_S)
            assert (silent.published_at, silent.expires_at, silent.deliver_at) == (None, None, None)

    with_network(scene)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"delay": 1, "deliver_at": 1.0}, "give one of them"),
        ({"delay": 1, "keys": ["k"]}, "has no keys"),
        ({"delay": 1, "retain": True}, "a last value is not delayed"),
        ({"delay": 400 * 86_400}, "at most 366 days"),
        ({"deliver_at": datetime(2030, 1, 1)}, "a datetime with a time zone"),  # noqa: DTZ001
        ({"ttl": 0}, "more than 0 seconds"),
    ],
)
def test_wrong_times_are_refused(arguments: dict[str, Any], text: str) -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher:
            with pytest.raises(resprout.UsageError, match=text):
                await publisher.publish("t", b"x", **arguments)

    with_network(scene)


def test_the_blocking_client_and_the_command_line_delay_messages(resprout_broker: Broker) -> None:
    with resprout.sync.connect(resprout_broker.address, name="s") as client, client.subscribe("t") as inbox:
        client.publish("t", b"late", delay=0.3, ttl=600)
        command("pub", "t", "later", "--delay", "0.5", "--ttl", "600", "--server", resprout_broker.address)
        for payload in (b"late", b"later"):
            message = inbox.next(PATIENCE_S)
            assert message.payload == payload
            assert message.deliver_at is not None and message.deliver_at <= time.time()
            assert message.expires_at is not None
