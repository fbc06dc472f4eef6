"""Requests find those who serve them, fail at once where nobody does, and outlive the broker of either side."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClosedError, NoReplyError, NoRespondersError, RequestFailedError
from resprout.client.local import local
from resprout.core.errors import UsageError
from tests.net.stage import broker, run
from tests.patience import PATIENCE_S


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Client, Client]]:
    async with (
        broker() as running,
        connect(str(running.address), name="asker") as asker,
        connect(str(running.address), name="server") as server,
    ):
        yield asker, server


def test_a_request_is_answered_and_many_at_once_are_told_apart() -> None:
    async def story() -> None:
        async with two() as (asker, server):
            service = await server.serve("echo/+").ready()

            async def serve() -> None:
                async for request in service:
                    await request.reply(request.topic.encode() + b" " + request.payload)

            serving = asyncio.create_task(serve())
            replies = await asyncio.gather(*(asker.request(f"echo/{n}", b"x%d" % n) for n in range(20)))
            assert [reply.payload for reply in replies] == [b"echo/%d x%d" % (n, n) for n in range(20)]
            serving.cancel()
            await asyncio.wait((serving,))

    run(story())


def test_where_nobody_listens_the_caller_is_told_at_once_and_nothing_is_published() -> None:
    async def story() -> None:
        async with two() as (asker, server):
            with pytest.raises(NoRespondersError, match="no client subscribes to price/bread"):
                await asker.request("price/bread", b"?", timeout=None)
            inbox = await server.subscribe("price/#", where="weight > 3")
            with pytest.raises(NoReplyError):  # a condition may hold: somebody might have answered
                await asker.request("price/bread", b"?", timeout=0.05)
            await server.unsubscribe(inbox)
            with pytest.raises(NoRespondersError):
                await asker.request("price/bread", b"?", timeout=None)
            assert len(inbox) == 0

    run(story())


def test_somebody_who_listens_anywhere_in_the_tree_is_known_at_every_broker() -> None:
    async def story() -> None:
        async with local(brokers=3) as network:
            first, *_, last = network.addresses
            async with connect(first, name="asker") as asker, connect(last, name="server") as server:
                service = await server.serve("far").ready()
                asked = asyncio.create_task(asker.request("far", b"away"))
                request = await service.next()
                await request.reply(request.payload.upper())
                assert (await asked).payload == b"AWAY"
                await service.close()
                while True:  # what is not wanted any more is news that travels
                    try:
                        await asker.request("far", b"away", timeout=0.05)
                    except NoRespondersError:
                        break
                    except NoReplyError:
                        pass

    run(story())


def test_a_service_may_say_that_it_failed() -> None:
    async def story() -> None:
        async with two() as (asker, server):
            service = await server.serve("work").ready()
            asked = asyncio.create_task(asker.request("work", b""))
            await (await service.next()).fail("no flour is left")
            with pytest.raises(RequestFailedError, match="no flour is left"):
                await asked

    run(story())


@pytest.mark.parametrize(
    "attributes",
    [
        {"reply_to": "$reply/+", "request_id": "1"},
        {"reply_to": "$reply/", "request_id": "1"},
        {"reply_to": "$reply/a/b", "request_id": "1"},
        {"reply_to": "$reply/a#", "request_id": "1"},
        {"reply_to": "bank", "request_id": "1"},
        {"reply_to": 7, "request_id": "1"},
        {"reply_to": "$reply/a", "request_id": 1.5},
        {"reply_to": "$reply/a"},
    ],
)
def test_a_publication_that_pretends_to_be_a_request_ends_no_service(attributes: dict[str, Any]) -> None:
    """With `$reply/+` the reply raised an error, which ended the loop of the service, `resprout reply` and
    `Application`."""

    async def story() -> None:
        async with two() as (asker, server):
            service = await server.serve("work").ready()
            await asker.publish("work", b"evil", attributes=attributes)
            asked = asyncio.create_task(asker.request("work", b"good"))
            for payload in (b"evil", b"good"):
                request = await service.next()
                assert request.payload == payload
                await request.reply(b"bread")
            assert (await asked).payload == b"bread"

    run(story())


def test_a_plain_publication_is_served_too_and_has_no_reply() -> None:
    async def story() -> None:
        async with two() as (asker, server):
            service = await server.serve("work").ready()
            await asker.publish("work", b"said")
            request = await service.next()
            assert request.payload == b"said" and not request.wants_reply
            await request.reply(b"")
            await request.fail("nobody hears it")
            with pytest.raises(UsageError, match="are set by the request itself"):
                await asker.request("work", b"", attributes={"reply_to": "elsewhere"})
            with pytest.raises(UsageError, match="a value has a type"):
                assert request.value

    run(story())


def test_of_several_replies_the_first_counts_and_those_that_come_too_late_disturb_nobody() -> None:
    async def story() -> None:
        async with two() as (asker, server):
            service = await server.serve("work").ready()
            taking = asyncio.create_task(service.next())
            while not taking.done():  # on a busy machine the time may be over before the request has left
                with pytest.raises(NoReplyError, match=r"no reply to a request on work within 0\.05 s"):
                    await asker.request("work", b"slow", timeout=0.05)
            await (await taking).reply(b"late")
            asked = asyncio.create_task(asker.request("work", b"again", timeout=PATIENCE_S))
            while (request := await service.next()).payload != b"again":
                pass
            await request.reply(b"first")
            await request.reply(b"second")
            assert (await asked).payload == b"first"

    run(story())


def test_a_client_that_is_closed_waits_for_no_reply() -> None:
    async def story() -> None:
        async with two() as (asker, server):
            await server.serve("work").ready()
            asked = asyncio.create_task(asker.request("work", b"", timeout=None))
            await asyncio.sleep(0.05)
            await asker.close()
            with pytest.raises(ClosedError):
                await asked

    run(story())


@pytest.mark.parametrize("gone", [1, 2], ids=["of the client that asks", "of the client that serves"])
def test_a_request_outlives_the_broker(gone: int) -> None:
    async def story() -> None:
        async with (
            local(brokers=3) as network,
            network.connect("asker", broker=1) as asker,
            network.connect("server", broker=2) as server,
        ):
            service = await server.serve("work").ready()
            asked = asyncio.create_task(asker.request("work", b"?", timeout=PATIENCE_S))
            request = await service.next()
            await network.brokers[gone].close()
            await request.reply(b"!")
            assert (await asked).payload == b"!"

    run(story())


def test_services_of_a_group_share_requests_and_take_over_those_of_one_that_dies() -> None:
    async def story() -> None:
        async with (
            broker() as running,
            connect(str(running.address), name="asker") as asker,
            connect(str(running.address), name="server") as server,
            connect(str(running.address), name="other") as other,
        ):
            first = await server.serve("jobs", group="services").ready()
            second = await other.serve("jobs", group="services").ready()
            asking = [asyncio.create_task(asker.request("jobs", b"%d" % n, timeout=None)) for n in range(4)]
            left, right = await first.next(PATIENCE_S), await second.next(PATIENCE_S)
            assert left.payload != right.payload
            await right.reply(b"second")
            await second.close()
            await server.close()  # without a reply, and without having asked for the next one
            third = await other.serve("jobs", group="services").ready()
            served = [await third.next(PATIENCE_S)]
            await served[-1].reply(b"third")
            while len(served) < 3:
                served.append(await third.next(PATIENCE_S))
                await served[-1].reply(b"third")
            replies = sorted([reply.payload for reply in await asyncio.gather(*asking)])
            assert replies == [b"second", b"third", b"third", b"third"]
            assert left.payload in {request.payload for request in served}

    run(story())
