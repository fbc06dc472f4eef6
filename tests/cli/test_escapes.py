"""Attack 12 of the review: text from outside steers no terminal, breaks no line of a log, and turns round no page."""

import asyncio
import json
import logging
import os
import pty
import select
import socket
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import pytest

from resprout.cli.loop import Output, as_json, as_payload, as_text
from resprout.cli.main import VERBS, run
from resprout.cli.voice import LOG_FORMATS, Voice
from resprout.core.contract import Note
from resprout.core.errors import LINE_LETTERS_MAX, PeerError, ResproutError, escape, escape_json, logger
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.net.http.metrics import Metrics
from resprout.net.http.server import JSON, HttpAnswer, encoded
from resprout.net.identity.scram import verifier_of_token
from resprout.net.sessions import Login, make_codec
from resprout.wire.codec import FrameWriter
from tests.cli.hostile_broker import EVIL, hostile_broker, is_harmless
from tests.cli.processes import broker, resprout, running, subscriber
from tests.patience import PATIENCE_S

ASKING = {
    "status": ("status",),
    "status --json": ("status", "--json"),
    "top": ("top", "--count", "1"),
    "top --json": ("top", "--count", "1", "--json"),
    "who": ("who", "bank/1"),
    "who --json": ("who", "bank/1", "--json"),
    "trace": ("trace", "teller.1/ordered:1"),
    "trace --json": ("trace", "teller.1/ordered:1", "--json"),
    "pub": ("pub", "bank/1", "x"),
    "sub": ("sub", "bank/1"),
    "request": ("request", "bank/1"),
    "reply": ("reply", "bank/1", "x"),
    "read": ("read", "bank/1"),
    "kv get": ("kv", "get", "config", "limits"),
    "kv put": ("kv", "put", "config", "limits", "10"),
    "kv watch": ("kv", "watch", "config"),
    "log": ("log", "list"),
    "subscriptions": ("subscriptions",),
    "subscriptions --json": ("subscriptions", "--json"),
    "peek": ("peek", "billing"),
    "dead-letters": ("dead-letters", "billing"),
    "dead-letters --replay": ("dead-letters", "billing", "--replay"),
    "purge": ("purge", "billing"),
    "forget": ("forget", "b3"),
    "end-subscription": ("end-subscription", "billing"),
    "broker": ("broker", "--name", "b7", "--listen", "127.0.0.1:0", "--join"),
}
"""Every command that talks to a broker, and how it is told which."""

HERE_ONLY = {
    "freeze", "resume", "crash", "restart",
    "up", "tap", "certificates", "secret", "journal", "mend", "sim", "run", "swarm", "audit", "archive", "sweep",
    "report", "conclude", "watch", "bench",
}  # fmt: skip
"""Commands that talk to nobody but what they started, or are another name of one above."""


def test_every_command_is_among_those_that_are_tried() -> None:
    assert {words[0] for words in ASKING.values()} | HERE_ONLY == set(VERBS)


