"""A chat room: every member sees a question before its answer, at whichever broker the members are connected.

python examples/chat.py                                shows a conversation of three, with brokers of its own
python examples/chat.py alice localhost:7450           joins the room at a broker: type lines, end with Ctrl-D
"""

import asyncio
import sys

import msgspec

import resprout

ROOM = "chat/lobby"


class Line(msgspec.Struct):
    text: str


class Person:
    """Says something, and keeps what it has seen."""

    def __init__(self, client: resprout.Client, inbox: "resprout.TypedInbox[Line]") -> None:
        self.client = client
        self.inbox = inbox
        self.seen: list[str] = []

    @classmethod
    async def enter(cls, client: resprout.Client) -> "Person":
        return cls(client, await client.subscribe(ROOM, type=Line))

    async def say(self, text: str) -> None:
        receipt = await self.client.publish(ROOM, Line(text), guarantee="causal")
        await receipt.safe()  # from here on it survives the crash of a broker

    async def hear(self) -> str:
        message = await self.inbox.next()
        try:
            self.seen.append(f"{message.publisher}: {message.value.text}")
        except resprout.MistypedPayloadError:
            self.seen.append(f"{message.publisher} says something that is no line")
        return self.seen[-1]


async def show() -> None:
    """Bob answers Alice, and Carol sees both in that order, though they speak at different brokers."""
    async with (
        resprout.local(brokers=3) as network,
        network.connect("alice", broker=0) as alice,
        network.connect("bob", broker=1) as bob,
        network.connect("carol", broker=2) as carol,
    ):
        people = [await Person.enter(client) for client in (alice, bob, carol)]
        await people[0].say("shall we have lunch?")
        await people[1].hear()
        await people[1].say("yes, at noon")
        await people[2].hear()
        await people[2].hear()
        print(*people[2].seen, sep="\n")


async def join(name: str, server: str) -> None:
    async with resprout.connect(server, name=name) as client:
        person = await Person.enter(client)

        async def listen() -> None:
            while True:
                print(await person.hear(), flush=True)

        listening = asyncio.create_task(listen())
        while line := await asyncio.to_thread(sys.stdin.readline):
            await person.say(line.rstrip("\n"))
        await asyncio.sleep(0.2)  # for what the others said last
        listening.cancel()


if __name__ == "__main__":
    try:
        asyncio.run(join(*sys.argv[1:3]) if len(sys.argv) == 3 else show())
    except resprout.ClientError as error:
        sys.exit(f"no chat: {error}")
