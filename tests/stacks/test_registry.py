"""Stacks are found by name, and none is imported before its name is asked for."""

import importlib
import pkgutil
import subprocess
import sys

import resprout_lab
from resprout.stacks.stack import DEFAULT, Stack, all_stacks, find_stack
from resprout_lab import SYSTEMS
from tests.patience import PATIENCE_S


def test_a_stack_is_found_by_the_name_that_it_gives_itself() -> None:
    assert {name: find_stack(name).name for name in (DEFAULT, *SYSTEMS)} == {name: name for name in (DEFAULT, *SYSTEMS)}
    assert list(all_stacks()) == [DEFAULT, *sorted(SYSTEMS)]


def test_every_system_of_the_laboratory_has_an_entry_point() -> None:
    packages = [
        importlib.import_module(f"{resprout_lab.__name__}.{found.name}")
        for found in pkgutil.iter_modules(resprout_lab.__path__)
    ]
    there = {value.name for package in packages for value in vars(package).values() if isinstance(value, Stack)}
    assert there == set(SYSTEMS)


def test_a_process_imports_only_the_stack_that_it_asks_for() -> None:
    code = """
import sys
from resprout.stacks.stack import find_stack
import resprout.cli.broker, resprout.net.run.worker
def loaded():
    return {name for name in sys.modules if name.startswith(("resprout_lab", "resprout.stacks.resprout"))}
assert not loaded(), loaded()
find_stack("resprout")
assert not any(name.startswith("resprout_lab") for name in loaded()), loaded()
assert "importlib.metadata" not in sys.modules
find_stack("flood")
systems = {name.split(".")[1] for name in loaded() if name.count(".") == 1 and name.startswith("resprout_lab.")}
assert systems == {"flood", "blocks"}, systems
heavy = {"pyarrow", "numpy", "rich", "pyspark", "resprout.audit", "resprout.sim"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
