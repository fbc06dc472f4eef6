"""The folder in which one broker keeps what must survive its process: its journal, the number of its latest life, and
who else was in its network.

One process at a time: it holds a lock on the folder as long as it lives, however it ends. A folder belongs to the
broker that used it first.
"""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.journal.interface import FULL, DamagedError, DiskError, JournalOptions, Kept
from resprout.journal.journal import Journal, Records, open_journal
from resprout.journal.mending import Mended, mend
from resprout.journal.reading import JournalReader, open_reader
from resprout.logs.records import CompactedPart, read_votes
from resprout.net.disk import RealFiles, free_bytes, sync_folder
from resprout.net.log_mending import ReplicaCheck, mend_logs
from resprout.net.log_stores import LOGS, LogStores

_OPTIONS: Final = JournalOptions()
JOURNAL: Final = "journal"
"""The folder in it with the segments."""
EVENTS: Final = "events"
"""The same, of the journal of events."""
ENTRIES: Final = ".entries"
"""End of the name of the store with the entries of a log."""
_EVENTS_ID: Final = "events.json"
_RECORDS_OF_OLD: Final = "records"
_LIFE: Final = "life.json"
_LOCK: Final = "lock"
_COMPANY: Final = "company.json"
_STALE: Final = "company.stale.json"
"""The same, when something that was to be remembered could not be written: its broker must not vote with it."""
MEMBERS_MAX: Final = 1_000
"""Brokers that are remembered; one that answers is enough."""


class _Life(msgspec.Struct, frozen=True):
    name: str
    incarnation: int


class _EventsId(msgspec.Struct, frozen=True):
    journal: str


class Remembered(msgspec.Struct, frozen=True):
    """The network that a broker was in, as it knew it last."""

    network: str = ""
    members: dict[str, str] = {}
    """Where each of the others listens, by name. Empty for a broker that was alone."""
    memory: bytes = b""
    """What its last life wanted its next one to know (`BrokerSeat.memory`)."""


