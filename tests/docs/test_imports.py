"""The import linter refuses an import between floors that stand on one line, and of a floor above."""

import tomllib
from copy import deepcopy
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.contracts.layers import LayersContract

CONFIG = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["importlinter"]
FLOORS: dict[str, Any] = next(contract for contract in CONFIG["contracts"] if contract["type"] == "layers")
LINES: list[list[str]] = [line.replace("|", ":").replace(" ", "").split(":") for line in FLOORS["layers"]]
SIBLINGS = [pair for line in LINES for pair in permutations(line, 2)]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*CONFIG["root_packages"], cache_dir=None)


def keeps(graph: grimp.ImportGraph) -> bool:
    options = {key: value for key, value in FLOORS.items() if key not in ("name", "type")}
    contract = LayersContract(FLOORS["name"], {"root_packages": CONFIG["root_packages"]}, options)
    return bool(contract.check(deepcopy(graph), verbose=False).kept)


def with_import(graph: grimp.ImportGraph, importer: str, imported: str) -> grimp.ImportGraph:
    changed = deepcopy(graph)
    changed.add_import(importer=importer, imported=imported)
    return changed


def test_the_imports_of_today_keep_to_the_floors(graph: grimp.ImportGraph) -> None:
    assert keeps(graph)


def test_no_floor_may_import_a_sibling(graph: grimp.ImportGraph) -> None:
    assert len(SIBLINGS) >= 20
    assert [pair for pair in SIBLINGS if keeps(with_import(graph, *pair))] == []


def test_no_floor_may_import_from_above(graph: grimp.ImportGraph) -> None:
    upwards = [(lower, upper) for above, below in pairwise(LINES) for upper in above for lower in below]
    assert [pair for pair in upwards if keeps(with_import(graph, *pair))] == []
