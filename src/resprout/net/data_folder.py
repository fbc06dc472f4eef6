"""The folder in which one broker keeps what must survive its process: its records and the number of its latest life.

One process at a time: it holds a lock on the folder as long as it lives, however it ends. A folder belongs to the
broker that used it first.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.net.disk import DiskError, sync_folder
from resprout.net.record_damage import Mended, mend
from resprout.net.records import RecordFile, open_records

_RECORDS: Final = "records"
_LIFE: Final = "life.json"
_LOCK: Final = "lock"


class _Life(msgspec.Struct, frozen=True):
    name: str
    incarnation: int


class DataFolder:
    """Made by `open_folder`."""

    def __init__(self, path: Path, name: str, lock: int, records: RecordFile, incarnation: int, warning: str) -> None:
        self.path = path
        self.records = records
        self.incarnation = incarnation
        """Of the latest life that used it; 0 for none."""
        self.warning = warning
        """One line for people when a part of what was kept is lost, otherwise nothing."""
        self._name = name
        self._lock = lock

    def begin_life(self, incarnation: int) -> None:
        """No later life takes this number again. DiskError when that cannot be kept."""
        self.incarnation = max(self.incarnation, incarnation)
        file = self.path / _LIFE
        draft = file.with_name(f"{_LIFE}.new")
        try:
            with draft.open("wb") as out:
                out.write(msgspec.json.encode(_Life(self._name, self.incarnation)))
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
            sync_folder(self.path)
        except OSError as error:
            raise DiskError(f"{file}: {error.strerror or error}") from None

    def close(self) -> None:
        self.records.close()
        os.close(self._lock)


def open_folder(path: Path, name: str) -> DataFolder:
    """For this broker; made when there is none. UsageError when it cannot be, or when somebody else uses it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"--data {path}: {error.strerror or error}") from None
    try:
        _take(lock, path)
        life = _latest_life(path)
        if life is not None and life.name != name:
            raise UsageError(f"--data {path}: this folder belongs to the broker {life.name}")
        records, warning = open_records(path / _RECORDS)
    except BaseException:
        os.close(lock)
        raise
    return DataFolder(path, name, lock, records, life.incarnation if life is not None else 0, warning)


def mend_folder(path: Path) -> Mended:
    """Goes on with the records that are intact. UsageError when it is no folder of a broker, or somebody uses it."""
    if not (path / _RECORDS).is_file():
        raise UsageError(f"{path}: no data folder of a broker, there is no file {_RECORDS} in it")
    try:
        lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    try:
        _take(lock, path)
        return mend(path / _RECORDS)
    finally:
        os.close(lock)


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"--data {path}: another process uses this folder") from None
    except OSError as error:
        raise UsageError(f"--data {path}: it cannot be locked: {error.strerror or error}") from None


def _latest_life(path: Path) -> _Life | None:
    file = path / _LIFE
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Life)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    except msgspec.MsgspecError:
        raise UsageError(f"{file} does not tell whose folder this is") from None
