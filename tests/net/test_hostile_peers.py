"""Whatever comes in on a connection, the broker goes on serving the others."""

import asyncio
import random
import struct
from typing import Any

import msgspec
import pytest

from resprout.client.connect import connect
from resprout.client.errors import ConnectError
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish, Subscribe, Taken
from resprout.links.frames import Data, Goodbye, SessionWelcome
from resprout.net.connection import GREETING_BYTES_MAX
from resprout.net.sessions import Here, Who
from resprout.order.messages import Forward
from resprout.stacks.resprout.messages import JoinRequest
from resprout.wire.codec import PREAMBLE, FrameWriter
from tests.net.stage import CODEC, QUICK, Bare, Running, bare, broker, hello, reset, run, until
from tests.soak import cases


async def still_serves(running: Running, name: str = "witness") -> None:
    async with connect(str(running), name=name) as client:
        inbox = await client.subscribe("still/here")
        receipt = await client.publish("still/here", b"yes")
        assert (await inbox.next()).payload == b"yes"
        await receipt.delivered()


def bytes_of(*frames: Any) -> bytes:
    return b"".join(map(FrameWriter(CODEC).write, frames))


async def throw(running: Running, data: bytes) -> None:
    """Sends the bytes and leaves, or is thrown out."""
    async with bare(running.address) as peer:
        peer.writer.write(data)
        peer.writer.write_eof()
        await peer.ended()


def test_random_bytes_harm_nobody() -> None:
    greeting = bytes_of(hello("mallory"))

    async def scene() -> None:
        async with broker() as running:
            for seed in range(300):
                rng = random.Random(seed)
                start = (b"", PREAMBLE, greeting)[seed % 3]
                await throw(running, start + rng.randbytes(rng.choice((1, 3, 12, 200, 5000, 70_000))))
            await still_serves(running)
            await until(lambda: running.host.connections == 0)

    run(scene())


def test_a_valid_stream_with_one_wrong_byte_harms_nobody() -> None:
    stream = bytes_of(hello("mallory"), Data(1, 0, 1 << 40, (Attend(0), Subscribe(1, "a/#", "x > 1"), Taken(0))))

    async def scene() -> None:
        async with broker() as running:
            rng = random.Random(7)
            for place in range(len(stream)):
                wrong = bytearray(stream)
                wrong[place] = rng.randrange(256)
                await throw(running, bytes(wrong))
            await still_serves(running)

    run(scene())


def test_a_header_that_claims_a_gigabyte_is_refused_at_once() -> None:
    async def scene(greeted: bool) -> str:
        async with broker() as running, bare(running.address) as peer:
            if greeted:
                await peer.greet("mallory")
            else:
                peer.writer.write(PREAMBLE)
            peer.writer.write(struct.pack(">I", 1 << 30))
            while not isinstance(frame := await peer.hear(), Goodbye):
                assert isinstance(frame, Data)
            await peer.ended()
            await still_serves(running)
            return frame.reason

    for greeted in (False, True):
        assert "a frame of 1073741824 bytes is announced" in run(scene(greeted))


def test_before_it_has_greeted_a_peer_may_send_only_a_small_frame() -> None:
    async def scene() -> None:
        async with broker() as running, bare(running.address) as peer:
            peer.writer.write(PREAMBLE + struct.pack(">I", GREETING_BYTES_MAX + 1))
            goodbye = await peer.hear()
            assert isinstance(goodbye, Goodbye)
            assert f"allowed are 1 to {GREETING_BYTES_MAX}" in goodbye.reason

    run(scene())


def test_the_longest_greeting_is_a_small_frame() -> None:
    longest = hello("n" * 64, incarnation=(1 << 63) - 1, epoch=(1 << 63) - 1, grant=(1 << 63) - 1)
    assert len(bytes_of(longest)) < GREETING_BYTES_MAX // 4


@pytest.mark.parametrize(
    "first", [Data(1, 0, 0, ()), SessionWelcome(1, "x", "client", 1, 1, 0, 0), Here("x", "client", 1)]
)
def test_whatever_is_no_greeting_is_refused(first: Any) -> None:
    async def scene() -> None:
        async with broker() as running, bare(running.address) as peer:
            peer.say(first)
            assert await peer.hear() == Goodbye(f"{type(first).__name__} before Hello")
            await peer.ended()
            await until(lambda: running.host.connections == 0)

    run(scene())


