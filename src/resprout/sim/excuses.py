"""Which losses a stack that does not make them good may tell its clients: a bound for `lost_told` by cause and number.

A stack can say that clients of a dead broker are told that they may have missed messages (`Stack.known_anomalies`).
That excuses what was on its way to such a client when its broker fell, and nothing else: the broker that served the
client must have failed before the client was told, and the message must be no older than `UNDER_WAY_US` then.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from resprout.audit.verdict import Anomaly
from resprout.scenario.model import FaultKind, Scenario
from resprout.trace import kinds
from resprout.trace.schema import Row

UNDER_WAY_US: Final = 10_000_000
"""Ample for the slowest links and readers that are drawn."""
_FAILS: Final = frozenset((FaultKind.CRASH, FaultKind.FREEZE, FaultKind.PARTITION, FaultKind.CUT, FaultKind.LEAVE))
_SERVES: Final = " serves this client now"


def unexcused(scenario: Scenario, rows: Sequence[Row], told: Iterable[Anomaly]) -> list[str]:
    """Return a line for each of these losses that no failure of the client's own broker explains."""
    history = _History(scenario, rows)
    return [f"UNEXCUSED: {one.explanation}" for one in told if not history.explains(one)]


class _History:
    def __init__(self, scenario: Scenario, rows: Sequence[Row]) -> None:
        self._homes = {client.name: [(0, client.broker)] for client in scenario.clients}
        """By client: since when which broker serves it."""
        self._failures: dict[str, list[int]] = {}
        self._losses: dict[str, list[int]] = {}
        """By client: when it was told."""
        for row in rows:
            if row.kind == kinds.NOTE and row.node in self._homes and (row.detail or "").endswith(_SERVES):
                self._homes[row.node].append((row.time_us, str(row.detail).removesuffix(_SERVES)))
            elif row.kind == kinds.SESSION_LOST:
                self._losses.setdefault(row.node, []).append(row.time_us)
            elif row.kind in _FAILS:
                for name in (row.node, *(row.detail or "").split()):
                    self._failures.setdefault(name, []).append(row.time_us)

    def explains(self, loss: Anomaly) -> bool:
        told_us = next((at for at in self._losses.get(loss.subscriber, ()) if at >= loss.time_us), None)
        if told_us is None:
            return False
        homes = self._homes[loss.subscriber]
        before = [broker for since_us, broker in homes if since_us < told_us][-1]
        failed = [at for at in self._failures.get(before, ()) if at <= told_us]
        return bool(failed) and loss.time_us >= failed[-1] - UNDER_WAY_US
