"""The stacks by name: those of this package, and those that other packages bring.

Each is imported when somebody asks for it: a process runs one stack, and should not wait for the code of the others.
"""

import importlib
from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.stacks.stack import Stack

BUILT_IN: Final = {
    "resprout": "resprout.stacks.resprout:RESPROUT",
    "ginger": "resprout.stacks.ginger:GINGER",
    "flood": "resprout.stacks.flood:FLOOD",
    "cbcast": "resprout.stacks.cbcast:CBCAST",
    "causal-barriers": "resprout.stacks.barriers:CAUSAL_BARRIERS",
    "delta": "resprout.stacks.delta:DELTA",
    "locamu": "resprout.stacks.locamu:LOCAMU",
    "sites": "resprout.stacks.sites:SITES",
    "gossip": "resprout.stacks.gossip:GOSSIP",
    "scribe": "resprout.stacks.scribe:SCRIBE",
}
"""Where each of the built-in ones is, in the order in which they are listed; no other package can take their names."""

DEFAULT: Final = "resprout"

LOADED: dict[str, Stack[Any]] = {}
"""The built-in ones that somebody has asked for. What is put here by hand stands in for one, or beside them."""


def find_stack(name: str) -> Stack[Any]:
    """UsageError for one that is not there, or cannot be loaded."""
    if name not in LOADED:
        if name not in BUILT_IN:
            return _brought(name)
        module, _, value = BUILT_IN[name].partition(":")
        LOADED[name] = getattr(importlib.import_module(module), value)
    return LOADED[name]


def all_stacks() -> dict[str, Stack[Any]]:
    """The built-in ones first. This imports them all, so it is for lists, help and tests."""
    from resprout.stacks.installed import installed_stacks

    here = {name: find_stack(name) for name in (*BUILT_IN, *LOADED)}
    return here | {name: stack for name, stack in installed_stacks().items() if name not in here}


def _brought(name: str) -> Stack[Any]:
    from resprout.stacks.installed import installed_stack  # which packages there are takes a while to find out

    stack = installed_stack(name)
    if stack is None:
        raise UsageError(f"unknown stack {name!r}; there is {', '.join(all_stacks())}")
    return stack
