"""Invariant I11 in simulated runs: brokers that have come to the same place hold the same last values and outcomes."""

from typing import Any

from resprout.sim.invariants import InvariantError
from resprout.stacks.resprout.parts import BrokerParts


class EqualValues:
    """The values of all brokers, by place."""

    def __init__(self) -> None:
        self._at: dict[int, tuple[str, Any]] = {}
        """By place: the broker that was there first, and its values."""

    def check(self, parts: BrokerParts) -> None:
        store = parts.values.store
        if store.place < 0:
            return
        name = parts.life.seat.name
        state = sorted(row for row in map(_plain, store.rows()) if row)
        first, known = self._at.setdefault(store.place, (name, state))
        if known != state:
            what = f"at {store.place} {first} had {known}, not {state}"
            raise InvariantError(f"{name}.{parts.life.seat.incarnation}", "I11", what)


def _plain(row: Any) -> tuple[Any, ...]:
    """Return what must be equal of a row. The stamp of a value may differ at a broker that dies (I7)."""
    if hasattr(row, "revision"):
        return (row.topic, row.revision, row.publisher, row.seq, row.payload)
    return ()
