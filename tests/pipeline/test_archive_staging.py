"""A run is in the archive whole or not at all: whoever dies, whenever, and whoever else is at it."""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resprout.pipeline.archive import STAGING_FOLDER, Staging, staging
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import find_runs, make_archive, run_folder
from resprout.trace.store import read_trace
from tests.patience import PATIENCE_S
from tests.pipeline.small import a_trace, files
from tests.soak import cases


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


def put(stage: Staging, run: str, count: int = 5, replace: bool = False) -> bool:
    return stage.publish(a_trace(stage.new_folder(), count), "e", run, replace)


def left_behind(archive: Path) -> list[str]:
    return sorted(path.name for path in (archive / STAGING_FOLDER).iterdir() if path.name != "lock")


def test_a_run_is_seen_from_the_moment_it_is_whole(archive: Path) -> None:
    with staging(archive) as stage:
        folder = a_trace(stage.new_folder())
        assert find_runs([archive]) == []
        assert stage.publish(folder, "e", "r")
        [place] = find_runs([archive])
    assert place.name == "e/r" and read_trace(place.folder).info.rows == 10
    assert left_behind(archive) == []


def test_the_same_run_is_taken_once_and_another_of_its_name_is_refused(archive: Path) -> None:
    with staging(archive) as stage:
        assert put(stage, "r")
        before = files(archive / "runs")
        assert not put(stage, "r")
        with pytest.raises(PipelineError, match="e/r: in the archive with another digest; --replace exchanges it"):
            put(stage, "r", count=6)
        assert files(archive / "runs") == before
        assert put(stage, "r", count=6, replace=True)
    assert [place.info.rows for place in find_runs([archive])] == [12]


def test_two_who_add_at_once_do_not_disturb_each_other(archive: Path) -> None:
    """The second one comes while the first is at work, and finds nothing of it to clear away."""
    with staging(archive) as one:
        early = a_trace(one.new_folder())
        with staging(archive) as other:
            late = a_trace(other.new_folder())
            assert other.publish(late, "e", "r")
            assert not one.publish(early, "e", "r")
            assert put(other, "s") and put(one, "t")
        assert put(one, "u")
    assert [place.run for place in find_runs([archive])] == ["r", "s", "t", "u"]
    assert left_behind(archive) == []


def test_a_replaced_run_comes_back_when_the_new_one_does_not(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with staging(archive) as stage:
        put(stage, "r")
    before = files(archive)
    with pytest.raises(OSError, match="gone"), staging(archive) as stage:
        new = a_trace(stage.new_folder(), 6)
        rename = Path.rename

        def and_lose_the_new_one(self: Path, target: Path) -> Path:
            """When the old one is out of the way."""
            renamed = rename(self, target)
            if target.name == "run" and new.exists():
                shutil.rmtree(new)
                raise OSError("gone")
            return renamed

        monkeypatch.setattr(Path, "rename", and_lose_the_new_one)
        stage.publish(new, "e", "r", replace=True)
    assert files(archive) == before and left_behind(archive) == []


def test_a_straggler_of_a_dead_process_moves_nothing_in(archive: Path) -> None:
    with staging(archive) as stage:
        folder = a_trace(stage.new_folder())
    with pytest.raises(FileNotFoundError):
        stage.publish(folder, "e", "r")
    with pytest.raises(FileNotFoundError):
        stage.new_folder()
    assert find_runs([archive]) == []


KILLED = """
import itertools, os, shutil, signal, sys
from pathlib import Path
from resprout.pipeline.archive import staging
from tests.pipeline.small import a_trace

pristine, after, every = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def die_at(fatal):
    steps = itertools.count(1)
    def dying(do):
        def call(*args, **options):
            if next(steps) == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return do(*args, **options)
        return call
    Path.rename, Path.mkdir, os.fsync = dying(Path.rename), dying(Path.mkdir), dying(os.fsync)

for fatal in itertools.count(1, every):
    archive = shutil.copytree(pristine, after / f"{fatal:03d}")
    if not (child := os.fork()):
        die_at(fatal)
        with staging(archive) as stage:
            stage.publish(a_trace(stage.new_folder(), 7), "e", "new")
            stage.publish(a_trace(stage.new_folder(), 6), "e", "old", replace=True)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
"""


def test_whatever_step_a_process_is_killed_at_every_run_stays_whole_and_the_next_one_cleans_up(archive: Path) -> None:
    """Killed before the first step, the third (in `make soak`: the second), and so on, until it comes through."""
    every = cases(2, 1)
    with staging(archive) as stage:
        put(stage, "old")
    after = archive.with_name("after")
    after.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, archive, after, str(every)], check=True, timeout=PATIENCE_S)
    outcomes = []
    for copy in sorted(after.iterdir()):
        with staging(copy):
            pass
        assert left_behind(copy) == []
        outcomes.append({place.run: read_trace(place.folder).info.rows for place in find_runs([copy])})
    assert [rows for rows, _ in itertools.groupby(outcomes)] == [
        {"old": 10},
        {"new": 14, "old": 10},
        {"new": 14, "old": 12},
    ]
    assert len(outcomes) > 20 / every


def test_what_the_dead_have_left_is_nobodys_run(archive: Path) -> None:
    half = run_folder(archive / STAGING_FOLDER / "0123456789abcdef", "e", "r")
    half.mkdir(parents=True)
    (half / "part-00000.parquet").write_text("half of it")
    assert find_runs([archive]) == []
    with staging(archive) as stage:
        assert left_behind(archive) == [Path(stage.folder).name]
    assert left_behind(archive) == []


def test_another_process_may_clear_away_the_same_folder_meanwhile(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone between the moment when it is found and the moment when its contents are listed."""
    dead = archive / STAGING_FOLDER / "trash-0123456789abcdef"
    replaced = dead / "replaced"
    (replaced / "a").mkdir(parents=True)

    def overtaken(do: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *others: Any) -> Any:
            if str(path) == str(replaced) and dead.exists():
                dead.rename(archive.with_name("gone"))
            return do(path, *others)

        return call

    monkeypatch.setattr(os, "scandir", overtaken(os.scandir))
    monkeypatch.setattr(os, "listdir", overtaken(os.listdir))
    with staging(archive) as stage:
        assert put(stage, "r")
    assert archive.with_name("gone").exists() and left_behind(archive) == []


MANY = """
import os, sys
from pathlib import Path
from resprout.pipeline.archive import staging
from tests.pipeline.small import a_trace

def add(archive, mine):
    for number in range(12):
        with staging(archive) as stage:
            stage.publish(a_trace(stage.new_folder(), 1), "e", f"shared {number}")
            stage.publish(a_trace(stage.new_folder(), 1 + mine), "e", "contested", replace=True)

children = []
for mine in range(3):
    if not (child := os.fork()):
        add(Path(sys.argv[1]), mine)
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def test_many_processes_may_come_and_go_and_add_the_same_runs(archive: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MANY, archive], check=False, timeout=PATIENCE_S, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    runs = {place.run: read_trace(place.folder).info.rows for place in find_runs([archive])}
    assert runs.pop("contested") in (2, 4, 6)
    assert runs == dict.fromkeys((f"shared {number}" for number in range(12)), 2)
    assert left_behind(archive) == []
