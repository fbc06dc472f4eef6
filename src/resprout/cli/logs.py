"""`resprout log`: the logs of a network, as its brokers report them."""

from collections.abc import Sequence

import click
import msgspec

from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments
from resprout.cli.status import AskingCommand
from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.net.accounts import TreeSurvey
from resprout.stacks.status import Absent, LogSeen, PositionSeen


class ReplicaView(msgspec.Struct, frozen=True):
    """A replica of a log, as its broker reports it."""

    broker: str
    role: str
    """`leader`, `follower`, `joining`, `stopped`, or `no answer`."""
    first: int | Absent = msgspec.UNSET
    end: int | Absent = msgspec.UNSET
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
    notices: tuple[str, ...]
    """Problems that an operator should act on."""


def log_views(found: TreeSurvey) -> list[LogView]:
    """Combine the reports of all brokers into one view per log."""
    names = dict.fromkeys(log.name for one in found.brokers for log in one.logs)
    return [_view(name, found) for name in sorted(names)]


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
        tuple([_replica(broker, seen.get(broker), best) for broker in brokers]), best.positions, tuple(notices),
    )  # fmt: skip


def _end_of(log: LogSeen) -> int:
    return log.end if isinstance(log.end, int) else -1


def _replica(broker: str, log: LogSeen | None, best: LogSeen) -> ReplicaView:
    if log is None:
        return ReplicaView(broker, "no answer")
    behind = max(0, _end_of(best) - log.end) if isinstance(log.end, int) else msgspec.UNSET
    return ReplicaView(broker, log.role or "no replica", log.first, log.end, behind, log.behind_seconds, log.trouble)


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
    """Show the logs of a network: leaders, offsets, replicas and stored positions.

    \b
        resprout log list
        resprout log describe bank

    Logs are declared at every broker, with `[[log]]` in its configuration or --log (docs/logs.md).
    """


@log.command(name="list")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON array.")
def list_logs(access: Access, as_json: bool) -> int:
    """Show every log in one line. Exit status 1 when one has no leader, or a replica is missing or behind."""
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
    """Show the log NAME: leader, replicas with their offsets, feeder, and stored positions with their lag. Exit status
    1 when it has no leader, or a replica is missing or behind."""
    name = check_name(log_name, "name of a log")
    views = log_views(run_loop(AskingCommand(access).survey()))
    view = next((one for one in views if one.name == name), None)
    if view is None:
        raise UsageError(f"there is no log {name}; the logs are: {', '.join(one.name for one in views) or 'none'}")
    if as_json:
        tell_json(view)
    else:
        tell_lines(_lines(view))
    return _status([view])


def _lines(view: LogView) -> list[str]:
    waiting = f", {view.unfed} bundles wait" if view.unfed else ""
    lines = [
        f"log {view.name} keeps {view.filter}, offsets {_range(view.first, view.end)}",
        f"leader {view.leader or 'none'}; fed from {view.feeder or 'nowhere'}{waiting}",
    ]
    for one in view.replicas:
        behind = f", {one.behind} behind" if isinstance(one.behind, int) else ""
        since = f" for {one.behind_seconds:.0f} s" if one.behind_seconds else ""
        lines.append(f"replica {one.broker}  {one.role}  offsets {_range(one.first, one.end)}{behind}{since}")
    lines += [f"position {one.name}  {one.offset}, lag {one.lag}" for one in view.positions]
    return [*lines, *view.notices]


def _status(views: Sequence[LogView]) -> int:
    is_well = all(view.leader and not view.notices for view in views)
    return 0 if is_well else 1


def _refuse_change() -> None:
    raise UsageError(
        "logs are not made or ended while brokers run: declare them at every broker, with [[log]] in its configuration"
        " or --log, and restart one broker after the other (docs/logs.md)"
    )


@log.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
def create(arguments: tuple[str, ...]) -> int:
    """Explain how to declare a log, which cannot be done while brokers run. Exit status 2."""
    _refuse_change()
    return 2


@log.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
def delete(arguments: tuple[str, ...]) -> int:
    """Explain how to remove a log, which cannot be done while brokers run. Exit status 2."""
    _refuse_change()
    return 2
