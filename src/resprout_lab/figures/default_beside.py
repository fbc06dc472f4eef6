"""The default stack beside the other causal ones, point by point: who carries the most, and what order costs it."""

import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.page_tables import (
    LabelledRow,
    Labels,
    PageCell,
    PageTable,
    cells_of,
    header,
    rows_by_label,
)
from resprout.pipeline.report.quantities import NONE, Quantity, style_for
from resprout.stacks.registry import DEFAULT, find_stack
from resprout_lab import SYSTEMS

LEVEL: Final = 0.01
"""Two that differ by no more carry the same: where nobody is saturated, all carry what they are offered."""
_CAPTION: Final = (
    "Deliveries per second of the default stack, and of the best of the other causal stacks at the same point. "
    "Ordering data: the most that any of its messages carried to be put in order; its format has room for 16 bytes. "
    "Where all stacks carry what publishers offer they are level. Where payloads travel in parts all of them send the "
    "same bytes, and whose last part comes a moment earlier is ahead within the window."
)


class BesidePoint(msgspec.Struct, frozen=True):
    labels: Labels
    carried: float
    """By the default stack."""
    rival: str
    """The best of the others."""
    rival_carried: float
    ordering_bytes: int | None
    """The most of one message."""

    @property
    def verdict(self) -> str:
        if abs(self.carried - self.rival_carried) <= LEVEL * self.rival_carried:
            return "level"
        return "ahead" if self.carried > self.rival_carried else "behind"


def points_beside(facts: Sequence[RunFacts]) -> list[BesidePoint]:
    """Those at which the default stack and another causal one were run."""
    rates: dict[Labels, dict[str, list[float]]] = {}
    most: dict[Labels, int] = {}
    for one in facts:
        labels = tuple([value for axis, value in one.run.labels.items() if axis != "stack"])
        rate = one.traffic.steady_throughput if one.traffic else None
        if rate and one.stack in (DEFAULT, *SYSTEMS) and Guarantee.CAUSAL in find_stack(one.stack).guarantees:
            rates.setdefault(labels, {}).setdefault(one.stack, []).append(rate)
        if one.stack == DEFAULT and one.traffic and one.traffic.metadata_bytes_max is not None:
            most[labels] = max(one.traffic.metadata_bytes_max, most.get(labels, 0))
    orders = [in_order(column) for column in zip(*rates, strict=True)]
    found = []
    for labels in sorted(rates, key=lambda row: [order.index(one) for order, one in zip(orders, row, strict=True)]):
        carried = {stack: statistics.median(each) for stack, each in rates[labels].items()}
        own = carried.pop(DEFAULT, None)
        if own is not None and carried:
            rival = max(carried, key=lambda stack: carried[stack])
            found.append(BesidePoint(labels, own, rival, carried[rival], most.get(labels)))
    return found


def default_beside(facts: Sequence[RunFacts]) -> PageTable:
    points = points_beside(facts)
    axes = [axis for axis in (facts[0].run.labels if facts else {}) if axis != "stack"]
    style = style_for(Quantity.COUNT, [1.0])
    rows = [
        LabelledRow(
            point.labels,
            cells_of(
                [
                    style.number(point.carried),
                    style.number(point.rival_carried),
                    point.rival,
                    f"{point.carried / point.rival_carried:.2f}",
                    NONE if point.ordering_bytes is None else f"{point.ordering_bytes} B",
                ]
            ),
            PageCell(strong=point.verdict),
        )
        for point in points
    ]
    names = [f"{DEFAULT} is", *axes, DEFAULT, "the best of the others", "which", "ratio", "ordering data, most"]
    heads = header(*names, numeric_from=len(axes) + 1)
    return PageTable("The default stack beside the other causal ones", _CAPTION, heads, tuple(rows_by_label(rows)))
