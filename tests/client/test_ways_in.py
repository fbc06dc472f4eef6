"""Several addresses, what a program is told unasked, and names for publications."""

import asyncio
import socket
from typing import Any

import pytest

import resprout
from resprout.client.connect import parse_addresses
from resprout.edge.messages import Publish
from resprout.net.connection import TcpConnection
from tests.net.puppets import free_address
from tests.net.stage import run, until

from .test_broker_change import kill


def test_addresses_are_tried_in_turn_until_a_broker_serves() -> None:
    async def scene() -> None:
        nobody = str(await free_address())
        async with resprout.local() as network:
            async with resprout.connect([nobody, network.address], name="a") as client:
                assert client.name == "a"
            async with resprout.connect(f"{nobody}, {network.address}") as client:
                await (await client.publish("t", b"")).safe()

    run(scene())


def test_an_address_that_says_nothing_leaves_time_for_the_others() -> None:
    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:  # it accepts in the kernel and answers nothing
            host, port = mute.getsockname()
            async with resprout.local() as network:
                client = await resprout.connect([f"{host}:{port}", network.address], timeout=8)
                await client.close()

    run(scene())


def test_when_nobody_serves_each_address_is_told_with_its_reason() -> None:
    async def scene() -> None:
        one, other = await free_address(), await free_address()
        with pytest.raises(resprout.ConnectError) as caught:
            await resprout.connect([str(one), str(other)])
        assert str(caught.value) == f"{one}: connection refused; {other}: connection refused"
        assert caught.value.retryable

    run(scene())


@pytest.mark.parametrize(("text", "count"), [("a:1", 1), ("a:1,b:2", 2), (["a:1", "a:1", "b:2"], 2)])
def test_addresses_are_a_text_with_commas_or_a_list(text: str | list[str], count: int) -> None:
    assert len(parse_addresses(text)) == count


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(resprout.UsageError, match=r"address=.* HOST:PORT"):
        resprout.connect([])
    with pytest.raises(resprout.UsageError, match="write it as HOST:PORT"):
        resprout.connect("a:1,")


def test_a_program_that_wants_to_is_told_that_its_broker_changed() -> None:
    async def scene() -> None:
        events: list[object] = []
        async with (
            resprout.local(brokers=3) as network,
            network.connect("c", broker=1, on_event=events.append) as client,
        ):
            await (await client.publish("t", b"")).safe()
            assert events == [resprout.Connected("b1")] and str(client.state) == "connected"
            await kill(network, 1)
            await until(lambda: len(events) == 4)
            gone = events[1]
            assert isinstance(gone, resprout.Disconnected) and (gone.broker, gone.is_final) == ("b1", False)
            assert events[2:] == [resprout.BrokerChanged("b0"), resprout.Reconnected("b0")]
            assert str(client.state) == "connected" and client.broker == "b0"
        assert client.state is resprout.ConnectionState.CLOSED

    run(scene())


def test_what_a_listener_does_wrong_does_not_harm_its_client() -> None:
    def fall_over(event: object) -> None:
        raise RuntimeError("a bug of the program")

    async def scene() -> None:
        complaints: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context.get("exception"))))
        async with resprout.local(brokers=3) as network, network.connect("c", broker=1, on_event=fall_over) as client:
            inbox = await client.subscribe("t")
            await kill(network, 1)
            await (await client.publish("t", b"x")).safe()
            assert (await inbox.next()).payload == b"x"
        assert set(complaints) == {"a bug of the program"} and len(complaints) == 4

    run(scene())


def test_a_receipt_has_the_id_of_its_message() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as client:
            inbox = await client.subscribe("t")
            receipts = [await client.publish("t", b"", guarantee=g) for g in ("eventual", "fifo", "causal", "total")]
            ids = {(await inbox.next()).id for _ in receipts}
            assert ids == {receipt.id for receipt in receipts}

    run(scene())


def test_a_payload_that_is_refused_is_no_matter_of_names() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as client:
            with pytest.raises(resprout.PayloadRefusedError) as caught:
                await client.publish("t", "text")  # type: ignore[arg-type]
            assert not isinstance(caught.value, resprout.NameRefusedError)

    run(scene())


@pytest.mark.parametrize("fast_loop", [False, True], ids=["asyncio", "uvloop"])
def test_small_frames_never_wait_in_the_system_for_company(fast_loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm on one side of a connection made a round trip through three brokers take 22 to 37 ms."""
    plugs: list[tuple[bool, int]] = []
    made = TcpConnection.connection_made

    def look(self: TcpConnection, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        plug = transport.get_extra_info("socket")
        plugs.append((self.peer is None, plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))

    async def scene() -> None:
        async with resprout.local(brokers=2) as network, network.connect("a", broker=1) as client:
            await (await client.publish("t", b"")).safe()

    monkeypatch.setattr(TcpConnection, "connection_made", look)
    run(scene(), fast_loop=fast_loop)
    assert {accepted for accepted, _ in plugs} == {False, True}
    assert all(at_once for _, at_once in plugs)


def test_a_program_that_looks_at_its_receipts_late_is_still_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever found a receipt there already was taken for somebody who does not wait, and the next one came late."""
    prompt: list[bool] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        prompt.extend(one.prompt for one in getattr(frame, "messages", ()) if isinstance(one, Publish))
        send(self, frame)

    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as client:
            inbox = await client.subscribe("t")
            for _ in range(3):
                receipt = await client.publish("t", b"")
                await inbox.next()
                await until(lambda receipt=receipt: receipt.state in ("safe", "delivered"))
                await receipt.safe()

    monkeypatch.setattr(TcpConnection, "send", note)
    run(scene())
    assert prompt == [True] * 3