class DataFolder:
    """Made by `open_folder`."""

    def __init__(self, path: Path, name: str, lock: int, files: RealFiles, records: Records, incarnation: int) -> None:
        self.path = path
        self.records = records
        self.incarnation = incarnation
        """Of the latest life that used it; 0 for none."""
        self._name = name
        self._files = files
        self._lock = lock
        self._event_files: RealFiles | None = None
        self.events: Journal | None = None
        """Where events are kept, once it is opened."""
        self.stores = LogStores(path)
        self.events_id = ""
        """What tells that journal from all others."""

    @property
    def warning(self) -> str:
        """One line for people when a part of what was kept is lost, otherwise nothing."""
        return self.records.journal.warning

    def open_events(self, options: JournalOptions) -> Journal:
        """The journal of events, begun when there is none. DamagedError when it is; DiskError when it cannot be
        written."""
        if self.events is None:
            self._event_files = RealFiles(_folder_in(self.path, EVENTS))
            try:
                self.events = open_journal(self._event_files, options, _draw, time.time_ns() // 1_000)
            except DamagedError as error:
                raise DamagedError(f"{error}: {_mending(self.path)}") from None
            try:
                self.events_id = msgspec.json.decode((self.path / _EVENTS_ID).read_bytes(), type=_EventsId).journal
            except FileNotFoundError:
                self.events_id = f"{self._name}.{secrets.token_hex(4)}"
                self._write(_EVENTS_ID, msgspec.json.encode(_EventsId(self.events_id)))
            except (OSError, msgspec.MsgspecError) as error:
                raise UsageError(f"{self.path / _EVENTS_ID} does not name a journal: {error}") from None
        return self.events

    def last_event(self) -> Kept | None:
        """The last record of the journal of events."""
        reader = self.events.reader() if self.events is not None else None
        if reader is None or reader.end == reader.first:
            return None
        return next(iter(reader.read(reader.end - 1)), None)

    def begin_life(self, incarnation: int) -> None:
        """No later life takes this number again. DiskError when that cannot be kept."""
        self.incarnation = max(self.incarnation, incarnation)
        self._write(_LIFE, msgspec.json.encode(_Life(self._name, self.incarnation)))

    def remember(self, network: str, members: Mapping[str, str], memory: bytes = b"") -> None:
        """Whom the next process looks for, and what it is to know. DiskError when that cannot be kept: then what was
        kept before is set aside, because the next process must not vote without knowing this."""
        kept = dict(list(members.items())[:MEMBERS_MAX])
        try:
            self._write(_COMPANY, msgspec.json.encode(Remembered(network, kept, memory)))
        except DiskError:
            with contextlib.suppress(FileNotFoundError):  # it was set aside before
                (self.path / _COMPANY).replace(self.path / _STALE)
                sync_folder(self.path)
            raise
        (self.path / _STALE).unlink(missing_ok=True)

    def _write(self, name: str, content: bytes) -> None:
        """All of it or nothing, and for good."""
        file = self.path / name
        draft = file.with_name(f"{name}.new")
        try:
            with draft.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
            sync_folder(self.path)
        except OSError as error:
            raise DiskError(f"{file}: {error.strerror or error}", error.errno or 0) from None

    def close(self) -> None:
        with contextlib.suppress(DiskError):  # whoever wrote was told so, and has given up
            self.records.journal.sync()
        self._files.close()
        if self.events is not None and self._event_files is not None:
            with contextlib.suppress(DiskError):
                self.events.sync()
            self._event_files.close()
        self.stores.close()
        os.close(self._lock)


def open_folder(path: Path, name: str, options: JournalOptions = _OPTIONS) -> DataFolder:
    """For this broker; made when there is none. UsageError when it cannot be, or when somebody else uses it; DiskError
    when there is no room for it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in FULL:
            raise DiskError(f"--data {path}: {error.strerror}", error.errno or 0) from None
        raise UsageError(f"--data {path}: {error.strerror or error}") from None
    try:
        _take(lock, path)
        life = _latest_life(path)
        if life is not None and life.name != name:
            raise UsageError(f"--data {path}: this folder belongs to the broker {life.name}")
        files = RealFiles(_journal_folder(path))
        records = Records(open_journal(files, options, _draw, time.time_ns() // 1_000))
    except DamagedError as error:
        os.close(lock)
        raise DamagedError(f"{error}: {_mending(path)}") from None
    except BaseException:
        os.close(lock)
        raise
    return DataFolder(path, name, lock, files, records, life.incarnation if life is not None else 0)


def mend_folder(path: Path, discarded: Collection[str] = ()) -> tuple[list[tuple[str, Mended]], list[ReplicaCheck]]:
    """Goes on with the records that are intact, in each journal; by the name of its folder. Sets damaged replicas of
    logs aside (`net.log_mending`), and those of the logs in `discarded`. UsageError when it is no folder of a broker,
    or somebody uses it."""
    _check(path)
    try:
        lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    done: list[tuple[str, Mended]] = []
    try:
        _take(lock, path)
        for name in (JOURNAL, EVENTS):
            if (path / name).is_dir():
                files = RealFiles(path / name)
                try:
                    done.append((name, mend(files, _draw, lambda: free_bytes(path))))
                finally:
                    files.close()
        return done, mend_logs(path, discarded)
    finally:
        os.close(lock)


def look_into(path: Path, name: str = JOURNAL) -> JournalReader:
    """A journal of a broker, which may be running. UsageError when it is no folder of a broker, or damaged."""
    _check(path)
    return open_reader(RealFiles(path / name))


def look_into_log(path: Path, log: str) -> JournalReader:
    """The entries of a log, or of one partition, at a broker, which may be running; of a compacted log, those behind
    the compacted part. UsageError when it is no folder of a broker, keeps no replica of this log, or is damaged."""
    return open_reader(RealFiles(path / LOGS / f"{_key_of(path, log)}{ENTRIES}"))


def _key_of(path: Path, log: str) -> str:
    _check(path)
    keys = [store.name.removesuffix(ENTRIES) for store in (path / LOGS).glob(f"*{ENTRIES}")]
    generations = {key: key.removeprefix(f"{log}.") for key in keys if key.startswith(f"{log}.")}
    found = [key for key, generation in generations.items() if generation.isdecimal()] + [
        key for key in keys if key == log
    ]
    if not found:
        kept = ", ".join(sorted(keys)) or "none"
        raise UsageError(f"{path}: this broker keeps no replica of the log {log}; it keeps: {kept}")
    return max(found, key=lambda key: int(generations.get(key, "0")))


def look_into_compacted(path: Path, log: str) -> tuple[CompactedPart, Iterator[Kept]]:
    """The compacted part of the same, and its entries, which are read as they are asked for."""
    key = _key_of(path, log)
    votes = open_reader(RealFiles(path / LOGS / f"{key}.votes"))
    try:
        part = read_votes([kept.record for kept in votes.all_from(votes.first)]).compacted
    except ValueError as error:
        raise UsageError(f"{path}: votes of the log {log}: {error}") from None
    if not part.through:
        return part, iter(())
    kept = open_reader(RealFiles(path / LOGS / f"{key}.compacted{part.store}"))
    return part, kept.all_from(kept.first)


def _check(path: Path) -> None:
    if not (path / JOURNAL).is_dir():
        raise UsageError(f"{path}: no data folder of a broker, there is no folder {JOURNAL} in it")


def remembered(path: Path | None) -> Remembered:
    """What a folder says of the network; nothing where there is no folder, or a new one. UsageError when it cannot be
    read: a broker that forgot its network would found another one."""
    if path is None:
        return Remembered()
    file = path / _COMPANY
    is_stale = not file.exists() and (path / _STALE).exists()
    try:
        kept = msgspec.json.decode((path / _STALE if is_stale else file).read_bytes(), type=Remembered)
        return msgspec.structs.replace(kept, memory=b"") if is_stale else kept
    except (FileNotFoundError, NotADirectoryError):  # whoever opens the folder complains of what is none
        return Remembered()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    except msgspec.MsgspecError:
        raise UsageError(f"{file} does not tell which network this broker was in: remove it to forget that") from None


def _journal_folder(path: Path) -> Path:
    """Made when there is none."""
    if (path / _RECORDS_OF_OLD).exists():
        raise UsageError(f"{path / _RECORDS_OF_OLD}: records of an earlier version, which cannot be read: move it away")
    return _folder_in(path, JOURNAL)


def _folder_in(path: Path, name: str) -> Path:
    """Made when there is none."""
    folder = path / name
    try:
        folder.mkdir(exist_ok=True)
        sync_folder(path)
    except OSError as error:
        raise DiskError(f"{folder}: {error.strerror or error}", error.errno or 0) from None
    return folder


def _mending(path: Path) -> str:
    return f"`resprout mend {path}` goes on with what is intact and sets damaged files aside"


def _draw() -> int:
    return secrets.randbits(32)


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
