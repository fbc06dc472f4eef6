"""One peer does not keep the event loop from the others, nor a dead one its place."""

import asyncio
import socket
import struct
from itertools import pairwise

import msgspec
import pytest

from resprout.client.connect import connect
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish, Subscribe
from resprout.links.frames import Data
from resprout.links.options import LinkOptions
from resprout.net import connection
from resprout.net.sessions import HEARTBEAT_US, SILENCE_US, with_signs_of_life
from resprout.wire.codec import FrameWriter
from tests.net.stage import CODEC, QUICK, Proxy, Running, bare, broker, has_rested, hello, run, until

FRAMES = 40
PER_FRAME = 25


def burst() -> bytes:
    """A greeting and subscriptions in many frames, all of which come at once."""
    write = FrameWriter(CODEC).write
    frames = [write(hello("busy")), write(Data(1, 0, 1 << 40, (Attend(0),)))]
    for first in range(2, FRAMES * PER_FRAME, PER_FRAME):
        wishes = [Subscribe(number, f"t/{number}", None) for number in range(first, first + PER_FRAME)]
        frames.append(write(Data(first, 0, 1 << 40, tuple(wishes))))
    return b"".join(frames)


def subscribed(running: Running) -> int:
    session = running.machine.parts.sessions.all.get("busy")
    return len(session.subscriptions) if session is not None else 0


@pytest.mark.parametrize("fast_loop", [False, True])
def test_others_have_their_turn_between_the_frames_of_a_burst(monkeypatch: pytest.MonkeyPatch, fast_loop: bool) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS_MAX", -1.0)  # one frame is a turn

    async def scene() -> None:
        async with broker() as running, bare(running.address) as peer:
            peer.writer.write(burst())
            steps: list[int] = []
            while not steps or steps[-1] < FRAMES * PER_FRAME:
                await asyncio.sleep(0)
                steps.append(subscribed(running))
            assert len(set(steps)) > FRAMES // 2, steps
            # Reading goes on afterwards.
            peer.writer.write(struct.pack(">I", 1 << 30))
            await peer.ended()

    run(scene(), fast_loop=fast_loop)


def test_others_have_their_turn_within_a_frame_whose_messages_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is free between two messages of one frame, so its signs of life are sent."""
    monkeypatch.setattr(connection, "TURN_SECONDS_MAX", -1.0)
    monkeypatch.setattr(connection, "STEP_SECONDS_MAX", -1.0)  # every step takes too long

    async def scene() -> None:
        async with broker() as running, bare(running.address) as peer:
            await peer.greet("busy")
            wishes = [Subscribe(number, f"t/{number}", None) for number in range(1, 201)]
            peer.say_messages(1, Attend(0), *wishes)
            steps: list[int] = []
            while not steps or steps[-1] < len(wishes):
                await asyncio.sleep(0)
                steps.append(subscribed(running))
            assert len(set(steps)) > len(wishes) // 2, "one message is a step in the end"

    run(scene())


def test_a_new_connection_is_given_one_message_a_step_until_its_messages_prove_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that was cut off and came again had 16 slow messages taken in one step, each time."""
    monkeypatch.setattr(connection, "TURN_SECONDS_MAX", -1.0)
    monkeypatch.setattr(connection, "STEP_SECONDS_MAX", -1.0)

    async def scene() -> None:
        async with broker() as running, bare(running.address) as peer:
            await peer.greet("busy")
            wishes = [Subscribe(number, f"t/{number}", None) for number in range(1, 41)]
            peer.say_messages(1, Attend(0), *wishes)
            steps = [0]
            while steps[-1] < len(wishes):
                await asyncio.sleep(0)
                steps.append(subscribed(running))
            assert max(after - before for before, after in pairwise(steps)) <= 2, steps

    run(scene())


@pytest.mark.parametrize("fast_loop", [False, True])
def test_a_peer_that_leaves_after_a_burst_is_still_taken_at_its_word(
    monkeypatch: pytest.MonkeyPatch, fast_loop: bool
) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS_MAX", -1.0)

    async def scene() -> None:
        async with broker() as running:
            async with bare(running.address) as peer:
                peer.writer.write(burst())
                peer.writer.write_eof()
                await until(lambda: subscribed(running) == FRAMES * PER_FRAME)
            await until(lambda: running.host.connections == 0)
            assert running.sessions == ["busy"], "it may come back"

    run(scene(), fast_loop=fast_loop)


def test_a_peer_that_vanishes_during_its_burst_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS_MAX", -1.0)

    async def scene() -> None:
        async with broker() as running, Proxy(running.address) as cable:
            for turns in range(0, FRAMES, 3):
                async with bare(cable.address) as peer:
                    peer.writer.write(burst())
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    cable.reset_all()
            await until(lambda: running.host.connections == 0)
            async with connect(str(running), name="other") as client:
                await (await client.publish("t/1", b"x")).safe()

    run(scene())


