"""Files and folders on the command line: paths of this machine, and nothing that only looks like one.

An empty text is what a script passes when a variable of it is not set; it would mean the folder that one happens to be
in. An address such as `s3a://bucket/runs` would make a folder of that name.
"""

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click

from resprout.core.errors import UsageError

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class LocalPath(click.ParamType):  # type: ignore[type-arg]
    """A `Path` as it was written, relative or not; `file:///folder` is `/folder`."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, Path):
            return value
        try:
            return local_path(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


def local_path(text: str) -> Path:
    """UsageError when it is none."""
    if not text.strip():
        raise UsageError(f"{text!r} names no file or folder; write . for the folder you are in")
    if _ADDRESS.match(text) is None:
        return Path(text)
    address = urlsplit(text)
    if address.scheme.lower() != "file" or address.netloc not in ("", "localhost") or not address.path.strip("/"):
        raise UsageError(f"{text!r} is no path of this machine; mount it, or copy what it holds, and give a folder")
    return Path(unquote(address.path))
