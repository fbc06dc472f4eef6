"""Whatever is wrong with a scenario, a trace or the words of the command: one line on stderr, exit status 2."""

import json
from pathlib import Path

import pytest

from resprout.cli.main import run

SCENARIO = """\
name = "tiny"
[[broker]]
name = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = 3
interval = "1ms"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs: with a good scenario, so that only one thing is wrong."""
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text(SCENARIO)
    return tmp_path


def complaint(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that the command says, without its name."""
    assert run(list(words)) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("resprout: ") and err.endswith("\n") and err.count("\n") == 1, err
    return err.removeprefix("resprout: ").rstrip("\n")


# -- scenario files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('name = "b0"', 'name = "b0', 3, "not TOML: "),
        ('name = "tiny"', "name = 5", 1, "name must be a text, not a number"),
        ('name = "tiny"', 'stack = "scrbe"', 1, "unknown stack 'scrbe'; there is "),
        ('name = "tiny"', "[options]\nfault_tolerated = 1", 2, "did you mean 'faults_tolerated'?"),
        ('name = "tiny"', '[options]\nfaults_tolerated = "x"', 2, "'faults_tolerated': expected `int`, got `str`"),
        ('broker = "b0"', 'broker = "b7"', 6, "client c0: "),
        ('subscribe = ["a"]', 'subscribe = ["a/#/b"]', 7, "client c0: topic filter 'a/#/b': '#' may only be the last"),
        ('subscribe = ["a"]', 'subscribe = [{ filter = "a", where = "x >" }]', 7, "client c0: "),
        ('kind = "random"', 'kind = "rndom"', 9, "unknown kind 'rndom'; did you mean 'random'?"),
        ('topics = ["a"]', 'topics = ["b"]', 10, "workload 0: no client subscribes to topic 'b'"),
        ("operations = 3", "operations = -3", 11, "workload 0: operations is -3"),
        ("operations = 3", 'operations = "3"', 11, "operations must be a whole number, not a text"),
        ("operations = 3", "opperations = 3", 11, "unknown key 'opperations'; did you mean 'operations'?"),
        ('interval = "1ms"', "interval = 5", 12, "workload 0: interval = 5 has no unit"),
    ],
)
def test_a_bad_scenario_is_blamed_with_its_line(
    old: str, new: str, line: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert SCENARIO.count(old) == 1
    Path("bad.toml").write_text(SCENARIO.replace(old, new))
    text = complaint(capfd, "sim", "bad.toml")
    assert text.startswith(f"bad.toml:{line}: ") and said in text


def test_a_scenario_that_cannot_be_read_is_said_so(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("binary.toml").write_bytes(b"\xff\xfe\x00")
    Path("empty.toml").touch()
    assert complaint(capfd, "sim", "missing.toml") == "missing.toml: No such file or directory"
    assert complaint(capfd, "sim", ".") == ".: Is a directory"
    assert complaint(capfd, "sim", "binary.toml") == "binary.toml: not UTF-8 text"
    assert complaint(capfd, "sim", "empty.toml").startswith("empty.toml: there is no broker")
    assert complaint(capfd, "sim", "x" * 5000).endswith(": File name too long")


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense",), "No such command 'nonsense'."),
        (("--nonsense",), "No such option '--nonsense'."),
        (("sim", "--nonsense"), "No such option '--nonsense'."),
        (("sim",), "which scenario? Give a file"),
        (("sim", "good.toml", "more"), "Got unexpected extra argument (more)"),
        (("sim", "good.toml", "--draw", "3"), "give a scenario or --draw, not both"),
        (("sim", "--draw", "x"), "Invalid value for '--draw'"),
        (("sim", "--draw", "-1"), "Invalid value for '--draw'"),
        (("sim", "good.toml", "--seed", "-1"), "Invalid value for '--seed'"),
        (("sim", "good.toml", "--seed", "9" * 30), "--set seed=999"),
        (("sim", "good.toml", "--seed"), "Option '--seed' requires an argument."),
        (("sim", "good.toml", "--stack", "rumours"), "--set stack=\"rumours\": unknown stack 'rumours'; there is "),
        (("sim", "good.toml", "--stack", 'a"b'), "--set stack="),
        (("sim", "good.toml", "--set", "seed"), "--set seed: write path.to.option=value"),
        (("sim", "good.toml", "--set", "=1"), "--set =1: write path.to.option=value"),
        (("sim", "good.toml", "--set", "a..b=1"), "--set a..b=1: write path.to.option=value"),
        (("sim", "good.toml", "--set", "sed=1"), "--set sed=1: unknown key 'sed'; did you mean 'seed'?"),
        (("sim", "good.toml", "--set", "seed=x"), "--set seed=x: seed must be a whole number, not a text"),
        (("sim", "good.toml", "--set", "seed.x=1"), "--set seed.x=1: "),
        (
            ("sim", "good.toml", "--set", "workload.7.keys=1"),
            "--set workload.7.keys=1: there are only 1 before index 7",
        ),
        (("sim", "good.toml", "--set", "broker.b9.latency=1ms"), "--set broker.b9.latency=1ms: no element named 'b9'"),
        (("sim", "good.toml", "--set", "broker.b0.latency=fast"), "--set broker.b0.latency=fast: broker b0: "),
        (
            ("sim", "good.toml", "--set", "options.log_bytes=1"),
            "--set options.log_bytes=1: options: option 'log_bytes': ",
        ),
        (("sim", "good.toml", "--set", 'client.c0.subscribe=["+a"]'), "--set client.c0.subscribe="),
        (("sim", "good.toml", "--set", "x=\n\n1"), "--set x= 1: unknown key 'x'"),
        (("audit",), "Missing argument 'DIR...'."),
        (("audit", "missing"), "missing: there is no such folder"),
        (("audit", "good.toml"), "good.toml: there is no such folder"),
        (("audit", "."), ".: neither a trace (run.json) nor an archive (archive.json)"),
        (("audit", ".", "--engine", "abacus"), "engine 'abacus' is not there; choose one of python, spark"),
        (("sim", "good.toml", "--trace", "."), ".: not written, the folder holds 'good.toml', which is no trace"),
        (("sim", "good.toml", "--trace", "good.toml"), "good.toml: cannot be prepared for a trace: file exists"),
        (
            ("sim", "good.toml", "--trace", "good.toml/sub"),
            "good.toml/sub: cannot be prepared for a trace: not a directory",
        ),
    ],
)
def test_wrong_words_are_answered_with_one_line(
    words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capfd, *words).startswith(said)


def test_no_words_at_all_are_answered_with_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "Usage: resprout" in err and "sim" in err


def test_help_and_version_are_fine(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["-h"], ["sim", "--help"], ["audit", "-h"]):
        assert run(words) == 0
        assert capfd.readouterr().out.startswith("Usage: resprout")
    assert run(["--version"]) == 0
    assert capfd.readouterr().out.startswith("resprout 0.")


# -- traces ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def trace(folder: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    assert run(["sim", "good.toml", "--trace", "t"]) == 0
    capfd.readouterr()
    return Path("t")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "t/run.json: damaged: "),
        (b"{", "t/run.json: damaged: "),
        (b"\xff\xfe", "t/run.json: damaged: "),
        (b"[]", "t/run.json: damaged: "),
        (b"{}", "t/run.json: damaged: "),
        (b'{"schema_version": 99}', "t/run.json: schema version 99; this program reads version 1"),
        (b'{"schema_version": 1, "rows": "many"}', "t/run.json: damaged: "),
        (b"[" * 100_000, "t/run.json: damaged: "),
    ],
)
def test_a_damaged_run_json_is_refused(
    content: bytes, said: str, trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (trace / "run.json").write_bytes(content)
    assert complaint(capfd, "audit", "t").startswith(said)


def test_damaged_part_files_are_refused(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part = trace / "part-00000.parquet"
    whole = part.read_bytes()
    for damaged in (b"", b"no parquet", whole[: len(whole) // 2], whole[:-1], bytes(len(whole))):
        part.write_bytes(damaged)
        assert complaint(capfd, "audit", "t").startswith("t/part-00000.parquet: damaged or not Parquet: ")
    part.unlink()
    assert complaint(capfd, "audit", "t").startswith("t: the part files hold 0 rows, run.json says ")


def test_rows_that_are_not_those_of_the_run_are_refused(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    info = json.loads((trace / "run.json").read_text())
    (trace / "run.json").write_text(json.dumps(info | {"digest": "0" * 64}))
    assert complaint(capfd, "audit", "t").startswith(f"{trace.absolute()}: the rows are not those of the run: digest ")


def test_a_folder_with_foreign_files_is_left_as_it_is(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (trace / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in trace.iterdir()}
    assert "the folder holds 'notes.txt', which is no trace" in complaint(capfd, "sim", "good.toml", "--trace", "t")
    assert {path.name: path.read_bytes() for path in trace.iterdir()} == before
    assert run(["audit", "t"]) == 0, "what it holds is still a trace"


def test_a_bad_trace_folder_is_found_out_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("resprout.cli.simulate.run_scenario", lambda *_: pytest.fail("it ran in vain"))
    complaint(capfd, "sim", "good.toml", "--trace", ".")
