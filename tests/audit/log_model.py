"""Traces with replicated logs that keep every promise by construction.

They are added to the trace of a correct system. A log is a subscriber of that system with one more freedom: it takes
what was published after its founding in an order that any subscriber could see. Every replica has it, and clients read
pages of it.
"""

import functools
import random
from collections.abc import Collection
from typing import Any

from resprout.core.partitions import partition_of
from resprout.filters.predicate import topic_matches
from resprout.trace.schema import Row
from tests.audit.model import Client, Sent, System
from tests.audit.spoiling import change

BROKERS = ("b0", "b1", "b2")
MESSAGE = ("publisher", "incarnation", "stream", "seq", "topic", "keys", "guarantee")


class Log:
    def __init__(
        self, name: str, filter_: str, founded: int, part: tuple[int, int] | None = None, grace: int | None = None
    ) -> None:
        """`part`: its number and that of all partitions, if it is a partition of a log. `grace`: the age at which it
        drops tombstones, if it is compacted."""
        self.grace = grace
        self.name = name
        self.filter = filter_
        self.part = part
        self.founded = founded
        """The step of the system at which it is fed first."""
        self.reader = Client(f"log {name}")
        """Takes what the log takes; it is no client, and has no rows."""
        self.kept: list[Sent] = []

    @property
    def about(self) -> dict[str, str]:
        return {"log": self.name}

    def dropped_before(self, offset: int) -> set[int]:
        """The offsets that compaction drops if it takes all entries before an offset. An entry is made at ten times its
        offset; each fourth publication is a tombstone."""
        last = {self.key(at): at for at in range(offset)}
        old = {at for at in range(offset) if self.is_tombstone(at) and (offset - 1 - at) * 10 >= (self.grace or 0)}
        return {at for at in range(offset) if last[self.key(at)] != at} | old

    def key(self, offset: int) -> tuple[str, tuple[str, ...]]:
        row = self.kept[offset].row
        return row.topic or "", tuple(row.keys or ())

    def is_tombstone(self, offset: int) -> bool:
        return self.kept[offset].number % 4 == 0

    def wants(self, sent: Sent) -> bool:
        row = sent.row
        if self.part is not None and partition_of(row.topic or "", row.keys or (), self.part[1]) != self.part[0]:
            return False
        return any(topic_matches(self.filter, topic) for topic in sent.topics)


