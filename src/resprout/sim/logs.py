"""Logs of a simulated network: whether they are complete, and the contents of their replicas."""

from collections.abc import Iterator, Sequence
from typing import Final

from resprout.links.links import Links
from resprout.logs.declaration import LogDeclaration
from resprout.logs.records import CompactedPart, LogEntry
from resprout.scenario.observe_logs import declared_rows, kept_rows, stored_entries
from resprout.sim.world import World
from resprout.stacks.resprout.log_broker import LogBroker
from resprout.stacks.resprout.log_host import LogHost
from resprout.trace.schema import Row

WORLD: Final = "world"
"""The node of rows about declarations."""


class VirtualLogs:
    def __init__(self, world: World, logs: Sequence[LogDeclaration]) -> None:
        self._world = world
        self._logs = tuple(logs)
        self.follows_commands = False
        """Whether clients may create and move logs in this run."""

    def is_busy(self) -> bool:
        """Whether a log with a majority of its replicas has pending work, so that the run must go on."""
        return any(self._is_busy(part) for log in self.declared for part in log.parts)

    @property
    def declared(self) -> tuple[LogDeclaration, ...]:
        """The logs of the scenario, and those that commands have created, as the running brokers know them."""
        found = {log.key: log for log in self._logs}
        if not self.follows_commands:
            return tuple(found.values())
        latest: dict[str, tuple[int, int]] = {}
        for host in self._hosts().values():
            for log in host.table.logs:
                if latest.get(log.key, (-1, -1)) < (log.generation, log.version):
                    latest[log.key] = (log.generation, log.version)
                    found[log.key] = log
        return tuple(found.values())

    def _is_busy(self, log: LogDeclaration) -> bool:
        hosts = self._hosts()
        replicas = [
            hosts[name].replicas[log.key] for name in log.replicas if name in hosts and log.key in hosts[name].replicas
        ]
        if 2 * len(replicas) <= len(log.replicas):
            return False
        feeding = [state for host in hosts.values() if (state := host.is_feeding(log.key)) is not None]
        if not feeding or any(feeding):
            return True
        ends = {replica.entries.end for replica in replicas}
        return len(ends) > 1 or not all(replica.is_complete for replica in replicas)

    def _hosts(self) -> dict[str, LogHost]:
        """Return the hosts of logs at running brokers, by broker."""
        found: dict[str, LogHost] = {}
        for name, node in self._world.nodes.items():
            machine = node.process.machine if node.process is not None and node.process.step is not None else None
            inner = machine.machine if isinstance(machine, Links) else None
            inner = getattr(inner, "machine", inner)  # a wrapper that records events
            if isinstance(inner, LogBroker):
                found[name] = inner.logs
        return found

    def rows(self) -> Iterator[Row]:
        """Yield the rows for the contents of replicas at the end."""
        running = self._hosts()
        yield from declared_rows(self._world.now_us, WORLD, [log for log in self.declared if log not in self._logs])
        for log in [part for each in self.declared for part in each.parts]:
            for broker in self._world.nodes:
                entries, part = self.entries(log, broker)
                is_replica = broker in running and broker in log.replicas
                replica = running[broker].replicas.get(log.key) if is_replica else None
                if entries or replica is not None:
                    end = replica.state.end if replica is not None else 0
                    yield from kept_rows(self._world.now_us, broker, log, entries, end, replica is not None, part)

    def entries(self, log: LogDeclaration, broker: str) -> tuple[list[LogEntry], CompactedPart]:
        """Return the entries on the disk of a replica, and its compacted part."""
        stores = self._world.nodes[broker].disk.stores

        def read(name: str) -> Iterator[bytes]:
            store = stores.get(name)
            if store is not None:
                reader = store.records.journal.reader()
                yield from (kept.record for kept in reader.all_from(reader.first))

        return stored_entries(log, read)
