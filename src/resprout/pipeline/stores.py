"""Where archives can lie: in folders of this machine, and in object stores (`s3://bucket/runs`, `gs://...`), which are
reached through `pyarrow.fs`.

A `StorePath` has those operations of a `pathlib.Path` that archives are made of, so the same code works on both. Object
stores have no renames, no locks and no folders; what they have is that a file appears whole, when it is closed, and
that is all that is asked of them. Logins come from where the store's own tools have them.
"""

import contextlib
import functools
import os
import posixpath
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from pyarrow import fs

from resprout.pipeline.errors import PipelineError

_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.+)", re.DOTALL)
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""How others write the same."""
SCHEMES: Final = ("s3", "gs", *_SAME)
_PATIENCE: Final = {"gs": "?retry_limit_seconds=60"}
"""Where a library would try for a quarter of an hour before it says that nobody answers."""
PARTIAL: Final = ".partial"
"""Ends the name of a file that is being written, on a file system."""

MAKERS: dict[str, Callable[[], Any]] = {}
"""By scheme, what makes the `pyarrow.fs.FileSystem` of addresses that pyarrow does not know itself."""


class StorePath(msgspec.Struct, frozen=True, order=True):
    """A file, or what is called like a folder, in an object store. Goes to tasks as the text it is."""

    address: str

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(f"{self.address.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return posixpath.basename(self.address.rstrip("/"))

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self.name)[1]

    @property
    def parent(self) -> "StorePath":
        return StorePath(posixpath.dirname(self.address.rstrip("/")))

    def with_name(self, name: str) -> "StorePath":
        return self.parent / name

    def absolute(self) -> "StorePath":
        return self

    def resolve(self) -> "StorePath":
        return self

    def exists(self) -> bool:
        return bool(self._info().type != fs.FileType.NotFound)

    def is_file(self) -> bool:
        return bool(self._info().type == fs.FileType.File)

    def is_dir(self) -> bool:
        return bool(self._info().type == fs.FileType.Directory)

    def iterdir(self) -> "Iterator[StorePath]":
        with self._reached():
            found = self._system.get_file_info(fs.FileSelector(self._inside))
        return (self / one.base_name for one in found)

    def glob(self, pattern: str) -> "Iterator[StorePath]":
        """Level by level, as the pattern has them; nothing where there is nothing."""
        first, _, rest = pattern.partition("/")
        with self._reached():
            found = self._system.get_file_info(fs.FileSelector(self._inside, allow_not_found=True))
        for path in (self / one.base_name for one in found if fnmatchcase(one.base_name, first)):
            yield from path.glob(rest) if rest else [path]

    def open_file(self) -> Any:
        with self._reached():
            return self._system.open_input_file(self._inside)

    def read_bytes(self) -> bytes:
        with self._reached(), self.open_file() as file:
            return bytes(file.read())

    def write_bytes(self, content: bytes) -> None:
        with self._reached(), self._system.open_output_stream(self._inside) as file:
            file.write(content)

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """There is nothing to make."""

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok or self.exists():
            with self._reached():
                self._system.delete_file(self._inside)

    def remove(self) -> None:
        """With all that is below."""
        if self.is_dir():
            with self._reached():
                self._system.delete_dir(self._inside)

    def _info(self) -> Any:
        with self._reached():
            return self._system.get_file_info(self._inside)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """That something is not there is for the caller; everything else is for the user."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(f"{self}: cannot be reached: {' '.join(str(error).split())[:200]}") from None

    @property
    def _system(self) -> Any:
        return system_of(*_bucket_of(self.address))

    @property
    def _inside(self) -> str:
        found = _ADDRESS.fullmatch(self.address)
        assert found is not None
        return found["rest"]


Location: TypeAlias = Path | StorePath


def location(place: "str | os.PathLike[str] | StorePath") -> Location:
    """What a text names: an address in a store, or a path."""
    if isinstance(place, StorePath):
        return place
    if isinstance(place, str) and (found := _ADDRESS.fullmatch(place)) is not None:
        scheme = found["scheme"].lower()
        return StorePath(f"{_SAME.get(scheme, scheme)}://{found['rest'].rstrip('/')}")
    return Path(place)


def found_in(folder: Location, pattern: str) -> list[Location]:
    """By name."""
    found: list[Location] = list(folder.glob(pattern))
    return sorted(found, key=str)


def source_of(place: str | Location) -> Any:
    """What pyarrow reads a file from. A path must be whole: it takes what stands before a colon for a scheme."""
    found = location(place)
    return found.open_file() if isinstance(found, StorePath) else found.absolute()


def put(path: Location, content: bytes) -> None:
    """A file that appears whole, in place of whatever had its name."""
    if isinstance(path, StorePath):
        path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def fetch(path: Location, copy: Path) -> None:
    """A copy on this machine."""
    if not isinstance(path, StorePath):
        shutil.copyfile(path, copy)
        return
    with path.open_file() as file, copy.open("wb") as out:
        shutil.copyfileobj(file, out, 1 << 20)


@functools.cache
def system_of(scheme: str, bucket: str) -> Any:
    try:
        if scheme in MAKERS:
            return MAKERS[scheme]()
        return fs.FileSystem.from_uri(f"{scheme}://{bucket}{_PATIENCE.get(scheme, '')}")[0]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{scheme}://{bucket}: cannot be reached: {' '.join(str(error).split())[:200]}") from None


def _bucket_of(address: str) -> tuple[str, str]:
    found = _ADDRESS.fullmatch(address)
    assert found is not None, "made by `location`"
    return found["scheme"], found["rest"].partition("/")[0]