class LoggedSystem(System):
    def __init__(self, seed: int, logs: list[Log], **more: Any) -> None:
        super().__init__(seed, **more)
        self.logs = logs
        self.fed: set[str] = set()
        self.steps = 0
        for log in logs:
            about = {**log.about, "replicas": " ".join(BROKERS)}
            if log.grace is not None:
                about["grace"] = str(log.grace)
            if log.part is not None:
                about |= {"partition": str(log.part[0]), "partitions": str(log.part[1])}
            self.record("world", "log_declared", filter=log.filter, attributes=about)

    def step(self) -> None:
        super().step()
        self.steps += 1
        for log in self.logs:
            if self.steps >= log.founded and log.name not in self.fed:
                self.fed.add(log.name)
                self.record("b0", "log_fed", attributes=log.about)
            elif self.rng.random() < 0.3:
                self.take(log)

    def publish(self, client: Client, row: Row | None = None) -> None:
        before = len(self.sent)
        super().publish(client, row)
        for sent in self.sent[before:]:
            for log in self.logs:
                if log.name in self.fed and log.wants(sent):
                    log.reader.wanted.append(sent)

    def drop(self, sent: Sent) -> None:
        super().drop(sent)
        for log in self.logs:
            if sent in log.reader.wanted:
                log.reader.wanted.remove(sent)

    def take(self, log: Log) -> bool:
        ready = [sent for sent in log.reader.wanted if self.ready(log.reader, sent)]
        if not ready:
            return False
        sent = self.rng.choice(ready)
        log.reader.wanted.remove(sent)
        log.kept.append(sent)
        return True

    def settle(self) -> None:
        super().settle()
        end = self.rows.pop()
        for log in self.logs:
            while self.take(log):
                pass
            if log.grace is not None:
                self.settle_compacted(log)
                continue
            dropped = self.rng.choice((0, 0, len(log.kept) // 3))
            for broker in BROKERS:
                first = dropped if self.rng.random() < 0.7 else 0
                for offset in range(first, len(log.kept)):
                    self.rows.append(self.row_of(log, offset, broker, "log_kept"))
                held = {**log.about, "first": str(first), "end": str(len(log.kept)), "runs": "yes"}
                self.rows.append(Row(time_us=self.now, node=broker, kind="log_end", attributes=held))
            self.read(log, dropped)
        self.rows.append(end)

    def settle_compacted(self, log: Log) -> None:
        gone: set[int] = set()
        for broker in BROKERS:
            upto = self.rng.randint(0, len(log.kept))
            dropped = log.dropped_before(upto)
            gone |= dropped
            for offset in sorted(dropped):
                row = self.row_of(log, offset, broker, "log_compacted")
                more = {"at": str(10 * offset), "until": str(10 * (upto - 1))}
                more |= {"empty": "yes"} if log.is_tombstone(offset) else {}
                self.rows.append(change(row, attributes={**(row.attributes or {}), **more}))
            for offset in [offset for offset in range(len(log.kept)) if offset not in dropped]:
                self.rows.append(self.row_of(log, offset, broker, "log_kept"))
            held = {"first": "0", "end": str(len(log.kept)), "compacted": str(upto), "runs": "yes"}
            self.rows.append(Row(time_us=self.now, node=broker, kind="log_end", attributes={**log.about, **held}))
        self.read(log, 0, gone)

    def read(self, log: Log, first: int, gone: Collection[int] = ()) -> None:
        for reader in ("r0", "r1"):
            begin, wanted = first, self.rng.choice((log.filter, "bank/fr"))
            while begin < len(log.kept):
                until = min(len(log.kept), begin + self.rng.randint(1, 8))
                for offset in range(begin, until):
                    if offset in gone and self.rng.random() < 0.7:
                        continue
                    if any(topic_matches(wanted, topic) for topic in log.kept[offset].topics):
                        self.rows.append(self.row_of(log, offset, reader, "log_read"))
                about = {**log.about, "from": str(begin), "until": str(until)}
                self.rows.append(Row(time_us=self.now, node=reader, kind="log_page", filter=wanted, attributes=about))
                begin = until

    def row_of(self, log: Log, offset: int, node: str, kind: str) -> Row:
        sent = log.kept[offset]
        columns = {name: getattr(sent.row, name) for name in MESSAGE}
        about = {**log.about, "crc": f"{sent.number:08x}"}
        return Row(
            time_us=self.now, node=node, kind=kind, position=offset, attributes=about,
            tseq=sent.logged if sent.total and self.claims else None, payload_bytes=32, **columns,
        )  # fmt: skip


@functools.cache
def _log_trace(seed: int, steps: int) -> tuple[Row, ...]:
    rng = random.Random(f"logs {seed}")
    logs = [Log("all", "#", rng.choice((0, 30))), Log("bank", "bank/#", 10), Log("some~1", "#", 20, part=(1, 2))]
    logs.append(Log("last", "#", 15, grace=rng.choice((0, 60, 10_000))))
    system = LoggedSystem(seed, logs, clients=3 + seed % 3, claims=seed % 2 == 0, faults=seed % 4 < 2)
    return tuple(system.run(steps))


def log_trace(seed: int, steps: int = 160) -> list[Row]:
    return list(_log_trace(seed, steps))


def with_log(row: Row, **attributes: str) -> Row:
    return change(row, attributes={**(row.attributes or {}), **attributes})
