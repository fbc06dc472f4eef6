"""What can go wrong in the pipeline, said in one line; and what Spark says, made into one."""

import re
from typing import Final

from resprout.core.errors import UsageError

LINE_LETTERS_MAX: Final = 300


class PipelineError(UsageError):
    """Spark cannot be started, or cannot do what it was asked with the data and the memory it has."""


class NoSparkError(PipelineError):
    """Spark cannot be started at all: it is not installed, or there is no Java, no memory, or no such master."""


_OURS: Final = re.compile(r"^resprout\.[\w.]*\.(?:\w*Error): (.+)$", re.MULTILINE)
"""An error of ours that was raised in a worker stands in the text of Spark's error, at the end of a traceback."""
_RAISED: Final = re.compile(r"^(?:Caused by: |: )?([A-Za-z_][\w.]*(?:Error|Exception)): (.+)$", re.MULTILINE)


def in_one_line(error: BaseException) -> str:
    """The reason that a person can act on, out of pages of stack traces."""
    text = str(error)
    if ours := _OURS.findall(text):
        return _short(ours[-1])
    if "OutOfMemoryError" in text or isinstance(error, MemoryError):
        return "Spark ran out of memory; give it more with --conf spark.driver.memory=4g, or judge fewer runs at once"
    if "No space left on device" in text:
        return "Spark has no room for its temporary files; choose another place with --conf spark.local.dir=FOLDER"
    if raised := _RAISED.findall(text):
        return _short(f"Spark failed: {raised[-1][0].rsplit('.', 1)[-1]}: {raised[-1][1]}")
    return _short(f"Spark failed: {text.strip() or type(error).__name__}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_LETTERS_MAX else line[: LINE_LETTERS_MAX - 3] + "..."
