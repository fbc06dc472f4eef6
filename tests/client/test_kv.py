"""Last values and key-value buckets through real brokers, while brokers die and stop."""

import asyncio
import time
from collections.abc import Iterator

import pytest

import resprout
from resprout import sync
from resprout.client.kv import Bucket
from resprout.testing import Broker
from tests.net.stage import run
from tests.patience import PATIENCE_S


async def texts(inbox: resprout.Inbox, count: int) -> list[tuple[str, bytes, bool]]:
    found = [await inbox.next(PATIENCE_S) for _ in range(count)]
    return [(message.topic, message.payload, message.retained) for message in found]


async def retain(client: resprout.Client, topic: str, payload: bytes) -> None:
    await (await client.publish(topic, payload, retain=True)).delivered()


# -- last values -------------------------------------------------------------------------------------------------------


def test_a_new_subscription_begins_with_the_last_value_of_each_topic() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("a", broker=1) as a:
            for topic, payload in (("s/x", b"1"), ("s/y", b"1"), ("s/x", b"2"), ("other", b"1"), ("s/gone", b"1")):
                await retain(a, topic, payload)
            await retain(a, "s/gone", b"")
            async with network.connect("b", broker=2) as b:
                inbox = await b.subscribe("s/#", retained=True)
                await a.publish("s/x", b"3", retain=True)
                wanted = [("s/x", b"2", True), ("s/y", b"1", True), ("s/x", b"3", False)]
                assert await texts(inbox, 3) == wanted

    run(scene())


def test_last_values_go_to_the_subscription_that_asks_for_them_and_to_no_other() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            await retain(a, "s/x", b"1")
            plain, wide = await a.subscribe("s/#"), await a.subscribe("s/x", retained=True)
            narrow = await a.subscribe("s/+", where="n > 1", retained=True)
            await a.publish("s/x", b"2", retain=True, attributes={"n": 2})
            assert await texts(wide, 2) == [("s/x", b"1", True), ("s/x", b"2", False)]
            assert await texts(plain, 1) == [("s/x", b"2", False)]
            assert await texts(narrow, 1) == [("s/x", b"2", False)]

    run(scene())


def test_a_broker_that_joins_later_has_the_last_values() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=2) as network, network.connect("a", broker=0) as a:
            await retain(a, "s/x", b"1")
            bucket = a.kv("b")
            revision = await bucket.put("k", b"v")
            for broker in network.brokers[1:]:
                await broker.close()
            await retain(a, "s/x", b"2")
            assert await bucket.update("k", b"w", revision) > revision

    run(scene())


def test_a_value_expires() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            await (await a.publish("s/x", b"1", retain=True, ttl=0.05)).delivered()
            await retain(a, "s/y", b"1")
            bucket = a.kv("b")
            await bucket.put("k", b"v", ttl=0.05)
            end = time.monotonic() + PATIENCE_S
            while await bucket.get("k") is not None:
                assert time.monotonic() < end
                await asyncio.sleep(0.01)
            inbox = await a.subscribe("s/#", retained=True)
            assert await texts(inbox, 1) == [("s/y", b"1", True)]
            assert await bucket.keys() == []
            watch = await bucket.watch()
            revision = await bucket.create("k", b"new")
            assert await watch.next(PATIENCE_S) == resprout.KvEntry("k", b"new", revision, "a")

    run(scene())


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"retain": True, "ttl": 0}, "more than 0 seconds"),
        ({"retain": 1}, "retain=1"),
    ],
)
def test_wrong_arguments_of_a_publication_are_refused(arguments: dict[str, object], what: str) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            with pytest.raises(resprout.UsageError, match=what):
                await a.publish("t", b"x", **arguments)  # type: ignore[arg-type]
            with pytest.raises(resprout.UsageError, match="belongs to a bucket"):
                await a.publish("$kv/b/k", b"x", retain=True)
            with pytest.raises(resprout.UsageError, match="durable"):
                await a.subscribe("t", durable="d", retained=True)  # type: ignore[call-overload]

    run(scene())


