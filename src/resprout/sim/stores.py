"""Stores of virtual nodes: what a machine asks of the journals with names (`journal.interface`)."""

from collections.abc import Callable

from resprout.core.contract import Event
from resprout.journal.interface import FetchStore, OpenStore, ResetStore, StoreFetched, StoreForget, StoreOpened
from resprout.sim.disk import StoreOnDisk
from resprout.sim.nodes import Calendar, Process


class StoreDriver:
    def __init__(self, calendar: Calendar, hand: Callable[[Process, Event], None]) -> None:
        """`hand` lets a process that runs take a step."""
        self._calendar = calendar
        self._hand = hand

    def open(self, process: Process, effect: OpenStore) -> None:
        store = process.node.disk.stores.setdefault(effect.store, StoreOnDisk())
        records = store.open(effect.options)
        found = records.read() if effect.is_read else []
        self._answer(process, StoreOpened(effect.store, found, records.journal.first, records.journal.next))

    def forget(self, process: Process, effect: StoreForget) -> None:
        process.node.disk.forget_in_store(effect.store, effect.count, self._calendar.now_us)

    def reset(self, process: Process, effect: ResetStore) -> None:
        process.node.disk.stores[effect.store].reset(effect.position)

    def fetch(self, process: Process, effect: FetchStore) -> None:
        reader = process.node.disk.stores[effect.store].records.journal.reader()
        position = max(effect.position, reader.first)
        records = reader.read(position, effect.size) if position < reader.end else []
        self._answer(process, StoreFetched(effect.token, records, reader.first, reader.end))

    def _answer(self, process: Process, event: Event) -> None:
        """After one latency of the disk."""
        self._calendar.at(self._calendar.now_us + process.node.disk_latency_us, self._tell, process, event)

    def _tell(self, process: Process, event: Event) -> None:
        if process.step is not None:
            self._hand(process, event)
        elif not process.dead:
            process.put_off(self._tell, process, event)
