"""Which scenario a command runs: a file or a drawn one, with changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from resprout.cli.paths import LocalPath
from resprout.core.errors import UsageError
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.write import to_toml

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
        raise UsageError("which scenario? Give a file, e.g. scenarios/bank.toml")
    return load_scenario(path, changes)
