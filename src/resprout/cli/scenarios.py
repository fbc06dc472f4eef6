"""Scenarios on the command line: which one a command runs, and how it prints the outcome of the run.

A scenario is a file or a drawn one, with changes. The outcome is printed for people or as JSON.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from resprout.cli.arguments import LocalPath
from resprout.cli.console import table_lines, tell, tell_json, tell_lines
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.source import shipped
from resprout.scenario.write import to_toml
from resprout.trace.summary import Latency, Summary

F = TypeVar("F", bound=Callable[..., Any])

_DECORATORS = (
    click.argument("scenario", type=LocalPath(), required=False),
    click.option("--draw", type=click.IntRange(min=0), metavar="SEED", help="Draw one from a seed, as swarms do."),
    click.option("--trace", "folder", type=LocalPath(), metavar="DIR", help="Write the trace here."),
    click.option("--stack", metavar="NAME", help="Run this stack instead of the scenario's."),
    click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Use this seed instead of the scenario's."),
    click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value, e.g. workload.0.keys=10."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object."),
)


def scenario_arguments(function: F) -> F:
    """The arguments that every command which runs scenarios has."""
    for decorator in reversed(_DECORATORS):
        function = decorator(function)
    return function


def choose_scenario(
    path: Path | None, draw: int | None, stack: str | None, seed: int | None, overrides: tuple[str, ...]
) -> Scenario:
    changes = list(overrides)
    if stack is not None:
        changes.append(f'stack="{stack}"')
    if seed is not None:
        changes.append(f"seed={seed}")
    if draw is not None:
        if path is not None:
            raise UsageError("give a scenario or --draw, not both")
        return parse_scenario(to_toml(draw_scenario(draw)), f"drawn from {draw}", changes)
    if path is None:
        raise UsageError(f"which scenario? Give a file or a name: {', '.join(sorted(shipped('scenarios')))}")
    return load_scenario(path, changes)


class RunOutcome(msgspec.Struct, frozen=True):
    scenario: Scenario
    ended: str
    digest: str
    folder: Path | None
    summary: Summary
    clock: str
    """Which time was measured: "virtual" or "real"."""


def say(outcome: RunOutcome, as_json: bool) -> None:
    if as_json:
        tell_json(_as_data(outcome))
    else:
        _print(outcome)


def _as_data(outcome: RunOutcome) -> dict[str, Any]:
    return {
        "scenario": outcome.scenario.name,
        "stack": outcome.scenario.stack,
        "seed": outcome.scenario.seed,
        "ended": outcome.ended,
        "digest": outcome.digest,
        "trace": str(outcome.folder) if outcome.folder is not None else None,
        "summary": msgspec.to_builtins(outcome.summary),
    }


def _print(outcome: RunOutcome) -> None:
    scenario, summary = outcome.scenario, outcome.summary
    tell(
        f"{scenario.name}: {len(scenario.brokers)} brokers, {len(scenario.clients)} clients,"
        f" stack {scenario.stack}, seed {scenario.seed}"
    )
    published, delivered = sum(summary.published.values()), sum(summary.delivered.values())
    tell(
        f"{published} published, {delivered} delivered in {summary.duration_us / 1e6:.1f} s of {outcome.clock} time;"
        f" the run {'came to rest' if outcome.ended == 'quiescent' else 'hit its time limit'}"
    )
    if summary.refused:
        tell(f"{summary.refused} publications were refused")
    if summary.latency:
        tell_lines(_latencies("publish to deliver", summary.latency))
    if summary.receipts:
        tell_lines(_latencies("publish to receipt", summary.receipts))
    tell(f"digest {outcome.digest}")
    if outcome.folder is not None:
        tell(f"trace  {outcome.folder}")


def _latencies(title: str, latencies: dict[str, Latency]) -> list[str]:
    rows = [["", "count", "median ms", "p95 ms", "p99 ms", "max ms"]]
    order = {guarantee.label: guarantee for guarantee in Guarantee}
    for name, latency in sorted(latencies.items(), key=lambda item: order.get(item[0], Guarantee.EVENTUAL)):
        values = (latency.median_us, latency.p95_us, latency.p99_us, latency.max_us)
        rows.append([name, str(latency.count), *(f"{value / 1e3:.3f}" for value in values)])
    return [title, *table_lines(rows, numbers=range(1, 6))]
