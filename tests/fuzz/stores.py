"""Stores of brokers in memory, for the replicas of logs; nothing of them is ever lost."""

from collections.abc import Sequence

from resprout.core.contract import Effect, Event
from resprout.journal.interface import (
    FetchStore,
    Kept,
    OpenStore,
    ResetStore,
    StoreFetched,
    StoreForget,
    StoreOpened,
    StoreRecord,
    StoreTrim,
)
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import LogEntry, read_entry

LOGS = (LogDeclaration("kept", "t", ("b0", "b2")), LogDeclaration("shared", "#", ("b0", "b1", "b2")))
"""The liar b1 keeps no replica of the first one, and one of the second."""

STORES = (OpenStore, StoreRecord, StoreForget, StoreTrim, ResetStore, FetchStore)


class _Store:
    def __init__(self) -> None:
        self.first = 0
        self.records: list[bytes] = []

    @property
    def end(self) -> int:
        return self.first + len(self.records)


class MemoryStores:
    """Of all brokers, by name."""

    def __init__(self) -> None:
        self._stores: dict[tuple[str, str], _Store] = {}

    def perform(self, broker: str, effects: Sequence[Effect]) -> list[Event]:
        """The answers to these effects, all about stores."""
        return [event for effect in effects if (event := self._perform(broker, effect)) is not None]

    def _perform(self, broker: str, effect: Effect) -> Event | None:
        assert isinstance(effect, STORES), effect
        store = self._stores.setdefault((broker, effect.store), _Store())
        match effect:
            case OpenStore():
                records = list(store.records) if effect.is_read else []
                return StoreOpened(effect.store, records, store.first, store.end)
            case StoreRecord():
                store.records.append(effect.record)
            case StoreForget():
                gone = max(0, len(store.records) - effect.count)
                store.first, store.records = store.first + gone, store.records[gone:]
            case StoreTrim():
                gone = min(max(0, effect.position - store.first), len(store.records))
                store.first, store.records = store.first + gone, store.records[gone:]
            case ResetStore():
                store.first, store.records = effect.position, []
            case FetchStore():
                begin = max(0, effect.position - store.first)
                kept, size = list[Kept](), 0
                for place, record in enumerate(store.records[begin:], store.first + begin):
                    if kept and size + len(record) > effect.size:
                        break
                    kept.append(Kept(place, 0, record))
                    size += len(record)
                return StoreFetched(effect.token, kept, store.first, store.end)
        return None

    def entries(self, broker: str, log: LogDeclaration) -> list[LogEntry]:
        """What a replica has."""
        store = self._stores.get((broker, log.entries))
        found = [read_entry(record) for record in store.records] if store is not None else []
        return [entry for entry in found if entry is not None]
