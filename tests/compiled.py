"""Tests on the compiled form of the package (`make test-fast`).

Some tests put something else into a module or a class, or derive a faulty class to see that it is found out. Compiled
modules hold their constants, and compiled classes are closed: such tests are for the interpreted form, and say so.
"""

import importlib
import sys
from types import ModuleType
from typing import Any, Final

import pytest

CLOSED: Final = "interpreted classes cannot inherit from compiled"
REASON: Final = "it reaches into a compiled module"


def is_compiled(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None) or ".py"
    return module.startswith("resprout.") and not file.endswith(".py")


def reaches_into(module: str) -> pytest.MarkDecorator:
    """For tests that replace or trace what is in this module without `monkeypatch`: skipped where it is compiled."""
    importlib.import_module(module)
    return pytest.mark.skipif(is_compiled(module), reason=REASON)


class CarefulMonkeyPatch(pytest.MonkeyPatch):  # type: ignore[misc]  # called final, and nothing else does it
    """Changes nothing that is compiled: the test is skipped."""

    def setattr(self, target: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(target, str):
            owner = target.rpartition(".")[0]
        elif isinstance(target, ModuleType):
            owner = target.__name__
        else:
            owner = (target if isinstance(target, type) else type(target)).__module__
        if is_compiled(owner):
            pytest.skip(REASON)
        super().setattr(target, *arguments, **options)
