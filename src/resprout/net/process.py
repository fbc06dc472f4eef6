"""Child processes: `Child` is any process that this one started, `BrokerProcess` is a broker.

A child is signalled by its pid alone; what it last wrote to standard error is kept, to explain a sudden end.

A broker process is `python -m resprout broker`, with the arguments of a `BrokerPlan`. Its standard input is a pipe for
orders, its standard output announces its address (see `orders`). When the parent ends, in any way, the pipe ends and
the child stops. A broker that retires begins its next life in the same process, which is still supervised.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

import resprout
from resprout.core.errors import PeerError, ResproutError, UsageError
from resprout.logs.declaration import LogDeclaration
from resprout.net.address import Address, parse_address
from resprout.net.orders import Announcement, BrokerOrder, SaidNote, order_line, read_said
from resprout.stacks.stack import RosterEntry

START_SECONDS_MAX: Final = 120.0
"""From the start of a process to its first word; a crowded machine takes a while to start many."""
STOP_SECONDS_MAX: Final = 5.0
"""From asking a process to stop to killing it."""
LINE_BYTES_MAX: Final = 1 << 20
LAST_WORDS_LINES: Final = 20

LOOPBACK: Final = Address("127.0.0.1", 0)


class ProcessError(ResproutError):
    """A process did not start, or ended without being asked to."""


class Child:
    """Started once. `what` names it for people. The first process is its parent; see `orders` for what binds them."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.deliberate = False
        """Its end was asked for here."""
        self.frozen = False
        self._process: asyncio.subprocess.Process | None = None
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS_LINES)

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def has_started(self) -> bool:
        return self._process is not None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def status(self) -> int | None:
        """How it ended: an exit status, or the negative number of a signal; None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def epitaph(self) -> str:
        """How it ended, in words, with the last thing it had to say."""
        status = self.status
        if status is None:
            return f"{self.what} is running"
        how = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
        words = f": {self._last_words[-1]}" if self._last_words else ""
        return f"{self.what} (pid {self.pid}) {how}{words}"

    # -- signals -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """At once, as a crash."""
        self.deliberate = True
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """It stops without noticing; its connections stay."""
        self.frozen = True
        self._signal(signal.SIGSTOP)

    def unfreeze(self) -> None:
        self.frozen = False
        self._signal(signal.SIGCONT)

    # -- for the kinds of children -------------------------------------------------------------------------------------

    async def _spawn(self, command: Sequence[str], inherited: Sequence[int] = ()) -> asyncio.subprocess.Process:
        assert self._process is None, "a child is started once"
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE_BYTES_MAX, pass_fds=inherited,
                env=environment(),
            )  # fmt: skip
        except OSError as error:
            raise ProcessError(f"{self.what} cannot be started: {error.strerror or error}") from None
        return self._process

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise ProcessError(f"{self.what} has not been started")
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        process = self._started()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _hear_err(self, err: asyncio.StreamReader) -> None:
        async for line in lines_of(err):
            text = line.decode("utf-8", "replace").strip()
            self._last_words.append(text)
            self._said(text)

    def _said(self, text: str) -> None:
        """It wrote a line for people."""


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than `LINE_BYTES_MAX`: nothing that anybody waits for
            continue
        if not line:
            return
        yield line


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class BrokerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One broker to start."""

    name: str
    listen: Address = LOOPBACK
    parent: Address | None = None
    stack: str = "resprout"
    incarnation: int | None = None
    """None: the process takes one from the clock."""
    options: Mapping[str, str | int | float | bool] = {}
    """Of the stack."""
    links: Mapping[str, int] = {}
    """Of the links, see `LinkOptions`."""
    journal: Mapping[str, str | int] = {}
    """Of what is kept in the folder, see `JournalOptions`."""
    delays_us: Mapping[str, int] = {}
    """Emulated one-way latencies, by peer."""
    site: str = ""
    """The group of brokers that replicate each other, if there are such."""
    contacts: tuple[Address, ...] = ()
    """Brokers to ask for a place when the parent is not there."""
    data: Path | None = None
    """The folder for what must survive the process."""
    keep: tuple[str, ...] = ()
    """Filters of the events that it keeps there."""
    tls: Path | None = None
    """The folder with its certificates; None: it speaks without TLS."""
    rules: Path | None = None
    """The file of who is known; None: there are no rules."""
    network_key: Path | None = None
    """The file with the key by which brokers prove themselves; None: there is none."""
    insecure: bool = False
    """It lets in whoever comes, wherever it listens."""
    founds: bool = False
    """It founds a network if its folder remembers none and no broker that it knows answers."""
    forces: bool = False
    """It founds a network if no broker that it knows has a place in one, whatever its folder remembers."""
    http: Address | None = None
    """Where it serves its page and metrics; None: nowhere."""
    mqtt: Address | None = None
    """Where it listens for MQTT clients; None: nowhere."""
    logs: tuple[LogDeclaration, ...] = ()
    """All logs of the network."""
    roster: tuple[RosterEntry, ...] = ()
    """All brokers of the network, where they form sites."""
    is_traced: bool = False
    """It notes each message that a log drops by compaction."""

    def command(self) -> list[str]:
        """The words of the command line. `-P`: the folder that the user happens to be in may hold a `random.py`."""
        return [sys.executable, "-P", "-m", "resprout", *self.arguments()]

    def arguments(self) -> list[str]:
        """Of the command `resprout`."""
        words = ["broker", "--name", self.name, "--listen", str(self.listen), "--stack", self.stack]
        if self.parent is not None:
            words += ["--parent", str(self.parent)]
        if self.site:
            words += ["--site", self.site]
        for contact in self.contacts:
            words += ["--contact", str(contact)]
        flags = {
            "--found": self.founds, "--force-found": self.forces, "--insecure": self.insecure,
            "--note-compaction": self.is_traced,
        }  # fmt: skip
        words += [flag for flag, is_set in flags.items() if is_set]
        if self.data is not None:
            words += ["--data", str(self.data)]
        for topic_filter in self.keep:
            words += ["--keep", topic_filter]
        for entry in self.roster:
            words += ["--roster", entry.text()]
        for log in self.logs:
            words += ["--log", msgspec.json.encode(log).decode()]
        if self.tls is not None:
            words += ["--tls", str(self.tls)]
        if self.rules is not None:
            words += ["--rules", str(self.rules)]
        if self.network_key is not None:
            words += ["--network-key", str(self.network_key)]
        if self.http is not None:
            words += ["--http", str(self.http)]
        if self.mqtt is not None:
            words += ["--mqtt", str(self.mqtt)]
        if self.incarnation is not None:
            words += ["--incarnation", str(self.incarnation)]
        for table, values in (("options", self.options), ("links", self.links), ("journal", self.journal)):
            for key, value in values.items():
                words += ["--set", f"{table}.{key}={msgspec.json.encode(value).decode()}"]
        for peer, us in self.delays_us.items():
            words += ["--delay", f"{peer}={us}us"]
        return [*words, "--json", "--stop-with-stdin"]