@pytest.mark.parametrize("fast_loop", [False, True])
def test_of_all_who_send_much_at_once_one_has_a_turn_in_each_turn_of_the_loop(
    monkeypatch: pytest.MonkeyPatch, fast_loop: bool
) -> None:
    monkeypatch.setattr(connection, "TURN_BYTES", 16_384)
    receive, turn = connection.TcpConnection.data_received, 0
    turns: list[int] = []

    def noted(self: connection.TcpConnection, data: bytes, in_line: bool = False) -> None:
        if turn and in_line:  # from when turns are counted
            turns.append(turn)
        receive(self, data, in_line)

    monkeypatch.setattr(connection.TcpConnection, "data_received", noted)
    payloads = pack_payloads([b"x" * 1000] * 16)

    async def scene() -> None:
        nonlocal turn
        async with broker() as running, bare(running.address) as one, bare(running.address) as other:
            for peer, name in ((one, "one"), (other, "other")):
                await peer.greet(name)
                peer.say_messages(1, Attend(0))
                for number in range(60):
                    bundle = Bundle(name, 1, 16 * number + 1, 16, 0, "t", (), Guarantee.FIFO, b"", payloads)
                    peer.say_messages(number + 2, Publish(bundle, 0))
            while running.broker.books.tally.published < 2 * 60 * 16:
                turn += 1
                await asyncio.sleep(0)

    run(scene(), fast_loop=fast_loop)
    assert len(turns) > 4, "it comes in several reads"
    assert len(set(turns)) == len(turns)


def plugs_of(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets of all connections that are made from now on."""
    made = connection.TcpConnection.connection_made
    plugs: list[socket.socket] = []

    def make(self: connection.TcpConnection, transport: asyncio.BaseTransport) -> None:
        plugs.append(transport.get_extra_info("socket"))
        made(self, transport)

    monkeypatch.setattr(connection.TcpConnection, "connection_made", make)
    return plugs


def test_a_connection_that_is_closed_does_not_wait_for_a_peer_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CLOSE_SECONDS_MAX", 0.2)
    plugs = plugs_of(monkeypatch)

    async def scene() -> None:
        async with broker() as running, bare(running.address) as stuck:
            await stuck.greet("stuck")
            stuck.stop_reading()
            # Systems may keep some megabytes on the way: from now on they keep next to nothing of what goes to it.
            stuck.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for plug in plugs:
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            stuck.say_messages(1, Attend(0), Subscribe(1, "t", None))
            async with connect(str(running), name="p") as publisher:
                for _ in range(20):
                    await publisher.publish("t", bytes(1 << 19))
                await until(lambda: len(running.machine.parts.sessions.all["stuck"].given) > 0)
                stuck.say_messages(3, Subscribe(1, "t", None))  # against the rules: it is thrown out
                await until(lambda: "stuck" not in running.sessions)
                await until(lambda: running.host.connections == 1)

    run(scene())


def test_heartbeats_are_on_unless_something_else_is_asked_for() -> None:
    assert (with_signs_of_life().heartbeat_us, with_signs_of_life().silence_us) == (HEARTBEAT_US, SILENCE_US)
    own = LinkOptions(heartbeat_us=1_000, silence_us=9_000, free_ack_delay_us=30_000)
    assert with_signs_of_life(own) == own
    assert with_signs_of_life(LinkOptions(silence_us=4_000)).heartbeat_us == 1_000
    assert with_signs_of_life(LinkOptions(heartbeat_us=50_000_000)).silence_us == 200_000_000
    assert with_signs_of_life(LinkOptions(silence_us=2)).heartbeat_us == 1


@pytest.mark.parametrize("dead", ["client", "broker"])
def test_a_peer_whose_machine_vanished_is_noticed(dead: str) -> None:
    """No byte and no end of the connection comes any more: exactly what a lost machine looks like."""
    watchful = msgspec.structs.replace(QUICK, heartbeat_us=50_000, silence_us=500_000)
    patient = msgspec.structs.replace(QUICK, heartbeat_us=50_000, silence_us=60_000_000)
    ours, theirs = (patient, watchful) if dead == "client" else (watchful, patient)

    async def scene() -> None:
        async with (
            broker(links=theirs) as running,
            Proxy(running.address) as proxy,
            connect(str(proxy.address), name="c", links=ours) as client,
        ):
            tried = proxy.attempts
            if await has_rested(0.7, stall=0.2):
                assert proxy.attempts == tried and not any(note.kind != "founded" for note in running.notes), (
                    "heartbeats keep an idle connection"
                )
            tried = proxy.attempts
            proxy.swallowing = True
            if dead == "client":
                await until(lambda: any(note.kind == "suspect" for note in running.notes))
            else:
                await until(lambda: proxy.attempts > tried)
            proxy.swallowing = False
            proxy.reset_all()
            await (await client.publish("t", b"back")).delivered()

    run(scene())
