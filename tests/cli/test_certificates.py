"""Certificates from the command line: made with one command, used by brokers and clients, read again on SIGHUP."""

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from resprout.audit.judge import judge
from resprout.cli.main import run
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import parse_scenario
from tests.cli.processes import broker, complaint, resprout, subscriber


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "certificates"
    assert run(["certificates", str(made), "--names", "b0,b1", "--client", "teller"]) == 0
    return made


def test_keys_are_for_their_owner_alone(folder: Path) -> None:
    for name in ("ca", "b0", "b1", "teller"):
        assert stat.S_IMODE((folder / f"{name}.key").stat().st_mode) == 0o600
        assert (folder / f"{name}.pem").read_text().startswith("-----BEGIN CERTIFICATE")


def test_more_certificates_come_from_the_same_authority(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = (folder / "ca.pem").read_bytes()
    first = (folder / "b0.pem").read_bytes()
    assert run(["certificates", str(folder), "--names", "b2", "--json"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(one["role"], one["name"]) for one in made] == [("broker", "b2")]
    assert run(["certificates", str(folder), "--operator", "admin", "--json"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(one["role"], one["name"]) for one in made] == [("operator", "admin")]
    assert run(["certificates", str(folder), "--names", "b0", "--renew"]) == 0
    assert (folder / "b0.pem").read_bytes() != first
    assert (folder / "ca.pem").read_bytes() == authority


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "for whom? Give --names of brokers"),
        (("--names", "b 1"), "broker name 'b 1' is refused"),
        (("--client", ""), "client name '' is refused"),
        (("--names", "b5,b5"), "b5 is named twice"),
        (("--names", "x", "--client", "x"), "x is named twice"),
        (("--client", "x", "--operator", "x"), "x is named twice"),
        (("--operator", "a b"), "operator name 'a b' is refused"),
        (("--names", "ca"), "ca is what the files of the authority are called"),
        (("--names", "b5,b0"), "b0.pem is there already: --renew makes a new one"),
        (("--names", "b5", "--days", "0"), "--days"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(
    folder: Path, words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["certificates", str(folder), *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and reason in said
    assert not (folder / "b5.pem").exists()


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("ca.key", None, "new certificates need the authority's key"),
        ("ca.key", "hello", "no good authority"),
        ("ca.pem", "hello", "no good authority"),
        ("ca.pem", None, "the key of an authority without its certificate"),
    ],
)
def test_an_authority_that_is_not_whole_makes_no_certificates(
    folder: Path, file: str, text: str | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    capsys.readouterr()
    assert run(["certificates", str(folder), "--names", "b5"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and reason in said


def test_whoever_lacks_the_extra_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "resprout.net.certificates", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert run(["certificates", str(tmp_path), "--names", "b0"]) == 2
    assert "pip install 'resprout[secure]'" in capsys.readouterr().err


def test_brokers_and_clients_speak_tls_and_read_new_certificates_on_hangup(folder: Path) -> None:
    tls = ("--tls", str(folder))
    with broker("b0", *tls) as (root, address), broker("b1", *tls, "--parent", address) as (_, below):
        with subscriber(below, "news/#", *tls, "--name", "teller") as reader:
            assert resprout("pub", "news/today", "it rains", "--server", address, *tls).returncode == 0
            assert reader.line().split() == ["news/today", "it", "rains"]
        assert resprout("status", "--server", address, *tls).returncode == 0
        assert "b0 speaks TLS, and nothing else" in complaint("pub", "a", "b", "--server", address, status=3)
        spoiled = (folder / "b0.pem").read_bytes()
        (folder / "b0.pem").write_text("hello")
        assert "there is no good certificate in it" in _told_on_hangup(root.pid, root.line)
        assert resprout("status", "--server", address, *tls).returncode == 0
        (folder / "b0.pem").write_bytes(spoiled)
        assert "certificates were read again" in _told_on_hangup(root.pid, root.line)
        assert resprout("status", "--server", address, *tls).returncode == 0


def _told_on_hangup(pid: int, line: object) -> str:
    assert callable(line)
    os.kill(pid, signal.SIGHUP)
    while True:
        said = json.loads(line())
        if said["said"] == "note" and "certificate" in said["columns"].get("detail", ""):
            return str(said["columns"]["detail"])


def test_a_broker_does_not_start_with_certificates_that_are_not_its_own(folder: Path, tmp_path: Path) -> None:
    start = ("broker", "--listen", "127.0.0.1:0", "--name")
    assert "b7.key: no such file" in complaint(*start, "b7", "--tls", str(folder))
    assert "there is no such folder" in complaint(*start, "b0", "--tls", str(tmp_path / "nowhere"))
    assert "give --tls DIR" in complaint(*start, "b0", "--client-certificates")
    config = tmp_path / "b0.toml"
    files = {
        key: str(folder / file) for key, file in (("authority", "ca.pem"), ("certificate", "b1.pem"), ("key", "b1.key"))
    }
    config.write_text("[tls]\n" + "".join(f'{key} = "{file}"\n' for key, file in files.items()))
    assert "says broker b1, and not broker b0" in complaint(*start, "b0", "--config", str(config))
    config.write_text('[tls]\nauthority = "ca.pem"\n')
    assert "certificate" in complaint(*start, "b0", "--config", str(config))


SCENARIO = """
name = "over TLS"
stack = "resprout"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "teller"
broker = "b0"
[[client]]
name = "reader"
broker = "b1"
subscribe = ["a", "b"]
[[workload]]
kind = "chatter"
topics = ["a", "b"]
operations = 10
clients = ["teller"]
interval = "10ms"
"""


def test_a_whole_scenario_runs_over_tls(folder: Path) -> None:
    scenario = parse_scenario(SCENARIO, "test")
    result = asyncio.run(RealRun(scenario, tls=folder).finish())
    assert result.ended == "quiescent"
    verdict = judge(result.rows)
    assert not verdict.anomalies
    assert sum(row.kind == "deliver" for row in result.rows) == 10
