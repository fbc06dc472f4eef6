"""Waits for the first rows of a live folder. Spark is worth its start only when there is something to judge, and a wait
without it can be interrupted at once."""

import threading
from pathlib import Path
from typing import Final

from resprout.pipeline.errors import PipelineError
from resprout.trace.live_folder import FILES

LOOK_SECONDS: Final = 0.2


def has_rows(folder: Path) -> bool:
    return next(folder.glob(FILES), None) is not None


def wait_for_rows(folder: Path, over: threading.Event) -> bool:
    """Whether there are any; not, when `over` was set before. PipelineError when the folder goes away meanwhile."""
    while not has_rows(folder):
        if not folder.is_dir():
            raise PipelineError(f"{folder}: the folder is gone, and no rows had come")
        if over.wait(LOOK_SECONDS):
            return False
    return True
