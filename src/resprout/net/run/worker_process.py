"""A process with clients, as the coordinator sees it."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from resprout.core.errors import PeerError
from resprout.net.child import START_SECONDS_MAX, STOP_SECONDS_MAX, Child, ProcessError, lines_of
from resprout.net.run.orders import (
    Assignment,
    ClientsProgress,
    ClientTold,
    Finish,
    Ready,
    WorkerOrder,
    as_line,
    read_report,
)
from resprout.net.run.row_file import RowReader, read_rows
from resprout.trace.schema import Row


class WorkerProcess(Child):
    """Started once. Its rows are in a file without a name, so nothing of it is left when this process is gone.

    `on_end` is told when it ends; `deliberate` says whether that was asked for here. `on_row` hears at once what people
    may want to know; all rows are in the file.
    """

    def __init__(
        self,
        clients: Mapping[str, int],
        on_end: Callable[["WorkerProcess"], None],
        on_row: Callable[[Row], None] = lambda row: None,
    ) -> None:
        super().__init__(f"the process of {', '.join(clients)}")
        self.clients = dict(clients)
        """By name, the number of its life."""
        self.progress = ClientsProgress()
        """As last reported."""
        self._on_end = on_end
        self._on_row = on_row
        self._rows = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this object is
        self._reader = RowReader(self._rows.fileno())
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None

    def rows(self) -> list[Row]:
        """Those it has saved."""
        return read_rows(self._rows.fileno())

    def new_rows(self) -> list[Row]:
        """Those it has saved since the last time they were asked for here."""
        return self._reader.read_new()

    def forget_rows(self) -> None:
        self._rows.close()

    # -- start and end -----------------------------------------------------------------------------------------------

    async def start(self, scenario: str, links: Mapping[str, int], tls: Path | None = None) -> None:
        """Returns when it is ready to go. ProcessError when it fails; then no process is left."""
        descriptor = self._rows.fileno()
        command = (sys.executable, "-P", "-m", "resprout.net.run.worker")
        process = await self._spawn(command, (descriptor,))
        self._life = asyncio.create_task(self._live(process))
        self.order(Assignment(scenario, self.clients, descriptor, dict(links), str(tls or "")))
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await asyncio.wait((self._ready, self._life), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.stop(0)
            raise ProcessError(f"{self.what} was not ready in time") from None
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

    def order(self, order: WorkerOrder) -> None:
        stdin = self._started().stdin
        assert stdin is not None
        if self.running:
            with contextlib.suppress(OSError, RuntimeError):  # it is just ending, which `on_end` tells
                stdin.write(as_line(order))

    # -- listening to it ---------------------------------------------------------------------------------------------

    async def _live(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        await asyncio.gather(self._hear_out(process.stdout), self._hear_err(process.stderr))
        await process.wait()
        process.stdin.close()
        self._on_end(self)

    async def _hear_out(self, out: asyncio.StreamReader) -> None:
        async for line in lines_of(out):
            try:
                report = read_report(line)
            except PeerError as error:
                self._last_words.append(str(error))
                self._signal(signal.SIGKILL)
                return
            match report:
                case ClientsProgress():
                    self.progress = report
                case ClientTold():
                    self._on_row(report.row)
                case Ready() if not self._ready.done():
                    self._ready.set_result(None)