@pytest.mark.parametrize("words", [words for name, words in ASKING.items() if name != "broker"], ids=" ".join)
def test_a_hostile_broker_steers_no_terminal(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    with hostile_broker() as address:
        status = run([*words, "--server", address])
    out, err = capfd.readouterr()
    assert "owned" in out + err, (status, out, err)
    assert is_harmless(out.encode()) and is_harmless(err.encode()), ascii(out + err)
    assert "b9 is fine" not in [line.strip() for line in (out + err).splitlines()], "a name makes no line of its own"


def test_a_broker_that_joins_a_hostile_one_writes_no_control_characters() -> None:
    with hostile_broker() as address, running(*ASKING["broker"], address) as process:
        line = ""
        while "owned" not in line:
            line = process.error_line()
            assert line.isprintable()


def test_top_draws_nothing_of_a_hostile_broker_in_a_terminal() -> None:
    """What `rich` draws holds its own control sequences, and none of the broker's."""
    parent, child = pty.openpty()
    with hostile_broker() as address:
        words = [sys.executable, "-m", "resprout", "top", "--count", "1", "--server", address]
        with subprocess.Popen(
            words, stdin=child, stdout=child, stderr=child, env=os.environ | {"COLUMNS": "400"}
        ) as process:
            os.close(child)
            seen = b""
            while select.select([parent], [], [], PATIENCE_S)[0]:
                try:
                    chunk = os.read(parent, 1 << 16)
                except OSError:
                    break
                if not chunk:
                    break
                seen += chunk
            process.wait(PATIENCE_S)
    os.close(parent)
    text = seen.decode()
    assert "owned" in text
    assert "\x1b]0;" not in text and "\x1b[2J" not in text
    assert not set("\x07\x7f\x9b\u202e\u2028\u2066\u200b\x00\x85") & set(text)


def test_what_clients_publish_steers_no_terminal() -> None:
    """Topics and payloads, as text and as JSON."""
    topic = f"bank/{EVIL}".replace("\x00", "")
    payload = EVIL.replace("\n", " ").encode()
    with (
        broker("b0") as (_, address),
        subscriber(address, "bank/#") as plain,
        subscriber(address, "bank/#", "--json") as as_objects,
    ):
        done = resprout("pub", topic, "-", "--server", address, "--verbose", stdin=payload)
        assert done.returncode == 0 and is_harmless(done.stderr), done.stderr
        line = plain.line()
        assert line.isprintable() and "\\x1b]0;owned" in line
        told = as_objects.line()
        assert told.isprintable()
        assert json.loads(told)["topic"] == topic, "escaping does not change what JSON says"


def test_a_login_of_a_stranger_is_logged_without_control_characters(tmp_path: Path) -> None:
    """A name in a login comes from a stranger, before anything was proven: it is refused, and nothing of it steers the
    terminal of the operator."""
    rules = tmp_path / "rules.toml"
    rules.write_text(f'[[identity]]\nname = "teller"\nsecrets = ["{verifier_of_token("token")}"]\n')
    words = ("broker", "--name", "b0", "--listen", "127.0.0.1:0", "--rules", str(rules))
    with subprocess.Popen(
        [sys.executable, "-m", "resprout", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            host, _, port = process.stdout.readline().decode().split()[-1].rpartition(":")
            with socket.create_connection((host, int(port)), PATIENCE_S) as stranger:
                stranger.settimeout(PATIENCE_S)
                login = Login(EVIL, "0123456789abcdef01234567")
                stranger.sendall(FrameWriter(make_codec(CLIENT_MESSAGES)).write(login))
                answer = b"".join(iter(lambda: stranger.recv(1 << 16), b""))
            assert b"is refused: letters, digits" in answer
            process.terminate()
            assert is_harmless(process.stderr.read())
        finally:
            process.kill()


def test_raw_output_is_what_came(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever asks for `--raw` gets the bytes of the payload, also in a terminal."""
    message = Message("p", 1, 1, EVIL, (), Guarantee.CAUSAL, {}, EVIL.encode(), 0)

    async def print_both() -> None:
        output = Output(1)
        await output.write([as_payload(message)])
        await output.write([as_text(message), as_json(message)])

    asyncio.run(print_both())
    raw, _, rest = capfd.readouterr().out.replace("\r", "").partition(EVIL.replace("\r", "") + "\n")
    assert raw == "" and is_harmless(rest.encode()) and rest.count("\n") == 2


@pytest.mark.parametrize("log_format", LOG_FORMATS)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_note_steers_the_terminal_of_a_broker(
    log_format: str, as_json: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    voice = Voice("b0", None, as_json, log_format)
    voice.note(Note("turned_away", {"detail": EVIL}))
    voice.say(EVIL)
    voice.fatal(EVIL)
    out, err = capfd.readouterr()
    assert (out + err).count("owned") == 3 and (out + err).count("\n") == 3
    assert is_harmless((out + err).encode())


def test_escaping_json_costs_a_call_for_a_run_of_letters_and_not_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 MiB of overrides in the account of a member kept a broker from everything else for 1.7 s, and 16 MiB for 14 s,
    each time that somebody looked at its page."""
    calls: list[str] = []
    dumps = json.dumps

    def counted(text: str) -> str:
        calls.append(text)
        return dumps(text)

    monkeypatch.setattr(json, "dumps", counted)
    overrides = "\u202e" * 100_000
    text = f'["{overrides}x{overrides}"]'
    assert json.loads(escape_json(text)) == json.loads(text)
    assert escape_json(text).isascii() and len(calls) == 4


def test_errors_and_the_log_of_the_library_are_escaped(caplog: pytest.LogCaptureFixture) -> None:
    """A program that prints an error, or lets it end the program, shows no control characters."""
    assert is_harmless(str(PeerError(EVIL)).encode())
    assert is_harmless(str(ResproutError(f"it says {EVIL}")).encode())
    with caplog.at_level(logging.WARNING, "resprout"):
        logger.warning("%s has %d of %s", EVIL, 3, PeerError(EVIL))
    assert is_harmless(caplog.messages[0].encode()) and "\n" not in caplog.messages[0]


def test_pages_and_metrics_are_escaped() -> None:
    told = {EVIL: [EVIL]}
    answer = encoded(HttpAnswer(json.dumps(told, ensure_ascii=False).encode(), kind=JSON), False)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert is_harmless(body) and json.loads(body) == told
    assert f"Content-Length: {len(body)}".encode() in head
    plain = encoded(HttpAnswer(f"not ready: {EVIL}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE), False)
    assert is_harmless(plain.partition(b"\r\n\r\n")[2])


def test_metrics_of_a_running_broker_hold_no_control_characters() -> None:
    """With a reason that names somebody: the format stays readable."""
    from prometheus_client.core import CounterMetricFamily
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector

    class Refusals(Collector):
        def collect(self) -> list[CounterMetricFamily]:
            family = CounterMetricFamily("resprout_refusals", "Who was turned away.", labels=["reason"])
            family.add_metric([EVIL], 1)
            return [family]

    body, _ = Metrics(Refusals()).render("")
    assert is_harmless(body)
    family = next(iter(text_string_to_metric_families(body.decode())))
    assert "owned" in family.samples[0].labels["reason"]


def test_escaping_says_what_it_leaves_out() -> None:
    assert escape("plain ä 漢 \t") == "plain ä 漢 \t"
    assert escape("a\x1b\x9b\u202e\u2028\ud800\n") == "a\\x1b\\x9b\\u202e\\u2028\\ud800\\n"
    assert escape(escape(EVIL)) == escape(EVIL), "twice is once"
    long = escape("y" * 100_000, letters_max=LINE_LETTERS_MAX)
    assert len(long) < LINE_LETTERS_MAX + 100 and long.endswith("more letters")
    for text in (EVIL, "\U000e0001", "ä\x7f"):
        assert json.loads(escape_json(json.dumps(text, ensure_ascii=False))) == text
