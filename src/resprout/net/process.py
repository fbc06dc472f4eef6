"""A broker in a process of its own, as its parent process sees it.

The child is `python -m resprout broker`. Its standard input is a pipe that the parent never writes to: when the parent
is gone, however it went, the pipe ends and the child stops. Its standard output announces the address (see `announce`);
what it writes to standard error is kept, as far as it explains a sudden end.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from resprout.core.errors import PeerError, ResproutError, UsageError
from resprout.net.address import Address, parse_address
from resprout.net.announce import Announcement, SaidNote, read_announcement, read_note
from resprout.net.plan import BrokerPlan, environment

START_SECONDS_MAX: Final = 30.0
"""From the start of a process to its announcement; a crowded machine takes a while to start many."""
STOP_SECONDS_MAX: Final = 5.0
"""From asking a process to stop to killing it."""
LINE_BYTES_MAX: Final = 1 << 20
LAST_WORDS_LINES: Final = 20


class ProcessError(ResproutError):
    """A broker process did not start, or ended when nobody asked it to."""


class BrokerProcess:
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
        self.plan = plan
        self.name = plan.name
        self.deliberate = False
        """Its end was asked for here."""
        self.frozen = False
        self._on_note = on_note
        self._on_line = on_line
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._announcement: Announcement | None = None
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS_LINES)
        self._life: asyncio.Task[int] | None = None

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def address(self) -> Address:
        """Where to connect."""
        if self._announcement is None:
            raise ProcessError(f"broker {self.name} does not listen")
        return parse_address(self._announcement.address)

    @property
    def incarnation(self) -> int:
        if self._announcement is None:
            raise ProcessError(f"broker {self.name} does not listen")
        return self._announcement.incarnation

    @property
    def listening(self) -> bool:
        """It was started, has announced its address, and runs."""
        return self._announcement is not None and self.running

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
            return f"broker {self.name} is running"
        how = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
        words = f": {self._last_words[-1]}" if self._last_words else ""
        return f"broker {self.name} (pid {self.pid}) {how}{words}"

    # -- start and end -------------------------------------------------------------------------------------------------

    async def start(self, timeout_s: float = START_SECONDS_MAX) -> Address:
        """Returns when the broker listens. UsageError when it refuses what the plan says, ProcessError when it fails
        otherwise; then no process is left."""
        assert self._process is None, "a broker process is started once"
        process = self._process = await self._spawn()
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
        self._announcement = announced.result()
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
            self.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        await self.wait()

    async def _spawn(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self.plan.command(), stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE_BYTES_MAX, env=environment()
            )
        except OSError as error:
            raise ProcessError(f"broker {self.name} cannot be started: {error.strerror or error}") from None

    # -- signals -------------------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """Let it say goodbye and go; wakes it for that when it is frozen."""
        self.deliberate = True
        self._signal(signal.SIGTERM)
        if self.frozen:
            self.unfreeze()

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

    def _signal(self, number: signal.Signals) -> None:
        process = self._started()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise ProcessError(f"broker {self.name} has not been started")
        return self._process

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
        async for line in _lines(out):
            try:
                if not announced.done():
                    announced.set_result(read_announcement(line))
                elif self._on_note is not None:
                    self._on_note(self, read_note(line))
            except PeerError as error:
                self._last_words.append(str(error))
                self._signal(signal.SIGKILL)

    async def _hear_err(self, err: asyncio.StreamReader) -> None:
        async for line in _lines(err):
            text = line.decode("utf-8", "replace").strip()
            self._last_words.append(text)
            if self._on_line is not None:
                self._on_line(self, text)

    def _refusal(self) -> ResproutError:
        if self.status == 2 and self._last_words:
            return UsageError(self._last_words[-1].removeprefix("resprout: "))
        return ProcessError(f"{self.epitaph} (before it listened)")


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
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
