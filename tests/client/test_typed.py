"""Structures are published as JSON and read back checked; what does not fit ends nobody's inbox."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from resprout.client.connect import connect
from resprout.client.errors import MistypedPayloadError
from resprout.client.inbox import decoder_of, payload_of
from resprout.core.errors import PayloadRefusedError, UsageError
from tests.net.stage import broker, run


class Order(msgspec.Struct):
    article: str
    count: int = 1


@dataclass
class Parcel:
    weight: float


class Model:
    """What is known of a model of pydantic."""

    def __init__(self, text: str) -> None:
        self.text = text

    def model_dump_json(self) -> str:
        return f'"{self.text}"'

    @classmethod
    def model_validate_json(cls, data: bytes) -> "Model":
        if not data.startswith(b'"'):
            raise ValueError("not a text")
        return cls(data.decode().strip('"'))


def test_a_structure_is_published_and_its_readers_have_its_value() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            inbox = await client.subscribe("orders", type=Order)
            await client.publish("orders", Order("bread", 2))
            await client.publish("orders", b'{"article": "salt"}')
            first, second = await inbox.next(), await inbox.next()
            assert (first.value, second.value) == (Order("bread", 2), Order("salt"))
            assert first.topic == "orders" and first.payload == b'{"article":"bread","count":2}'
            assert first.value is first.value, "it is decoded once"

    run(story())


def test_a_payload_that_does_not_fit_is_handed_out_and_says_so_when_it_is_looked_at() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            inbox = await client.subscribe("orders", type=Order)
            nested = b'{"article": "x", "more": ' + b"[" * 100_000  # a publisher ended a subscriber with that
            for payload in (b"{", b'{"article": 7}', b"\xff", nested):
                await client.publish("orders", payload)
            await client.publish("orders", Order("bread"))
            for payload in (b"{", b'{"article": 7}', b"\xff", nested):
                message = await inbox.next()
                with pytest.raises(MistypedPayloadError, match="orders: ") as caught:
                    _ = message.value
                assert caught.value.message.payload == payload
            assert (await inbox.next()).value == Order("bread")

    run(story())


def test_typed_inboxes_are_used_like_others() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            inbox = await client.subscribe("a", type=Order)
            assert await client.subscribe("b", into=inbox, type=Order) is inbox
            assert inbox.next_nowait() is None and len(inbox) == 0 and inbox
            receipt = await client.publish("a", Order("x"))
            await client.publish("b", Order("y"))
            batch = await anext(aiter(inbox.batches()))
            assert [message.value.article for message in batch][:1] == ["x"]
            await receipt.safe()
            wrong: Any = inbox
            with pytest.raises(UsageError, match=r"into=.* an inbox of the same type"):
                await client.subscribe("c", into=wrong, type=Parcel)
            with pytest.raises(UsageError, match=r"give type=.* as well"):
                await client.subscribe("c", into=wrong)
            await client.unsubscribe(inbox)
            assert [message.topic async for message in inbox] in ([], ["b"])
            assert inbox.failure is None

    run(story())


def test_requests_and_replies_have_types() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            service = await client.serve("weigh", type=Order).ready()

            async def serve() -> None:
                request = await service.next()
                await request.reply(Parcel(1.5 * request.value.count))

            serving = asyncio.create_task(serve())
            reply = await client.request("weigh", Order("bread", 4), type=Parcel)
            assert reply.value == Parcel(6.0)
            await serving

    run(story())


def test_models_of_pydantic_are_known_by_what_they_can_do() -> None:
    assert payload_of(Model("x")) == b'"x"'
    assert decoder_of(Model)(b'"y"').text == "y"


def test_pydantic_itself() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Bread(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        weight: int

    assert decoder_of(Bread)(payload_of(Bread(weight=3))).weight == 3

    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            inbox = await client.subscribe("bread", type=Bread)
            await client.publish("bread", b'{"weight": "heavy"}')
            with pytest.raises(MistypedPayloadError):
                _ = (await inbox.next()).value

    run(story())


@pytest.mark.parametrize("payload", ["text", None, Order, 3, (1, 2), {"a": object()}])
def test_what_is_no_structure_is_refused(payload: Any) -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            with pytest.raises(PayloadRefusedError, match=r"^payload="):
                await client.publish("t", payload)

    run(story())


def test_plain_dicts_and_lists_travel_as_json() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            inbox = await client.subscribe("t", type=dict)
            await client.publish("t", {"a": [1, None]})
            assert (await inbox.next()).value == {"a": [1, None]}
            await client.publish_bundle("t", [{"b": 2}, b"{}", [3]])
            assert [(await inbox.next()).payload for _ in range(3)] == [b'{"b":2}', b"{}", b"[3]"]

    run(story())


def test_what_cannot_be_decoded_to_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(UsageError, match="cannot be decoded to it"):
        decoder_of(Unknown)


class Unknown:
    """No structure, and nothing that msgspec knows."""
