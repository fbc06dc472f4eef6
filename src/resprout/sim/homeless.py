"""Brokers that run at the end of a run and have no place in the tree. Nobody is told of them by the judge: what their
clients would have received or published was never promised to anybody."""

from collections.abc import Iterable

from resprout.scenario.model import FaultKind, Scenario
from resprout.trace import kinds
from resprout.trace.schema import Row

_BEGINS = frozenset((kinds.RECOVER, kinds.JOIN, "fenced", "moved"))
"""A life without a place begins, or will at once."""
_ENDS = frozenset((kinds.CRASH, kinds.LEAVE, "name_refused"))
"""Whoever is refused because its name is taken has been answered, and runs no more."""


def homeless(scenario: Scenario, rows: Iterable[Row]) -> list[str]:
    """In the order of the scenario."""
    if scenario.stack != "resprout":
        return []  # only this one tells when a broker has found its place
    later = [name for fault in scenario.faults if fault.kind is FaultKind.JOIN for name in fault.nodes]
    places = {broker.name: broker.parent is None for broker in scenario.brokers}
    places.update({name: True for name in later if name not in places})
    for row in rows:
        if row.kind == kinds.DOUBLE:
            places[row.node] = False  # a second broker of a name: it takes its place, or it is refused
        elif row.node in places:
            if row.kind in _BEGINS:
                places[row.node] = row.detail is not None and kinds.ANEW in row.detail
            elif row.kind in ("joined", "reunited") or row.kind in _ENDS:
                places[row.node] = True
    return [name for name, has_place in places.items() if not has_place]
