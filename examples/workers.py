"""Several workers share one inbox, each order is handled once, and only large orders come at all.

python examples/workers.py
"""

import asyncio

import resprout

ORDERS = 12


async def work(name: str, inbox: resprout.Inbox, done: list[str]) -> None:
    async for message in inbox:
        await asyncio.sleep(0.01)  # something that takes a while
        done.append(f"{message.attributes['item']} by {name}")


async def main() -> None:
    done: list[str] = []
    async with (
        resprout.local(brokers=3) as network,
        network.connect("shop", broker=1) as shop,
        network.connect("factory", broker=2) as factory,
    ):
        inbox = await factory.subscribe("orders/+", where="amount >= 100 and item is not null")
        workers = [asyncio.create_task(work(f"worker-{number}", inbox, done)) for number in range(3)]
        for number in range(ORDERS):
            receipt = await shop.publish("orders/eu", b"", attributes={"item": f"item-{number}", "amount": 50 * number})
        await receipt.delivered()
        await factory.unsubscribe(inbox)
        await asyncio.gather(*workers)
    print(f"{len(done)} of {ORDERS} orders were large enough")
    print(*sorted(done), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
