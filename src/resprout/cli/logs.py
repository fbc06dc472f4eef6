"""`resprout log`: the logs of a network, as its brokers report them, and commands that create and change them."""

import asyncio
import contextlib
from collections.abc import Sequence

import click
import msgspec

from resprout.cli.console import tell, tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected
from resprout.cli.status import AskingCommand
from resprout.client.arguments import check_count
from resprout.client.log_changes import CREATE_SECONDS
from resprout.core.errors import UsageError
from resprout.core.limits import PARTITIONS, check_name, parse_size
from resprout.core.partitions import check_log_name, partition_name, split_name
from resprout.filters.predicate import check_filter
from resprout.journal.interface import Flush
from resprout.logs.declaration import REPLICAS_MAX, LogDeclaration, check_log
from resprout.net.accounts import JournalAccount, TreeSurvey
from resprout.scenario.reader import parse_duration
from resprout.stacks.status import Absent, LogSeen, PositionSeen

JOINING_SECONDS = 3.0
"""How long a command waits for brokers that have not joined."""
JOINING_LOOKS = 6


class ReplicaView(msgspec.Struct, frozen=True):
    """A replica of a log, as its broker reports it."""

    broker: str
    role: str
    """`leader`, `follower`, `joining`, `stopped`, or `no answer`."""
    first: int | Absent = msgspec.UNSET
    end: int | Absent = msgspec.UNSET
    compacted: int | Absent = msgspec.UNSET
    """Offset up to which it is compacted."""
    behind: int | Absent = msgspec.UNSET
    """Offsets that it lacks compared with the leader."""
    behind_seconds: float = 0.0
    trouble: str = ""


class LogView(msgspec.Struct, frozen=True):
    name: str
    filter: str
    leader: str
    """Broker of the leader; empty while no majority follows one."""
    feeder: str
    """Broker of the feeder; empty while there is none."""
    unfed: int
    """Bundles at the feeder that are not in the log yet."""
    first: int | Absent
    end: int | Absent
    replicas: tuple[ReplicaView, ...]
    positions: tuple[PositionSeen, ...]
    compact: bool
    """Whether it keeps the last message of each key for ever, and drops others."""
    notices: tuple[str, ...]
    """Problems that an operator should act on."""


def log_views(found: TreeSurvey) -> list[LogView]:
    """Combine the reports of all brokers into one view per log."""
    names = dict.fromkeys(log.name for one in found.brokers for log in one.logs)
    return [_view(name, found) for name in sorted(names, key=split_name_in_order)]


def split_name_in_order(name: str) -> tuple[str, int]:
    """Return a value by which the names of logs and of their partitions are sorted."""
    log, number = split_name(name)
    return log, -1 if number is None else number


def _view(name: str, found: TreeSurvey) -> LogView:
    seen = {one.name: log for one in found.brokers for log in one.logs if log.name == name}
    any_of = next(iter(seen.values()))
    leader = next((broker for broker, log in seen.items() if log.role == "leader" and log.leader == broker), "")
    feeder = next((broker for broker, log in seen.items() if log.is_feeding), "")
    best = seen[leader] if leader else max(seen.values(), key=_end_of)
    brokers = dict.fromkeys([*any_of.replicas, *[broker for broker, log in seen.items() if log.role]])
    notices = [line for line in found.notices if f"log {name}: " in line]
    silent = [broker for broker in brokers if broker not in seen]
    notices += [f"{broker}: log {name}: its broker does not answer" for broker in silent]
    return LogView(
        name, any_of.filter, leader, feeder, seen[feeder].unfed if feeder else 0, best.first, best.end,
        tuple([_replica(broker, seen.get(broker), best) for broker in brokers]), best.positions, any_of.compact,
        tuple(notices),
    )  # fmt: skip


def _end_of(log: LogSeen) -> int:
    return log.end if isinstance(log.end, int) else -1


def _replica(broker: str, log: LogSeen | None, best: LogSeen) -> ReplicaView:
    if log is None:
        return ReplicaView(broker, "no answer")
    behind = max(0, _end_of(best) - log.end) if isinstance(log.end, int) else msgspec.UNSET
    return ReplicaView(
        broker, log.role or "no replica", log.first, log.end, log.compacted, behind, log.behind_seconds, log.trouble
    )


def log_line(view: LogView) -> str:
    """Return a one-line summary for `resprout log list`."""
    replicas = ", ".join(
        one.broker + ("" if not one.behind else f" ({one.behind} behind)") + ("" if _is_well(one) else f" ({one.role})")
        for one in view.replicas
    )
    parts = [
        f"log {view.name}", view.filter, f"leader {view.leader or 'none'}", f"offsets {_range(view.first, view.end)}",
        f"replicas {replicas}", f"fed from {view.feeder or 'nowhere'}",
    ]  # fmt: skip
    return "  ".join(parts)


