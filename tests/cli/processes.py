"""The command as users run it: real processes on the loopback, each ended by its pid whatever happens."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.patience import PATIENCE_S

_COMMAND = [sys.executable, "-m", "resprout"]


def resprout(*words: str, stdin: bytes = b"", timeout: float = PATIENCE_S) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end."""
    return subprocess.run([*_COMMAND, *words], input=stdin, capture_output=True, timeout=timeout, check=False)


def complaint(*words: str, stdin: bytes = b"", status: int = 2) -> str:
    """What a command that must fail has to say: one line, and nothing on standard output."""
    done = resprout(*words, stdin=stdin)
    text = done.stderr.decode()
    assert done.returncode == status, text
    assert text.endswith("\n") and text.count("\n") == 1, text
    assert done.stdout == b""
    return text.removeprefix("resprout: ").rstrip("\n")


class Running(msgspec.Struct):
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line of standard output."""
        return _line(self.process.stdout)

    def error_line(self) -> str:
        return _line(self.process.stderr)

    def rest(self) -> tuple[bytes, bytes]:
        """What it writes until it ends."""
        return self.process.communicate(timeout=PATIENCE_S)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def ctrl_c(ends: bool = True) -> Iterator[None]:
    """Processes that are started here can be ended with Ctrl-C, or cannot, as one that a script put in the background.
    They inherit it: without this it would depend on how the tests themselves were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler if ends else signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def running(*words: str, ctrl_c_ends: bool = True) -> Iterator[Running]:
    """A command in the background."""
    pipe = subprocess.PIPE
    with ctrl_c(ctrl_c_ends):
        started = subprocess.Popen([*_COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    with started as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def announced(process: Running) -> dict[str, Any]:
    """What a broker says when it listens. A broker that remembers its network may note other things before."""
    while (said := json.loads(process.line()))["said"] != "listening":
        pass
    found: dict[str, Any] = said
    return found


@contextlib.contextmanager
def broker(name: str, *words: str, listen: str = "127.0.0.1:0") -> Iterator[tuple[Running, str]]:
    """A broker and its address."""
    with running("broker", "--name", name, "--listen", listen, "--json", *words) as process:
        yield process, announced(process)["address"]


def until_note(process: Running, kind: str) -> str:
    """A broker has noted something of this kind; its detail."""
    while (said := json.loads(process.line())).get("kind") != kind:
        pass
    return str(said["columns"].get("detail", ""))


@contextlib.contextmanager
def subscriber(address: str, filter: str, *words: str) -> Iterator[Running]:
    """A subscriber whose subscription is confirmed, and which leaves in good order: what is left behind by one that is
    killed waits for its return."""
    with running("sub", filter, "--server", address, "--verbose", *words) as process:
        said = process.error_line()
        assert said.startswith("subscribed to "), said
        yield process
        process.process.send_signal(signal.SIGCONT)
        process.end(signal.SIGTERM)


def eventually_gone(pid: int) -> bool:
    """Whether a process that is no child of this one ends before patience does."""
    return eventually(lambda: not _is_alive(pid))


def eventually_stopped(pid: int) -> bool:
    """Whether a process that was sent SIGSTOP stops, which takes a moment on a crowded machine."""
    return eventually(lambda: _state(pid) == "T")


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether a condition holds before patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return _state(pid) != "Z"  # an orphan that nobody buries is gone all the same


def _state(pid: int) -> str:
    """One letter, as `ps` shows it."""
    status = Path(f"/proc/{pid}/stat")
    return status.read_text().rpartition(")")[2].split()[0] if status.exists() else ""


def _line(stream: object) -> str:
    """One line of an unbuffered pipe, without waiting for ever."""
    assert stream is not None
    descriptor = stream.fileno()  # type: ignore[attr-defined]
    line = b""
    deadline = time.monotonic() + PATIENCE_S
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no line came, only {line!r}"
        letter = os.read(descriptor, 1)
        if not letter:
            break
        line += letter
    return line.decode().rstrip("\n")
