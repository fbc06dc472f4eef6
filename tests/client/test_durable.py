"""Durable subscriptions and groups, as programs use them: real brokers in this process."""

import asyncio

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.durable import DurableInbox
from resprout.client.local import Local
from resprout.net.http.metrics import BrokerCollector
from resprout.testing import Broker
from tests.net.stage import run, until
from tests.patience import PATIENCE_S


async def publish(client: Client, first: int, last: int, **more: object) -> resprout.Receipt:
    for number in range(first, last + 1):
        receipt = await client.publish("jobs/a", b"%d" % number, **more)  # type: ignore[arg-type]
    return receipt


async def take(inbox: DurableInbox, count: int) -> list[int]:
    return [int((await inbox.next()).payload) for _ in range(count)]


def test_the_next_program_goes_on_where_the_last_one_was_at_whichever_broker_it_connects() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p", broker=1) as publisher:
            async with network.connect("first", broker=0) as first:
                inbox = await first.subscribe("jobs/#", durable="billing")
                await publish(publisher, 1, 5)
                assert await take(inbox, 3) == [1, 2, 3]
            await publish(publisher, 6, 7)
            async with network.connect("second", broker=2) as second:
                inbox = await second.subscribe("jobs/#", durable="billing")
                again = [await inbox.next() for _ in range(3)]
                assert [int(message.payload) for message in again] == [3, 4, 5]
                assert all(message.redelivered for message in again)
                fresh = [await inbox.next() for _ in range(2)]
                assert [int(message.payload) for message in fresh] == [6, 7]
                assert not any(message.redelivered for message in fresh)

    with_network(scene)


def test_what_was_acknowledged_by_hand_is_not_handed_out_again_and_the_rest_is() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("first", broker=1) as first:
            inbox = await first.subscribe("jobs/#", durable="billing", manual_ack=True)
            await publish(publisher, 1, 4)
            got = [await inbox.next() for _ in range(4)]
            inbox.ack(got[0], got[2])
            await inbox.close()
            inbox = await first.subscribe("jobs/#", durable="billing")
            assert await take(inbox, 2) == [2, 4]

    with_network(scene)


def test_whoever_was_fenced_off_is_told_by_an_error_of_its_own() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("first") as first, network.connect("second", broker=2) as second:
            old = await first.subscribe("jobs/#", durable="billing")
            with pytest.raises(resprout.UsageError, match="durable='billing': this client consumes it already"):
                await first.subscribe("jobs/#", durable="billing")
            waiting = asyncio.create_task(old.next())
            new = await second.subscribe("jobs/#", durable="billing")
            with pytest.raises(resprout.FencedError, match="another consumer has taken over"):
                await waiting
            with pytest.raises(resprout.FencedError):
                await first.unsubscribe(old)
            await second.unsubscribe(new)
            with pytest.raises(resprout.ClosedError):
                await new.next()

    with_network(scene)


def test_other_terms_under_the_same_name_are_refused_by_an_error_of_its_own() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("first") as first, network.connect("second", broker=2) as second:
            await first.subscribe("jobs/#", durable="billing")
            for wrong in ({"where": "a > 1"}, {"group": "billing"}, {"when_full": "drop_oldest"}):
                with pytest.raises(resprout.DifferentSubscriptionError, match="'billing' is there already"):
                    await second.subscribe("jobs/#", **{"durable": "billing", **wrong})  # type: ignore[call-overload]

    with_network(scene)


def test_what_cannot_be_is_refused_before_anybody_is_asked() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("first") as first:
            with pytest.raises(resprout.UsageError, match="when_full='away': one of 'block', 'drop_oldest', 'spill'"):
                await first.subscribe("jobs/#", durable="billing", when_full="away")  # type: ignore[call-overload]
            with pytest.raises(resprout.UsageError, match="a group is named once"):
                await first.subscribe("jobs/#", durable="billing", group="others")
            with pytest.raises(resprout.UsageError, match="max_pending=5 is for when_full"):
                await first.subscribe("jobs/#", durable="billing", max_pending=5)
            with pytest.raises(resprout.NameRefusedError):
                await first.subscribe("jobs/#", durable="with a blank")

    with_network(scene, brokers=1)


def test_a_stack_that_keeps_no_clients_says_that_it_offers_none() -> None:
    async def scene() -> None:
        async with resprout.local(stack="flood") as network, network.connect() as client:
            with pytest.raises(resprout.UnsupportedSubscriptionError, match="'flood' does not offer durable"):
                await client.subscribe("jobs/#", durable="billing")

    run(scene())


def test_an_operator_ends_one_that_nobody_will_ever_come_for() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("op", broker=2) as operator:
            async with network.connect("first", broker=1) as first:
                await first.subscribe("jobs/#", durable="billing")
            receipt = await publish(publisher, 1, 1)
            await receipt.safe()
            assert receipt.state == "safe"
            await operator.end_subscription("billing")
            await receipt.delivered()
            with pytest.raises(resprout.SubscribeError, match="no durable subscription 'billing'"):
                await operator.end_subscription("billing")

    with_network(scene)


