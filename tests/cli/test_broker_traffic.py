"""`resprout pub` and `resprout sub` through real brokers."""

import base64
import json
import re
import signal
from collections.abc import Iterator

import pytest

from tests.cli.processes import broker, resprout, running, subscriber
from tests.patience import PATIENCE_S

LINES = 20_000


@pytest.fixture(scope="module")
def chain() -> Iterator[tuple[str, str]]:
    """Three brokers in a row; the addresses of the two ends."""
    with (
        broker("b0") as (_, root),
        broker("b1", "--parent", root) as (_, middle),
        broker("b2", "--parent", middle) as (_, leaf),
    ):
        yield root, leaf


def test_twenty_thousand_lines_pass_three_brokers_complete_and_in_order(chain: tuple[str, str]) -> None:
    root, leaf = chain
    lines = [f"line {number}".encode() for number in range(LINES)]
    with subscriber(root, "long/#", "--count", str(LINES), "--raw") as client:
        done = resprout("pub", "long/lines", "-", "--server", leaf, stdin=b"\n".join(lines), timeout=PATIENCE_S)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        out, err = client.rest()
    assert out.split(b"\n")[:-1] == lines
    assert (client.process.returncode, err) == (0, b"")


def test_a_message_is_printed_with_its_topic_on_one_safe_line(chain: tuple[str, str]) -> None:
    root, leaf = chain
    with subscriber(root, "show/+", "--count", "4") as client:
        for payload in (b"it rains", b"two\nlines\x1b[2J", b"\xff\x01", "não".encode()):
            assert resprout("pub", "show/x", "-", "--server", leaf, stdin=payload.replace(b"\n", b"\r")).returncode == 0
        out, _ = client.rest()
    assert out.decode().splitlines() == [
        "show/x it rains", r"show/x two\rlines\x1b[2J", "show/x (hex) ff01", "show/x não",
    ]  # fmt: skip


def test_json_tells_all_that_is_known(chain: tuple[str, str]) -> None:
    root, leaf = chain
    with subscriber(leaf, "json/x", "--count", "2", "--json") as client:
        words = ("--attr", "amount=120", "--attr", "rate=0.5", "--attr", "urgent=true", "--attr", "code='007'")
        more = ("--key", "acc-7", "--key", "acc-1", "--guarantee", "fifo", "--name", "teller-1", "--json")
        done = resprout("pub", "json/x", "deposit", "--server", root, *words, *more)
        published = json.loads(done.stdout)
        assert resprout("pub", "json/x", "-", "--server", root, stdin=b"\xff\n").returncode == 0
        first, second = (json.loads(line) for line in client.rest()[0].splitlines())
    assert published == {
        "topic": "json/x", "publisher": "teller-1", "guarantee": "fifo", "count": 1,
        "first": 1, "last": 1, "receipt": "accepted", "first_id": first["id"], "last_id": first["id"],
    }  # fmt: skip
    del first["epoch"]
    assert first.pop("id").startswith("teller-1.")
    assert first == {
        "topic": "json/x", "payload": "deposit", "publisher": "teller-1", "seq": 1, "guarantee": "fifo",
        "keys": ["acc-1", "acc-7"], "position": 0,
        "attributes": {"amount": 120, "rate": 0.5, "urgent": True, "code": "007"},
    }  # fmt: skip
    assert base64.b64decode(second["payload_base64"]) == b"\xff"
    assert "payload" not in second


def test_a_condition_selects_by_attributes(chain: tuple[str, str]) -> None:
    root, leaf = chain
    with subscriber(root, "bank/+", "--where", "amount > 100", "--count", "1") as client:
        for amount in (50, 150):
            done = resprout("pub", "bank/pt", f"{amount}", "--attr", f"amount={amount}", "--server", leaf)
            assert done.returncode == 0
        assert client.rest()[0] == b"bank/pt 150\n"


@pytest.mark.parametrize("wait", ["accepted", "safe", "delivered"])
def test_every_receipt_can_be_waited_for(chain: tuple[str, str], wait: str) -> None:
    root, leaf = chain
    with subscriber(root, "wait/+"):
        done = resprout("pub", "wait/x", "x", "--wait", wait, "--server", leaf, "--verbose", "--timeout", "30")
    assert done.returncode == 0
    assert re.fullmatch(rf"1 published on wait/x, {wait}: client-\w+\.\d+/ordered:1\n", done.stderr.decode())


def test_a_receipt_that_does_not_come_in_time_is_a_failure() -> None:
    patient = ("--set", "links.silence_us=600000000")  # the reader is not given up while the publisher starts
    with broker("b0", *patient) as (_, address), subscriber(address, "late/x") as client:
        client.process.send_signal(signal.SIGSTOP)
        done = resprout("pub", "late/x", "x", "--wait", "delivered", "--server", address, "--timeout", "0.5")
    assert done.returncode == 1
    assert b"not delivered within 0.5 s, only" in done.stderr


def test_no_lines_at_all_are_published_without_complaint(chain: tuple[str, str]) -> None:
    done = resprout("pub", "none/x", "-", "--server", chain[0], "--json")
    assert (done.returncode, json.loads(done.stdout)["count"]) == (0, 0)


def test_lines_leave_as_they_come(chain: tuple[str, str]) -> None:
    root, leaf = chain
    with subscriber(root, "slow/x") as client, running("pub", "slow/x", "-", "--server", leaf) as publisher:
        assert publisher.process.stdin is not None
        for word in ("one", "two"):
            publisher.process.stdin.write(f"{word}\n".encode())
            assert client.line() == f"slow/x {word}"


def test_the_server_can_come_from_the_environment(chain: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESPROUT_SERVER", chain[0])
    assert resprout("pub", "env/x", "x").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_subscriber_that_is_interrupted_ends_well(chain: tuple[str, str], number: int) -> None:
    with subscriber(chain[0], "end/x") as client:
        assert client.end(number) == 0
        assert client.rest() == (b"", b"")


def test_a_subscriber_whose_output_is_closed_ends_quietly(chain: tuple[str, str]) -> None:
    root, leaf = chain
    with subscriber(root, "closed/x") as client:
        assert client.process.stdout is not None and client.process.stderr is not None
        client.process.stdout.close()
        assert resprout("pub", "closed/x", "x", "--server", leaf).returncode == 0
        assert client.process.wait(PATIENCE_S) == 0
        assert client.process.stderr.read() == b""


def test_a_publisher_of_many_lines_is_not_held_up_by_an_open_input(chain: tuple[str, str]) -> None:
    with (
        subscriber(chain[0], "held/x") as reader,
        running("pub", "held/x", "-", "--server", chain[0]) as publisher,
    ):
        assert publisher.process.stdin is not None
        publisher.process.stdin.write(b"the first line\n")
        assert "the first line" in reader.line()
        assert publisher.process.poll() is None
        assert publisher.end(signal.SIGINT) == 130
