"""`resprout watch` where there is nothing to watch: it says so, ends when it is asked to, and calls nothing clean."""

import json
import signal
import threading
from pathlib import Path

import pytest

from resprout.audit.live.judge import live_as_dict, live_lines
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.live import wait_for_rows
from resprout.trace.store import LiveFolder
from tests.cli.processes import running
from tests.pipeline.small import rows


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_empty_folder_is_waited_for_and_an_interrupt_ends_it(number: int, tmp_path: Path) -> None:
    with running("watch", str(tmp_path), "--json") as watch:
        assert watch.error_line().startswith(f"waiting for rows in {tmp_path}: `resprout run --live {tmp_path}`")
        status = watch.end(number)
        out, err = watch.rest()
    assert (status, err) == (2, b"")
    assert json.loads(out)["verdict"] == "not judged"


def test_what_was_not_watched_is_not_called_clean() -> None:
    assert live_lines({"rows": 0}, {}, "") == ["nothing was judged: no rows came"]
    [line] = live_lines({"rows": 7}, {}, "")
    assert line == "nothing was judged: 7 rows came, and no publication or delivery among them"
    assert live_as_dict({"rows": 7}, {}, "")["verdict"] == "not judged"


def test_a_run_that_ended_without_a_publication_is_clean() -> None:
    assert live_as_dict({"rows": 7}, {}, "quiescent")["verdict"] == "clean"


def test_the_wait_is_over_when_rows_come(tmp_path: Path) -> None:
    live, over = LiveFolder(tmp_path / "live"), threading.Event()
    writer = threading.Timer(0.3, live.write, [rows(3)])
    writer.start()
    assert wait_for_rows(live.folder, over)
    writer.join()


def test_a_folder_that_goes_away_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    remover = threading.Timer(0.3, folder.rmdir)
    remover.start()
    with pytest.raises(PipelineError, match="the folder is gone"):
        wait_for_rows(folder, threading.Event())
    remover.join()
