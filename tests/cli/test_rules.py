"""Rules and secrets from the command line, and a door that is closed unless somebody opens it."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from resprout.cli.main import run
from resprout.net.address import Address, is_loopback
from tests.cli.processes import broker, complaint, resprout, running, subscriber, until_note


def test_a_token_is_in_its_file_and_only_its_digest_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = tmp_path / "teller.login"
    assert run(["secret", "teller", "--out", str(login)]) == 0
    printed = capsys.readouterr().out
    name, _, token = login.read_text().strip().partition(":")
    assert name == "teller" and len(token) >= 40 and token not in printed
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    assert '[[identity]]\nname = "teller"\nsecrets = ["SCRAM-SHA-256$4096:' in printed


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a b",), "identity 'a b' is refused"),
        (("teller",), "where is the token to be written?"),
        (("teller", "--out", "/no/such/folder/file"), "--out /no/such/folder/file: No such file"),
        (("teller", "--out", "/dev/null"), "--out /dev/null: the file exists already"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said_in_one_line(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["secret", *words]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and reason in said.err and not said.out


def test_rules_hold_for_the_commands_and_are_read_again_on_hangup(tmp_path: Path) -> None:
    login, rules = tmp_path / "teller.login", tmp_path / "rules.toml"
    digest = resprout("secret", "teller", "--out", str(login)).stdout.decode()
    rules.write_text(digest.replace("subscribe = []", 'subscribe = ["news/#"]'))
    as_teller = ("--login", str(login))
    with broker("b0", "--rules", str(rules)) as (process, address):
        assert "may not publish on news/today" in complaint(
            "pub", "news/today", "x", "--server", address, *as_teller, status=1
        )
        assert "it has no login or certificate that the rules know" in complaint(
            "pub", "news/today", "x", "--server", address, status=3
        )
        rules.write_text(rules.read_text().replace("publish = []", 'publish = ["news/#"]'))
        os.kill(process.pid, signal.SIGHUP)
        while "rules were read again" not in process.line():
            pass
        with subscriber(address, "news/#", *as_teller) as reader:
            assert resprout("pub", "news/today", "it rains", "--server", address, *as_teller).returncode == 0
            assert reader.line().split() == ["news/today", "it", "rains"]


def test_what_is_wrong_with_rules_or_a_login_is_said_in_one_line(tmp_path: Path) -> None:
    rules, login = tmp_path / "rules.toml", tmp_path / "login"
    start = ("broker", "--name", "b0", "--listen", "127.0.0.1:0", "--rules", str(rules))
    assert "No such file" in complaint(*start)
    limits = (*start[:-2], "--set", "limits.address_connections=0")
    assert "address_connections is 0; it must be 1 to 1000000000" in complaint(*limits)
    rules.write_text('[[identity]]\nname = "teller"\n')
    assert f"{rules}:1: identity teller: no client can prove this identity" in complaint(*start)
    login.write_text("no colon here")
    said = complaint("pub", "a", "b", "--login", str(login))
    assert "a login is NAME:SECRET" in said and "no colon here" not in said


@pytest.mark.parametrize("listen", [":0", "0.0.0.0:0", "[::]:0"])
def test_a_broker_that_others_can_reach_does_not_start_unless_it_is_said_who_may_come(listen: str) -> None:
    start = ("broker", "--name", "b0", "--advertise", "127.0.0.1:1", "--listen", listen)
    assert "nothing restricts who may connect: give --tls, --rules or both, or --insecure" in complaint(*start)


def test_a_broker_that_is_open_says_so() -> None:
    with broker("b0", "--insecure", "--advertise", "127.0.0.1:1", listen="0.0.0.0:0") as (process, address):
        port = address.rpartition(":")[2]
        while "not protected: every machine that reaches" not in process.line():
            pass
        assert resprout("pub", "a", "b", "--server", f"127.0.0.1:{port}").returncode == 0


def test_a_broker_on_loopback_names_what_is_open_unless_that_is_known(tmp_path: Path) -> None:
    key = tmp_path / "network.key"
    assert resprout("secret", "--network", str(key)).returncode == 0
    whoever = (
        "not protected: every program on this machine can publish and subscribe everywhere under any name (--rules)"
    )
    with broker("b0") as (process, _):
        assert until_note(process, "note") == f"{whoever}, can join as any broker (--network-key)"
    with broker("b0", "--network-key", str(key)) as (process, address):
        assert until_note(process, "note") == whoever
        assert "b0 believes only brokers with its key: give --network-key FILE" in complaint(
            "broker", "--name", "b1", "--listen", "127.0.0.1:0", "--join", address
        )
    with broker("b0", "--insecure") as (process, _):
        process.end()
        assert b"not protected" not in b"".join(process.rest())


def test_a_tap_joins_a_tree_with_rules_only_with_rules_and_proof(tmp_path: Path) -> None:
    """A tap is a broker: it sees what rules forbid to clients."""
    rules, login, key = tmp_path / "rules.toml", tmp_path / "reader.login", tmp_path / "network.key"
    written = resprout("secret", "reader", "--out", str(login)).stdout.decode()
    rights = 'publish = ["#"]\nsubscribe = ["news/#"]'
    rules.write_text(written.replace("publish = []\nsubscribe = []", rights))
    assert resprout("secret", "--network", str(key)).returncode == 0
    with (
        broker("b0", "--rules", str(rules)) as (_, alone),
        broker("b0", "--rules", str(rules), "--network-key", str(key)) as (_, keyed),
    ):
        tap = ("tap", "--data", str(tmp_path / "tap"), "--join")
        assert "b0 has rules, and tap needs the same: give --rules" in complaint(*tap, alone)
        assert "b0 has rules and can check no broker" in complaint(*tap, alone, "--rules", str(rules))
        assert "give --network-key" in complaint(*tap, keyed)
        assert "b0 has rules" in complaint(*tap, keyed, "--network-key", str(key))
        papers = ("--rules", str(rules), "--network-key", str(key))
        with running(*tap, keyed, *papers, "--json") as process:
            address = json.loads(process.line())["address"]
            read = ("read", "--server", address, "--count", "1", "--login", str(login))
            assert "may not" in complaint(*read, "bank/#", status=1), "what it keeps is read by rules"
            for server, topic in ((keyed, "bank/a"), (keyed, "news/b")):
                assert resprout("pub", topic, "x", "--server", server, "--login", str(login)).returncode == 0
            done = resprout(*read, "news/#")
            assert b"news/b" in done.stdout and b"bank" not in done.stdout, done.stderr


def test_only_this_machine_reaches_what_listens_on_loopback() -> None:
    for host, expected in (("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("", False)):
        assert is_loopback(Address(host, 7450)) is expected
