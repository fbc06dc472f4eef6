"""Stacks that other packages bring, found by entry points of the group `resprout.stacks`.

    [project.entry-points."resprout.stacks"]
    mine = "my_package:STACK"

Which packages are installed is asked like an import is done: when somebody wants a stack that is not built in, and
never by a protocol. A package that cannot be loaded costs its own stack, and nobody else's.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.core.escaping import logger
from resprout.stacks.stack import Stack

GROUP: Final = "resprout.stacks"

_loaded: dict[tuple[str, str], Stack[Any]] = {}
"""By entry point, name and value: what was loaded once stays."""


def installed_stack(name: str) -> Stack[Any] | None:
    """None when no package says that it brings it; UsageError, in one line, when it cannot be loaded."""
    offered = sorted(set(entry_points(group=GROUP, name=name)), key=lambda one: one.value)
    if len(offered) > 1:
        places = " and ".join(one.value for one in offered)
        raise UsageError(f"the stack {name!r} is brought by two packages: {places}")
    return _load(offered[0]) if offered else None


def installed_stacks() -> dict[str, Stack[Any]]:
    """All that can be loaded, by name; of each of the others one line is logged."""
    found = {}
    for name in sorted({one.name for one in entry_points(group=GROUP)}):
        try:
            if (stack := installed_stack(name)) is not None:
                found[name] = stack
        except UsageError as error:
            logger.warning("%s", error)
    return found


def _load(entry: EntryPoint) -> Stack[Any]:
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
