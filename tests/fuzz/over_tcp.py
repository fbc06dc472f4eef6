"""The same over TCP: real brokers in processes of their own, a client that lies, and a broker that joined and lies.

Here frames of the sessions are fuzzed, too: greetings, acknowledgements, pieces, numbers. The oracle is what operators
would see: the brokers live on without a traceback, in the memory that they had, and honest clients get everything.
"""

import asyncio
import contextlib
import json
import random
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.core.contract import Effect, Event, Send
from resprout.core.errors import UsageError
from resprout.edge.messages import CLIENT_MESSAGES, Attend
from resprout.links.frames import FRAMES, Data, Express, Hello
from resprout.net.address import Address, parse_address
from resprout.net.door import Door
from resprout.net.identity.proofs import read_network_key, write_network_key
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.stack import BrokerSeat
from tests.fuzz.episode import NAMES
from tests.fuzz.fuzzed_tree import CODEC
from tests.fuzz.grammar import Grammar, Wire
from tests.fuzz.lies import KINDS, is_accepted
from tests.net.stage import Bare, bare, broker, hello
from tests.patience import PATIENCE_S

RULES: Final = '[anybody]\npublish = ["t", "u/#"]\nsubscribe = ["t", "u/#"]\n'
RESIDENT_BYTES_MAX: Final = 512 << 20
FRAMES_PER_CHECK: Final = 100
KEY_FILE: Final = "network.key"
TRACEBACK: Final = "Traceback (most recent call last)"


def fuzz_over_tcp(frames: int, seed: int) -> tuple[int, str]:
    """Return how many frames were said, and what is wrong with the brokers; empty when nothing is."""
    return asyncio.run(_fuzz(frames, seed))


class LyingBroker(ResproutBroker):
    """Says to its parent what it is told to, besides what a broker says."""

    lies: ClassVar[deque[Any]] = deque()

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options, rng)
        self._parent = seat.parent or "b0"

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        try:
            effects = list(super().step(event, now_us))
        except Exception:  # answers to lies astonish it
            effects = []
        while self.lies:
            effects.append(Send(self._parent, self.lies.popleft()))
        return effects


class Witness:
    """Honest clients at two brokers: each publication comes to both, once and in order."""

    def __init__(self, clients: list[Client], inboxes: list[Inbox]) -> None:
        self._clients = clients
        self._inboxes = inboxes
        self._count = 0

    async def check(self) -> str:
        """What is wrong; empty when everything came."""
        self._count += 1
        for client in self._clients:
            payload = b"honest %d of %s" % (self._count, client.name.encode())
            receipt = await client.publish("t", payload)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await receipt.safe()
                    got = [await _next_honest(inbox) for inbox in self._inboxes]
            except TimeoutError:
                return f"{payload.decode()!r} is not delivered, or not safe: {receipt.state}"
            if got != [payload] * len(got):
                return f"{payload.decode()!r} was published, {got} came"
        return ""


async def _next_honest(inbox: Inbox) -> bytes:
    while not (payload := (await inbox.next()).payload).startswith(b"honest"):
        pass
    return payload


class BrokerUnderTest:
    def __init__(self, name: str, process: asyncio.subprocess.Process, address: Address, log: Path) -> None:
        self.name = name
        self.process = process
        self.address = address
        self.log = log

    def fault(self) -> str:
        if self.process.returncode is not None:
            return f"{self.name} has ended with {self.process.returncode}: {self.log.read_text()[-2000:]}"
        if TRACEBACK in (text := self.log.read_text()):
            return f"{self.name} prints a traceback: {text[text.index(TRACEBACK) :][:2000]}"
        if "fenced" in text:
            return f"{self.name} was fenced: {text[-500:]}"
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        resident = pages * 4096
        return f"{self.name} takes {resident >> 20} MiB" if resident > RESIDENT_BYTES_MAX else ""


