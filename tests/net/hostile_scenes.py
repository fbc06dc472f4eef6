"""A small network over TCP, and somebody in it who lies: a stranger, a client, or a broker that joined honestly.

The table in docs/security.md tells what becomes of each; `test_hostile_scenes` looks.
"""

import asyncio
import contextlib
import random
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Effect, Event, Send
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend
from resprout.links.frames import Data, Goodbye, SessionWelcome
from resprout.links.options import LinkStatus
from resprout.order.messages import Forward, Levels
from resprout.overlay.messages import Fenced, Gone, Life, Suspect, Vote
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.resprout.messages import JoinRequest, Welcome
from resprout.stacks.stack import BrokerSeat
from tests.net.pages import refusals
from tests.net.papers import Papers
from tests.net.stage import Bare, Running, bare, broker, hello, until
from tests.patience import PATIENCE_S

LIARS: Final = ("a stranger", "a client", "a child that joined honestly")
FAR_AHEAD: Final = 1 << 40
MOMENT_S: Final = 0.3


def forged(life: int) -> Forward:
    """Of the witness, who is served elsewhere: with a number that would silence it."""
    payload = pack_payloads([b"forged"])
    return Forward(Bundle("witness", life, FAR_AHEAD, 1, 9, "news", (), Guarantee.CAUSAL, b"", payload), 1)


LIES: Final[dict[str, Callable[[int], Any]]] = {
    "`Fenced`": lambda life: Fenced(1 << 50),
    "`Gone`": lambda life: Gone(Life("b1", 1)),
    "forged `Forward`": forged,
    "`Suspect` of a healthy broker": lambda life: Suspect(Life("b1", 1), ()),
    "a vote": lambda life: Vote(1, True),
    "joins as a broker": lambda life: JoinRequest(""),
}
"""What is said, by whoever knows in which life the witness is."""


class Liar(ResproutBroker):
    """Says what it is told to, to its parent, besides what a broker says."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options, rng)
        self.lies: deque[Any] = deque()
        self.has_lied = False

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        effects = list(super().step(event, now_us))
        while self.lies:
            self.has_lied = True
            effects.append(Send("b1", self.lies.popleft()))
        return effects

    def hear(self, name: str, message: Any) -> bool:
        """A liar does not mind to be told that it has sent what it never had."""
        return (self.has_lied and isinstance(message, Levels)) or super().hear(name, message)


LIARS_STACK: Final = msgspec.structs.replace(RESPROUT, make_broker=Liar)


class Scene:
    """b0, b1 below it with the witness as its client, b2 below that, which may lie. Others lie to b0."""

    def __init__(self, brokers: list[Running], witness: Client, papers: Papers | None) -> None:
        self.brokers = brokers
        self.witness = witness
        self.papers = papers
        self.child = brokers[2]
        self.witness_life: int = brokers[1].machine.parts.sessions.all["witness"].incarnation

    @property
    def lives(self) -> list[int]:
        """Of the honest ones."""
        return [running.broker.incarnation for running in self.brokers[:2]]

    async def goes_on(self) -> None:
        """The witness is heard, and everybody who was in the tree still is."""
        inbox = await self.witness.subscribe("news")
        await (await self.witness.publish("news", b"still here")).safe()
        assert (await inbox.next()).payload == b"still here"
        await self.witness.unsubscribe(inbox)
        assert self.lives == [1, 1], "nobody had to begin a new life"

    async def lied_to_by(self, who: str, lie: Any, is_answered: bool) -> str:
        """What became of the liar."""
        if who == LIARS[2]:
            return await self._by_the_child(lie)
        certificate = "teller" if who == LIARS[1] else None
        async with bare(self.brokers[0].address, self._context(certificate)) as peer:
            if who == LIARS[1]:
                await peer.greet("teller")
                peer.say_messages(1, Attend(0), lie)
                return await _heard_of(peer, is_answered)
            peer.say(hello("b9", role="broker"))
            if not isinstance(await peer.hear(), SessionWelcome):
                return "refused at the greeting"
            peer.say_messages(1, lie)
            return await _heard_of(peer, is_answered)

    async def counted(self, who: str) -> dict[str, int]:
        """What the broker that was lied to has refused, as a monitor reads it."""
        return await refusals(self.brokers[1 if who == LIARS[2] else 0])

    async def _by_the_child(self, lie: Any) -> str:
        machine = self.child.machine
        session = self._session_of_the_child()
        assert session is not None
        machine.lies.append(lie)
        await until(lambda: not machine.lies)
        sent = next(status.sent for status in self.child.statuses if status.peer == "b1")

        def has_ended() -> bool:
            now = self._session_of_the_child()
            return now is None or now.epoch != session.epoch

        def was_heard() -> bool:
            now = self._session_of_the_child()
            return now is not None and now.received >= sent

        await until(lambda: has_ended() or was_heard())
        return "cut off" if has_ended() else "not believed"

    def _session_of_the_child(self) -> LinkStatus | None:
        return next((status for status in self.brokers[1].statuses if status.peer == "b2"), None)

    def _context(self, certificate: str | None) -> ssl.SSLContext | None:
        return None if self.papers is None else self.papers.context(certificate)


async def _heard_of(peer: Bare, is_answered: bool) -> str:
    """What the broker says to a lie. An answer that should come is waited for; whoever should not be believed hears
    nothing for a moment."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S if is_answered else MOMENT_S):
            while True:
                frame = await peer.hear()
                if isinstance(frame, Goodbye):
                    return "cut off"
                if isinstance(frame, Data) and any(isinstance(message, Welcome) for message in frame.messages):
                    return "taken in"
    return "not believed"


@contextlib.asynccontextmanager
async def scene(papers: Papers | None) -> AsyncIterator[Scene]:
    def door(name: str) -> Any:
        return papers.door(name) if papers is not None else None

    async with contextlib.AsyncExitStack() as stack:
        b0 = await stack.enter_async_context(broker("b0", door=door("b0")))
        b1 = await stack.enter_async_context(broker("b1", parent=("b0", b0.address), door=door("b1")))
        await until(lambda: "b1" in b0.sessions and b1.machine.life.attached)
        b2 = await stack.enter_async_context(
            broker("b2", parent=("b1", b1.address), door=door("b2"), stack=LIARS_STACK)
        )
        await until(lambda: b2.machine.life.attached)
        tls = papers.folder if papers is not None else None
        witness = await stack.enter_async_context(connect(str(b1), name="witness", tls=tls))
        yield Scene([b0, b1, b2], witness, papers)


async def outcomes(who: str, papers: Papers | None, answered: Collection[str]) -> dict[str, tuple[str, dict[str, int]]]:
    """Of all lies of one, each in a network of its own: what is cut off is gone. And what was counted of it.
    `answered`: the lies to which an answer is expected."""
    found = {}
    for name, lie in LIES.items():
        async with scene(papers) as stage:
            became = await stage.lied_to_by(who, lie(stage.witness_life), name in answered)
            found[name] = became, await stage.counted(who)
            await stage.goes_on()
    return found
