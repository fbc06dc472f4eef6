"""Whoever is slow is waited for, and costs a bounded amount of memory everywhere."""

import asyncio

import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.client.receipts import Receipt
from resprout.core import limits
from resprout.edge.client.machine import ClientOptions
from resprout.edge.messages import Attend, Subscribe
from resprout.links.options import LinkOptions
from tests.net.stage import Proxy, Running, bare, broker, let_pass, run, until

WINDOW = 64 << 10
LOG = 1 << 20
UNTAKEN = 128 << 10
QUEUE = 64 << 10
PAYLOAD = 4000

LINKS = LinkOptions(window_bytes=WINDOW)
OPTIONS = ClientOptions(untaken_bytes_max=UNTAKEN, queue_bytes_high=QUEUE)
BUNDLE = limits.BUNDLE_BYTES
"""One bundle may come on top of any limit."""


class Publisher:
    """Publishes as fast as it is let, in several tasks or in one."""

    def __init__(self, client: Client, count: int, tasks: int = 1) -> None:
        self.client = client
        self.published = 0
        self.receipts: list[Receipt] = []
        self._count = count
        self.tasks = [asyncio.create_task(self._publish(tasks)) for _ in range(tasks)]

    async def _publish(self, tasks: int) -> None:
        for _ in range(self._count // tasks):
            self.published += 1
            payload = self.published.to_bytes(4, "big") + bytes(PAYLOAD)
            self.receipts.append(await self.client.publish("t", payload))
            if self.published % 7 == 0:
                await asyncio.sleep(0)

    @property
    def unheard_bytes(self) -> int:
        """Of what the broker has not said that it has."""
        return PAYLOAD * sum(receipt.state == "published" for receipt in self.receipts)

    async def stalled(self) -> int:
        """Waits until it makes no more progress; how far it has come."""
        before = -1
        while before != self.published:
            before = self.published
            await let_pass(0.2)
        return before


async def check_bounds(running: Running, publisher: Publisher, inbox: Inbox) -> None:
    """While the subscriber reads nothing."""
    assert running.machine.parts.log.bytes_held <= LOG + WINDOW + 2 * BUNDLE
    # One bundle crosses the limit, and by then the broker may begin another one in the window it was granted.
    assert len(inbox) * PAYLOAD <= UNTAKEN + WINDOW + 2 * BUNDLE
    # In its queue, on the way, and in the log. Nobody waits for these receipts, so the broker tells them by a timer:
    # how much passes before depends on the machine. A publisher that is not held back stays above the bound.
    await until(lambda: publisher.unheard_bytes <= QUEUE + 2 * WINDOW + LOG + 3 * BUNDLE)


@pytest.mark.parametrize("tasks", [1, 10])
def test_a_subscriber_that_blocks_pushes_back_when_its_share_is_full_and_then_gets_everything(tasks: int) -> None:
    count = 5000

    async def scene() -> None:
        async with (
            broker(options={"subscriber_bytes": LOG}, links=LINKS) as running,
            connect(str(running), name="p", options=OPTIONS, links=LINKS) as client,
            connect(str(running), name="s", options=OPTIONS, links=LINKS) as subscriber,
        ):
            inbox = await subscriber.subscribe("t", when_full="block")
            publisher = Publisher(client, count, tasks)
            reached = await publisher.stalled()
            assert LOG // PAYLOAD < reached < count // 2, "its share is full, and only then its publisher waits"
            await check_bounds(running, publisher, inbox)
            for number in range(1, count + 1):
                assert int.from_bytes((await inbox.next()).payload[:4], "big") == number
                if number % 100 == 0:
                    await check_bounds(running, publisher, inbox)
            await asyncio.gather(*publisher.tasks)
            await publisher.receipts[-1].delivered()
            assert running.machine.parts.log.bytes_held == 0

    run(scene())


def test_while_one_reads_nothing_the_others_get_everything_until_the_log_is_full() -> None:
    count = 500

    async def scene() -> None:
        async with (
            broker(options={"log_bytes": 2 * count * PAYLOAD}, links=LINKS) as running,
            connect(str(running), name="p", options=OPTIONS, links=LINKS) as client,
            connect(str(running), name="slow", options=OPTIONS, links=LINKS) as slow,
            connect(str(running), name="quick", options=OPTIONS, links=LINKS) as quick,
        ):
            idle, inbox = await slow.subscribe("t"), await quick.subscribe("t")
            publisher = Publisher(client, count)
            got = [int.from_bytes((await inbox.next()).payload[:4], "big") for _ in range(count)]
            assert got == list(range(1, count + 1))
            await asyncio.gather(*publisher.tasks)
            assert len(idle) * PAYLOAD <= UNTAKEN + WINDOW + BUNDLE
            assert [int.from_bytes((await idle.next()).payload[:4], "big") for _ in range(count)] == got

    run(scene())


def test_a_subscriber_that_stops_reading_its_connection_is_written_to_only_as_far_as_its_window() -> None:
    """It grants without end, acknowledges nothing and reads nothing; when it falls silent it is given up."""
    count = 1000
    links = LinkOptions(heartbeat_us=200_000, silence_us=1_000_000, session_linger_us=100_000)

    async def scene() -> None:
        async with (
            broker(options={"log_bytes": LOG}, links=links) as running,
            bare(running.address) as stuck,
            connect(str(running), name="p", options=OPTIONS) as client,
            connect(str(running), name="quick", options=OPTIONS) as quick,
        ):
            await stuck.greet("stuck")
            stuck.say_messages(1, Attend(0), Subscribe(1, "t", None))
            stuck.stop_reading()
            inbox = await quick.subscribe("t")
            publisher = Publisher(client, count)
            held = False
            for number in range(1, count + 1):
                assert int.from_bytes((await inbox.next()).payload[:4], "big") == number
                held = held or "stuck" in running.sessions
                assert running.machine.parts.log.bytes_held <= LOG + LinkOptions().window_bytes + 2 * BUNDLE
            assert held
            await asyncio.gather(*publisher.tasks)
            await publisher.receipts[-1].delivered()
            await until(lambda: "stuck" not in running.sessions)

    run(scene())


def test_a_publisher_that_vanishes_in_the_middle_leaves_whole_messages_in_order() -> None:
    async def scene() -> None:
        links = LinkOptions(session_linger_us=50_000)
        async with broker(links=links) as running, connect(str(running), name="s") as witness:
            inbox = await witness.subscribe("t")
            for life in range(5):
                async with Proxy(running.address) as proxy:
                    client = await connect(str(proxy.address), name="p")
                    publisher = Publisher(client, 10_000)
                    await until(lambda publisher=publisher: publisher.published > 500)
                    confirmed = sum(receipt.state != "published" for receipt in publisher.receipts)
                    proxy.refusing = True  # nothing that it says arrives from now on
                    proxy.reset_all()
                    closing = asyncio.create_task(client.close())
                    for task in (*publisher.tasks, closing):
                        task.cancel()
                    await asyncio.gather(*publisher.tasks, closing, return_exceptions=True)
                await until(lambda: running.sessions == ["s"])
                await witness.publish("t", b"so far")
                got = []
                while (message := await inbox.next()).payload != b"so far":
                    got.append(int.from_bytes(message.payload[:4], "big"))
                assert got == list(range(1, len(got) + 1)) and len(got) >= confirmed, f"life {life}"

    run(scene())
