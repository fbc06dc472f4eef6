"""Reads what happened in one run, for `trail`."""

from typing import Any, Final

from resprout.pipeline.metrics.observed import Observed, ObservedPublications, observe
from resprout.pipeline.places import RunPlace
from resprout.pipeline.report.recipe import recipe_of
from resprout.pipeline.report.trail import Happening, TimeSlice, Trail
from resprout.trace import kinds

SLICES: Final = 48
HAPPENINGS_MAX: Final = 200

_TOLD: Final = (
    kinds.CRASH, kinds.RECOVER, kinds.FREEZE, kinds.UNFREEZE, kinds.HANG, kinds.UNHANG, kinds.JOIN, kinds.LEAVE,
    kinds.CUT, kinds.HEAL, kinds.PARTITION, kinds.REPAIR_BEGIN, kinds.REPAIR_END, kinds.QUIESCENT, kinds.TIMEOUT,
    "fenced", "joined", "moved",
)  # fmt: skip
_IDENTITY: Final = ["source", "seq"]


def trail_of(place: RunPlace) -> Trail:
    observed = observe(place)
    told = [event for event in observed.events if event.kind in _TOLD]
    slice_us, slices = _slices(observed)
    return Trail(
        happenings=tuple(Happening(one.time_us, one.node, one.kind, one.detail) for one in told[:HAPPENINGS_MAX]),
        left_out=max(0, len(told) - HAPPENINGS_MAX),
        slice_us=slice_us,
        slices=slices,
        recipe=recipe_of(place.info),
    )


def _slices(observed: Observed) -> tuple[int, tuple[TimeSlice, ...]]:
    """By guarantee, then by time."""
    published, delivered = map(_frame, (observed.publications, observed.deliveries))
    if delivered.empty:
        return 1, ()
    slice_us = int(delivered.time_us.max()) // SLICES + 1
    pairs = delivered.merge(published.drop_duplicates(_IDENTITY), on=_IDENTITY, suffixes=("", "_published"))
    pairs = pairs[pairs.row_published < pairs.row]
    pairs["number"] = pairs.time_us // slice_us
    pairs["wait_us"] = pairs.time_us - pairs.time_us_published
    found = pairs.groupby(["guarantee", "number"]).wait_us.agg(["count", "median", "max"]).reset_index()
    return slice_us, tuple(
        TimeSlice(observed.guarantees[guarantee], number, count, median, most)
        for guarantee, number, count, median, most in found.itertuples(index=False)
    )


def _frame(rows: ObservedPublications) -> Any:
    import pandas as pd

    return pd.DataFrame({name: getattr(rows, name) for name in ObservedPublications.__struct_fields__})