def _is_well(one: ReplicaView) -> bool:
    return one.role in ("leader", "follower")


def _range(first: int | Absent, end: int | Absent) -> str:
    if not isinstance(end, int):
        return "?"
    return f"{first if isinstance(first, int) else '?'} to {end - 1}" if end else "none"


@click.group()
def log() -> None:
    """Create, show, change and delete the logs of a network.

    \b
        resprout log create bank 'bank/#'
        resprout log list
        resprout log describe bank

    Logs can be declared with `[[log]]` in the configuration of every broker, too (docs/logs.md).
    """


@log.command(name="list")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON array.")
def list_logs(access: Access, as_json: bool) -> int:
    """Show every log in one line, or every partition of a log that has several. Exit status 1 when one has no leader,
    or a replica is missing or behind."""
    views = log_views(run_loop(AskingCommand(access).survey()))
    if as_json:
        tell_json(views)
    else:
        tell_lines([line for view in views for line in (log_line(view), *view.notices)] or ["no logs are declared"])
    return _status(views)


@log.command()
@click.argument("log_name", metavar="NAME")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def describe(log_name: str, access: Access, as_json: bool) -> int:
    """Show the log NAME: leader, replicas with their offsets, feeder, and stored positions with their lag; of a log
    with several partitions, that of each. Exit status 1 when it has no leader, or a replica is missing or behind."""
    name = check_log_name(log_name)
    views = log_views(run_loop(AskingCommand(access).survey()))
    found = [one for one in views if name in (one.name, split_name(one.name)[0])]
    if not found:
        raise UsageError(f"there is no log {name}; the logs are: {', '.join(one.name for one in views) or 'none'}")
    if as_json:
        tell_json(found[0] if found[0].name == name else found)
    else:
        tell_lines([line for view in found for line in _lines(view)])
    return _status(found)


def _lines(view: LogView) -> list[str]:
    compacted = ", compacted by key" if view.compact else ""
    waiting = f", {view.unfed} bundles wait" if view.unfed else ""
    lines = [
        f"log {view.name} keeps {view.filter}, offsets {_range(view.first, view.end)}{compacted}",
        f"leader {view.leader or 'none'}; fed from {view.feeder or 'nowhere'}{waiting}",
    ]
    for one in view.replicas:
        behind = f", {one.behind} behind" if isinstance(one.behind, int) else ""
        since = f" for {one.behind_seconds:.0f} s" if one.behind_seconds else ""
        upto = f", compacted up to {one.compacted}" if isinstance(one.compacted, int) else ""
        lines.append(f"replica {one.broker}  {one.role}  offsets {_range(one.first, one.end)}{upto}{behind}{since}")
    lines += [f"position {one.name}  {one.offset}, lag {one.lag}" for one in view.positions]
    return [*lines, *view.notices]


def _status(views: Sequence[LogView]) -> int:
    is_well = all(view.leader and not view.notices for view in views)
    return 0 if is_well else 1


def choose_replicas(found: TreeSurvey, count: int) -> tuple[str, ...]:
    """Return the brokers for a log with so many replicas: those with a data folder that keep the fewest replicas.
    Raises UsageError if there are too few."""
    with_disk = [one for one in found.brokers if isinstance(one.journal, JournalAccount)]
    if len(with_disk) < count:
        names = ", ".join(one.name for one in with_disk) or "none"
        raise UsageError(f"{count} replicas need as many brokers that run with --data: there are {names}")
    kept = {one.name: sum(one.name in log.replicas for log in one.logs) for one in with_disk}
    return tuple(sorted(sorted(kept), key=lambda name: kept[name])[:count])


async def _find_brokers(replicas: str, access: Access) -> tuple[str, ...]:
    """Return the brokers that `--replicas` means: names, or a number of them. Brokers that have just been started may
    need a moment to join."""
    if not replicas.isdecimal():
        return tuple(check_name(name, "--replicas: name of a broker") for name in replicas.split(","))
    count = check_count(int(replicas[:9]), "--replicas", 1, REPLICAS_MAX)
    for _ in range(JOINING_LOOKS):
        with contextlib.suppress(UsageError):
            return choose_replicas(await AskingCommand(access).survey(), count)
        await asyncio.sleep(JOINING_SECONDS / JOINING_LOOKS)
    return choose_replicas(await AskingCommand(access).survey(), count)


async def _create(log: LogDeclaration, replicas: str, timeout: float, access: Access) -> tuple[str, ...]:
    brokers = await _find_brokers(replicas, access)
    async with connected(access) as client:
        await client.create_log(
            log.name, log.filter, replicas=brokers, retain_bytes=log.retain_bytes, retain_us=log.retain_us,
            flush=log.flush.value, partitions=log.partitions, compact=log.compact,
            compact_grace_us=log.compact_grace_us, compact_bytes=log.compact_bytes, timeout=timeout,
        )  # fmt: skip
    return brokers


