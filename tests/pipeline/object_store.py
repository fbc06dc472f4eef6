"""An object store as hard as they come: nothing can be renamed or appended to, there are no locks and no folders, and a
file is there when it is closed, not before. Its content lies in a folder of this machine."""

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from resprout.pipeline import stores
from resprout.pipeline.stores import StorePath


class ObjectStore(fs.FileSystemHandler):  # type: ignore[misc]
    def __init__(self, base: Path) -> None:
        self._base = base
        self._below = fs.SubTreeFileSystem(str(base), fs.LocalFileSystem())
        self.written: list[str] = []
        """Addresses, in the order in which the files appeared."""
        self.fails_at = ""
        """Whoever writes a file whose address holds this dies."""

    def get_type_name(self) -> str:
        return "hard"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._below.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._below.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        """There are none."""

    def delete_dir(self, path: str) -> None:
        shutil.rmtree(self._base / path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        raise AssertionError("all of a bucket")

    def delete_root_dir_contents(self) -> None:
        raise AssertionError("all of a store")

    def delete_file(self, path: str) -> None:
        self._below.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        raise AssertionError(f"{src} cannot be renamed: this is an object store")

    def copy_file(self, src: str, dest: str) -> None:
        raise AssertionError(f"{src} cannot be copied in place")

    def open_input_stream(self, path: str) -> Any:
        return self._below.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._below.open_input_file(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise AssertionError(f"{path} cannot be added to")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Upload(self, path), mode="w")

    def store(self, path: str, content: bytes) -> None:
        if self.fails_at and self.fails_at in path:
            raise OSError("the connection is gone")
        target = self._base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        self.written.append(path)


class _Upload(io.BytesIO):
    def __init__(self, store: ObjectStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            self._store.store(self._path, self.getvalue())
        super().close()


@contextlib.contextmanager
def object_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StorePath, ObjectStore]]:
    """A bucket, and what is behind it."""
    store = ObjectStore(folder)
    monkeypatch.setitem(stores.MAKERS, "hard", lambda: fs.PyFileSystem(store))
    stores.system_of.cache_clear()
    yield StorePath("hard://bucket"), store
    stores.system_of.cache_clear()
