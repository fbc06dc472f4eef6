"""Find a stack by its name: the default one, or one that an installed package brings.

A stack is imported when its name is asked for. A process runs one stack and does not wait for the code of the others.
"""

from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.stacks.stack import Stack

DEFAULT: Final = "resprout"

REPLACED: dict[str, Stack[Any]] = {}
"""Stacks that a test puts here: each replaces the one of its name, or stands beside the others."""


def find_stack(name: str) -> Stack[Any]:
    """Raise UsageError when there is no stack of this name, or when it cannot be loaded."""
    if name in REPLACED:
        return REPLACED[name]
    return _default() if name == DEFAULT else _installed(name)


def all_stacks() -> dict[str, Stack[Any]]:
    """The default stack first, then the others by name. It imports all of them: for lists, help and tests."""
    from resprout.stacks.installed import installed_stacks

    others = installed_stacks() | REPLACED
    return {DEFAULT: find_stack(DEFAULT)} | {name: others[name] for name in sorted(others) if name != DEFAULT}


def _default() -> Stack[Any]:
    from resprout.stacks.resprout import RESPROUT

    return RESPROUT


def _installed(name: str) -> Stack[Any]:
    from resprout.stacks.installed import installed_stack  # reading the metadata of all packages takes a while

    stack = installed_stack(name)
    if stack is None:
        raise UsageError(f"unknown stack {name!r}; there is {', '.join(all_stacks())}")
    return stack
