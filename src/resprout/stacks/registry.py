"""Find a stack by its name: the default one, or one that an installed package brings.

A stack is imported when its name is asked for. A process runs one stack and does not wait for the code of the others.
Other packages bring stacks by entry points of the group `resprout.stacks`:

    [project.entry-points."resprout.stacks"]
    mine = "my_package:STACK"

The entry points are read when somebody asks for a stack that is not built in, never by a protocol. A package that
cannot be loaded costs its own stack, and no other.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from resprout.core.errors import UsageError, logger
from resprout.stacks.stack import Stack

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "resprout.stacks"

_loaded: dict[tuple[str, str], Stack[Any]] = {}
"""By entry point, name and value: what was loaded once stays."""

DEFAULT: Final = "resprout"

REPLACED: dict[str, Stack[Any]] = {}
"""Stacks that a test puts here: each replaces the one of its name, or stands beside the others."""


@functools.lru_cache(maxsize=4)
def _offered(path: tuple[str, ...]) -> "frozenset[EntryPoint]":
    """Return the entry points of the packages on a path. Reading them takes about 6 ms, and every run asks for its
    stack several times, so they are read once for each `sys.path`."""
    from importlib.metadata import entry_points  # to import it takes longer than all else here

    return frozenset(entry_points(group=GROUP))


def installed_stack(name: str) -> Stack[Any] | None:
    """None when no package says that it brings it; UsageError, in one line, when it cannot be loaded."""
    offered = sorted((one for one in _offered(tuple(sys.path)) if one.name == name), key=lambda one: one.value)
    if len(offered) > 1:
        places = " and ".join(one.value for one in offered)
        raise UsageError(f"the stack {name!r} is brought by two packages: {places}")
    return _load(offered[0]) if offered else None


def installed_stacks() -> dict[str, Stack[Any]]:
    """All that can be loaded, by name; of each of the others one line is logged."""
    found = {}
    for name in sorted({one.name for one in _offered(tuple(sys.path))}):
        try:
            if (stack := installed_stack(name)) is not None:
                found[name] = stack
        except UsageError as error:
            logger.warning("%s", error)
    return found


def _load(entry: "EntryPoint") -> Stack[Any]:
    key = (entry.name, entry.value)
    if key not in _loaded:
        trouble = f"the stack {entry.name!r} ({entry.value}) cannot be loaded"
        try:
            stack = entry.load()
        except Exception as error:  # whatever happens while a stranger's module is imported
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"{trouble}: {type(error).__name__}: {reason}") from None
        if not isinstance(stack, Stack):
            raise UsageError(f"{trouble}: it is no Stack, but a {type(stack).__name__}")
        if stack.name != entry.name:
            raise UsageError(f"{trouble}: the stack calls itself {stack.name!r}")
        _loaded[key] = stack
    return _loaded[key]


def find_stack(name: str) -> Stack[Any]:
    """Raise UsageError when there is no stack of this name, or when it cannot be loaded."""
    if name in REPLACED:
        return REPLACED[name]
    return _default() if name == DEFAULT else _installed(name)


def all_stacks() -> dict[str, Stack[Any]]:
    """The default stack first, then the others by name. It imports all of them: for lists, help and tests."""

    others = installed_stacks() | REPLACED
    return {DEFAULT: find_stack(DEFAULT)} | {name: others[name] for name in sorted(others) if name != DEFAULT}


def _default() -> Stack[Any]:
    from resprout.stacks.resprout import RESPROUT

    return RESPROUT


def _installed(name: str) -> Stack[Any]:

    stack = installed_stack(name)
    if stack is None:
        raise UsageError(f"unknown stack {name!r}; there is {', '.join(all_stacks())}")
    return stack
