"""`resprout audit` says the same with both engines, to the byte; `archive` and `sweep` as commands."""

import json
from pathlib import Path

import pytest

from resprout.cli.main import run
from tests.cli.archives import make_runs
from tests.pipeline.small import a_sweep, a_trace, spoil

pytestmark = pytest.mark.usefixtures("spark")


def said(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = run(list(words))
    out, err = capfd.readouterr()
    return status, out, err


def both(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """What is said by either engine."""
    python = said(capfd, "audit", *words, "--engine", "python")
    assert said(capfd, "audit", *words, "--engine", "spark") == python
    return python


def test_both_engines_say_the_same_about_an_archive_and_about_a_trace(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = make_runs(tmp_path / "archive")
    status, out, err = both(capfd, str(archive))
    assert (status, err) == (1, "") and "small/seed=2: VIOLATED" in out
    status, out, err = both(capfd, str(archive), "--json")
    assert (status, err) == (1, "") and len(json.loads(out)["runs"]) == 3
    for run_folder in sorted((archive / "runs" / "experiment=small").iterdir())[:2]:
        both(capfd, str(run_folder))
        both(capfd, str(run_folder), "--json")


@pytest.mark.parametrize("archived", [True, False])
def test_both_engines_refuse_damaged_pages_with_the_same_line(
    tmp_path: Path, archived: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = a_trace(tmp_path / "t", 500)
    folder = tmp_path / "archive" if archived else trace
    if archived:
        assert said(capfd, "archive", str(folder), str(trace))[0] == 0
    [part] = folder.rglob("part-00001.parquet")
    spoil(part)
    status, out, err = both(capfd, str(folder))
    assert (status, out, err.count("\n")) == (2, "", 1) and str(part.parent) in err


def test_archive_counts_what_it_did(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("archive", str(tmp_path / "a"), str(a_trace(tmp_path / "t")), str(a_trace(tmp_path / "u")))
    assert said(capfd, *words[:3]) == (0, f"1 run added: {tmp_path / 'a'}\n", "")
    assert said(capfd, *words) == (0, f"1 run added, 1 were there already: {tmp_path / 'a'}\n", "")
    a_trace(tmp_path / "t", 6)
    status, out, err = said(capfd, *words)
    assert (status, out) == (2, "") and err.startswith("resprout: storm/t: in the archive with another digest; ")
    assert said(capfd, *words, "--replace")[1].startswith("0 runs added, 1 replaced, 1 were there already: ")


def test_sweep_tells_people_and_programs_what_came_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("sweep", str(a_sweep(tmp_path)), "--out", str(tmp_path / "o"))
    status, out, err = said(capfd, *words, "--seeds", "1")
    assert (status, err) == (0, "") and out.startswith("small: 2 runs in ")
    status, out, err = said(capfd, *words, "--json")
    data = json.loads(out)
    assert (status, err) == (0, "")
    assert list(data) == ["sweep", "archive", "runs", "finished", "finished_before", "failed", "results"]
    assert (data["runs"], data["finished"], data["finished_before"], data["failed"]) == (4, 4, 2, [])
    assert {"experiment", "run", "digest", "labels", "seed", "stack", "ended", "rows", "publications", "deliveries",
            "wall_s", "command"} == data["results"][0].keys()  # fmt: skip
    status, out, err = said(capfd, *words)
    assert (status, err) == (0, "") and out.startswith("small: 0 runs in 0 s, 4 were finished before: ")
    assert both(capfd, str(tmp_path / "o"))[0] == 0


def test_runs_that_meet_their_time_limit_are_mentioned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("sweep", str(a_sweep(tmp_path)), "--out", str(tmp_path / "o"), "--set", "time_limit=210ms")
    status, out, err = said(capfd, *words, "--seeds", "1")
    assert (status, err) == (0, "")
    assert "2 runs did not come to rest before their time limit, first ops=" in out


def test_a_run_that_fails_makes_the_status_1_and_is_told_with_its_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Somebody has put a file where the runs are to come."""
    words = ("sweep", str(a_sweep(tmp_path)), "--out", str(tmp_path / "o"), "--seeds", "1")
    (tmp_path / "o").mkdir()
    assert said(capfd, *words, "--set", "workload.0.keys=2")[0] == 0
    (tmp_path / "o" / "runs").rename(tmp_path / "o" / "away")
    (tmp_path / "o" / "runs").write_text("in the way")
    status, out, err = said(capfd, *words)
    assert status == 1 and out.startswith("small: 0 runs in ")
    lines = err.splitlines()
    assert len(lines) == 4 and lines[0].startswith("resprout: ops=3,seed=1 failed: NotADirectoryError: ")
    assert lines[1].startswith("    resprout sim ") and lines[1].endswith("--seed 1 --trace DIR")


def test_an_interrupt_says_how_to_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sweep", str(a_sweep(tmp_path)), "--out", str(tmp_path / "o"))
    assert said(capfd, *words, "--seeds", "1")[0] == 0

    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("resprout.cli.archives.run_sweep", interrupted)
        assert said(capfd, *words) == (130, "", "2 of 4 runs are done; the same command goes on\n")
    assert said(capfd, *words)[1].startswith("small: 2 runs in ")
