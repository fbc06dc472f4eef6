"""Which processes a scenario needs, and whether this machine should be asked to run them."""

from collections.abc import Iterable
from typing import Final

from resprout.core.errors import UsageError
from resprout.net.sessions import HEARTBEAT_US, SILENCE_US
from resprout.scenario.model import FaultKind, Scenario

BROKERS_MAX: Final = 64
CLIENTS_MAX: Final = 512
WORKERS_MAX: Final = 16
"""Processes with clients. Where there are more clients than this, several share a process."""

_ONLY_SIMULATED: Final = (
    FaultKind.DISK_LOW, FaultKind.DISK_FULL, FaultKind.DISK_FREE, FaultKind.UNRESOLVE, FaultKind.RESOLVE,
)  # fmt: skip
_BY_SIGNAL: Final = (FaultKind.CRASH, FaultKind.FREEZE)
_OF_CLOCKS: Final = (FaultKind.SUSPEND, FaultKind.RESUME, FaultKind.LEAP)


def check_runnable(scenario: Scenario) -> None:
    """UsageError, in one line, for what needs more than processes on one machine."""
    if hangs := [fault for fault in scenario.faults if fault.kind in (FaultKind.HANG, FaultKind.UNHANG)]:
        name = hangs[0].nodes[0]
        raise UsageError(f"{name} hangs: no signal does that to a process; `resprout sim` runs it, or take a freeze")
    for fault in scenario.faults:
        if fault.kind in _ONLY_SIMULATED:
            raise UsageError(
                f"{fault.kind} of {fault.nodes[0]}: the machine's disks and names are left alone; see `resprout sim`"
            )
    if clocks := [fault for fault in scenario.faults if fault.kind in _OF_CLOCKS]:
        raise UsageError(f"{clocks[0].nodes[0]}: a {clocks[0].kind} moves a clock; only `resprout sim` does that")
    for client in scenario.clients:
        if client.called is not None or client.reading_us or client.repeats:
            raise UsageError(f"client {client.name}: `called`, `reading` and `repeats` are only for `resprout sim`")
    if any(fault.kind is FaultKind.DOUBLE for fault in scenario.faults):
        raise UsageError("a second broker of one name (fault kind double) is only simulated: use `resprout sim`")
    if scenario.trace != "rows":
        raise UsageError('trace = "counts" is only for `resprout sim`: a run with processes records its rows')
    joining = {name for fault in scenario.faults if fault.kind is FaultKind.JOIN for name in fault.nodes}
    brokers = len(joining | {broker.name for broker in scenario.brokers})
    for count, most, what in (
        (brokers, BROKERS_MAX, "brokers, each a process"),
        (len(scenario.clients), CLIENTS_MAX, "clients"),
        (len(_alone(scenario)), WORKERS_MAX - 1, "clients that crash or freeze, each a process"),
    ):
        if count > most:
            raise UsageError(f"{count} {what}: at most {most} run on one machine; `resprout sim` runs any number")


def share_out(scenario: Scenario) -> list[tuple[str, ...]]:
    """The clients of each worker. One that a signal will hit has a process to itself; the others are dealt evenly."""
    alone = _alone(scenario)
    rest = [client.name for client in scenario.clients if client.name not in alone]
    workers = min(len(rest), WORKERS_MAX - len(alone))
    return [*((name,) for name in alone), *(tuple(rest[i::workers]) for i in range(workers))]


def longest_way_us(scenario: Scenario) -> int:
    """No two nodes are further apart than this, one way."""
    up = {broker.name: (broker.parent, broker.latency_us) for broker in scenario.brokers}
    for fault in scenario.faults:
        if fault.kind is FaultKind.JOIN:
            up |= {broker.name: (broker.parent, broker.latency_us) for broker in scenario.joining(fault)}
    deepest_us = max((_depth_us(name, up) for name in up), default=0)
    return 2 * (deepest_us + max((client.latency_us for client in scenario.clients), default=0))


def silence_us(scenario: Scenario) -> int:
    """Whoever is far away is not taken for silent: a greeting takes two ways, and the first heartbeat comes one way
    after that."""
    return max(SILENCE_US, HEARTBEAT_US + 2 * longest_way_us(scenario))


def _depth_us(name: str | None, up: dict[str, tuple[str | None, int]]) -> int:
    depth_us = 0
    seen: set[str] = set()
    while name is not None and name not in seen and name in up:
        seen.add(name)
        name, latency_us = up[name]
        depth_us += latency_us if name is not None else 0
    return depth_us


def _alone(scenario: Scenario) -> list[str]:
    hit = {name for fault in scenario.faults if fault.kind in _BY_SIGNAL for name in fault.nodes}
    return _in_order(hit, (client.name for client in scenario.clients))


def _in_order(names: set[str], order: Iterable[str]) -> list[str]:
    return [name for name in order if name in names]
