"""A server of somebody else: started with a port of the loopback, stopped by its pid."""

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from resprout.cli.load.team import LoadError

START_SECONDS_MAX: Final = 20.0
STOP_SECONDS_MAX: Final = 5.0
LOOK_INTERVAL_S: Final = 0.02


def free_port() -> int:
    """One that is free together with the one after it."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise LoadError("no two neighbouring ports are free")


class Server:
    """`folder` is for its files alone; what it has to say goes there, too."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._name = name
        self._command = command
        self._folder = folder
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "a server is started first"
        return self._process.pid

    async def start(self, port: int) -> None:
        """Returns when somebody listens at the port. LoadError when nobody does in time."""
        log = self._folder / "log"
        with log.open("wb") as out:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the parent
            )
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                while not await _listens(port):
                    if self._process.returncode is not None:
                        last = log.read_text(errors="replace").strip().rpartition("\n")[2]
                        raise LoadError(f"{self._name} ended with status {self._process.returncode}: {last}")
                    await asyncio.sleep(LOOK_INTERVAL_S)
        except TimeoutError:
            raise LoadError(f"{self._name} did not listen within {START_SECONDS_MAX:g} s") from None

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
