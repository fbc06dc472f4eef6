"""Other people's brokers in a row, as `Brokers` of a team; where they are limited, they are told to drop nothing."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.net.environment import BENCH_PYTHON, worker_environment
from benchmarks.net.server import Server, free_port

Command = Callable[[Path, int, int | None], list[str]]
"""From a folder for its files, its port and the port of the server before it: what starts a server."""


class Row:
    """Servers in a row, each connected to the one before it."""

    def __init__(self, name: str, command: Command, length: int) -> None:
        self.first = self.last = ""
        self.pids: Sequence[int] = ()
        self._name = name
        self._command = command
        self._length = length
        self._servers: list[Server] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="resprout-bench-")
        environment: Mapping[str, str] = worker_environment()
        before: int | None = None
        for at in range(self._length):
            folder = Path(self._folder.name) / str(at)
            folder.mkdir()
            port = free_port()
            server = Server(self._name, self._command(folder, port, before), folder, environment)
            self._servers.append(server)
            await server.start(port)
            self.first, self.last, before = self.first or str(port), str(port), port
        self.pids = [server.pid for server in self._servers]

    async def stop(self) -> None:
        for server in reversed(self._servers):
            await server.stop()
        if self._folder is not None:
            self._folder.cleanup()


def python_server(module: str) -> Command:
    """One of `benchmarks.net.servers`."""

    def command(folder: Path, port: int, before: int | None) -> list[str]:
        words = [str(BENCH_PYTHON), "-m", f"benchmarks.net.servers.{module}", str(port)]
        return words if before is None else [*words, str(before)]

    return command


def mosquitto(program: str) -> Command:
    def command(folder: Path, port: int, before: int | None) -> list[str]:
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            "persistence false",
            "log_dest none",
            "user root",  # as root it would otherwise become somebody who may not read this file
            "max_queued_messages 0",
            "set_tcp_nodelay true",
        ]
        if before is not None:
            lines += ["connection before", f"address 127.0.0.1:{before}", "topic # in 0", "cleansession true"]
        settings = folder / "mosquitto.conf"
        settings.write_text("\n".join(lines) + "\n")
        return [program, "-c", str(settings)]

    return command


def nats(program: str) -> Command:
    """Chained as leaf nodes; the port after a server's own is for the next one in the row."""

    def command(folder: Path, port: int, before: int | None) -> list[str]:
        lines = [
            "host: 127.0.0.1",
            f"port: {port}",
            f"server_name: n{port}",
            "max_pending: 1GB",
            f'jetstream {{ store_dir: "{folder}", domain: "d{port}" }}',
            f"leafnodes {{ host: 127.0.0.1, port: {port + 1}",
        ]
        if before is not None:
            lines.append(f'remotes: [ {{ url: "nats-leaf://127.0.0.1:{before + 1}" }} ]')
        settings = folder / "nats.conf"
        settings.write_text("\n".join([*lines, "}"]) + "\n")
        return [program, "-c", str(settings)]

    return command


def redis(program: str, flush: str | None = None) -> Command:
    """`flush`: it keeps what it is told on its disk, and when that is brought there; None: it keeps nothing."""
    kept = ["--appendonly", "no"] if flush is None else ["--appendonly", "yes", "--appendfsync", flush]

    def command(folder: Path, port: int, before: int | None) -> list[str]:
        words = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
        return [*words, "--save", "", *kept, "--client-output-buffer-limit", "pubsub 0 0 0"]

    return command
