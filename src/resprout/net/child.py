"""A child process and what its parent may do to it: signals by its pid alone, and its last words kept.

`BrokerPlan` is a broker to start in a process of its own, as the words of its command line.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

import resprout
from resprout.core.errors import ResproutError
from resprout.net.address import Address

START_SECONDS_MAX: Final = 120.0
"""From the start of a process to its first word; a crowded machine takes a while to start many."""
STOP_SECONDS_MAX: Final = 5.0
"""From asking a process to stop to killing it."""
LINE_BYTES_MAX: Final = 1 << 20
LAST_WORDS_LINES: Final = 20

LOOPBACK: Final = Address("127.0.0.1", 0)


class ProcessError(ResproutError):
    """A process did not start, or ended when nobody asked it to."""


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
    """It begins a network if its folder remembers none, and nobody that it knows answers."""
    forces: bool = False
    """It begins a network if nobody that it knows has a place in one, whatever its folder remembers."""
    http: Address | None = None
    """Where it serves its page and metrics; None: nowhere."""

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
        if self.founds:
            words.append("--found")
        if self.forces:
            words.append("--force-found")
        if self.data is not None:
            words += ["--data", str(self.data)]
        for topic_filter in self.keep:
            words += ["--keep", topic_filter]
        if self.tls is not None:
            words += ["--tls", str(self.tls)]
        if self.rules is not None:
            words += ["--rules", str(self.rules)]
        if self.network_key is not None:
            words += ["--network-key", str(self.network_key)]
        if self.insecure:
            words.append("--insecure")
        if self.http is not None:
            words += ["--http", str(self.http)]
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
