"""The size of payloads: announced by the broker, checked at the call, and enforced by the broker."""

import asyncio

import pytest

import resprout
from resprout import sync
from resprout.core import limits
from resprout.edge.client.publishing import Publishing
from resprout.testing import Broker
from tests.cli.processes import announced, running
from tests.net.stage import run

SMALL = 8192


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_client_is_told_the_limit_of_its_broker_and_refuses_more_at_the_call(brokers: int) -> None:
    async def scene() -> None:
        async with (
            resprout.local(brokers=brokers, options={"max_payload": SMALL}) as network,
            network.connect("p", broker=brokers - 1) as client,
            network.connect("s") as reader,
        ):
            assert client.max_payload == SMALL
            inbox = await reader.subscribe("t")
            for wrong in (bytes(SMALL + 1), {"a": "x" * SMALL}):
                with pytest.raises(resprout.PayloadRefusedError, match=f"at most {SMALL} \\(max_payload\\)"):
                    await client.publish("t", wrong)
            with pytest.raises(resprout.PayloadRefusedError, match="max_payload"):
                await client.publish_bundle("t", [b"", bytes(SMALL + 1)])
            with pytest.raises(resprout.PayloadRefusedError, match="max_payload"):
                await client.request("t", bytes(SMALL + 1))
            await client.publish("t", bytes(SMALL))
            await client.publish_bundle("t", [bytes(SMALL)] * 4)
            assert [len((await inbox.next()).payload) for _ in range(5)] == [SMALL] * 5

    run(scene())


def test_a_broker_refuses_what_a_client_that_does_not_know_the_limit_publishes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        async with resprout.local(options={"max_payload": SMALL}) as network, network.connect("p") as client:
            inbox = await client.subscribe("t")
            monkeypatch.setattr(Publishing, "check_payload", lambda self, payload: payload)
            receipt = await client.publish("t", bytes(SMALL + 1))
            with pytest.raises(resprout.PublishError, match="a payload of 8193 bytes; at most 8192") as caught:
                await receipt.safe()
            assert caught.value.definite
            await (await client.publish("t", b"after")).safe()
            assert (await inbox.next()).payload == b"after"

    run(scene())


def test_the_largest_payload_crosses_three_broker_processes() -> None:
    largest = bytes(range(256)) * (limits.PAYLOAD_BYTES // 256)

    async def scene(first: str, last: str) -> None:
        async with resprout.connect(last, name="s") as reader, resprout.connect(first, name="p") as client:
            assert client.max_payload == limits.PAYLOAD_BYTES == 1 << 20
            inbox = await reader.subscribe("t")
            durable = await reader.subscribe("t", durable="d")
            for _ in range(8):
                receipt = await client.publish("t", largest)
            await receipt.safe()
            for box in (inbox, durable):
                for _ in range(8):
                    assert (await box.next()).payload == largest

    listen = ("--listen", "127.0.0.1:0")
    with running("broker", "--name", "b0", *listen, "--json") as root:
        b0 = announced(root)["address"]
        with running("broker", "--name", "b1", *listen, "--parent", b0, "--json") as middle:
            b1 = announced(middle)["address"]
            with running("broker", "--name", "b2", *listen, "--parent", b1, "--json") as leaf:
                asyncio.run(scene(b0, announced(leaf)["address"]))


def test_the_blocking_client_knows_the_limit_too(resprout_broker: Broker) -> None:
    with sync.connect(resprout_broker.address) as client:
        assert client.max_payload == limits.PAYLOAD_BYTES
        with pytest.raises(resprout.PayloadRefusedError, match="max_payload"):
            client.publish("t", bytes(limits.PAYLOAD_BYTES + 1))
