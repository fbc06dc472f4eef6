"""A replicated key-value store with compare-and-set, in a hundred lines.

Every replica holds everything and applies the same writes in the same order: they are published with `total`, with
the key that they write as their key. A write is done when its own replica has applied it, and what came of it is known
there without asking anybody: all replicas decide alike. Reads are local, and may be a little old.

python examples/store.py
"""

import asyncio

import msgspec

import resprout

TOPIC = "store"
REPLICAS = 3
ROUNDS = 10


class Write(msgspec.Struct):
    key: str
    value: str | None
    """None removes it."""
    expected: str | None = None
    compared: bool = False
    """Only if the key has the value that is expected."""


class Store:
    """One replica. Made by `open_store`."""

    def __init__(self, client: resprout.Client, inbox: "resprout.TypedInbox[Write]") -> None:
        self._client = client
        self._inbox = inbox
        self._values: dict[str, str] = {}
        self._waiting: dict[object, asyncio.Future[bool]] = {}
        self._done: dict[object, bool] = {}
        """Own writes that were applied before their number was known here."""
        self._task = asyncio.create_task(self._apply_all())

    def get(self, key: str) -> str | None:
        return self._values.get(key)

    async def set(self, key: str, value: str | None) -> None:
        await self._write(Write(key, value))

    async def compare_and_set(self, key: str, expected: str | None, value: str | None) -> bool:
        """Whether the key had the value that was expected, and has the new one now."""
        return await self._write(Write(key, value, expected, compared=True))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))

    @property
    def contents(self) -> dict[str, str]:
        return dict(sorted(self._values.items()))

    async def _write(self, write: Write) -> bool:
        receipt = await self._client.publish(TOPIC, write, guarantee="total", keys=[write.key])
        if receipt.id in self._done:
            return self._done.pop(receipt.id)
        applied = self._waiting[receipt.id] = asyncio.get_running_loop().create_future()
        try:
            return await applied
        finally:
            self._waiting.pop(receipt.id, None)

    async def _apply_all(self) -> None:
        async for message in self._inbox:
            fits = self._apply(message.value)
            if message.publisher != self._client.name:
                continue
            waiting = self._waiting.get(message.id)
            if waiting is None:
                self._done[message.id] = fits
            elif not waiting.done():
                waiting.set_result(fits)

    def _apply(self, write: Write) -> bool:
        if write.compared and self._values.get(write.key) != write.expected:
            return False
        if write.value is None:
            self._values.pop(write.key, None)
        else:
            self._values[write.key] = write.value
        return True


async def open_store(client: resprout.Client) -> Store:
    """Empty: replicas that come later would have to copy what is there, or read it (`client.read`)."""
    return Store(client, await client.subscribe(TOPIC, type=Write))


async def count(store: Store, key: str) -> int:
    """Raise a counter as often as `ROUNDS`; how often somebody else was faster."""
    lost = 0
    for _ in range(ROUNDS):
        while True:
            before = store.get(key)
            if await store.compare_and_set(key, before, str(int(before or 0) + 1)):
                break
            lost += 1
    return lost


async def main() -> None:
    async with resprout.local(brokers=REPLICAS) as network:
        clients = [await network.connect(f"replica-{n}", broker=n) for n in range(REPLICAS)]
        stores = [await open_store(client) for client in clients]
        await stores[0].set("colour", "red")
        counting = asyncio.gather(*(count(store, "counter") for store in stores))
        await asyncio.sleep(0.1)
        await network.brokers[2].close()  # a broker dies meanwhile, and its replica goes on with another one
        await counting
        await stores[1].set("colour", None)
        print(f"the counter is {stores[0].get('counter')} after {REPLICAS} replicas raised it {ROUNDS} times each")
        while not stores[0].contents == stores[1].contents == stores[2].contents:
            await asyncio.sleep(0.01)
        print(f"all replicas hold {stores[2].contents}")
        for store, client in zip(stores, clients, strict=True):
            await store.close()
            await client.close()


if __name__ == "__main__":
    asyncio.run(main())
