"""Readers of `[[log]]` tables in scenario and configuration files, and of `--log` on the command line.

[[log]]
name = "bank"
filter = "bank/#"
replicas = ["b0", "b1", "b2"]
retain_bytes = 1_000_000_000
retain = "168h"
flush = "always"
partitions = 1
compact = false
compact_grace = "24h"
compact_bytes = 16_777_216
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import PARTITIONS, check_name
from resprout.core.message_fields import NUMBER_MAX
from resprout.filters.predicate import check_filter, filter_covers
from resprout.journal.interface import Flush
from resprout.logs.declaration import REPLICAS_MAX, LogDeclaration, check_logs
from resprout.scenario.model import ClientSpec, ReaderSpec
from resprout.scenario.reader import TomlTable
from resprout.stacks.stack import Stack

LOGS_MAX: Final = 100
READERS_MAX: Final = 100
_BYTES_MAX: Final = 1 << 50
_PAGE_BYTES_MAX: Final = 1 << 20
_KEYS: Final = (
    "name", "filter", "replicas", "retain_bytes", "retain", "flush", "segment_bytes", "partitions", "compact",
    "compact_grace", "compact_bytes",
)  # fmt: skip


def read_logs(file: TomlTable, stack: Stack[Any], brokers: Sequence[str] = ()) -> tuple[LogDeclaration, ...]:
    """Return the declarations in the `[[log]]` tables of a file. `brokers`: all brokers of the network, if the file
    names them; then `replicas` may be a number, and means the first ones."""
    tables = file.tables("log", LOGS_MAX, "log")
    if tables and not stack.keeps_logs:
        file.fail("log", f"the stack {stack.name!r} does not keep logs")
    logs = [_read_log(table, brokers) for table in tables]
    if tables:
        file.attempt("log", check_logs, logs)
    return tuple(logs)


def _read_log(table: TomlTable, brokers: Sequence[str]) -> LogDeclaration:
    table.only(_KEYS)
    usual = LogDeclaration("", "", ())
    replicas = _replicas(table, brokers)
    for place, broker in enumerate(replicas):
        table.attempt(("replicas", place), check_name, broker)
    if table.flag("compact", False) and not {"retain", "retain_bytes"}.isdisjoint(table.values):
        table.fail("compact", "a compacted log keeps the last message of each key for ever: leave out what is retained")
    return LogDeclaration(
        table.checked("name", check_name),
        table.checked("filter", check_filter),
        replicas,
        table.integer("retain_bytes", 0, _BYTES_MAX, usual.retain_bytes),
        table.duration("retain", usual.retain_us),
        Flush(table.choice("flush", Flush, usual.flush)),
        table.integer("segment_bytes", 4_096, 1 << 31, usual.segment_bytes),
        partitions=table.integer("partitions", 1, PARTITIONS, usual.partitions),
        compact=table.flag("compact", False),
        compact_grace_us=table.duration("compact_grace", usual.compact_grace_us),
        compact_bytes=table.integer("compact_bytes", 0, _BYTES_MAX, usual.compact_bytes),
    )


def _replicas(table: TomlTable, brokers: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(table.values.get("replicas"), int):
        return table.texts("replicas", REPLICAS_MAX)
    count = table.integer("replicas", 1, REPLICAS_MAX)
    if not brokers:
        table.fail("replicas", "a number needs the names of all brokers: name replicas, or use `resprout log create`")
    if count > len(brokers):
        table.fail("replicas", f"there are {len(brokers)} brokers for {count} replicas")
    return tuple(brokers[:count])


def read_readers(
    file: TomlTable, logs: Sequence[LogDeclaration], clients: Sequence[ClientSpec]
) -> tuple[ReaderSpec, ...]:
    """Return the specifications in the `[[reader]]` tables of a scenario."""
    filters = {part.name: part.filter for log in logs for part in log.parts}
    readers: list[ReaderSpec] = []
    for number, table in enumerate(file.tables("reader", READERS_MAX, "reader")):
        table.only(("client", "log", "filter", "start", "offset", "size", "pause", "until"))
        client = next((client for client in clients if client.name == table.text("client")), None)
        if client is None or client.consumes is not None or client.repeats:
            file.fail(("reader", number, "client"), "it names no client that can read a log")
        if client.name in [reader.client for reader in readers]:
            file.fail(("reader", number, "client"), f"{client.name!r} reads another log")
        log = table.choice("log", tuple(filters), "") if filters else ""
        if not log:
            file.fail(("reader", number, "log"), "it names no log")
        usual = ReaderSpec(client.name, log, filters[log])
        reader = ReaderSpec(
            client.name,
            log,
            table.checked("filter", check_filter) if "filter" in table else usual.filter,
            table.duration("start", 0),
            table.integer("offset", 0, NUMBER_MAX, 0) if "offset" in table else -1,
            table.integer("size", 1, _PAGE_BYTES_MAX, usual.size),
            table.duration("pause", usual.pause_us),
            table.duration("until", 0),
        )
        if not filter_covers(usual.filter, reader.filter):
            file.fail(("reader", number, "filter"), f"the log {log!r} keeps {usual.filter}, and not all of it")
        if not reader.pause_us:
            file.fail(("reader", number, "pause"), "there must be time between two pages")
        readers.append(reader)
    return tuple(readers)


def parse_log(text: str) -> LogDeclaration:
    """Parse the value of `--log`: `bank=bank/#@b0,b1,b2`, or a JSON object. Raises UsageError if it is not valid."""
    if text.startswith("{"):
        try:
            log = msgspec.json.decode(text, type=LogDeclaration)
        except msgspec.MsgspecError as error:
            raise UsageError(f"--log {text}: {error}") from None
    else:
        name, _, rest = text.partition("=")
        topic_filter, _, replicas = rest.rpartition("@")
        if not name or not topic_filter or not replicas:
            raise UsageError(f"--log {text}: it is written NAME=FILTER@BROKER,BROKER,BROKER")
        log = LogDeclaration(name, topic_filter, tuple(replicas.split(",")))
    check_logs([log])
    return log


def check_replicas(file: TomlTable, logs: Sequence[LogDeclaration], brokers: Sequence[str]) -> None:
    """Check that the scenario has the brokers that its logs name as replicas."""
    for number, log in enumerate(logs):
        for place, broker in enumerate(log.replicas):
            if broker not in brokers:
                file.fail(("log", number, "replicas", place), f"there is no broker {broker!r}")
