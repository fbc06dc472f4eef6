"""The examples run and say what they promise."""

import subprocess
import sys
from pathlib import Path

from resprout.testing import Broker
from tests.patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_hello() -> None:
    assert run_example("hello.py") == [
        "alice on greetings/morning: hello, bob",
        "the receipt says: delivered",
    ]


def test_workers() -> None:
    first, *done = run_example("workers.py")
    assert first == "10 of 12 orders were large enough"
    assert [line.split(" by ")[0] for line in done] == sorted(f"item-{number}" for number in range(2, 12))
    assert len({line.split(" by ")[1] for line in done}) == 3


def test_blocking(resprout_broker: Broker) -> None:
    lines = run_example("blocking.py", resprout_broker.address)
    for till in range(2):
        sales = [line for line in lines if line.startswith(f"tills/{till}: ")]
        assert sales == [f"tills/{till}: sale {number}" for number in range(3)]


def test_blocking_without_a_broker() -> None:
    command = [sys.executable, str(EXAMPLES / "blocking.py"), "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (1, "no broker: 127.0.0.1:1: connection refused\n")


def test_work_queue() -> None:
    assert run_example("work_queue.py") == [
        "60 of 60 jobs are done",
        "the other workers did the unfinished jobs of the killed one",
    ]


def test_exactly_once() -> None:
    assert run_example("exactly_once.py") == ["80 orders were sent, 40 invoices came, 40 of them different"]


def test_chat() -> None:
    assert run_example("chat.py") == ["alice: shall we have lunch?", "bob: yes, at noon"]


def test_chat_from_a_terminal(resprout_broker: Broker) -> None:
    command = [sys.executable, str(EXAMPLES / "chat.py"), "dora", resprout_broker.address]
    done = subprocess.run(command, input="hello\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "dora: hello\n", "")


def test_ask() -> None:
    assert run_example("ask.py") == [
        "no client subscribes to market/offers",
        "2 bread: 8.4",
        "1 salt: 0.9",
        "1 gold: there is no gold",
    ]


def test_store() -> None:
    assert run_example("store.py") == [
        "the counter is 30 after 3 replicas raised it 10 times each",
        "the keys are ['counter']",
    ]
