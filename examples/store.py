"""A replicated key-value store with compare-and-set: three clients of three brokers raise one counter.

Every broker decides alike which write comes first (docs/kv.md), so no increment is lost, also while a broker dies. Reads
are answered by the client's own broker.

python examples/store.py
"""

import asyncio

import resprout

ROUNDS = 10


async def count(bucket: resprout.Bucket, key: str) -> None:
    """Raise a counter as often as `ROUNDS`."""
    for _ in range(ROUNDS):
        while True:
            entry = await bucket.get(key)
            try:
                if entry is None:
                    await bucket.create(key, b"1")
                else:
                    await bucket.update(key, b"%d" % (int(entry.value or b"0") + 1), entry.revision)
                break
            except resprout.RevisionError:
                pass  # somebody was faster


async def main() -> None:
    async with resprout.local(brokers=3) as network:
        clients = [await network.connect(f"replica-{n}", broker=n) for n in range(3)]
        buckets = [client.kv("store") for client in clients]
        await buckets[0].put("colour", b"red")
        counting = asyncio.gather(*(count(bucket, "counter") for bucket in buckets))
        await asyncio.sleep(0.1)
        await network.brokers[2].close()  # a broker dies meanwhile, and its client goes on with another one
        await counting
        await buckets[1].delete("colour")
        entry = await buckets[1].get("counter")
        print(
            f"the counter is {entry.value.decode() if entry else None} after 3 replicas raised it {ROUNDS} times each"
        )
        print(f"the keys are {await buckets[1].keys()}")
        for client in clients:
            await client.close()


if __name__ == "__main__":
    asyncio.run(main())
