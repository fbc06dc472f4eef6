"""`resprout forget`, and a publisher that is told what it waits for: real brokers, one of them stopped."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.cli.processes import Running, broker, complaint, eventually_stopped, resprout, until_note
from tests.patience import PATIENCE_S

QUICK = (
    "--set", "lease_us=1000000", "--set", "heartbeat_us=100000",
    "--set", "links.heartbeat_us=100000", "--set", "links.silence_us=500000",
)  # fmt: skip


@contextlib.contextmanager
def two_brokers(*options: str) -> Iterator[tuple[str, Running]]:
    """The address of the child, and the root, which it cannot replace by itself."""
    with broker("b0", *options) as (root, above), broker("b1", "--parent", above, *options) as (child, address):
        until_note(child, "joined")
        assert resprout("pub", "t", "first", "--server", above).returncode == 0  # by now both are on the root's list
        yield address, root


@pytest.fixture
def pair() -> Iterator[tuple[str, Running]]:
    with two_brokers() as both:
        yield both


@pytest.fixture
def quick_pair() -> Iterator[tuple[str, Running]]:
    """One that stops is soon missed. So is one that the machine lets wait: only for tests that stop one."""
    with two_brokers(*QUICK) as both:
        yield both


def stop(process: Running) -> None:
    """It is there and says nothing, like a host whose cable was pulled."""
    process.process.send_signal(signal.SIGSTOP)
    assert eventually_stopped(process.pid)


class Terminal:
    """A command whose standard error is a terminal."""

    def __init__(self, *words: str) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "resprout", *words]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        self.text = ""

    def read_until(self, wanted: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in self.text:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, self.text
            self.text += os.read(self._master, 4096).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_a_publisher_is_told_what_its_total_waits_for_and_goes_on_when_that_is_forgotten(
    quick_pair: tuple[str, Running],
) -> None:
    child, root = quick_pair
    stop(root)
    publisher = Terminal("pub", "t", "x", "--guarantee", "total", "--wait", "delivered", "--server", child)
    try:
        publisher.read_until(": waits for b0, which is not heard")
        done = resprout("forget", "b0", "--server", child)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"b0 is forgotten\n", b"")
        assert publisher.process.wait(PATIENCE_S) == 0
    finally:
        publisher.close()
    assert "publisher " in publisher.text and " is held since " in publisher.text
    done = resprout("forget", "b0", "--server", child, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"names": ["b0"]})


def test_off_the_terminal_the_reason_comes_while_it_waits_and_with_the_failure(
    quick_pair: tuple[str, Running],
) -> None:
    child, root = quick_pair
    stop(root)
    words = ("--name", "feed", "--guarantee", "total", "--wait", "delivered", "--timeout", "8")
    done = resprout("pub", "t", "x", *words, "--server", child)
    *held, failure = done.stderr.decode().splitlines()
    assert done.returncode == 1 and done.stdout == b""
    assert failure.startswith("resprout: not delivered within 8 s, only published: it waits ")
    assert held and all(line.startswith("publisher feed is held since ") for line in held)


def test_a_broker_that_refuses_says_why_in_one_line(pair: tuple[str, Running]) -> None:
    child, _ = pair
    alive = complaint("forget", "b0", "--server", child, status=1)
    assert alive == "b0 is alive here: stop it first, or forget it by force"
    assert complaint("forget", "b1", "--server", child, status=1).startswith("b1 cannot forget itself")
    assert complaint("forget", "b0", "b9", "--server", child, status=1).startswith("b9: not known to b1")


def test_by_force_even_a_root_that_is_alive_is_forgotten_and_joins_as_a_new_broker(pair: tuple[str, Running]) -> None:
    child, root = pair
    done = resprout("forget", "b0", "--force", "--server", child)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"b0 is forgotten\n", b"")
    notes = [json.loads(root.line())]
    while notes[-1].get("kind") != "joined":
        notes.append(json.loads(root.line()))
    assert "fenced" in [note.get("kind") for note in notes]
    assert notes[-1]["columns"] == {"detail": "b1"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "which brokers are to be forgotten? Give at least one name"),
        (("b 1",), "broker name 'b 1' is refused"),
        (("b1", "--forcibly"), "No such option"),
    ],
)
def test_wrong_input_is_one_line(words: tuple[str, ...], reason: str) -> None:
    assert reason in complaint("forget", *words)


def test_a_network_that_cannot_be_reached_is_told_apart_from_wrong_input() -> None:
    assert "cannot connect to localhost:1" in complaint("forget", "b1", "--server", "localhost:1", status=3)