def test_the_oldest_are_dropped_where_that_was_asked_for_and_the_program_is_told_how_many() -> None:
    events: list[object] = []

    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w", broker=1, on_event=events.append) as worker:
            inbox = await worker.subscribe("jobs/#", durable="prices", when_full="drop_oldest", max_pending=3)
            await inbox.close()
            seventh = await publish(publisher, 1, 7)
            await seventh.accepted()  # what follows is another bundle
            await publish(publisher, 8, 10)
            await seventh.delivered()  # it is owed to nobody any more
            inbox = await worker.subscribe("jobs/#", durable="prices", when_full="drop_oldest", max_pending=3)
            assert await take(inbox, 3) == [8, 9, 10]
            assert inbox.dropped == 7
            await until(lambda: len(events) > 1)
            assert events[1:] == [resprout.MessagesDropped("prices", 7)]

    with_network(scene)


def test_what_waits_is_spilled_where_that_was_asked_for_and_its_publisher_is_not_held_back() -> None:
    log = 256 << 10

    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w", broker=1) as worker:
            inbox = await worker.subscribe("jobs/#", durable="archive", when_full="spill")
            await inbox.close()
            for number in range(20 * 16):
                receipt = await publisher.publish("jobs/a", b"%d " % number + bytes(log // 16))
            await receipt.safe()  # with nobody there to read
            told = [broker.books.account() for broker in network.brokers]
            assert all(one.log_bytes < log and one.spill.bytes > 18 * log for one in told)  # type: ignore[operator, union-attr]
            metrics = {one.name: one for one in BrokerCollector(network.brokers[0].books).collect()}
            assert metrics["resprout_spilled_bytes"].samples[0].value > 18 * log
            assert metrics["resprout_spill_refused"].samples[0].value == 0
            inbox = await worker.subscribe("jobs/#", durable="archive", when_full="spill")
            got = [int((await inbox.next()).payload.split(b" ")[0]) for _ in range(20 * 16)]
            assert got == list(range(20 * 16))

    async def play() -> None:
        async with resprout.local(brokers=2, options={"log_bytes": log}) as network:
            await scene(network)

    run(play())


def test_a_broker_that_spills_nothing_refuses_a_subscription_that_would() -> None:
    async def scene() -> None:
        async with resprout.local(options={"spill_bytes": 0}) as network, network.connect() as client:
            with pytest.raises(resprout.UnsupportedSubscriptionError, match="b0 spills nothing to disk"):
                await client.subscribe("jobs/#", durable="archive", when_full="spill")

    run(scene())


def test_when_the_broker_that_holds_it_dies_its_consumer_goes_on_and_nothing_comes_twice() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p", broker=0) as publisher, network.connect("w", broker=2) as worker:
            inbox = await worker.subscribe("jobs/#", durable="billing")
            await publish(publisher, 1, 200)
            got = await take(inbox, 100)
            await network.brokers[2].close()
            await publish(publisher, 201, 300)
            got += await take(inbox, 200)
            assert got == list(range(1, 301))

    with_network(scene, brokers=4)


def test_a_group_shares_the_work_and_what_a_member_has_not_done_is_done_by_others() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p", broker=0) as publisher:
            clients = [await network.connect(f"w{number}", broker=number) for number in range(3)]
            inboxes = [await client.subscribe("jobs/#", group="workers") for client in clients]
            done: list[list[int]] = [[], [], []]

            async def work(number: int, most: int) -> None:
                async for message in inboxes[number]:
                    done[number].append(int(message.payload))
                    if len(done[number]) == most:
                        return
                    await asyncio.sleep(0.001)

            tasks = [asyncio.create_task(work(number, 10 if number == 0 else 10**6)) for number in range(3)]
            last = await publish(publisher, 1, 100)
            await tasks[0]
            assert len(done[0]) == 10
            await clients[0].close()  # the tenth was not acknowledged: another one does it again
            await last.delivered()
            await until(lambda: set(done[1]) | set(done[2]) >= set(range(1, 101)) - set(done[0][:9]))
            everything = [number for each in done for number in each]
            assert sorted(everything) == sorted([*range(1, 101), done[0][9]])
            assert min(map(len, done[1:])) > 20
            for task in tasks[1:]:
                task.cancel()
            for client in clients[1:]:
                await client.close()

    with_network(scene)


def with_network(scene, brokers: int = 3) -> None:  # type: ignore[no-untyped-def]
    async def play() -> None:
        async with resprout.local(brokers=brokers) as network:
            await scene(network)

    run(play())


def test_code_that_blocks_consumes_and_the_next_one_goes_on(resprout_broker: Broker) -> None:
    with resprout.sync.connect(resprout_broker.address, name="b") as client:
        inbox = client.subscribe("t", durable="d", timeout=PATIENCE_S)
        for number in range(3):
            client.publish("t", b"%d" % number)
        first = inbox.next(timeout=PATIENCE_S)
        assert (first.payload, inbox.next(timeout=PATIENCE_S).payload) == (b"0", b"1")
        inbox.close()
        inbox = client.subscribe("t", durable="d", manual_ack=True, timeout=PATIENCE_S)
        message = inbox.next(timeout=PATIENCE_S)
        assert (message.payload, message.redelivered) == (b"1", True)
        inbox.ack(message)
        inbox.close()
        inbox = client.subscribe("t", durable="d", timeout=PATIENCE_S)
        assert inbox.next(timeout=PATIENCE_S).payload == b"2"
        client.unsubscribe(inbox, timeout=PATIENCE_S)
