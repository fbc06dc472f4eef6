"""Request and reply with values: a shop asks for prices, and learns at once when no client sells.

python examples/ask.py
"""

import asyncio

import msgspec

import resprout

PRICES = {"bread": 4.2, "salt": 0.9}


class Order(msgspec.Struct):
    article: str
    count: int = 1


class Offer(msgspec.Struct):
    price: float


async def sell(service: "resprout.Service[Order]") -> None:
    async for request in service:
        order = request.value
        if order.article in PRICES:
            await request.reply(Offer(round(PRICES[order.article] * order.count, 2)))
        else:
            await request.fail(f"there is no {order.article}")


async def main() -> None:
    async with (
        resprout.local(brokers=3) as network,
        network.connect("shop", broker=1) as shop,
        network.connect("market", broker=2) as market,
    ):
        try:
            await shop.request("market/offers", Order("bread"))
        except resprout.NoRespondersError as error:
            print(error)
        selling = asyncio.create_task(sell(await market.serve("market/offers", type=Order).ready()))
        for order in (Order("bread", 2), Order("salt"), Order("gold")):
            try:
                offer = await shop.request("market/offers", order, type=Offer, timeout=5)
                print(f"{order.count} {order.article}: {offer.value.price}")
            except resprout.RequestFailedError as error:
                print(f"{order.count} {order.article}: {error}")
        selling.cancel()


if __name__ == "__main__":
    asyncio.run(main())
