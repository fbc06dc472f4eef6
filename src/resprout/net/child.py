"""A child process and what its parent may do to it: signals by its pid alone, and its last words kept."""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

from resprout.core.errors import ResproutError
from resprout.net.plan import environment

START_SECONDS_MAX: Final = 120.0
"""From the start of a process to its first word; a crowded machine takes a while to start many."""
STOP_SECONDS_MAX: Final = 5.0
"""From asking a process to stop to killing it."""
LINE_BYTES_MAX: Final = 1 << 20
LAST_WORDS_LINES: Final = 20


class ProcessError(ResproutError):
    """A process did not start, or ended when nobody asked it to."""


class Child:
    """Started once. `what` names it for people. The first process is its parent; see `lifeline` for what binds them."""

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
