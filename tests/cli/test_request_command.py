"""`resprout request` and `resprout reply` talk to each other through real brokers."""

import json

from tests.cli.processes import broker, complaint, resprout, running
from tests.patience import PATIENCE_S

PATIENT = ("--timeout", str(PATIENCE_S))


def test_a_fixed_reply_reaches_the_client_that_asked() -> None:
    with broker("b1") as (_, address), running("reply", "price/+", "4.20", "-s", address, "-n", "1", "-v") as service:
        assert service.error_line() == "serving price/+"
        done = resprout("request", "price/bread", "2 loaves", "-s", address, *PATIENT)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"4.20\n", b"")
        assert service.process.wait(PATIENCE_S) == 0, "it ends after one request"


def test_a_command_makes_the_reply_from_the_request() -> None:
    command = 'printf "%s:" "$RESPROUT_TOPIC"; tr a-z A-Z'
    with (
        broker("b1") as (_, address),
        running("reply", "shout/#", "--command", command, "-s", address, "-v") as service,
    ):
        service.error_line()
        done = resprout("request", "shout/x", "hello", "-s", address, "--json", *PATIENT)
        reply = json.loads(done.stdout)
        assert reply["payload"] == "shout/x:HELLO"


def test_a_command_that_fails_is_told_to_the_client_that_asked() -> None:
    words = ("reply", "t", "--command", "echo no such account >&2; exit 3")
    with broker("b1") as (_, address), running(*words, "-s", address, "-v") as service:
        service.error_line()
        said = complaint("request", "t", "x", "-s", address, *PATIENT, status=1)
        assert said == "the command ended with status 3: no such account"


def test_a_request_that_nobody_serves_fails_at_once() -> None:
    with broker("b1") as (_, address):
        assert complaint("request", "t", "x", "-s", address, status=1) == "no client subscribes to t"


def test_a_reply_is_one_of_two_kinds() -> None:
    expected = "give PAYLOAD or --command COMMAND: one of them makes the reply"
    assert complaint("reply", "t") == expected
    assert complaint("reply", "t", "x", "--command", "cat") == expected


def test_output_that_is_too_large_for_a_reply_is_told_to_the_client_that_asked() -> None:
    words = ("reply", "t", "--command", "head -c 2000000 /dev/zero")
    with broker("b1") as (_, address), running(*words, "-s", address, "-v") as service:
        service.error_line()
        for _ in range(2):  # the service goes on
            said = complaint("request", "t", "x", "-s", address, *PATIENT, status=1)
            assert said.startswith("the output of the command is no reply: a payload of 2000000 bytes")


def test_wrong_input_is_one_line() -> None:
    assert complaint("reply", "t", "--command", " ") == "--command is empty: give a shell command"
    for verb in ("request", "pub"):
        for wrong in ("nan", "inf"):
            assert "is not a finite number of seconds" in complaint(verb, "t", "x", "--timeout", wrong)
        assert "-1.0 is not in the range" in complaint(verb, "t", "x", "--timeout", "-1")