def test_what_does_not_fit_is_refused_and_removals_always_fit() -> None:
    async def scene() -> None:
        options = {"retained_topics": 4, "retained_bytes": 20_000}
        async with resprout.local(options=options) as network, network.connect("a") as a:
            bucket = a.kv("b")
            await bucket.put("k", b"v")
            await retain(a, "s", b"v")
            with pytest.raises(resprout.PublishError, match="3 topics, and a client may have half of the 4 topics"):
                await (await a.publish("more", b"v", retain=True)).accepted()
            with pytest.raises(resprout.KvError, match="retained_topics"):
                await bucket.put("more", b"v")
            with pytest.raises(resprout.KvError, match="retained_bytes"):
                await bucket.put("k", b"v" * 30_000)
            await bucket.delete("k")
            assert await bucket.put("more", b"v") > 0
            async with network.connect("other") as other:
                await retain(other, "o", b"v")  # half of the two topics that `a` leaves
                with pytest.raises(resprout.PublishError, match="half of the 2 topics"):
                    await retain(other, "p", b"v")
                await retain(a, "s", b"w")  # `a` has more than half of the rest by now, and replaces

    run(scene())


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_writes_reads_and_conflicts() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network:  # noqa: SIM117
            async with network.connect("a", broker=0) as a, network.connect("b", broker=2) as b:
                mine, other = a.kv("b"), b.kv("b")
                first = await mine.create("x/1", b"1")
                with pytest.raises(resprout.RevisionError, match="has revision") as caught:
                    await other.create("x/1", b"2")
                assert (caught.value.expected, caught.value.current) == (0, first)
                second = await other.update("x/1", b"2", first)
                with pytest.raises(resprout.RevisionError, match="not revision") as caught:
                    await mine.update("x/1", b"3", first)
                assert caught.value.current == second
                assert await mine.get("x/1") == resprout.KvEntry("x/1", b"2", second, "b")
                third = await mine.put("y", b"")
                assert await mine.keys() == ["x/1", "y"] and await mine.keys("x") == ["x/1"]
                assert [entry.revision for entry in await mine.entries()] == [second, third]
                with pytest.raises(resprout.RevisionError):
                    await mine.delete("x/1", first)
                await mine.delete("x/1", second)
                assert await mine.get("x/1") is None and (await a.kv("c").keys()) == []

    run(scene())


def test_a_watch_gives_what_is_there_and_then_every_change_that_is_applied() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=2) as network:  # noqa: SIM117
            async with network.connect("a", broker=0) as a, network.connect("b", broker=1) as b:
                bucket = a.kv("b")
                first = await bucket.put("x/1", b"1")
                await bucket.put("y", b"1")
                async with await b.kv("b").watch("x") as watch:
                    assert await watch.next(PATIENCE_S) == resprout.KvEntry("x/1", b"1", first, "a", True)
                    with pytest.raises(resprout.RevisionError):
                        await bucket.update("x/1", b"no", first + 100)
                    second = await bucket.update("x/1", b"2", first)
                    await bucket.put("y", b"2")
                    await bucket.delete("x/1")
                    third = await bucket.create("x/1", b"3")
                    changes = [await watch.next(PATIENCE_S) for _ in range(3)]
                assert [(one.value, one.is_initial) for one in changes] == [(b"2", False), (None, False), (b"3", False)]
                assert (changes[0].revision, changes[2].revision) == (second, third)

    run(scene())


def test_many_keys_come_in_several_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.stacks.resprout.values.VALUE_ROWS_MAX", 7)

    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            bucket = a.kv("b")
            names = [f"k{number:03}" for number in range(50)]
            await asyncio.gather(*(bucket.put(name, b"v") for name in names))
            assert await bucket.keys() == names

    run(scene())


