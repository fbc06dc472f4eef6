"""No module of the default stack imports one that imports it, directly or through others, so that the parts can be read
from below. Imports that only a type checker sees count, too."""

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = "resprout.stacks.resprout"


def modules_of(package: str) -> dict[str, str]:
    """By name: the text of each module, packages included."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.joinpath(*package.split(".")).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


def imports_of(text: str, modules: Mapping[str, str]) -> set[str]:
    """Which of these modules are imported anywhere in the text: at its top, in a function, for type checkers only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and not node.level, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in modules else node.module for name in names)
    return found & modules.keys()


def cycle_in(modules: Mapping[str, str]) -> list[str]:
    """Return the names along one cycle, empty when there is none."""
    graph = {name: imports_of(text, modules) for name, text in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_of_the_default_stack_is_in_a_cycle_of_imports() -> None:
    assert cycle_in(modules_of(PACKAGE)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from {broker} import ResproutBroker",
        "import {broker}",
        "from {package} import broker",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {broker} import ResproutBroker",
        "def late() -> None:\n    from {broker} import ResproutBroker",
    ],
)
def test_an_import_from_below_to_above_is_a_cycle(text: str) -> None:
    modules = modules_of(PACKAGE)
    modules[f"{PACKAGE}.life"] += "\n" + text.format(broker=f"{PACKAGE}.broker", package=PACKAGE)
    assert {f"{PACKAGE}.life", f"{PACKAGE}.broker"} <= set(cycle_in(modules))
