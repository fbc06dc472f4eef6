"""The scenario of a run, from what `run.json` keeps of it back to a file that makes the run again."""

from typing import Any

import msgspec

from resprout.scenario.model import BrokerSpec, ClientSpec, FaultSpec, Mix, Scenario, WorkloadSpec
from resprout.scenario.workload_options import OPTIONS
from resprout.scenario.write import to_toml
from resprout.trace.store import RunInfo


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