async def count_up(bucket: Bucket, times: int) -> None:
    for _ in range(times):
        while True:
            entry = await bucket.get("n")
            try:
                if entry is None:
                    await bucket.create("n", b"1")
                else:
                    assert entry.value is not None
                    await bucket.update("n", b"%d" % (int(entry.value) + 1), entry.revision)
                break
            except resprout.RevisionError:
                continue


@pytest.mark.parametrize("dying", [0, 2])
def test_no_increment_is_lost_when_a_broker_dies(dying: int) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=4) as network:
            clients = [await network.connect(f"c{number}", broker=number) for number in range(4)]
            watch = await clients[1].kv("b").watch()
            counting = asyncio.gather(*(count_up(client.kv("b"), 8) for client in clients))
            for _ in range(6):
                await watch.next(PATIENCE_S)
            await network.brokers[dying].close()
            await counting
            values = [b"%d" % number for number in range(7, 33)]
            assert [(await watch.next(PATIENCE_S)).value for _ in values] == values
            await clients[dying].kv("b").put("end", b"1")
            entry = await clients[dying].kv("b").get("n")
            assert entry is not None and entry.value == b"32"
            for client in clients:
                await client.close()

    run(scene())


@pytest.mark.parametrize("name", ["", "a/b", "a b", "$x"])
def test_wrong_names_of_buckets_are_refused(name: str) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            with pytest.raises(resprout.UsageError):
                a.kv(name)

    run(scene())


@pytest.mark.parametrize("key", ["", "a/#", "+", 7])
def test_wrong_keys_are_refused(key: object) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            with pytest.raises(resprout.UsageError):
                await a.kv("b").put(key, b"x")  # type: ignore[arg-type]

    run(scene())


# -- for code that blocks ----------------------------------------------------------------------------------------------


@pytest.fixture
def blocking(resprout_broker: Broker) -> Iterator[sync.Client]:
    with sync.connect(resprout_broker.address, name="c") as client:
        yield client


def test_the_blocking_client_has_the_same(blocking: sync.Client) -> None:
    blocking.publish("s/x", b"1", retain=True).delivered(timeout=PATIENCE_S)
    assert blocking.subscribe("s/#", retained=True).next(timeout=PATIENCE_S).retained
    bucket = blocking.kv("b")
    revision = bucket.create("k", b"1", timeout=PATIENCE_S)
    with bucket.watch(timeout=PATIENCE_S) as watch:
        assert next(watch).is_initial
        assert bucket.update("k", b"2", revision) > revision
        assert watch.next(PATIENCE_S).value == b"2"
    assert bucket.keys() == ["k"] and [entry.value for entry in bucket.entries()] == [b"2"]
    bucket.delete("k")
    assert bucket.get("k") is None and bucket.put("k", b"3", ttl=60) > revision


def test_a_watch_shows_writes_and_nothing_else_that_is_published_on_keys() -> None:
    """A plain publication on the topic of a key was shown as a change, which no broker had applied."""

    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a, network.connect("b") as b:
            bucket = a.kv("b")
            await bucket.put("k", b"1")
            watch = await bucket.watch()
            assert (await watch.next(PATIENCE_S)).value == b"1"
            forged = [
                await b.publish("$kv/b/k", b"forged"),
                await b.publish("$kv/b/k", b"forged", guarantee="total"),
                await b.publish("other", b"forged", guarantee="total", keys=["$kv/b/k#x", "$retained#last"]),
            ]
            for receipt in forged:
                await receipt.safe()
            await bucket.put("k", b"2")
            assert (await watch.next(PATIENCE_S)).value == b"2"
            entry = await bucket.get("k")
            assert entry is not None and entry.value == b"2"

    run(scene())


def test_a_program_may_read_thousands_of_keys_at_once() -> None:
    """A broker ends the session of a client with more than 1,024 questions that wait."""

    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a:
            bucket = a.kv("b")
            await bucket.put("k", b"1")
            found = await asyncio.gather(*[bucket.entries() for _ in range(1_500)])
            assert all(len(each) == 1 for each in found)

    run(scene())
