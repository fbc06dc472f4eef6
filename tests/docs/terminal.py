"""Run the commands of a page as a reader would: in one shell, in one folder, with the files that the page prints.

A block of code whose first line is a comment with a path (`# worker.py`) is a file. In a block of `console` each line
that begins with `$` is a command; the lines that follow it are output, in which `...` stands for anything. Output is
awaited, so that a command in the background (`&`) is ready before the next one runs. A command must succeed, unless
`echo $?` follows. Ports of the page, also default ones, are replaced by free ones. `pip install` of this package is
left out; another package is installed into the folder `lib`. `resprout` runs through the fork server of the tests
(`tests/docs/shell_commands.py`), unless `RESPROUT_EXEC` is set.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.docs.shell_commands import ShellCommands
from tests.fork_server import ForkingPopen
from tests.patience import PATIENCE_S

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PORT: Final = re.compile(r"\b(?:745|845|188)\d\b")
_PLACES: Final = {"7": 0, "8": 10, "1": 20}
"""Where the ports of a page go among the free ones, by their first digit."""
_FILE: Final = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


class Terminal:
    def __init__(self, folder: Path, run_program: Callable[[Path], object] | None = None) -> None:
        """`run_program`: runs `python FILE` here instead of in a process of its own."""
        self.folder = folder
        self.output = folder / ".output"
        self.output.touch()
        self._statuses = folder / ".statuses"
        self._statuses.touch()
        self._ports = _free_ports()
        self._run_program = run_program
        self._commands = 0
        settings = folder / ".settings.toml"
        settings.touch()
        programs = folder / ".bin"
        programs.mkdir()
        execute = f'exec {sys.executable} -m resprout "$@"\n'
        self._commands_here = ShellCommands() if subprocess.Popen is ForkingPopen else None
        if self._commands_here is not None:
            execute = self._commands_here.script(execute)
        for name, script in (("resprout", execute), ("python", f'exec {sys.executable} "$@"\n')):
            (programs / name).write_text(f"#!/bin/sh\n{script}")
            (programs / name).chmod(0o755)
        paths = [str(folder / "lib"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": ":".join(filter(None, paths)),
            "LIB": str(folder / "lib"), "PYTHONUNBUFFERED": "1",
            "RESPROUT_CONFIG": str(settings), "RESPROUT_SERVER": f"localhost:{self._ports}",
        }  # fmt: skip
        with self.output.open("ab") as out:
            self.shell = subprocess.Popen(
                ["bash"], stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=folder, env=environment, text=True,
                start_new_session=True, bufsize=1,
            )  # fmt: skip

    def page(self, path: Path) -> int:
        """Do what the page says; return the number of commands."""
        for language, text in _BLOCK.findall(path.read_text()):
            text = _PORT.sub(lambda port: str(self._ports + int(port[0]) % 10 + _PLACES[port[0][0]]), text)
            if language == "console":
                self._console(text)
            elif (name := _FILE.match(text)) is not None:
                file = self.folder / name[1]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            else:
                raise AssertionError(f"{path.name}: a block of {language} that nothing runs: {text}")
        return self._commands

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        if self.shell.stdin is not None:
            self.shell.stdin.close()
        if self._commands_here is not None:
            self._commands_here.close()

    def _console(self, text: str) -> None:
        commands = [part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part.strip()]
        for number, (command, _, expected) in enumerate(commands):
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = f"{command[:-1]}{more}"
            begin = self.output.stat().st_size
            status = self._run(command)
            asks_next = number + 1 < len(commands) and commands[number + 1][0] == "echo $?"
            assert status == 0 or asks_next, f"{command}: status {status}\n{self._said(begin)}"
            for line in filter(None, expected.splitlines()):
                self._await(line, begin, command)

    def _run(self, command: str) -> int:
        self._commands += 1
        if (program := re.fullmatch(r"python (\w+\.py)", command)) is not None and self._run_program is not None:
            with self.output.open("a") as out, contextlib.redirect_stdout(out):
                self._run_program(self.folder / program[1])
            return 0
        if command.startswith("pip install"):
            if (package := re.fullmatch(r"pip install (\./\w+)", command)) is None:
                return 0
            options = "--quiet --no-deps --no-build-isolation --disable-pip-version-check --target lib"
            command = f"python -m pip install {options} {package[1]}"
        if command.startswith("resprout broker") and "--listen" not in command and "--config" not in command:
            command = command.replace("resprout broker", f"resprout broker --listen localhost:{self._ports}")
        elif (verb := re.match(r"resprout (up|freeze|resume|crash|restart)\b", command)) is not None:
            command = command.replace(verb[0], f"{verb[0]} --port {self._ports}")
        assert self.shell.stdin is not None
        marks = self._statuses.stat().st_size
        self.shell.stdin.write(f"{{\n{command}\n}} </dev/null\n_s=$?; echo $_s >> .statuses; (exit $_s)\n")
        deadline = time.monotonic() + PATIENCE_S
        while not (said := self._statuses.read_text()[marks:]).endswith("\n"):
            assert time.monotonic() < deadline, f"{command} does not end:\n{self._said(0)}"
            assert self.shell.poll() is None
            time.sleep(0.02)
        return int(said)

    def _await(self, line: str, begin: int, command: str) -> None:
        pattern = re.compile("^" + ".*".join(map(re.escape, line.split("..."))) + "$", re.MULTILINE)
        deadline = time.monotonic() + PATIENCE_S
        while pattern.search(self._said(begin)) is None:
            assert time.monotonic() < deadline, f"{command}: no line {line!r} in\n{self._said(begin)}"
            time.sleep(0.02)

    def _said(self, begin: int) -> str:
        return self.output.read_bytes()[begin:].decode()


@contextlib.contextmanager
def terminal(folder: Path, run_program: Callable[[Path], object] | None = None) -> Iterator[Terminal]:
    opened = Terminal(folder, run_program)
    try:
        yield opened
    finally:
        opened.end()


def _free_ports() -> int:
    """Return the first of 30 ports in a row that are free now."""
    for first in random.sample(range(20_000, 32_000, 30), 100):
        with contextlib.ExitStack() as sockets, contextlib.suppress(OSError):
            for port in range(first, first + 30):
                sockets.enter_context(socket.socket()).bind(("", port))
            return first
    raise AssertionError("no 30 free ports in a row")
