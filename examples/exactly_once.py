"""Exactly once from queue to queue: workers turn orders into invoices, and one of them is killed again and again.

A worker publishes the invoice and acknowledges the order in one step. A customer who sends an order twice gets one
invoice: both messages have the same id.

python examples/exactly_once.py
"""

import asyncio
import contextlib
import sys

import resprout

ORDERS = 40
KILLS = 3
QUICK = {"heartbeat_us": 100_000, "lease_us": 1_000_000}  # a dead worker is noticed after six heartbeats


async def worker(address: str, name: str) -> None:
    async with resprout.connect(address, name=name) as client:
        orders = await client.subscribe("orders", group="billing", window=5, manual_ack=True)
        print("ready", flush=True)
        async for order in orders:
            await asyncio.sleep(0.02)  # the work
            await order.publish_and_ack("invoices", b"invoice for " + order.payload)


async def start_worker(address: str, name: str) -> asyncio.subprocess.Process:
    words = [sys.executable, __file__, address, name]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def main() -> None:
    async with resprout.local(brokers=3, options=QUICK) as network, network.connect("shop", broker=1) as shop:
        invoices = await shop.subscribe("invoices", durable="bookkeeping")
        workers = [await start_worker(network.addresses[number], f"worker-{number}") for number in range(2)]
        for number in range(ORDERS):
            for _ in range(2):  # the customer is impatient
                await shop.publish("orders", b"order %d" % number, message_id=f"order-{number}")
        for number in range(KILLS):
            await asyncio.sleep(0.2)
            workers[0].kill()
            await workers[0].wait()
            workers[0] = await start_worker(network.addresses[2], f"worker-again-{number}")
        received = [(await invoices.next()).payload for _ in range(ORDERS)]
        with contextlib.suppress(resprout.TimedOutError):  # there is no other
            received.append((await invoices.next(timeout=3)).payload)
        for process in workers:
            process.terminate()
            await process.wait()
    print(f"{2 * ORDERS} orders were sent, {len(received)} invoices came, {len(set(received))} of them different")


if __name__ == "__main__":
    asyncio.run(worker(*sys.argv[1:]) if len(sys.argv) > 1 else main())
