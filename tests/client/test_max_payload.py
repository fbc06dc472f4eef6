"""The size of payloads: announced by the broker, checked at the call, and enforced by the broker."""

import asyncio
import secrets
import signal
from pathlib import Path

import pytest

import resprout
from resprout import sync
from resprout.core import limits
from resprout.core.guarantee import GuaranteeName
from resprout.edge.client.publishing import Publishing
from resprout.testing import Broker
from tests.cli.processes import Running, announced, broker, complaint, running
from tests.net.stage import run
from tests.patience import PATIENCE_S

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


LARGEST = limits.PAYLOAD_BYTES_MAX
RESIDENT_MAX = 10 * LARGEST
"""Memory of a broker that passes on such payloads, whatever waits: its log has room for four."""


def peak_memory(pid: int) -> int:
    """Bytes that a process had in memory at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def test_payloads_of_64_mebibytes_survive_a_crash_of_the_broker_between() -> None:
    largest = secrets.token_bytes(1 << 20) * 64
    assert len(largest) == LARGEST

    async def scene(brokers: list[Running], first: str, last: str) -> None:
        async with resprout.connect(last, name="s") as reader, resprout.connect(first, name="p") as client:
            assert client.max_payload == LARGEST
            with pytest.raises(resprout.PayloadRefusedError, match=f"at most {LARGEST} \\(max_payload\\)"):
                await client.publish("t", largest + b"x")
            inbox = await reader.subscribe("t")
            for number in range(4):
                receipt = await client.publish("t", largest)
                if number == 1:
                    await receipt.accepted()
                    brokers[1].end(signal.SIGKILL)
                message = await inbox.next(timeout=PATIENCE_S)
                assert message.payload == largest
                await receipt.delivered()
            assert inbox.next_nowait() is None
            for running_broker in (brokers[0], brokers[2]):
                assert peak_memory(running_broker.pid) < RESIDENT_MAX

    large = ("--set", "max_payload=64MiB")
    with (
        broker("b0", *large) as (root, b0),
        broker("b1", *large, "--parent", b0) as (middle, b1),
        broker("b2", *large, "--parent", b1) as (leaf, b2),
    ):
        asyncio.run(scene([root, middle, leaf], b0, b2))


@pytest.mark.parametrize("guarantee", ["eventual", "causal", "total"])
def test_payloads_above_one_mebibyte_keep_their_order_and_are_journaled(
    tmp_path: Path, guarantee: GuaranteeName
) -> None:
    payloads = [secrets.token_bytes(32) * (size >> 5) for size in (6 << 20, 32, 6 << 20, 64)]

    async def publish(first: str, last: str) -> None:
        async with resprout.connect(last, name="s") as reader, resprout.connect(first, name="p") as client:
            inbox = await reader.subscribe("t")
            await reader.subscribe("t", durable="d")
            for payload in payloads:
                receipt = await client.publish("t", payload, guarantee=guarantee, attributes={"size": len(payload)})
            await receipt.safe()
            found = [(await inbox.next()).payload for _ in payloads]
            assert found == payloads if guarantee != "eventual" else sorted(found) == sorted(payloads)

    async def read_again(address: str) -> None:
        async with resprout.connect(address, name="later") as reader:
            inbox = await reader.subscribe("t", durable="d")
            found = [(await inbox.next(timeout=PATIENCE_S)).payload for _ in payloads]
            assert sorted(found) == sorted(payloads)

    def options(name: str) -> tuple[str, ...]:
        data = str(tmp_path / name)
        return "--set", "max_payload=6MiB", "--set", 'durable="journal"', "--data", data

    with broker("b0", *options("b0")) as (_, b0), broker("b1", *options("b1"), "--parent", b0) as (_, b1):
        asyncio.run(publish(b0, b1))
    with (
        broker("b0", *options("b0"), listen=b0) as _,
        broker("b1", *options("b1"), "--parent", b0, listen=b1) as _,
    ):
        asyncio.run(read_again(b1))


def test_a_payload_without_room_for_its_attributes_is_refused_at_the_call(resprout_broker: Broker) -> None:
    attributes = {f"{number:02}": "x" * 1024 for number in range(10)}
    with sync.connect(resprout_broker.address) as client:
        with pytest.raises(resprout.PayloadRefusedError, match="has no room for its attributes"):
            client.publish("t", bytes(limits.PAYLOAD_BYTES), attributes=attributes)
        client.publish("t", bytes(limits.PAYLOAD_BYTES - 16_384), attributes=attributes).safe()


def test_a_broker_with_another_limit_is_refused(resprout_broker: Broker) -> None:
    told = complaint(
        "broker", "--name", "other", "--listen", "127.0.0.1:0", "--parent", resprout_broker.address, "--set",
        "max_payload=2MiB",
    )  # fmt: skip
    assert "accepts payloads of 1048576 bytes, other of 2097152; set the same max_payload at all brokers" in told


@pytest.mark.parametrize("text", ["65MiB", "4095", "1 GB", "MiB", "-1MiB"])
def test_a_limit_that_cannot_be_is_refused(text: str) -> None:
    assert "max_payload" in complaint("broker", "--name", "b0", "--set", f"max_payload={text}")


def test_the_blocking_client_knows_the_limit_too(resprout_broker: Broker) -> None:
    with sync.connect(resprout_broker.address) as client:
        assert client.max_payload == limits.PAYLOAD_BYTES
        with pytest.raises(resprout.PayloadRefusedError, match="max_payload"):
            client.publish("t", bytes(limits.PAYLOAD_BYTES + 1))
