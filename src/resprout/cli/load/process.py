"""One worker as its parent sees it: a process, a line to it, a line from it."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

import resprout
from resprout.cli.load.orders import Failed, LoadOrder, LoadReady, Reply, as_line, read_reply
from resprout.core.errors import ResproutError

START_SECONDS_MAX: Final = 90.0
"""Many clients in one process take their time to connect."""
STOP_SECONDS_MAX: Final = 5.0
LINE_BYTES_MAX: Final = 16 << 20
"""The latencies of a long paced stream are one line."""

R = TypeVar("R", bound=msgspec.Struct)


class LoadError(ResproutError):
    """A load could not be put on the network, or did not arrive whole."""


class LoadProcess:
    """`name` is what it is called in complaints."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._command = command
        self._environment = environment if environment is not None else package_environment()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it is connected."""
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                limit=LINE_BYTES_MAX,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the parent, which stops its workers itself
            )
        except OSError as error:
            raise LoadError(f"{self.name} cannot be started: {error.strerror or error}") from None
        await self.answer(LoadReady, START_SECONDS_MAX)

    async def ask(self, order: LoadOrder, kind: type[R], patience_s: float) -> R:
        await self.tell(order)
        return await self.answer(kind, patience_s)

    async def tell(self, order: LoadOrder) -> None:
        stdin = self._started().stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # that it is gone shows when it does not answer
            stdin.write(as_line(order))
            await stdin.drain()

    async def answer(self, kind: type[R], patience_s: float) -> R:
        """Its next answer; LoadError when that is not of the kind, or does not come."""
        stdout = self._started().stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(patience_s):
                line = await stdout.readline()
        except TimeoutError:
            raise LoadError(f"{self.name} has not answered for {patience_s:g} s") from None
        reply = self._read(line)
        if isinstance(reply, Failed):
            raise LoadError(f"{self.name}: {reply.reason}")
        if not isinstance(reply, kind):
            raise LoadError(f"{self.name} answered {type(reply).__name__} where {kind.__name__} was due")
        return reply

    async def stop(self) -> None:
        """Nothing of it is left afterwards."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        if process.returncode is None:
            process.kill()
            await process.wait()

    def _read(self, line: bytes) -> Reply:
        if not line:
            raise LoadError(f"{self.name} ended before it had answered")
        try:
            return read_reply(line)
        except msgspec.MsgspecError:
            raise LoadError(f"{self.name} said {line[:80]!r}, which is no answer") from None

    def _started(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "a worker is started first"
        return self._process


def package_environment() -> dict[str, str]:
    """The same package for the child as for this process, installed or not."""
    paths = [str(Path(resprout.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