def environment() -> dict[str, str]:
    """The same package for the child as for this process, installed or not."""
    paths = [str(Path(resprout.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


class BrokerProcess(Child):
    """Start it, wait for it, stop it. Every signal goes to its pid and to nothing else.

    `on_note` hears what the broker has for a trace, `on_line` what it writes for people, `on_end` that it is gone.
    """

    def __init__(
        self,
        plan: BrokerPlan,
        *,
        on_note: Callable[["BrokerProcess", SaidNote], None] | None = None,
        on_line: Callable[["BrokerProcess", str], None] | None = None,
        on_end: Callable[["BrokerProcess"], None] | None = None,
    ) -> None:
        super().__init__(f"broker {plan.name}")
        self.plan = plan
        self.name = plan.name
        self._on_note = on_note
        self._on_line = on_line
        self._on_end = on_end
        self._announcement: Announcement | None = None
        self._life: asyncio.Task[int] | None = None

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        """Where to connect."""
        if self._announcement is None:
            raise ProcessError(f"broker {self.name} does not listen")
        return parse_address(self._announcement.address)

    @property
    def place(self) -> Address:
        """Where it listens, or will: one that is being started again comes back where it was."""
        return self.address if self._announcement is not None else self.plan.listen

    @property
    def incarnation(self) -> int:
        """Of its latest life."""
        if self._announcement is None:
            raise ProcessError(f"broker {self.name} does not listen")
        return self._announcement.incarnation

    @property
    def listening(self) -> bool:
        """It was started, has announced its address, and runs."""
        return self._announcement is not None and self.running

    # -- start and end -------------------------------------------------------------------------------------------------

    async def start(self, timeout_s: float = START_SECONDS_MAX, orders: Sequence[BrokerOrder] = ()) -> Address:
        """Returns when the broker listens; it obeys the orders before that. UsageError when it refuses what the plan
        says, ProcessError when it fails otherwise; then no process is left."""
        process = await self._spawn(self.plan.command())
        for order in orders:
            self.order(order)
        announced: asyncio.Future[Announcement] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(process, announced), name=f"broker {self.name}")
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait((announced, self._life), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.stop(0)
            raise ProcessError(f"broker {self.name} did not listen within {timeout_s:g} s") from None
        except BaseException:
            await self.stop(0)
            raise
        if not announced.done():
            raise self._refusal()
        return self.address

    async def wait(self) -> int:
        """Until it has ended; its status."""
        assert self._life is not None, "a broker process is started first"
        return await asyncio.shield(self._life)

    async def stop(self, grace_s: float = STOP_SECONDS_MAX) -> None:
        """Ask it to stop, wait, and kill it when it has not stopped by then. Nothing of it is left afterwards."""
        if self._life is None:
            return
        if grace_s > 0:
            self.end()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        await self.wait()

    # -- signals -------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let it say goodbye and go; wakes it for that when it is frozen. It hands over nothing."""
        self.deliberate = True
        process = self._started()
        assert process.stdin is not None
        process.stdin.close()
        if self.frozen:
            self.unfreeze()

    def leave(self) -> None:
        """Let it leave the network in good order; the process ends when it has."""
        self.deliberate = True
        self._signal(signal.SIGTERM)

    # -- orders --------------------------------------------------------------------------------------------------------

    def order(self, order: BrokerOrder) -> None:
        """A frozen one obeys when it wakes up."""
        if self.running:
            stdin = self._started().stdin
            assert stdin is not None
            with contextlib.suppress(OSError, RuntimeError):  # it is just ending, which `on_end` tells
                stdin.write(order_line(order))

    # -- listening to it -----------------------------------------------------------------------------------------------

    async def _live(self, process: asyncio.subprocess.Process, announced: "asyncio.Future[Announcement]") -> int:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        await asyncio.gather(self._hear_out(process.stdout, announced), self._hear_err(process.stderr))
        status = await process.wait()
        process.stdin.close()
        if self._on_end is not None:
            self._on_end(self)
        return status

    async def _hear_out(self, out: asyncio.StreamReader, announced: "asyncio.Future[Announcement]") -> None:
        async for line in lines_of(out):
            try:
                said = read_said(line)
            except PeerError as error:
                self._last_words.append(str(error))
                self._signal(signal.SIGKILL)
                continue
            if isinstance(said, Announcement):
                self._announcement = said
                if not announced.done():
                    announced.set_result(said)
            elif self._on_note is not None:
                self._on_note(self, said)

    def _said(self, text: str) -> None:
        if self._on_line is not None:
            self._on_line(self, text)

    def _refusal(self) -> ResproutError:
        if self.status == 2 and self._last_words:
            return UsageError(self._last_words[-1].removeprefix("resprout: "))
        return ProcessError(f"{self.epitaph} (before it listened)")
