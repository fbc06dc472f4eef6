"""Whatever is wrong with what a user gives: one line that says what and where, and exit status 2."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from resprout.cli.main import run
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.net.sessions import Here, make_codec
from resprout.wire.codec import FrameWriter
from tests.cli.processes import broker, complaint

LOOPBACK = ("broker", "--name", "b1", "--listen", "127.0.0.1:0")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("broker",), "--name is missing: give the broker a name, such as --name b1"),
        (("broker", "--name", "b 1"), "broker name 'b 1' is refused"),
        (("broker", "--name", "b1", "--listen", "127.0.0.1:x"), "--listen: address '127.0.0.1:x': the port must be"),
        (("broker", "--name", "b1", "--listen", "::1:80"), "write an IPv6 address as [::1]:7450"),
        (("broker", "--name", "b1", "--listen", "no.such.host.invalid:0"), "cannot listen on no.such.host.invalid:0"),
        ((*LOOPBACK, "--parent", "localhost:0"), "--parent: address 'localhost:0': port 0 means any"),
        ((*LOOPBACK, "--parent", "a..b:1"), "parent a..b:1: the host is not a name"),
        ((*LOOPBACK, "--join", "localhost:0"), "--join: address 'localhost:0': port 0 means any"),
        ((*LOOPBACK, "--site", "a b"), "site 'a b' is refused"),
        ((*LOOPBACK, "--join", "a..b:1"), "contact a..b:1: the host is not a name"),
        ((*LOOPBACK, "--advertise", "localhost:0"), "--advertise: address 'localhost:0': port 0 means any"),
        ((*LOOPBACK, "--data", "/dev/null/b1"), "--data /dev/null/b1: Not a directory"),
        ((*LOOPBACK, "--set", "durable=true"), "b1 is to be durable: give --data DIR"),
        ((*LOOPBACK, "--stack", "scrbe"), "unknown stack 'scrbe'"),
        ((*LOOPBACK, "--set", "fault_tolerated=1"), "did you mean 'faults_tolerated'?"),
        ((*LOOPBACK, "--set", "faults_tolerated=many"), "--set options.faults_tolerated=many: option"),
        ((*LOOPBACK, "--set", "links.window_byte=1"), "did you mean 'window_bytes'?"),
        ((*LOOPBACK, "--set", "links.window_bytes=0"), "--set links.window_bytes=0: link option window_bytes must be"),
        ((*LOOPBACK, "--set", "faults_tolerated"), "write path.to.option=value"),
        ((*LOOPBACK, "--delay", "b0"), "--delay b0: write it as PEER=115ms"),
        ((*LOOPBACK, "--delay", "b0=5"), "--delay b0=5: '5' is not a duration"),
        ((*LOOPBACK, "--delay", "b0=2h"), "--delay b0=2h: at most 60s"),
        ((*LOOPBACK, "--incarnation", "0"), "--incarnation"),
        ((*LOOPBACK, "--announce", "/no/such/folder/file"), "--announce /no/such/folder/file: No such file"),
        ((*LOOPBACK, "--config", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("pub", "t"), "PAYLOAD is missing"),
        (("pub", "a/#", "x"), "topic 'a/#' holds a wildcard"),
        (("pub", "t", "x", "--guarantee", "causl"), "unknown guarantee 'causl'"),
        (("pub", "t", "x", "--attr", "amount"), "attribute 'amount': write it as name=value"),
        (("pub", "t", "x", "--wait", "forever"), "--wait"),
        (("pub", "t", "x", "--server", "localhost:0"), "port 0 means any"),
        (("pub", "t", "x", "--name", "no name"), "client name 'no name' is refused"),
        (("sub", "a/#/b"), "a/#/b"),
        (("sub", "a", "--where", "amount >"), "--where 'amount >': expected an attribute"),
        (("sub", "a", "--count", "0"), "--count"),
        (("sub", "a", "--json", "--raw"), "choose one"),
        (("up", "/no/such/file.toml"), "/no/such/file.toml: No such file"),
        (("up", "--set", "seed=1"), "--set changes a scenario: name one"),
        (("up", "--port", "65535"), "--port 65535: 3 brokers need as many ports"),
    ],
)
def test_bad_input_is_refused(words: tuple[str, ...], reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert reason in _refusal(capfd, *words)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = b1", ":1: not TOML"),
        ('name = "b1"\nlissten = ":0"', ":2: unknown key 'lissten'; did you mean 'listen'?"),
        ('name = "b1"\nlisten = 7450', ":2: listen must be a text, not a number"),
        ('name = "b1"\n\nparent = "a b:1"', ":3: address 'a b:1': the host holds white space"),
        ('name = "b1"\njoin = "b0:1"', ":2: join must be a list, not a text"),
        ('name = "b1"\njoin = ["b0:1", "b2:0"]', ":2: address 'b2:0': port 0 means any"),
        ('name = "b1"\ncontacts = ["b0:1", "b2:0"]', ":2: address 'b2:0': port 0 means any"),
        ('name = "b1"\ncontacts = ["b0:1"]\njoin = ["b0:1"]', ":3: `join` and `contacts` mean the same"),
        ('name = "b1"\nsite = "a b"', ":2: name 'a b' is refused"),
        ('name = "b1"\ndata = 3', ":2: data must be a text, not a number"),
        ('name = "b1"\n[options]\nfaults_tolerated = -1', ":3: option 'faults_tolerated'"),
        ('name = "b1"\n[journal]\nflush = "daily"', ":3: journal option flush cannot be 'daily'"),
        ('name = "b1"\n[journal]\nsegment_bytes = 1', ":3: journal option segment_bytes cannot be 1"),
        ('name = "b1"\n[journal]\nflsh = "always"', ":3: unknown key 'flsh'; did you mean 'flush'?"),
        ('name = "b1"\n[links]\nwindow_bytes = "big"', ":3: link option window_bytes must be a whole number"),
        ('name = "b1"\n[links]\n\nreconnect_us_max = 1', ":4: link option reconnect_us_max is less"),
        ('name = "b1"\n[delays]\nb0 = 5', ":3: delays: b0 = 5 has no unit"),
        ('name = "b1"\noptions = 3', ":2: must be a table"),
        ('stack = "x"\nname = "b1"', ":1: unknown stack 'x'"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    text: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    assert f"{file}{reason}" in _refusal(capfd, "broker", "--config", str(file))


def test_a_process_that_refuses_its_input_shows_one_line_and_no_traceback() -> None:
    assert "parent a..b:1: the host is not a name" in complaint(*LOOPBACK, "--parent", "a..b:1")


def test_a_port_in_use_is_refused() -> None:
    with broker("b1") as (_, address):
        assert complaint("broker", "--name", "b2", "--listen", address) == (
            f"cannot listen on {address}: address already in use"
        )
        port = address.partition(":")[2]
        assert "address already in use" in complaint("up", "--port", port)


def test_a_parent_of_the_same_name_is_refused() -> None:
    with broker("b1") as (_, address):
        assert "the broker there is called b1, too" in complaint(*LOOPBACK, "--parent", address)


def test_a_broker_of_another_stack_is_refused_by_name() -> None:
    with broker("b0") as (_, address):
        said = complaint(*LOOPBACK, "--parent", address, "--stack", "flood")
        assert said == f"parent {address}: b0 has the stack 'resprout', b1 has 'flood'; a network has one"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer does not speak Resprout"),
        (b"RSPT\x00\x07\x00\x09", "the peer speaks wire versions 7 to 9"),
    ],
)
def test_a_parent_that_speaks_something_else_is_refused(answer: bytes, reason: str) -> None:
    with _stranger(answer) as address:
        assert f"parent {address}: {reason}" in complaint(*LOOPBACK, "--parent", address)
        assert f"{address}: {reason}" in complaint("pub", "t", "x", "--server", address, status=3)


def test_a_parent_that_is_a_client_is_refused() -> None:
    here = FrameWriter(make_codec(CLIENT_MESSAGES)).write(Here("c1", "client", 1))
    with _stranger(here) as address:
        assert complaint(*LOOPBACK, "--parent", address) == (
            f"parent {address}: c1 is a client; only a broker can be a parent"
        )


@pytest.mark.parametrize("words", [("pub", "t", "x"), ("sub", "t"), ("request", "t"), ("status",), ("top",)])
def test_a_broker_that_cannot_be_reached_is_told_apart_from_wrong_input(words: tuple[str, ...]) -> None:
    assert complaint(*words, "--server", "127.0.0.1:1", status=3).endswith("127.0.0.1:1: connection refused")
    assert "no.such.host.invalid:1: " in complaint(*words, "--server", "no.such.host.invalid:1", status=3)


def test_servers_that_are_given_one_by_one_are_all_tried() -> None:
    refused = complaint("pub", "t", "x", "--server", "127.0.0.1:1,127.0.0.1:2", "--server", "127.0.0.1:3", status=3)
    assert [f"127.0.0.1:{port}: connection refused" in refused for port in (1, 2, 3)] == [True] * 3


def test_a_line_that_is_too_long_is_refused_with_its_number() -> None:
    with broker("b1") as (_, address):
        reason = complaint("pub", "t", "-", "--server", address, stdin=b"short\n" + b"x" * (1 << 21))
    assert reason == "line 2 is longer than 1048576 bytes"


def _refusal(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The same as `complaint` without the price of a process."""
    assert run(list(words)) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("resprout: ") and err.count("\n") == 1, (out, err)
    return err


@contextlib.contextmanager
def _stranger(answer: bytes) -> Iterator[str]:
    """Somebody who listens and answers whatever is said with the same bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    guest, _ = server.accept()
                    with guest:
                        guest.sendall(answer)
                        guest.settimeout(5)
                        guest.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()
