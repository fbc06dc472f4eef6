"""Work queues as programs use them: rejected, late and given up messages, and what an operator sees of them."""

import asyncio
import json

import pytest

import resprout
from resprout.client.durable import DurableInbox
from resprout.client.local import Local
from resprout.core.message import DurableMessage
from resprout.net.http.metrics import BrokerCollector
from resprout.stacks.status import DurableSeen
from resprout.testing import Broker
from tests.cli.processes import complaint
from tests.cli.processes import resprout as command
from tests.client.test_durable import publish, with_network
from tests.net.stage import until
from tests.patience import PATIENCE_S

POLICY = resprout.Redelivery(max_deliver=2)


async def group(client: resprout.Client, **more: object) -> DurableInbox:
    arguments = {"group": "workers", "redelivery": POLICY, "manual_ack": True, **more}
    return await client.subscribe("jobs/#", **arguments)  # type: ignore[call-overload, no-any-return]


def number(message: resprout.Message) -> int:
    return int(message.payload)


def test_a_rejected_message_comes_again_and_becomes_a_dead_letter_that_is_kept() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w", broker=1) as worker:
            inbox = await group(worker)
            await publisher.publish("jobs/eu", b"1", attributes={"colour": "red"})
            for delivery in (1, 2):
                message = await inbox.next(PATIENCE_S)
                assert (message.deliveries, message.redelivered) == (delivery, delivery > 1)
                message.nack(delay=0.05)
            undertaker = await publisher.subscribe("dead/workers", group="workers.dead")
            letter = await undertaker.next(PATIENCE_S)
            about = letter.attributes
            assert (letter.topic, letter.payload) == ("dead/workers", b"1")
            assert (about["dead_topic"], about["dead_subscription"], about["dead_deliveries"]) == (
                "jobs/eu", "workers", 2,
            )  # fmt: skip
            assert about["dead_consumer"] == "w.workers"
            assert about["colour"] == "red"
            assert about["dead_id"] == str(message.id)
            assert inbox.next_nowait() is None

    with_network(scene)


def test_a_message_that_is_given_up_carries_the_reason_and_frees_its_publisher() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w") as worker:
            inbox = await group(worker, redelivery=resprout.Redelivery(dead_letter="graveyard"))
            receipt = await publisher.publish("jobs/eu", b"1")
            letters = await publisher.subscribe("graveyard")
            (await inbox.next(PATIENCE_S)).term("no such account")
            letter = await letters.next(PATIENCE_S)
            assert letter.attributes["dead_reason"] == "no such account"
            await receipt.delivered()

    with_network(scene)


def test_a_message_that_is_not_acknowledged_in_time_goes_to_another_consumer() -> None:
    async def scene(network: Local) -> None:
        policy = resprout.Redelivery(ack_wait=0.5)
        async with network.connect("p") as publisher, network.connect("a") as first, network.connect("b") as second:
            slow, fast = [await group(each, redelivery=policy, window=1) for each in (first, second)]
            await publish(publisher, 1, 2)
            late = await slow.next(PATIENCE_S)
            (await fast.next(PATIENCE_S)).ack()
            again = await fast.next(PATIENCE_S)
            assert (again.id, again.redelivered) == (late.id, True)
            late.ack()  # it counts, also for the one who has it now
            while (await seen(publisher, "workers")).lag_messages:
                await asyncio.sleep(0.05)

    with_network(scene)


def test_a_consumer_keeps_a_message_that_it_says_it_works_on() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w") as worker:
            inbox = await group(worker, redelivery=resprout.Redelivery(ack_wait=3.0, max_deliver=1))
            await publish(publisher, 1, 2)
            first, second = await inbox.next(PATIENCE_S), await inbox.next(PATIENCE_S)
            letters = await publisher.subscribe("dead/workers", group="workers.dead")
            letter = asyncio.create_task(letters.next(PATIENCE_S))
            while not letter.done():
                second.in_progress()
                await asyncio.sleep(0.05)
            assert number(letter.result()) == number(first)
            second.ack()
            assert letters.next_nowait() is None

    with_network(scene)


def test_what_cannot_be_settled_is_refused_with_a_reason() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w") as worker:
            plain = await worker.subscribe("jobs/#", group="plain")
            await publish(publisher, 1, 1)
            message = await plain.next(PATIENCE_S)
            for settle in (message.nack, message.term, message.in_progress):
                with pytest.raises(resprout.UsageError, match="'plain' was subscribed to without redelivery="):
                    settle()
            inbox = await group(worker)
            assert isinstance(message, DurableMessage)
            with pytest.raises(resprout.UsageError, match="messages that the inbox of 'workers' has delivered"):
                inbox.nack(message)
            with pytest.raises(resprout.UsageError, match="delay=-1: seconds, from 0 to"):
                inbox.nack(delay=-1)
            with pytest.raises(resprout.DifferentSubscriptionError, match="max_deliver 2"):
                await group(publisher, redelivery=resprout.Redelivery(max_deliver=3))
            for wrong, text in (
                (resprout.Redelivery(max_deliver=0), "max_deliver=0"),
                (resprout.Redelivery(ack_wait=0.01), "ack_wait=0.01"),
                (resprout.Redelivery(dead_letter="a/#"), "a/#"),
            ):
                with pytest.raises(resprout.UsageError, match=text):
                    await group(publisher, group="other", redelivery=wrong)

    with_network(scene)


