"""The stores of a broker: journals with names of their own, in the folder `logs` of its data folder (`docs/logs.md`).

Everything here runs in the thread that writes. A store that is not read when it is opened holds entries of a log: it
is synced before votes are forgotten, and its records are dropped by retention alone. The others keep every record that
is not forgotten.
"""

import contextlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from resprout.core.contract import Forget, Persist
from resprout.core.errors import ResproutError
from resprout.journal.interface import (
    DamagedError,
    DiskError,
    FetchStore,
    JournalOptions,
    OpenStore,
    ResetStore,
    StoreFetched,
    StoreForget,
    StoreOpened,
    StoreRecord,
    StoreTrim,
)
from resprout.journal.journal import Journal, Records, begin_journal, open_journal
from resprout.net.disk import RealFiles, sync_folder

LOGS: Final = "logs"
"""The folder with the stores."""

StoreChange = StoreRecord | StoreForget | StoreTrim | ResetStore


class _OpenedStore:
    def __init__(self, files: RealFiles, options: JournalOptions, journal: Journal, is_forgotten: bool) -> None:
        """`is_forgotten`: records are needed until they are forgotten; otherwise retention drops them."""
        self._is_forgotten = is_forgotten
        self.files = files
        self.options = options
        self.records = Records(journal)

    @property
    def journal(self) -> Journal:
        return self.records.journal

    def append(self, records: Sequence[bytes], time_us: int) -> None:
        if self._is_forgotten:
            self.records.apply([Persist(record) for record in records], time_us)
        else:
            self.journal.append(records, time_us, self.journal.next + len(records))

    def reset(self, position: int, time_us: int) -> None:
        self.files.close()
        self.records = Records(begin_journal(self.files, self.options, _draw, position, time_us))


class LogStores:
    def __init__(self, data: Path) -> None:
        self._folder = data / LOGS
        self._stores: dict[str, _OpenedStore] = {}
        self._unsynced: list[Journal] = []
        """Journals with records that are written, and could not be synced."""

    @property
    def journals(self) -> list[Journal]:
        return [store.journal for store in list(self._stores.values())]

    def open(self, effect: OpenStore) -> StoreOpened:
        try:
            store = self._stores.get(effect.store) or self._open(effect)
            records = store.records.read() if effect.is_read else []
        except (DiskError, DamagedError) as error:
            return StoreOpened(effect.store, (), 0, 0, self._advice(error))
        journal = store.journal
        return StoreOpened(effect.store, records, journal.first, journal.next, "", journal.warning)

    def _advice(self, error: ResproutError) -> str:
        """Return what to tell the operator."""
        is_damaged = isinstance(error, DamagedError)
        return f"{error}: stop this broker, and see `resprout mend {self._folder.parent}`" if is_damaged else str(error)

    def _open(self, effect: OpenStore) -> _OpenedStore:
        folder = self._folder / effect.store
        try:
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
            sync_folder(self._folder)
        except OSError as error:
            raise DiskError(f"{folder}: {error.strerror or error}", error.errno or 0) from None
        files = RealFiles(folder)
        journal = open_journal(files, effect.options, _draw, time.time_ns() // 1_000)
        store = self._stores[effect.store] = _OpenedStore(files, effect.options, journal, effect.is_read)
        return store

    def apply(self, changes: list[StoreChange], time_us: int) -> None:
        """Take each change out of the list when it is made. DiskError when one cannot be made."""
        while self._unsynced:
            self._unsynced[-1].sync()
            self._unsynced.pop()
        while changes:
            head = changes[0]
            if isinstance(head, StoreRecord):
                self._append_all(changes, time_us)
            elif isinstance(head, StoreForget):
                for journal in self.journals:
                    journal.sync()
                self._stores[head.store].records.apply([Forget(head.count)], time_us)
                del changes[0]
            elif isinstance(head, StoreTrim):
                for journal in self.journals:
                    journal.sync()
                self._stores[head.store].journal.trim(head.position)
                del changes[0]
            else:
                self._stores[head.store].reset(head.position, time_us)
                del changes[0]

    def _append_all(self, changes: list[StoreChange], time_us: int) -> None:
        """The records before the next change of another kind: together for each store."""
        count = next((at for at, each in enumerate(changes) if not isinstance(each, StoreRecord)), len(changes))
        rest = changes[count:]
        by_store: dict[str, list[StoreRecord]] = {}
        for each in changes[:count]:
            if isinstance(each, StoreRecord):
                by_store.setdefault(each.store, []).append(each)
        while by_store:
            name, records = next(iter(by_store.items()))
            try:
                self._stores[name].append([each.record for each in records], time_us)
            except DiskError as error:
                if error.is_written:
                    self._unsynced.append(self._stores[name].journal)
                    del by_store[name]
                changes[:] = [*[each for left in by_store.values() for each in left], *rest]
                raise
            del by_store[name]
        changes[:] = rest

    def fetch(self, effect: FetchStore) -> StoreFetched:
        store = self._stores.get(effect.store)
        if store is None:
            return StoreFetched(effect.token, (), 0, 0, f"there is no store {effect.store}")
        reader = store.journal.reader()
        position = max(effect.position, reader.first)
        try:
            records = reader.read(position, effect.size) if position < reader.end else []
        except (DiskError, DamagedError) as error:
            return StoreFetched(effect.token, (), reader.first, reader.end, self._advice(error))
        return StoreFetched(effect.token, records, reader.first, reader.end)

    def close(self) -> None:
        for store in self._stores.values():
            with contextlib.suppress(DiskError):  # whoever wrote was told so, and has given up
                store.journal.sync()
            store.files.close()
        self._stores.clear()


def _draw() -> int:
    return secrets.randbits(32)