@contextlib.asynccontextmanager
async def _started(name: str, folder: Path, *words: str) -> AsyncIterator[BrokerUnderTest]:
    rules, announced, log = folder / "rules.toml", folder / f"{name}.json", folder / f"{name}.log"
    rules.write_text(RULES)
    command = (
        "-m", "resprout", "broker", "--name", name, "--listen", "127.0.0.1:0", "--rules", str(rules),
        "--network-key", str(folder / KEY_FILE), "--announce", str(announced), *words,
    )  # fmt: skip
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=output, stderr=output)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not announced.exists() and process.returncode is None:
                await asyncio.sleep(0.02)
        assert announced.exists(), log.read_text()
        yield BrokerUnderTest(name, process, parse_address(json.loads(announced.read_text())["address"]), log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _fuzz(frames: int, seed: int) -> tuple[int, str]:
    rng = random.Random(seed)
    grammar = Grammar(rng, NAMES, ("evil", "ghost"))
    with tempfile.TemporaryDirectory(prefix="resprout-fuzz-") as temporary:
        folder = Path(temporary)
        door = Door(network_key=read_network_key(write_network_key(folder / KEY_FILE)))
        async with contextlib.AsyncExitStack() as stack:
            b0 = await stack.enter_async_context(_started("b0", folder))
            b2 = await stack.enter_async_context(_started("b2", folder, "--parent", str(b0.address)))
            clients = [
                await stack.enter_async_context(connect(str(b.address), name=f"at-{b.name}", timeout=PATIENCE_S))
                for b in (b0, b2)
            ]
            witness = Witness(clients, [await client.subscribe("t") for client in clients])
            lying = msgspec.structs.replace(RESPROUT, make_broker=LyingBroker)
            await stack.enter_async_context(broker("b1", parent=("b0", b0.address), stack=lying, door=door))
            said = 0
            trouble = await witness.check()
            while said < frames and not trouble:
                said += await _lie_as_client(b0.address, grammar, rng, said)
                said += _lie_as_member(grammar, rng)
                trouble = await witness.check() or b0.fault() or b2.fault()
            return said, trouble


def _lie_as_member(grammar: Grammar, rng: random.Random) -> int:
    wire = Wire(CODEC)
    kinds = [KINDS["member"] if rng.random() < 0.9 else RESPROUT.messages for _ in range(FRAMES_PER_CHECK // 2)]
    lies = [wire.carry(grammar.make(rng.choice(some))) for some in kinds]
    lies = [lie for lie in lies if lie is not None and not is_accepted("member", lie, (), (), lambda bundle: True)]
    LyingBroker.lies += lies
    return len(lies)


async def _lie_as_client(address: Address, grammar: Grammar, rng: random.Random, epoch: int) -> int:
    """A few connections, each until it is closed or has said enough."""
    said = 0
    while said < FRAMES_PER_CHECK // 2:
        with contextlib.suppress(ConnectionError, EOFError):
            async with bare(address) as peer:
                said += await _converse(peer, grammar, rng, epoch + said + 1)
        said += 1
    return said


async def _converse(peer: Bare, grammar: Grammar, rng: random.Random, epoch: int) -> int:
    greeting = hello("evil", epoch=epoch)
    peer.say(greeting if rng.random() < 0.8 else _with_own_name(grammar.mutate(greeting)))
    peer.say(Data(1, 0, 1 << 40, (Attend(0),)))
    number, said = 2, 2
    for _ in range(rng.randint(1, 20)):
        frame, count = _frame(grammar, rng, number)
        with contextlib.suppress(UsageError, OverflowError):
            peer.say(frame)
            number, said = number + count, said + 1
        await asyncio.sleep(0)
        if peer.writer.is_closing():
            break
    await peer.writer.drain()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.005):  # long enough for most of it to be read
            await peer.ended()
    return said


def _with_own_name(frame: Hello) -> Hello:
    """Without secrets anybody may come under any name, and take the place of another: that is not what is tried."""
    return msgspec.structs.replace(frame, name="evil", role="client")


def _frame(grammar: Grammar, rng: random.Random, number: int) -> tuple[Any, int]:
    """A frame, and how many messages the numbering goes on by."""
    draw = rng.random()
    if draw < 0.75:
        kinds = KINDS["client"] if rng.random() < 0.9 else CLIENT_MESSAGES
        messages = tuple(grammar.make(rng.choice(kinds)) for _ in range(rng.choice((1, 1, 3))))
        return Data(number, 0, 1 << 40, messages), len(messages)
    if draw < 0.85:
        message = grammar.make(rng.choice(CLIENT_MESSAGES))
        return grammar.mutate_frame(rng.choice((Data, Express)), message), 0
    plain = [kind for kind in FRAMES if kind not in (Data, Express, Hello)]
    return grammar.make(rng.choice(plain)), 0
