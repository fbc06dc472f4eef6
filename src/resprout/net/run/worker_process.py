"""A process with clients, as the coordinator sees it."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from resprout.core.errors import PeerError
from resprout.net.plan import environment
from resprout.net.process import START_SECONDS_MAX, STOP_SECONDS_MAX, ProcessError
from resprout.net.run.orders import (
    LINE_BYTES_MAX,
    Assignment,
    Finish,
    Order,
    Progress,
    Ready,
    as_line,
    read_report,
)
from resprout.net.run.row_file import read_rows
from resprout.trace.schema import Row

_LAST_WORDS_LINES: Final = 20


class WorkerProcess:
    """Started once. Its rows are in a file without a name, so nothing of it is left when this process is gone.

    `on_end` is told when it ends; `deliberate` says whether that was asked for here.
    """

    def __init__(self, clients: Mapping[str, int], on_end: Callable[["WorkerProcess"], None]) -> None:
        self.clients = dict(clients)
        """By name, the number of its life."""
        self.progress = Progress()
        """As last reported."""
        self.deliberate = False
        self.frozen = False
        self._on_end = on_end
        self._rows = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this object is
        self._process: asyncio.subprocess.Process | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None
        self._last_words: deque[str] = deque(maxlen=_LAST_WORDS_LINES)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "a worker is started first"
        return self._process.pid

    @property
    def epitaph(self) -> str:
        names = ", ".join(self.clients)
        status = self._process.returncode if self._process is not None else None
        how = f"was killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        words = f": {self._last_words[-1]}" if self._last_words else ""
        return f"the process of {names} {how}{words}"

    def rows(self) -> list[Row]:
        """Those it has saved."""
        return read_rows(self._rows.fileno())

    def forget_rows(self) -> None:
        self._rows.close()

    # -- start and end -----------------------------------------------------------------------------------------------

    async def start(self, scenario: str, links: Mapping[str, int]) -> None:
        """Returns when it is ready to go. ProcessError when it fails; then no process is left."""
        descriptor = self._rows.fileno()
        pipe = asyncio.subprocess.PIPE
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "resprout.net.run.worker", stdin=pipe, stdout=pipe, stderr=pipe,
                limit=LINE_BYTES_MAX, pass_fds=(descriptor,), env=environment(),
            )  # fmt: skip
        except OSError as error:
            raise ProcessError(f"a process for clients cannot be started: {error.strerror or error}") from None
        self._life = asyncio.create_task(self._live(process))
        self.order(Assignment(scenario, self.clients, descriptor, dict(links)))
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await asyncio.wait((self._ready, self._life), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.stop(0)
            raise ProcessError(f"the process of {', '.join(self.clients)} was not ready in time") from None
        except BaseException:
            await self.stop(0)
            raise
        if not self._ready.done():
            raise ProcessError(self.epitaph)

    async def stop(self, grace_s: float = STOP_SECONDS_MAX) -> None:
        """Let it end its sessions, and kill it when it has not ended by then. A frozen one is killed at once: woken, it
        would still act, after the run."""
        if self._life is None:
            return
        self.deliberate = True
        if grace_s > 0 and self.running and not self.frozen:
            self.order(Finish())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        await self.wait()

    async def wait(self) -> None:
        """Until it has ended."""
        assert self._life is not None, "a worker is started first"
        await asyncio.shield(self._life)

    # -- orders and signals ------------------------------------------------------------------------------------------

    def order(self, order: Order) -> None:
        assert self._process is not None and self._process.stdin is not None, "a worker is started first"
        if self.running:
            with contextlib.suppress(OSError, RuntimeError):  # it is just ending, which `on_end` tells
                self._process.stdin.write(as_line(order))

    def kill(self) -> None:
        self.deliberate = True
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        self.frozen = True
        self._signal(signal.SIGSTOP)

    def unfreeze(self) -> None:
        self.frozen = False
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    # -- listening to it ---------------------------------------------------------------------------------------------

    async def _live(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        await asyncio.gather(self._hear_out(process.stdout), self._hear_err(process.stderr))
        await process.wait()
        process.stdin.close()
        self._on_end(self)

    async def _hear_out(self, out: asyncio.StreamReader) -> None:
        async for line in _lines(out):
            try:
                report = read_report(line)
            except PeerError as error:
                self._last_words.append(str(error))
                self._signal(signal.SIGKILL)
                return
            if isinstance(report, Progress):
                self.progress = report
            elif isinstance(report, Ready) and not self._ready.done():
                self._ready.set_result(None)

    async def _hear_err(self, err: asyncio.StreamReader) -> None:
        async for line in _lines(err):
            self._last_words.append(line.decode("utf-8", "replace").strip())


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than `LINE_BYTES_MAX`
            continue
        if not line:
            return
        yield line
