"""The shortest round trip: a broker in this process, one subscriber, one publication.

python examples/hello.py
"""

import asyncio

import resprout


async def main() -> None:
    async with resprout.local() as network, network.connect("alice") as alice, network.connect("bob") as bob:
        inbox = await bob.subscribe("greetings/#")
        receipt = await alice.publish("greetings/morning", b"hello, bob")
        message = await inbox.next()
        await receipt.delivered()
        print(f"{message.publisher} on {message.topic}: {message.payload.decode()}")
        print(f"the receipt says: {receipt.state}")


if __name__ == "__main__":
    asyncio.run(main())
