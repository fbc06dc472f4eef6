"""Files and folders on the command line: paths of this machine, and nothing that only looks like one; for runs also
addresses in object stores.

An empty text is what a script passes when a variable of it is not set; it would mean the folder that one happens to be
in. An address such as `hdfs://host/runs` would make a folder of that name.
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


class RunsPath(LocalPath):
    """Where runs lie: a `Path`, or a `StorePath` for an address such as `s3://bucket/runs`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (found := _ADDRESS.match(value)) is not None:
            from resprout.pipeline.stores import SCHEMES, location  # here: it needs what only runs need

            if found[0][:-3].lower() in SCHEMES:
                if not value[found.end() :].strip("/"):
                    self.fail(f"{value!r} names no bucket: one is {found[0]}BUCKET/FOLDER", param, ctx)
                return location(value)
        return super().convert(value, param, ctx)


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
