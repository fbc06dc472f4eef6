"""Status of the declared logs at one broker, and notices about them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import broker_of
from resprout.logs.replica import LogReplica
from resprout.stacks.resprout.log_host import LogHost
from resprout.stacks.status import LogSeen, PositionSeen

LEADERLESS_SECONDS: Final = 5.0
"""Seconds without a leader after which there is a notice. An election takes less."""
BEHIND_SECONDS: Final = 10.0
"""Seconds behind the leader after which there is a notice."""


def logs_seen(host: LogHost, logs: Sequence[LogDeclaration], now_us: int) -> tuple[LogSeen, ...]:
    return tuple([_log_seen(host, log, now_us) for log in logs])


def _log_seen(host: LogHost, log: LogDeclaration, now_us: int) -> LogSeen:
    unfed, replica = host.unfed(log.key), host.replicas.get(log.key)
    seen = LogSeen(
        log.name, log.filter, log.replicas, is_feeding=unfed is not None, unfed=unfed or 0, compact=log.compact
    )
    if replica is None or replica.broker not in log.replicas:  # it votes as long as the log needs it
        return seen
    first, end = replica.reader.first, replica.state.end
    return msgspec.structs.replace(
        seen,
        role=_role_of(replica),
        leader=replica.leader if replica.has_leader(now_us) else "",
        members=tuple(map(broker_of, replica.members)),
        first=msgspec.UNSET if first is None else min(first, end),
        end=end,
        compacted=replica.entries.compacted.end if log.compact else msgspec.UNSET,
        leaderless_seconds=0.0 if replica.has_leader(now_us) else _seconds(replica.health.leaderless_since_us, now_us),
        behind_seconds=_seconds(replica.health.behind_since_us, now_us),
        trouble=replica.trouble or replica.damage,
        positions=tuple(
            [
                PositionSeen(each.name, each.offset, max(0, end - each.offset))
                for each in replica.state.positions.by_name.values()
            ]
        ),
    )


def _role_of(replica: LogReplica) -> str:
    if replica.trouble:
        return "stopped"
    if not replica.is_member:
        return "joining"
    return "leader" if replica.is_leading else "follower"


def _seconds(since_us: int | None, now_us: int) -> float:
    return 0.0 if since_us is None else round((now_us - since_us) / 1e6, 1)


def log_notices(logs: Iterable[LogSeen]) -> Iterator[str]:
    """Yield a line for each problem that an operator should act on."""
    for log in logs:
        if log.trouble and log.role != "stopped":
            yield f"log {log.name}: entries of the replica here cannot be read: {log.trouble}"
        elif log.trouble:
            yield f"log {log.name}: this broker keeps no replica: {log.trouble}"
        elif log.leaderless_seconds >= LEADERLESS_SECONDS:
            yield (
                f"log {log.name}: no leader that a majority of {', '.join(log.members or log.replicas)} follows"
                f" for {log.leaderless_seconds:.0f} s: nothing is added to it"
            )
        elif log.behind_seconds >= BEHIND_SECONDS:
            what = "is no member yet" if log.role == "joining" else "is behind the leader"
            yield f"log {log.name}: the replica here {what} for {log.behind_seconds:.0f} s"