async def seen(client: resprout.Client, name: str) -> DurableSeen:
    found = await client.subscriptions()
    assert not found.unanswered
    (one,) = [one for one in found.subscriptions if one.name == name]
    return one


def test_every_subscription_is_seen_with_its_consumers_and_its_lag_and_can_be_peeked_and_purged() -> None:
    async def scene(network: Local) -> None:
        async with network.connect("p") as publisher, network.connect("w", broker=2) as worker:
            inbox = await group(worker, window=2)
            await (await publish(publisher, 1, 6)).safe()
            first = await inbox.next(PATIENCE_S)
            await inbox.next(PATIENCE_S)
            one = await seen(publisher, "workers")
            assert (one.home, one.filter, one.group, one.max_deliver) == ("b2", "jobs/#", True, 2)
            assert (one.dead_letter, one.consumers[0].name) == ("dead/workers", "w.workers")
            assert (one.lag_messages, one.waiting, one.unacked, one.consumers[0].messages) == (6, 4, 2, 2)
            assert one.lag_bytes > 0
            first.nack(delay=3_600)
            await until(lambda: len(inbox) == 1)
            assert [number(message) for message in await publisher.peek("workers", 2)] == [4, 5]
            one = await seen(publisher, "workers")
            assert (one.waiting, one.unacked, one.delayed, one.redeliveries) == (3, 2, 1, 1)
            families = BrokerCollector(network.brokers[2].books).collect()
            lag = [sample for family in families for sample in family.samples if "durable_lag_messages" in sample.name]
            assert {sample.labels["subscription"]: sample.value for sample in lag} == {"workers": 6, "workers.dead": 0}
            await publisher.purge("workers")
            one = await seen(publisher, "workers")
            assert (one.waiting, one.delayed, one.unacked, one.dropped) == (0, 0, 2, 4)
            await publisher.end_subscription("workers")
            assert [one.name for one in (await publisher.subscriptions()).subscriptions] == ["workers.dead"]
            for call in (publisher.peek, publisher.purge, publisher.end_subscription):
                with pytest.raises(resprout.SubscribeError, match="there is no durable subscription 'workers'"):
                    await call("workers")

    with_network(scene)


def test_dead_letters_are_listed_and_replayed_by_command() -> None:
    async def scene(network: Local) -> None:
        server = ("--server", network.address)
        async with network.connect("p") as publisher, network.connect("w") as worker:
            inbox = await group(worker)
            await publish(publisher, 1, 3)
            for _ in range(3):
                (await inbox.next(PATIENCE_S)).term("a bug")
            while (await seen(publisher, "workers")).dead_letters < 3:
                await asyncio.sleep(0.05)
            listed = await asyncio.to_thread(command, "dead-letters", "workers", "--json", *server)
            letters = json.loads(listed.stdout)
            assert sorted(letter["payload"] for letter in letters) == ["1", "2", "3"]
            assert {letter["attributes"]["dead_reason"] for letter in letters} == {"a bug"}
            replayed = await asyncio.to_thread(command, "dead-letters", "workers", "--replay", *server)
            assert replayed.stdout == b"3 dead letters replayed\n"
            again = [await inbox.next(PATIENCE_S) for _ in range(3)]
            assert sorted(map(number, again)) == [1, 2, 3]
            assert not any(message.attributes for message in again)
            inbox.ack(*again)
            while (await seen(publisher, "workers.dead")).lag_messages:
                await asyncio.sleep(0.05)
            shown = await asyncio.to_thread(command, "subscriptions", *server)
            assert b"workers  group on jobs/#  at b0" in shown.stdout
            reason = await asyncio.to_thread(complaint, "peek", "nothing", *server, status=1)
            assert reason == "there is no durable subscription 'nothing'"

    with_network(scene, brokers=1)


def test_code_that_blocks_rejects_and_looks(resprout_broker: Broker) -> None:
    with resprout.sync.connect(resprout_broker.address, name="b") as client:
        inbox = client.subscribe("t", group="g", redelivery=POLICY, timeout=PATIENCE_S)
        for text in (b"1", b"2"):
            client.publish("t", text).safe(PATIENCE_S)
        first = inbox.next(timeout=PATIENCE_S)
        first.in_progress()
        first.nack()
        found = {inbox.next(timeout=PATIENCE_S).payload for _ in range(2)}  # the rest is acknowledged
        assert found == {b"1", b"2"}
        (one, _) = client.subscriptions(timeout=PATIENCE_S).subscriptions
        assert (one.name, one.redeliveries) == ("g", 1)
        assert list(client.peek("g", timeout=PATIENCE_S)) == []
        client.purge("g", timeout=PATIENCE_S)
        assert client.replay_dead_letters("g", timeout=PATIENCE_S) == 0
        client.end_subscription("g", timeout=PATIENCE_S)
