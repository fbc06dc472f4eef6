"""How programs use an inbox: iteration, timeouts, the end of a block, and acks of durable messages."""

import pytest

import resprout
from resprout import sync
from resprout.net.survey import parse_id
from resprout.testing import Broker
from tests.net.stage import run
from tests.patience import PATIENCE_S


def test_the_end_of_a_block_unsubscribes_and_close_may_be_called_twice() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            async with await client.subscribe("t") as inbox:
                await client.publish("t", b"x")
                assert [message.payload async for message in _first(inbox)] == [b"x"]
            assert inbox.is_over
            await inbox.close()
            with pytest.raises(resprout.NoRespondersError):
                await client.request("t", b"", timeout=PATIENCE_S)
            async with await client.subscribe("t", type=dict) as typed:
                await client.publish("t", {"a": 1})
                assert (await typed.next(timeout=PATIENCE_S)).value == {"a": 1}
            assert typed.is_over
            await client.subscribe("t")  # the same subscription again: the one before has ended

    run(scene())


async def _first(inbox: resprout.Inbox):  # type: ignore[no-untyped-def]
    async for message in inbox:
        yield message
        return


def test_a_timeout_is_told_in_words_and_loses_no_message() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            inbox = await client.subscribe("t")
            with pytest.raises(TimeoutError, match=r"no message came within 0\.01 s") as caught:
                await inbox.next(timeout=0.01)
            assert isinstance(caught.value, resprout.TimedOutError) and isinstance(caught.value, resprout.ClientError)
            await client.publish("t", b"x")
            assert (await inbox.next(timeout=PATIENCE_S)).payload == b"x" and inbox.next_nowait() is None
            service = client.serve("s")
            with pytest.raises(resprout.TimedOutError, match="no request came within"):
                await service.next(timeout=0.01)

    run(scene())


@pytest.mark.parametrize("typed", [False, True])
def test_a_durable_message_is_acknowledged_by_itself(typed: bool) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            more = {"type": dict} if typed else {}
            async with await client.subscribe("t", durable="d", manual_ack=True, **more) as inbox:  # type: ignore[call-overload]
                for number in range(3):
                    await client.publish("t", {"n": number})
                first, second, _ = [await inbox.next() for _ in range(3)]
                first.ack()
                inbox.ack(second)
                first.ack()  # again: nothing happens
            with pytest.raises(resprout.ClosedError, match="the inbox of 'd' is closed"):
                second.ack()
            again = await client.subscribe("t", durable="d")
            message = await again.next()
            assert (message.payload, message.redelivered) == (b'{"n":2}', True)
            with pytest.raises(resprout.UsageError, match="messages that the inbox of 'd' has delivered"):
                again.ack(second)
            await again.unsubscribe()
            with pytest.raises(resprout.ClosedError):
                await again.unsubscribe()
            with pytest.raises(resprout.SubscribeError):
                await client.end_subscription("d")

    run(scene())


def test_a_plain_message_needs_no_ack_and_says_so() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            inbox = await client.subscribe("t")
            await client.publish("t", b"x")
            with pytest.raises(resprout.UsageError, match="needs no ack, because its subscription is not durable"):
                (await inbox.next()).ack()

    run(scene())


def test_an_ack_of_a_consumer_that_was_fenced_off_is_refused() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a, network.connect("b") as b:
            inbox = await a.subscribe("t", durable="d", manual_ack=True)
            await a.publish("t", b"x")
            message = await inbox.next()
            other = await b.subscribe("t", durable="d")
            with pytest.raises(resprout.FencedError):
                await inbox.next(timeout=PATIENCE_S)
            with pytest.raises(resprout.FencedError):
                message.ack()
            assert (await other.next()).redelivered

    run(scene())


def test_an_id_is_a_type_with_the_form_that_trace_accepts() -> None:
    async def scene() -> None:
        async with resprout.local() as network, resprout.connect(network.address, name="p.1", epoch=7) as client:
            inbox = await client.subscribe("t")
            receipt = await client.publish("t", b"x")
            message = await inbox.next()
            assert message.id == receipt.id == resprout.MessageId("p.1", 7, "ordered", 1)
            assert (receipt.id.publisher, receipt.id.epoch, message.epoch) == ("p.1", 7, 7)
            assert str(message.id) == "p.1.7/ordered:1" and parse_id(str(message.id)) == message.id

    run(scene())


def test_an_inbox_of_another_client_is_refused() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("a") as a, network.connect("b") as b:
            with pytest.raises(resprout.UsageError, match="belongs to another client"):
                await b.unsubscribe(await a.subscribe("t"))
            with pytest.raises(resprout.UsageError, match="'d' is closed, or belongs to another client"):
                await b.unsubscribe(await a.subscribe("t", durable="d"))

    run(scene())


def test_a_blocking_durable_inbox_acknowledges_a_batch_only_when_the_program_asks_for_more(
    resprout_broker: Broker,
) -> None:
    with sync.connect(resprout_broker.address, name="c") as client:
        with client.subscribe("t", durable="d") as inbox:
            client.publish_bundle("t", [b"%d" % n for n in range(5)]).safe(timeout=PATIENCE_S)
            assert len(next(inbox.batches(timeout=PATIENCE_S))) == 5
        with client.subscribe("t", durable="d", manual_ack=True) as inbox:
            messages = [inbox.next(timeout=PATIENCE_S) for _ in range(5)]
            assert all(message.redelivered for message in messages), "a crash in the middle of a batch loses nothing"
            messages[0].ack()
            inbox.ack(*messages[1:4])
        typed = client.subscribe("t", durable="d", type=int)
        assert typed.next(timeout=PATIENCE_S).value == 4
        typed.unsubscribe(timeout=PATIENCE_S)
