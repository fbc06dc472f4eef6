"""What `run.json` tells of a run beyond its rows: who took part, how far apart they were, what was asked of them."""

from typing import Any, Final, TypedDict

import msgspec

from resprout.core.errors import UsageError
from resprout.pipeline.places import RunPlace
from resprout.sim.network import Distances
from resprout.stacks.registry import find_stack
from resprout.trace.schema import TraceError
from resprout.trace.store import INFO_NAME

_JOIN: Final = "join"


class RunKey(TypedDict):
    """How every row of a result table begins."""

    experiment: str
    run: str
    digest: str


class BrokerSetting(msgspec.Struct, frozen=True):
    name: str
    parent: str | None = None
    latency_us: int = 0


class _Client(msgspec.Struct, frozen=True):
    name: str
    broker: str = ""
    latency_us: int = 0


class _Workload(msgspec.Struct, frozen=True):
    keys: int | None = None


class _Fault(msgspec.Struct, frozen=True):
    kind: str = ""
    nodes: tuple[str, ...] = ()
    parent: str | None = None
    latency_us: int = 0


class Setting(msgspec.Struct, frozen=True):
    """The parts of a scenario that measuring needs; a trace may come without any."""

    name: str = ""
    stack: str = ""
    brokers: tuple[BrokerSetting, ...] = ()
    clients: tuple[_Client, ...] = ()
    workloads: tuple[_Workload, ...] = ()
    faults: tuple[_Fault, ...] = ()

    @property
    def all_brokers(self) -> dict[str, BrokerSetting]:
        """Those that join later included, each in its first place."""
        joins = [fault for fault in self.faults if fault.kind == _JOIN]
        joining = (BrokerSetting(name, join.parent, join.latency_us) for join in joins for name in join.nodes)
        found: dict[str, BrokerSetting] = {}
        for broker in (*self.brokers, *joining):
            found.setdefault(broker.name, broker)
        return found

    def distances(self) -> Distances:
        distances = Distances()
        for broker in self.all_brokers.values():
            distances.place(broker.name, broker.parent, broker.latency_us)
        return distances


def key_of(place: RunPlace) -> RunKey:
    return RunKey(experiment=place.experiment, run=place.run, digest=place.info.digest)


def setting_of(place: RunPlace) -> Setting:
    try:
        return msgspec.convert(place.info.scenario, Setting)
    except msgspec.ValidationError as error:
        raise TraceError(f"{place.folder}/{INFO_NAME}: the scenario is damaged: {error}") from None


FAULTS_TOLERATED: Final = ("faults_tolerated", "f", "delta")
"""What stacks call the number of faults that they are to survive."""


def faults_tolerated(place: RunPlace, stack: str) -> int | None:
    """As the run was told, or as the stack has it by default; None for a stack that has no such number."""
    options: Any = place.info.options
    for name in FAULTS_TOLERATED:
        if isinstance(options.get(name), int):
            return int(options[name])
    try:
        options = find_stack(stack).parse_options(place.info.options)
    except UsageError:
        return None
    return next((getattr(options, name) for name in FAULTS_TOLERATED if hasattr(options, name)), None)


def labels_of(name: str) -> dict[str, str]:
    """Of a run in a sweep, by its name `axis=label,...,seed=n`; any other name has none."""
    *axes, seed = name.split(",")
    pairs = [axis.partition("=")[::2] for axis in axes]
    if not seed.startswith("seed=") or not all(axis and label for axis, label in pairs):
        return {}
    return dict(pairs)
