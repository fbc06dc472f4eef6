"""Events that a broker keeps can be read again, from any position or time, by whoever connects to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec
import pytest

import resprout
from resprout.client.client import Client
from resprout.client.errors import ReadError
from resprout.client.past_events import EventsPage, Offset, read_offset
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.edge.broker.recorder import FETCHES_MAX, PAGE_BYTES, UNREAD_BYTES
from resprout.edge.messages import Attend, ReadEvents
from resprout.journal.interface import JournalOptions
from resprout.links.frames import SessionWelcome
from resprout.links.links import Links
from resprout.net.address import Address
from resprout.net.broker import serve
from resprout.net.broker_to_run import EVENT_OPTIONS, BrokerToRun
from resprout.net.door import Door
from resprout.net.identity.scram import verifier_of_token
from tests.net.stage import LOOPBACK, QUICK, STACK, Running, bare, broker, hello, let_pass, run, until
from tests.patience import PATIENCE_S


@contextlib.asynccontextmanager
async def keeper(
    data: Path,
    parent: Address | None = None,
    keep: tuple[str, ...] = ("a/#",),
    events: JournalOptions = EVENT_OPTIONS,
    door: Door | None = None,
    listen: Address = LOOPBACK,
) -> AsyncIterator[Running]:
    notes: list[Note] = []
    above, peers = ("b0", {"b0": parent}) if parent is not None else (None, {})
    spec = BrokerToRun("tap", 1, listen, above, peers, data=data, keep=keep, events=events)
    running, address = await serve(spec, STACK, STACK.parse_options({}), QUICK, notes.append, door=door)
    try:
        await until(lambda: sum(note.kind == "events" for note in notes) == len(keep))
        yield Running(running, address, notes)
    finally:
        await running.close()


async def everything(
    client: Client, filter: str = "#", where: str | None = None, size: int = 1 << 18
) -> list[EventsPage]:
    pages = [await client.read(filter, where, size=size)]
    while not pages[-1].at_end:
        pages.append(await client.read(filter, where, start=pages[-1].next, size=size))
    return pages


def payloads(pages: list[EventsPage]) -> list[bytes]:
    return [stored.message.payload for page in pages for stored in page.messages]


def test_what_was_published_elsewhere_can_be_read_at_a_broker_that_keeps_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            broker("b0") as b0,
            keeper(tmp_path, b0.address) as tap,
            resprout.connect(str(b0), name="p") as p,
            resprout.connect(str(tap), name="r") as r,
        ):
            for n in range(40):
                receipt = await p.publish(
                    "a/x", b"%d" % n, attributes={"n": n}, guarantee="total" if n % 9 == 0 else "causal"
                )
                await p.publish("b", b"not kept")
            await receipt.delivered()
            pages = await everything(r, size=200)
            assert len(pages) > 3
            assert payloads(pages) == [b"%d" % n for n in range(40)]
            stored = [one for page in pages for one in page.messages]
            assert [one.message.seq for one in stored] == [2 * n + 1 for n in range(40)]
            assert [one.position for one in stored] == sorted(one.position for one in stored)
            assert all((one.message.tseq >= 0) == (n % 9 == 0) for n, one in enumerate(stored))
            assert payloads(await everything(r, "a/+", "n > 35")) == [b"36", b"37", b"38", b"39"]
            assert payloads(await everything(r, "b")) == []
            middle = pages[0].offset_of(stored[20])
            assert read_offset(str(middle)) == Offset(middle.journal, middle.position)
            page = await r.read("#", start=middle)
            assert page.messages[0] == stored[20]
            later = datetime.fromtimestamp(stored[20].time_us / 1_000_000, UTC)
            assert (await r.read("#", start=later)).messages[0].time_us >= stored[20].time_us - 1
            latest = await r.read("#", start="latest")
            assert latest.messages == () and latest.at_end
            await (await p.publish("a/y", b"new")).delivered()
            assert payloads([await r.read("#", start=latest.next)]) == [b"new"]

    run(scene())


def test_offsets_stay_valid_over_lives_of_the_broker_and_lives_are_told_apart(tmp_path: Path) -> None:
    async def life(payload: bytes, start: Offset | None) -> EventsPage:
        async with keeper(tmp_path) as tap, resprout.connect(str(tap), name="c") as c:
            await (await c.publish("a/x", payload)).delivered()
            return await c.read("#", start="earliest" if start is None else start, allow_gaps=True)

    async def scene() -> None:
        first = await life(b"one", None)
        second = await life(b"two", first.next)
        both = await life(b"three", first.offset_of(first.messages[0]))
        assert payloads([first]) == [b"one"] and payloads([second]) == [b"two"]
        assert payloads([both]) == [b"one", b"two", b"three"]
        assert len({one.life for one in both.messages}) == 3
        assert [len(page.gaps) for page in (first, second, both)] == [0, 1, 2]
        assert {page.journal for page in (first, second, both)} == {first.journal}

    run(scene())


def test_what_is_kept_no_more_and_what_another_journal_kept_is_said(tmp_path: Path) -> None:
    async def scene() -> None:
        small = JournalOptions(segment_bytes=4_096, retain_bytes=10_000)
        async with keeper(tmp_path, events=small) as tap, resprout.connect(str(tap), name="c") as c:
            for _ in range(30):
                await (await c.publish("a/x", bytes(1_000))).delivered()
            page = await c.read("#")
            assert 0 < page.first == page.messages[0].position
            with pytest.raises(ReadError, match=f"position 0 is not kept; there are {page.first} to "):
                await c.read("#", start=Offset(page.journal, 0))
            with pytest.raises(ReadError, match=r"one of the journal other\.1"):
                await c.read("#", start=Offset("other.1", 3))
            with pytest.raises(UsageError, match="time zone"):
                await c.read("#", start=datetime(2026, 1, 1))  # noqa: DTZ001
            with pytest.raises(UsageError):
                await c.read("a/#/b")

    run(scene())


def test_a_broker_that_keeps_nothing_says_so_and_one_without_a_folder_cannot_keep() -> None:
    async def scene() -> None:
        async with broker("b0") as b0, resprout.connect(str(b0), name="c") as c:
            with pytest.raises(ReadError, match="b0 keeps no events: ask a broker that does"):
                await c.read("#")
        with pytest.raises(UsageError, match="give --data DIR"):
            await serve(BrokerToRun("b1", 1, LOOPBACK, keep=("#",)), STACK, STACK.parse_options({}), QUICK, print)

    run(scene())


RULES = f"""
[[identity]]
name = "teller"
secrets = ["{verifier_of_token("0123456789abcdef")}"]
publish = ["#"]
subscribe = ["a/+"]
"""


def test_where_there_are_rules_whoever_may_not_subscribe_may_not_read_either(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)

    async def scene() -> None:
        login = "teller:0123456789abcdef"
        async with (
            keeper(tmp_path / "data", keep=("#",), door=Door(rules=tmp_path / "rules.toml")) as tap,
            resprout.connect(str(tap), name="teller", login=login) as teller,
        ):
            await (await teller.publish("b", b"secret")).delivered()
            await (await teller.publish("a/x", b"public")).delivered()
            assert payloads([await teller.read("a/+")]) == [b"public"]
            for wanted in ("#", "b", "a/#"):
                with pytest.raises(ReadError, match=f"teller may not subscribe to {wanted}"):
                    await teller.read(wanted)

    run(scene())


def test_code_that_blocks_reads_the_past_too(tmp_path: Path) -> None:
    def blocking(address: str) -> list[bytes]:
        with resprout.sync.connect(address, name="c") as c:
            c.publish("a/x", b"one").delivered(timeout=PATIENCE_S)
            return payloads([c.read("a/+", start="earliest", timeout=PATIENCE_S)])

    async def scene() -> None:
        async with keeper(tmp_path) as tap:
            assert await asyncio.to_thread(blocking, str(tap)) == [b"one"]

    run(scene())


def test_a_reader_that_waits_when_the_client_closes_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with keeper(tmp_path) as tap:
            c = await resprout.connect(str(tap), name="c")
            reading = asyncio.ensure_future(c.read("#"))
            await asyncio.sleep(0)
            await c.close()
            with pytest.raises(resprout.ClosedError):
                await reading

    run(scene())


def test_a_client_that_asks_for_much_of_the_past_and_does_not_read_takes_little(tmp_path: Path) -> None:
    """Attack 8: the answers to what it asks for would be hundreds of times what it may have under way."""

    async def scene() -> None:
        async with keeper(tmp_path) as tap, resprout.connect(str(tap), name="p", timeout=PATIENCE_S) as p:
            for _ in range(8):
                receipt = await p.publish("a/x", bytes(256 << 10))
            await receipt.delivered()
            async with bare(tap.address) as peer:
                peer.say(msgspec.structs.replace(hello("greedy"), peer="tap"))
                assert isinstance(await peer.hear(), SessionWelcome)
                asked = [ReadEvents(id, "a/x", None, "", 0, 0, 1 << 20) for id in range(1, 61)]
                peer.say_messages(1, Attend(0), *asked)
                peer.stop_reading()
                links = cast(Links, tap.host.machine)
                await until(lambda: links.unacknowledged_bytes("greedy") > UNREAD_BYTES)
                await let_pass(0.3)
                most = UNREAD_BYTES + (FETCHES_MAX + 1) * (PAGE_BYTES + (256 << 10))
                assert links.unacknowledged_bytes("greedy") < most < 60 * PAGE_BYTES
                page = await p.read("a/#", size=1)
                assert page.next.position == 1, "others are answered"

    run(scene())