def test_whoever_asks_who_is_there_is_answered_and_let_go() -> None:
    async def scene() -> None:
        async with broker() as running, bare(running.address) as peer:
            peer.say(Who("nobody"), Who("nobody"), hello("nobody"))
            assert await peer.hear() == Here("b0", "broker", 1, 0, running.host.network, (), "resprout")
            with pytest.raises(EOFError):
                await peer.hear()
            assert running.sessions == []

    run(scene())


def test_silence_and_single_bytes_end_with_the_time_for_a_greeting() -> None:
    greeting = bytes_of(hello("loris"))[:-1]  # never whole, however late the broker accepts the connection

    async def dribble(peer: Bare, data: bytes) -> None:
        for byte in data:
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    async def loris(running: Running, data: bytes) -> Goodbye:
        async with bare(running.address) as peer:
            dribbling = asyncio.create_task(dribble(peer, data))
            goodbye = await peer.hear()
            dribbling.cancel()
            assert isinstance(goodbye, Goodbye)
            return goodbye

    async def scene() -> None:
        links = msgspec.structs.replace(QUICK, silence_us=3_600_000_000)  # the watch over sessions would cut in at 2 s
        async with broker(links=links) as running:
            running.host.greeting_s_max = 2.0
            slow = [loris(running, data) for data in (b"", PREAMBLE[:3], PREAMBLE, greeting) * 5]
            goodbyes, _ = await asyncio.gather(asyncio.gather(*slow), still_serves(running))
            assert set(goodbyes) == {Goodbye("no greeting came within 2 s")}
            await until(lambda: running.host.connections == 0)

    run(scene())


def test_a_session_that_dribbles_a_frame_is_suspected_like_a_silent_one() -> None:
    async def scene() -> None:
        links = msgspec.structs.replace(QUICK, heartbeat_us=100_000, silence_us=400_000, session_linger_us=100_000)
        async with broker(links=links) as running, bare(running.address) as peer:
            await peer.greet("loris")
            peer.writer.write(struct.pack(">I", 1 << 20))
            ending = asyncio.create_task(peer.ended())
            while not ending.done():
                peer.writer.write(b"\0")
                await asyncio.sleep(0.02)
            assert [note.kind for note in running.notes] == ["founded", "suspect"]
            await until(lambda: running.sessions == [])

    run(scene())


def test_thousands_of_connections_that_come_and_go_leave_nothing_behind() -> None:
    greeting = bytes_of(hello("mallory"))

    async def visit(running: Running, number: int) -> None:
        async with bare(running.address) as peer:
            if number % 3:
                peer.writer.write(greeting[: number % len(greeting)])
            if number % 2:
                reset(peer.writer)

    async def scene() -> None:
        async with broker() as running:
            for batch in range(0, cases(2_000, 10_000), 250):
                await asyncio.gather(*(visit(running, number) for number in range(batch, batch + 250)))
            await still_serves(running)
            await until(lambda: running.host.connections == 0)
            assert running.sessions == []

    run(scene())


def test_a_connection_cut_at_every_byte_of_its_greeting_leaves_the_name_usable() -> None:
    stream = bytes_of(hello("p"), Data(1, 0, 1 << 40, (Attend(0), Subscribe(1, "still/here", None))))

    async def scene() -> None:
        async with broker() as running:
            for cut in range(len(stream) + 1):
                async with bare(running.address) as peer:
                    peer.writer.write(stream[:cut])
                    await asyncio.sleep(0)
                    if cut % 2:
                        reset(peer.writer)
            await still_serves(running, "p")

    run(scene())


def test_beyond_the_limit_connections_are_refused_with_a_reason() -> None:
    async def scene() -> None:
        async with broker() as running:
            running.host.reception.connections_max = 3
            async with connect(str(running), name="a"), bare(running.address) as b, bare(running.address) as c:
                await b.greet("b")
                await c.greet("c")
                await until(lambda: running.host.connections == 3)
                with pytest.raises(ConnectError, match="b0 has 3 connections and takes no more"):
                    await connect(str(running), name="late")
            await still_serves(running)

    run(scene())


def test_a_client_may_not_speak_for_another_or_say_what_brokers_say() -> None:
    forged = Bundle("witness", 1, 1, 1, 0, "still/here", (), Guarantee.CAUSAL, b"", pack_payloads([b"forged"]))

    async def scene() -> None:
        async with broker() as running:
            for epoch, message in enumerate((Publish(forged), Forward(forged, 1), JoinRequest(""), Taken(5)), start=1):
                async with bare(running.address) as peer:
                    await peer.greet("mallory", epoch=epoch)
                    peer.say_messages(1, Attend(0), message)
                    while not isinstance(await peer.hear(), Goodbye):
                        pass
            await still_serves(running)

    run(scene())
