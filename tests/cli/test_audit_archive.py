"""`resprout audit` of an archive: a verdict on each run, and one on all."""

import json
from pathlib import Path

import pytest

from resprout.cli.main import run
from tests.cli.archives import make_runs


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_runs(tmp_path / "archive")


def printed(capfd: pytest.CaptureFixture[str], *words: str, status: int) -> str:
    assert run(list(words)) == status
    out, err = capfd.readouterr()
    assert err == ""
    return out


def test_each_run_has_a_line_then_come_the_anomalies_then_the_sum(
    archive: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capfd, "audit", str(archive), status=1).splitlines()
    assert lines[0].startswith("small/seed=1: clean")
    assert lines[1] == "small/seed=2: VIOLATED: 2 anomalies (lost, receipt)"
    assert lines[2].startswith("small/seed=3: clean")
    assert lines[3] == "small/seed=2:" and lines[4].startswith("    lost: ") and lines[5].startswith("    receipt: ")
    assert lines[6:] == ["3 runs, 47 deliveries: VIOLATED in 1 of them"]


def test_programs_get_an_object_with_a_list_of_runs(archive: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capfd, "audit", str(archive), "--json", status=1))
    assert list(data) == ["verdict", "runs"] and data["verdict"] == "violated"
    assert [(it["experiment"], it["run"], it["verdict"]) for it in data["runs"]] == [
        ("small", "seed=1", "clean"),
        ("small", "seed=2", "violated"),
        ("small", "seed=3", "clean"),
    ]
    run_of_archive = archive / "runs" / "experiment=small" / "run=seed%3D2"
    alone = json.loads(printed(capfd, "audit", str(run_of_archive), "--json", status=1))
    assert list(data["runs"][1]) == ["experiment", "run", "digest", *alone]
    assert {key: data["runs"][1][key] for key in alone} == alone


def test_several_traces_are_judged_like_an_archive(archive: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [str(path) for path in sorted((archive / "runs" / "experiment=small").iterdir()) if "2" not in path.name]
    lines = printed(capfd, "audit", *folders, status=0).splitlines()
    assert len(lines) == 3 and lines[-1] == "2 runs, 32 deliveries: no violation"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "archive.json",
            b'{"format": "resprout archive", "version": 7, "schema_version": 1}',
            "version 7; this program",
        ),
        (
            "archive.json",
            b'{"format": "resprout archive", "version": 1, "schema_version": 7}',
            "schema version 7; this",
        ),
        ("archive.json", b"{", "archive.json: damaged"),
        (
            "runs/experiment=small/run=seed%3D3/part-00000.parquet",
            b"PAR1",
            "part-00000.parquet: damaged or not Parquet",
        ),
        ("runs/experiment=small/run=seed%3D3/run.json", b"{", "run.json: damaged"),
        ("runs/experiment=other/run=x/part-00000.parquet", b"PAR1", "run.json: missing"),
    ],
)
@pytest.mark.parametrize("engine", ["python", "spark"])
def test_a_damaged_archive_is_one_line_before_anything_is_judged(
    engine: str, name: str, content: bytes, said: str, archive: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = archive / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    assert run(["audit", str(archive), "--engine", engine]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith(f"resprout: {archive}/") and err.count("\n") == 1 and said in err


def test_an_archive_without_runs_is_no_clean_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = make_runs(tmp_path / "archive")
    (archive / "runs").rename(tmp_path / "elsewhere")
    assert run(["audit", str(archive)]) == 2
    assert capfd.readouterr().err == f"resprout: {archive}: no runs there\n"
