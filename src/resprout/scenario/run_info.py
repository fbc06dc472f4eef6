"""What `run.json` says about a run of a scenario, whoever ran it."""

import platform
from collections.abc import Mapping
from typing import Any

import msgspec

from resprout import __version__
from resprout.scenario.model import Scenario
from resprout.stacks.registry import find_stack
from resprout.trace.store import RunInfo


def run_info(scenario: Scenario, ended: str, traffic: Mapping[str, int] | None = None) -> RunInfo:
    """`traffic`: totals over all nodes, of a driver that counts them."""
    return RunInfo(
        scenario=scenario_data(scenario),
        options=dict(scenario.options),
        seed=scenario.seed,
        versions={"resprout": __version__, "python": platform.python_version()},
        ended=ended,
        promise=find_stack(scenario.stack).promise(),
        traffic=dict(traffic or {}),
    )


def scenario_data(scenario: Scenario) -> dict[str, Any]:
    """As it comes back from `run.json`."""
    values = msgspec.to_builtins(scenario)
    if scenario.bank_initial is not None:
        values["bank_initial"] = scenario.bank_initial  # the judge counts money from there
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(values))
    return plain
