"""Messages that clients missed and were told of, in runs of a swarm: each must have a cause.

It is no violation that a client is told that it may have missed messages (`SessionLost`), where the stack declares it.
Two rules bound such losses, so that a regression cannot hide behind the declaration:

- `not_under_way`, for a stack that promises a probability, or says that clients of a dead broker are told
  (`Stack.known_anomalies`). The broker that served the client failed before the client was told, and the message was on
  its way then: it is no older than `UNDER_WAY_US` at the failure. An older message counts as on its way only if its
  publisher was told `safe` after the failure: it waited at its own broker for the window of its publisher, or for a
  confirmation.
- `not_dropped`, for a stack that keeps publications for a time (`Stack.keeps_us`). A broker failed before the client
  was told, no missed message is older than `UNDER_WAY_US` at the first failure, and the oldest message that the client
  missed is older than `keeps_us` when it is told. That one was dropped, so the client had to subscribe again.

For all other stacks no loss is excused.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from resprout.audit.judge import judge
from resprout.audit.verdict import Anomaly, Verdict
from resprout.core.guarantee import Reliability
from resprout.scenario.model import FaultKind, Scenario
from resprout.stacks.stack import Stack
from resprout.trace import kinds
from resprout.trace.schema import Row

UNDER_WAY_US: Final = 10_000_000
"""Ample for the slowest links and readers that are drawn."""
_FAILS: Final = frozenset((FaultKind.CRASH, FaultKind.FREEZE, FaultKind.PARTITION, FaultKind.CUT, FaultKind.LEAVE))
NEVER_US: Final = 1 << 62
_SERVES: Final = " serves this client now"

_MessageKey = tuple[str | None, int | None, str | None, int | None]
"""(publisher, incarnation, stream, number)."""


def find_told(stack: Stack[Any], scenario: Scenario, rows: Sequence[Row], verdict: Verdict) -> list[Anomaly]:
    """Return the messages that clients missed and were told of, also where the stack promises a probability only."""
    if stack.reliability is Reliability.PROBABLE and verdict.counts.get("told", 0):
        certain = msgspec.structs.replace(stack.promise(), reliability=Reliability.CERTAIN)
        verdict = judge(rows, scenario.bank_initial, certain)
    return [anomaly for anomaly in verdict.anomalies if anomaly.rule == "lost_told"]


def without_cause(stack: Stack[Any], scenario: Scenario, rows: Sequence[Row], told: Sequence[Anomaly]) -> list[str]:
    """Return a line for each of these losses that the stack does not declare, or that has another cause."""
    keeps_us = stack.keeps_us(stack.parse_options(scenario.options))
    if keeps_us:
        return not_dropped(scenario, rows, told, keeps_us)
    if stack.reliability is Reliability.PROBABLE or "lost_told" in stack.known_anomalies:
        return not_under_way(scenario, rows, told)
    return []  # the rule of the judge is violated


def not_under_way(scenario: Scenario, rows: Sequence[Row], told: Iterable[Anomaly]) -> list[str]:
    """Return a line for each of these losses that no failure of the client's own broker explains."""
    history = _History(scenario, rows)
    return [f"UNEXCUSED: {one.explanation}" for one in told if not history.explains(one)]


def not_dropped(scenario: Scenario, rows: Sequence[Row], told: Iterable[Anomaly], keeps_us: int) -> list[str]:
    """Return a line for each of these losses that is no consequence of a message that was dropped in time."""
    history = _History(scenario, rows)
    lines: list[str] = []
    events = sorted(told, key=lambda one: (one.subscriber, history.told_us(one), one.time_us))
    for (_, told_us), losses in groupby(events, key=lambda one: (one.subscriber, history.told_us(one))):
        missed = list(losses)
        was_dropped = history.first_failure_us <= told_us < NEVER_US and told_us - missed[0].time_us >= keeps_us
        lines += [
            f"UNEXCUSED: {one.explanation}"
            for one in missed
            if not was_dropped or one.time_us < history.first_failure_us - UNDER_WAY_US
        ]
    return lines


class _History:
    def __init__(self, scenario: Scenario, rows: Sequence[Row]) -> None:
        self._homes = {client.name: [(0, client.broker)] for client in scenario.clients}
        """By client: since when which broker serves it."""
        self._failures: dict[str, list[int]] = {}
        self._losses: dict[str, list[int]] = {}
        """By client: when it was told."""
        self._published: dict[int, list[Row]] = {}
        """By time."""
        self._safe: dict[_MessageKey, int] = {}
        """By message: when its publisher was told that it is safe."""
        for row in rows:
            if row.kind == kinds.NOTE and row.node in self._homes and (row.detail or "").endswith(_SERVES):
                self._homes[row.node].append((row.time_us, str(row.detail).removesuffix(_SERVES)))
            elif row.kind == kinds.SESSION_LOST:
                self._losses.setdefault(row.node, []).append(row.time_us)
            elif row.kind == kinds.PUBLISH:
                self._published.setdefault(row.time_us, []).append(row)
            elif row.kind == kinds.RECEIPT and row.receipt == "safe":
                self._safe.setdefault(_key_of(row), row.time_us)
            elif row.kind in _FAILS:
                for name in (row.node, *(row.detail or "").split()):
                    self._failures.setdefault(name, []).append(row.time_us)

    @property
    def first_failure_us(self) -> int:
        return min([at for times in self._failures.values() for at in times], default=NEVER_US)

    def told_us(self, loss: Anomaly) -> int:
        """Return when the client was told of this one; `NEVER_US` if it was not."""
        return next((at for at in self._losses.get(loss.subscriber, ()) if at >= loss.time_us), NEVER_US)

    def explains(self, loss: Anomaly) -> bool:
        told_us = self.told_us(loss)
        if told_us == NEVER_US:
            return False
        homes = self._homes[loss.subscriber]
        before = [broker for since_us, broker in homes if since_us < told_us][-1]
        failed = [at for at in self._failures.get(before, ()) if at <= told_us]
        if not failed:
            return False
        return loss.time_us >= failed[-1] - UNDER_WAY_US or self._was_safe_only_after(failed[-1], loss)

    def _was_safe_only_after(self, failed_us: int, loss: Anomaly) -> bool:
        (name,) = loss.messages
        rows = [
            row
            for row in self._published.get(loss.time_us, ())
            if name.startswith(str(row.publisher)) and name.endswith(str(row.seq))
        ]
        return bool(rows) and all(self._safe.get(_key_of(row), -1) > failed_us for row in rows)


def _key_of(row: Row) -> _MessageKey:
    return row.publisher, row.incarnation, row.stream, row.seq