@log.command()
@click.argument("log_name", metavar="NAME")
@click.argument("topic_filter", metavar="FILTER")
@access_arguments
@click.option("--replicas", default="3", show_default=True, metavar="N|BROKER,...",
              help="How many brokers keep it, or which ones.")  # fmt: skip
@click.option("--retain-bytes", default="1GiB", show_default=True, metavar="SIZE", help="Most bytes at a replica.")
@click.option("--retain", default="", metavar="TIME", help="Drop messages that are older, such as 168h.")
@click.option("--flush", type=click.Choice([each.value for each in Flush]), default=Flush.ALWAYS.value,
              show_default=True, help="When votes are synced to disk.")  # fmt: skip
@click.option("--partitions", type=click.IntRange(1, PARTITIONS), default=1, show_default=True, metavar="N",
              help="Messages with equal first keys stay in order; more leaders share the work.")  # fmt: skip
@click.option("--compact", is_flag=True, help="Keep the last message of each topic and key for ever, and drop others.")
@click.option("--compact-grace", default="24h", show_default=True, metavar="TIME",
              help="Age at which a compacted log drops a message with an empty payload.")  # fmt: skip
@click.option("--compact-bytes", default="16MiB", show_default=True, metavar="SIZE",
              help="New messages after which a replica compacts.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0.1), default=CREATE_SECONDS, show_default=True, metavar="SECONDS",
              help="How long to wait until the log runs.")  # fmt: skip
def create(
    log_name: str, topic_filter: str, access: Access, replicas: str, retain_bytes: str, retain: str, flush: str,
    partitions: int, compact: bool, compact_grace: str, compact_bytes: str, timeout: float,
) -> int:  # fmt: skip
    """Create the log NAME of all messages that match FILTER. Returns when it keeps every later message.

    \b
        resprout log create bank 'bank/#'
        resprout log create audit '#' --replicas b0,b2,b4 --retain 720h
        resprout log create clicks 'clicks/#' --partitions 8
        resprout log create prices 'prices/#' --compact

    All brokers learn of it, and remember it on their disks. With rules, only identities that may `operate` can do this.
    """
    retain_us = parse_duration(retain) if retain else 0
    declared = LogDeclaration(
        check_name(log_name, "name of a log"), check_filter(topic_filter), (), parse_size(retain_bytes), retain_us,
        Flush(flush), partitions=partitions, compact=compact, compact_grace_us=parse_duration(compact_grace),
        compact_bytes=parse_size(compact_bytes),
    )  # fmt: skip
    check_log(msgspec.structs.replace(declared, replicas=("b",)))
    brokers = run_loop(_create(declared, replicas, timeout, access))
    divided = f" in {partitions} partitions" if partitions > 1 else ""
    compacted = ", compacted by key" if compact else ""
    tell(f"log {log_name} keeps {topic_filter} at {', '.join(brokers)}{divided}{compacted}")
    return 0


@log.command()
@click.argument("log_name", metavar="NAME")
@access_arguments
def delete(log_name: str, access: Access) -> int:
    """Delete the log NAME, with its messages and the positions of its readers, at all brokers."""
    name = check_name(log_name, "name of a log")
    run_loop(_delete(name, access))
    tell(f"log {name} is deleted")
    return 0


async def _delete(name: str, access: Access) -> None:
    async with connected(access) as client:
        await client.delete_log(name)


@log.command()
@click.argument("log_name", metavar="NAME")
@click.argument("old", metavar="BROKER")
@click.argument("new", metavar="BROKER")
@access_arguments
def replace(log_name: str, old: str, new: str, access: Access) -> int:
    """Replace the replica of the log NAME at the first BROKER by one at the second, such as when the first is gone for
    good. The new replica fetches the log, becomes a member, and then the old one leaves: see `resprout log describe`.
    """
    name = check_name(log_name, "name of a log")
    replicas = run_loop(_replace(name, check_name(old, "broker name"), check_name(new, "broker name"), access))
    tell(f"log {name} moves to {', '.join(replicas)}")
    return 0


async def _replace(name: str, old: str, new: str, access: Access) -> tuple[str, ...]:
    found = await AskingCommand(access).survey()
    names = (name, partition_name(name, 0))
    before = next((log.replicas for one in found.brokers for log in one.logs if log.name in names), None)
    if before is None:
        raise UsageError(f"there is no log {name}")
    if old not in before:
        raise UsageError(f"{old} keeps no replica of the log {name}; its replicas are {', '.join(before)}")
    replicas = tuple(new if broker == old else broker for broker in before)
    async with connected(access) as client:
        await client.move_log(name, replicas)
    return replicas
