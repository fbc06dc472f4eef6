"""Brokers that keep events are killed or stopped: `delivered` does not wait for them, and their gaps are told."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

import resprout
from resprout.client.client import Client
from resprout.client.inbox import Inbox
from tests.cli.processes import Running
from tests.cli.processes import resprout as command
from tests.net.stage import run
from tests.patience import PATIENCE_S
from tests.spark.brokers import keeping

HOUR_US = 3_600_000_000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_delivered_does_not_wait_for_the_recorder_of_a_broker_that_is_gone(tmp_path: Path, number: int) -> None:
    """If anybody did, it would be for an hour."""
    words = ("--set", f"ghost_us={HOUR_US}")

    async def scene(first: str, second: str, victim: Running) -> None:
        async with (
            resprout.connect(first, name="p") as publisher,
            resprout.connect(second, name="s") as subscriber,
        ):
            inbox = await subscriber.subscribe("t")
            reading = asyncio.create_task(numbers(inbox, 2))
            await (await publisher.publish("t", b"1")).delivered()
            await asyncio.to_thread(victim.end, number)
            await (await publisher.publish("t", b"2")).delivered()
            assert await reading == [1, 2]

    with (
        keeping("b1", tmp_path / "b1", *words) as (_, first),
        keeping("b2", tmp_path / "b2", *words, "--join", first) as (victim, second),
        keeping("b3", tmp_path / "b3", *words, "--join", first),
    ):
        run(scene(first, second, victim), PATIENCE_S)


# -- a journal with a gap --------------------------------------------------------------------------------------------


class Gap(msgspec.Struct):
    """50 messages, 50 while the tap was dead, 50 more."""

    root: str
    """A broker that keeps everything too, and never went down."""
    tap: str


@pytest.fixture(scope="module")
def gap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gap]:
    folder = tmp_path_factory.mktemp("gap")

    async def publish(address: str, first: int) -> None:
        async with resprout.connect(address, name="p") as publisher:
            for number in range(first, first + 50):
                receipt = await publisher.publish("a/b", b"%d" % number)
            await receipt.delivered()

    with ExitStack() as stack:
        _, root = stack.enter_context(keeping("b0", folder / "b0"))
        with keeping("tap", folder / "tap", "--join", root) as (victim, _):
            run(publish(root, 0))
            victim.end(signal.SIGKILL)
        run(publish(root, 50))
        _, tap = stack.enter_context(keeping("tap", folder / "tap", "--join", root))
        run(publish(root, 100))
        yield Gap(root, tap)


BEFORE, MISSING, BEHIND = range(50), range(50, 100), range(100, 150)
COMPLAINT = (
    r"events between position \d+ \(20\d\d-.*Z\) and position \d+ \(20\d\d-.*Z\) are missing in tap\.\w+: "
    r"broker tap was down between its lives \d+ and \d+"
)


async def numbers(inbox: Inbox, count: int) -> list[int]:
    return [int((await inbox.next()).payload) for _ in range(count)]


@pytest.mark.parametrize("durable", [None, "d"])
def test_a_replay_raises_where_events_are_missing_and_goes_on_if_that_is_allowed(gap: Gap, durable: str | None) -> None:
    async def scene() -> None:
        told: list[object] = []
        async with resprout.connect(gap.tap, on_event=told.append) as client:

            async def begin(allow_gaps: bool = False) -> Inbox:
                if durable is None:
                    return await client.subscribe("a/#", replay_from="earliest", allow_gaps=allow_gaps)
                return await client.subscribe("a/#", durable=durable, replay_from="earliest", allow_gaps=allow_gaps)

            inbox = await begin()
            assert await numbers(inbox, 50) == [*BEFORE]
            for _ in range(2):
                with pytest.raises(resprout.GapError, match=COMPLAINT):
                    await inbox.next()
            assert told == [resprout.Connected("tap")]
            await inbox.close()
            inbox = await begin(allow_gaps=True)
            assert await numbers(inbox, 100) == [*BEFORE, *BEHIND]
            (_, missing) = told
            assert isinstance(missing, resprout.EventsMissing) and missing.filter == "a/#"
            assert 0 < missing.gap.from_us < missing.gap.until_us and "tap was down" in missing.reason
            await client.unsubscribe(inbox)

    run(scene())


async def read_all(client: Client, allow_gaps: bool = False) -> list[int]:
    page = await client.read("a/#", allow_gaps=allow_gaps)
    read = [*page.messages]
    while not page.at_end:
        page = await client.read("a/#", start=page.next, allow_gaps=allow_gaps)
        read += page.messages
    return [int(stored.message.payload) for stored in read]


def test_pages_end_before_a_gap_which_is_an_error_that_says_where_to_go_on(gap: Gap) -> None:
    async def scene() -> None:
        async with resprout.connect(gap.tap) as client:
            with pytest.raises(resprout.GapError, match=COMPLAINT) as raised:
                await read_all(client)
            assert await read_all(client, allow_gaps=True) == [*BEFORE, *BEHIND]
            behind = resprout.Offset(raised.value.journal, raised.value.gap.following)
            assert f"{behind} begins behind them" in str(raised.value)
            inbox = await client.subscribe("a/#", replay_from=behind)
            assert await numbers(inbox, 50) == [*BEHIND]

    run(scene())


def test_commands_fail_at_a_gap_or_tell_it_and_go_on(gap: Gap) -> None:
    def lines(text: bytes) -> list[int]:
        return [int(line.split()[-1]) for line in text.splitlines()]

    done = command("read", "a/#", "--server", gap.tap)
    assert done.returncode == 1 and lines(done.stdout) == [*BEFORE]
    assert b"broker tap was down between its lives" in done.stderr and b"--allow-gaps" in done.stderr
    done = command("read", "a/#", "--server", gap.tap, "--allow-gaps")
    assert done.returncode == 0 and lines(done.stdout) == [*BEFORE, *BEHIND]
    assert done.stderr.startswith(b"resprout: warning: events between position ") and done.stderr.count(b"\n") == 1
    done = command("sub", "a/#", "--server", gap.tap, "--replay-from", "earliest", "--count", "51")
    assert done.returncode == 1 and lines(done.stdout) == [*BEFORE] and b"are missing in tap." in done.stderr
    words = ("--replay-from", "earliest", "--count", "100", "--allow-gaps")
    done = command("sub", "a/#", "--server", gap.tap, *words)
    assert done.returncode == 0 and lines(done.stdout) == [*BEFORE, *BEHIND] and b"warning: events" in done.stderr
    done = command("sub", "a/#", "--server", gap.tap, "--allow-gaps")
    assert done.returncode == 2 and b"--allow-gaps is for what begins in the past" in done.stderr


def test_a_broker_that_never_went_down_has_no_gap(gap: Gap) -> None:
    async def scene() -> None:
        async with resprout.connect(gap.root) as client:
            assert await read_all(client) == [*BEFORE, *MISSING, *BEHIND]
            inbox = await client.subscribe("a/#", replay_from="earliest")
            assert await numbers(inbox, 150) == [*BEFORE, *MISSING, *BEHIND]

    run(scene())


def test_a_restart_without_publications_is_a_gap_too_because_nobody_can_tell(tmp_path: Path) -> None:
    async def publish(address: str, payload: bytes) -> None:
        async with resprout.connect(address, name="p") as publisher:
            await (await publisher.publish("a", payload)).delivered()

    async def replay(address: str) -> None:
        async with resprout.connect(address) as client:
            inbox = await client.subscribe("a", replay_from="earliest")
            assert (await inbox.next()).payload == b"one"
            with pytest.raises(resprout.GapError, match="broker b0 was down"):
                await asyncio.wait_for(inbox.next(), PATIENCE_S)

    with keeping("b0", tmp_path) as (process, address):
        run(publish(address, b"one"))
        assert process.end() == 0
    with keeping("b0", tmp_path) as (_, address):
        run(replay(address))
