"""Logs of a run with processes: whether all have a feeder, whether they are complete, and what their replicas hold.

Brokers report the state of logs in their accounts (`net.survey`), which are compared with the disks of the replicas.
The brokers still run when their disks are read: a broker that stops hands its subscriptions over, which may change a
log.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from resprout.journal.interface import NotKeptError
from resprout.journal.reading import JournalReader, open_reader
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import CompactedPart, LogEntry, read_entry
from resprout.net.discover import UnreachableError
from resprout.net.disk import RealFiles
from resprout.net.log_stores import LOGS
from resprout.net.process import BrokerProcess
from resprout.net.survey import Asker
from resprout.net.tls import Keyring, tls_of_client
from resprout.net.tree import LocalTree
from resprout.scenario.model import Scenario
from resprout.scenario.observe_logs import declared_rows, kept_rows, stored_entries
from resprout.stacks.status import LogSeen
from resprout.trace import kinds
from resprout.trace.schema import Row

LOOK_US: Final = 500_000
"""Time between two looks at the logs. They are complete if two looks in turn find the same, and nothing pending."""
OPERATOR: Final = "run-observer"


class RealLogs:
    def __init__(self, scenario: Scenario, tree: LocalTree, tls: Path | None) -> None:
        self._scenario = scenario
        self._declared = scenario.logs
        self._logs = [part for log in scenario.logs for part in log.parts]
        """The partitions of all logs."""
        self._tree = tree
        keyring = Keyring(tls_of_client(tls, OPERATOR)) if tls is not None and self._logs else None
        self._asker = Asker(OPERATOR, "client", keyring)
        self._fed: set[str] = set()
        self._looked_us = 0
        self._found: object = None

    def declared(self, world: str) -> Iterator[Row]:
        yield from declared_rows(0, world, self._declared)

    def hear(self, row: Row) -> None:
        if row.kind == kinds.LOG_FED:
            self._fed.add((row.attributes or {})["log"])

    @property
    def unfed(self) -> list[str]:
        """Logs that had no feeder yet. No workload begins before all have one, so that they owe every message."""
        return [log.name for log in self._logs if log.name not in self._fed]

    async def are_complete(self, time_us: int) -> bool:
        """Whether no log with a majority of its replicas has pending work, so that the run may end."""
        if not self._logs:
            return True
        if time_us - self._looked_us < LOOK_US:
            return False
        before, self._found = self._found, await self._look()
        self._looked_us = time_us
        return self._found is not None and self._found == before

    def _running(self) -> list[BrokerProcess]:
        return [process for process in self._tree.processes if process.listening and not process.frozen]

    async def _look(self) -> object:
        """Return the ends of all replicas that run, or None if a log has pending work."""
        seen: dict[str, dict[str, LogSeen]] = {}
        for process in self._running():
            try:
                account = await self._asker.account(process.address, process.name)
            except UnreachableError:
                return None
            seen[process.name] = {log.name: log for log in account.logs}
        ends: dict[str, dict[str, int]] = {}
        for log in self._logs:
            found = {broker: logs[log.name] for broker, logs in seen.items() if log.name in logs}
            voting = [broker for broker, one in found.items() if one.role in ("leader", "follower")]
            if 2 * len([broker for broker in log.replicas if broker in seen]) <= len(log.replicas):
                continue
            feeding = [one for one in found.values() if one.is_feeding]
            if not feeding or any(one.unfed for one in feeding) or set(voting) != set(log.replicas) & set(seen):
                return None
            on_disk = {broker: await asyncio.to_thread(self._end_of, log, broker) for broker in voting}
            if any(found[broker].end != end for broker, end in on_disk.items()) or len(set(on_disk.values())) > 1:
                return None
            ends[log.name] = on_disk
        return ends

    def _end_of(self, log: LogDeclaration, broker: str) -> int:
        if log.compact:
            entries, part = self._entries(log, broker)
            return max(part.end, entries[-1].following if entries else 0)
        reader = self._reader(log.entries, broker)
        last = reader.read(reader.end - 1, 1) if reader is not None and reader.end > reader.first else []
        entry = read_entry(last[0].record) if last else None
        return entry.following if entry is not None else 0

    def _entries(self, log: LogDeclaration, broker: str) -> tuple[list[LogEntry], CompactedPart]:
        def read(store: str) -> Iterator[bytes]:
            reader = self._reader(store, broker)
            if reader is not None:
                yield from (kept.record for kept in reader.all_from(reader.first))

        return stored_entries(log, read)

    def _reader(self, store: str, broker: str) -> JournalReader | None:
        """Return a reader of a store on the disk of a broker; None if it has no such store."""
        data = self._tree.process(broker).plan.data
        folder = data / LOGS / store if data is not None else None
        try:
            return open_reader(RealFiles(folder)) if folder is not None and folder.is_dir() else None
        except NotKeptError:
            return None

    async def rows(self, time_us: int) -> list[Row]:
        """Return the rows about what the disks of replicas hold."""
        return await asyncio.to_thread(lambda: list(self._kept(time_us)))

    def _kept(self, time_us: int) -> Iterator[Row]:
        running = {process.name for process in self._running()}
        for log in self._logs:
            for process in self._tree.processes:
                entries, part = self._entries(log, process.name)
                is_replica = process.name in running and process.name in log.replicas
                if entries or is_replica:
                    yield from kept_rows(time_us, process.name, log, entries, 0, is_replica, part)
