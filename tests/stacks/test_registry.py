"""The built-in stacks are found by name, and none is imported before somebody asks for it."""

import importlib
import pkgutil
import subprocess
import sys

from resprout import stacks
from resprout.stacks.registry import BUILT_IN, all_stacks, find_stack
from resprout.stacks.stack import Stack
from tests.patience import PATIENCE_S


def test_a_built_in_stack_is_found_by_the_name_that_it_gives_itself() -> None:
    assert {name: find_stack(name).name for name in BUILT_IN} == {name: name for name in BUILT_IN}
    assert list(all_stacks())[: len(BUILT_IN)] == list(BUILT_IN)


def test_no_package_of_stacks_is_forgotten() -> None:
    packages = [
        importlib.import_module(f"{stacks.__name__}.{found.name}") for found in pkgutil.iter_modules(stacks.__path__)
    ]
    there = {value.name for package in packages for value in vars(package).values() if isinstance(value, Stack)}
    assert there == set(BUILT_IN)


def test_whoever_asks_for_one_stack_waits_for_no_other() -> None:
    code = f"""
import sys
from resprout.stacks.registry import find_stack
import resprout.cli.broker, resprout.net.run.worker
homes = {{place.partition(":")[0] for place in {list(BUILT_IN.values())}}}
assert not homes & set(sys.modules), "before anybody asks"
find_stack("flood")
assert homes & set(sys.modules) == {{"resprout_lab.flood"}}
heavy = {{"pyarrow", "numpy", "rich", "pyspark", "importlib.metadata", "resprout.audit", "resprout.sim"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
