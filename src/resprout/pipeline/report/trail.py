"""What happened in one run, and how long messages took meanwhile: for runs that are shown by themselves.

Few numbers come of it whatever the size of the run: the first of the happenings, and latencies in a fixed number of
slices of its time. `recipe_of` turns what `run.json` keeps of the scenario back into a file that makes the run again.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from resprout.pipeline.metrics.observed import Observed, ObservedPublications, observe
from resprout.pipeline.places import RunPlace
from resprout.scenario.model import OPTIONS, BrokerSpec, ClientSpec, FaultSpec, Mix, Scenario, WorkloadSpec
from resprout.scenario.write import to_toml
from resprout.stacks.registry import DEFAULT
from resprout.trace import kinds
from resprout.trace.store import RunInfo

SLICES: Final = 48
HAPPENINGS_MAX: Final = 200

_TOLD: Final = (
    kinds.CRASH, kinds.RECOVER, kinds.FREEZE, kinds.UNFREEZE, kinds.HANG, kinds.UNHANG, kinds.JOIN, kinds.LEAVE,
    kinds.CUT, kinds.HEAL, kinds.PARTITION, kinds.REPAIR_BEGIN, kinds.REPAIR_END, kinds.QUIESCENT, kinds.TIMEOUT,
    "fenced", "joined", "moved",
)  # fmt: skip
_IDENTITY: Final = ["source", "seq"]


class Happening(msgspec.Struct, frozen=True):
    time_us: int
    node: str
    kind: str
    detail: str


class TimeSlice(msgspec.Struct, frozen=True):
    """What was delivered with one guarantee in one slice of the run's time."""

    guarantee: str
    number: int
    deliveries: int
    median_us: float
    max_us: int


class Trail(msgspec.Struct, frozen=True):
    happenings: tuple[Happening, ...]
    left_out: int
    """Happenings beyond those that are told."""
    slice_us: int
    slices: tuple[TimeSlice, ...]
    recipe: str | None
    """The scenario as a file that makes the run again; None when the trace does not hold it."""
    parents: Mapping[str, str | None] = {}
    """The tree of the scenario: the parent of each broker. Empty where a run's stack repairs by another rule."""
    joins: tuple[Happening, ...] = ()
    """Every broker that joined, with its parent as the detail."""


Trails = Mapping[tuple[str, str], Trail]
"""By experiment and run."""


def recipe_of(info: RunInfo) -> str | None:
    """As TOML; None when the trace does not hold a scenario that this version understands."""
    try:
        return to_toml(_scenario(info.scenario))
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, AttributeError):
        return None  # a trace need not come from us, and is judged all the same


def _scenario(values: dict[str, Any]) -> Scenario:
    return Scenario(
        name=values["name"],
        stack=values["stack"],
        seed=values["seed"],
        time_limit_us=values["time_limit_us"],
        options=values["options"],
        brokers=msgspec.convert(values["brokers"], tuple[BrokerSpec, ...]),
        clients=msgspec.convert(values["clients"], tuple[ClientSpec, ...]),
        workloads=tuple(map(_workload, values["workloads"])),
        faults=msgspec.convert(values["faults"], tuple[FaultSpec, ...]),
    )


def _workload(values: dict[str, Any]) -> WorkloadSpec:
    """Which options it has depends on its kind, which is more than a type can say."""
    lists = {name: tuple(values[name]) for name in ("clients", "topics")}
    mix = msgspec.convert(values["mix"], Mix)
    options = msgspec.convert(values["options"], OPTIONS[values["kind"]])
    return WorkloadSpec(**{**values, **lists, "mix": mix, "options": options})


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
        parents=_parents(place.info),
        joins=tuple(Happening(one.time_us, one.node, one.kind, one.detail) for one in told if one.kind == "joined"),
    )


def _parents(info: RunInfo) -> dict[str, str | None]:
    if info.scenario.get("stack") != DEFAULT:
        return {}
    try:
        brokers = msgspec.convert(info.scenario["brokers"], tuple[BrokerSpec, ...])
    except (msgspec.ValidationError, KeyError):
        return {}
    return {broker.name: broker.parent for broker in brokers if broker.parent is not None or not broker.contacts}


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
