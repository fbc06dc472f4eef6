"""What makes a folder an archive: `archive.json`, with the version of its layout and of the columns of its traces.

Only one version of either exists. How a second one is to be handled is decided and written in `docs/pipeline.md`; until
there is one, anything else is refused, so a table of mixed versions cannot come about unnoticed.
"""

from typing import Final, TypeVar

import msgspec

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.stores import PARTIAL, Location, put
from resprout.trace.schema import SCHEMA_VERSION

HEAD_NAME: Final = "archive.json"
FORMAT: Final = "resprout archive"
LAYOUT_VERSION: Final = 1


class Head(msgspec.Struct, frozen=True):
    format: str
    version: int
    """Of the layout of folders and manifests."""
    schema_version: int
    """Of the columns of every trace inside."""


def check_archive(folder: Location) -> None:
    """PipelineError unless the folder is an archive that this program understands."""
    path = folder / HEAD_NAME
    try:
        head = msgspec.json.decode(path.read_bytes(), type=Head)
    except FileNotFoundError:
        raise PipelineError(f"{folder}: not an archive, {HEAD_NAME} is missing") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PipelineError(f"{path}: damaged: {error}") from None
    if head.format != FORMAT:
        raise PipelineError(f"{path}: format {head.format!r}; this program reads {FORMAT!r}")
    if head.version != LAYOUT_VERSION:
        raise PipelineError(f"{path}: version {head.version}; this program reads version {LAYOUT_VERSION}")
    if head.schema_version != SCHEMA_VERSION:
        raise PipelineError(f"{path}: schema version {head.schema_version}; this program reads {SCHEMA_VERSION}")


def check_usable(folder: Location) -> None:
    """PipelineError unless the folder is an archive, or can become one: it is empty, or not there. Changes nothing."""
    if (folder / HEAD_NAME).exists():
        check_archive(folder)
        return
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise PipelineError(f"{folder}: cannot hold an archive: {(error.strerror or str(error)).lower()}") from None
    if foreign := [name for name in names if not (name.startswith(HEAD_NAME) and name.endswith(PARTIAL))]:
        raise PipelineError(f"{folder}: not an archive, and not empty: it holds {foreign[0]!r}")


L = TypeVar("L", bound=Location)


def make_archive(folder: L) -> L:
    """The folder, which is an archive from now on, whoever else makes it one at the same time."""
    check_usable(folder)
    path = folder / HEAD_NAME
    if path.exists():
        return folder
    content = msgspec.json.encode(Head(FORMAT, LAYOUT_VERSION, SCHEMA_VERSION))
    try:
        put(path, msgspec.json.format(content) + b"\n")
        return folder
    except OSError as error:
        raise PipelineError(f"{folder}: cannot hold an archive: {(error.strerror or str(error)).lower()}") from None
