"""Commands that run through the fork server end, and are ended, like executed ones."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import eventually
from tests.docs.shell_commands import ShellCommands
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux")


class Shell:
    def __init__(self, folder: Path) -> None:
        self.commands = ShellCommands()
        self.script = folder / "command"
        self.script.write_text("#!/bin/sh\n" + self.commands.script("exit 99\n"))
        self.script.chmod(0o755)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([self.script, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    @contextlib.contextmanager
    def broker(self) -> "Iterator[tuple[subprocess.Popen[str], subprocess.Popen[bytes]]]":
        """The client of a broker that listens, and the broker."""
        words = [str(self.script), "broker", "--name", "b0", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as client:
            try:
                assert client.stdout is not None and client.stdout.readline().startswith("b0 listens on")
                assert eventually(lambda: bool(self.commands.started)), "the broker may speak before it is listed"
                yield client, self.commands.started[-1]
            finally:
                client.kill()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.commands.close()


def test_it_writes_and_ends_as_an_executed_command(shell: Shell) -> None:
    done = shell.run("--version")
    assert done.returncode == 0 and done.stdout.startswith("resprout ")
    done = shell.run("pub", "t", "x", "--server", "127.0.0.1:1")
    assert done.returncode == 3 and done.stdout == "" and "connection refused" in done.stderr


@pytest.fixture
def heard_signals() -> Iterator[None]:
    """Tests that run in the background ignore SIGINT, and so do their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_it(shell: Shell, number: int) -> None:
    with shell.broker() as (client, broker):
        client.send_signal(number)
        status = client.wait(PATIENCE_S)
        assert broker.wait(PATIENCE_S) == status


def test_when_its_client_is_killed_it_is_killed(shell: Shell) -> None:
    with shell.broker() as (client, broker):
        client.kill()
        assert eventually(lambda: broker.returncode == -signal.SIGKILL)


def test_when_it_is_killed_its_client_ends_by_the_same_signal(shell: Shell) -> None:
    with shell.broker() as (client, broker):
        os.kill(broker.pid, signal.SIGKILL)
        assert client.wait(PATIENCE_S) == -signal.SIGKILL


def test_where_a_package_is_installed_the_command_is_executed(shell: Shell, tmp_path: Path) -> None:
    done = subprocess.run([shell.script, "--version"], env={**os.environ, "LIB": str(tmp_path)}, check=False)
    assert done.returncode == 99
