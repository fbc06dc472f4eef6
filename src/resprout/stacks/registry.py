"""The stacks by name: those of this package, and those that other packages bring."""

from typing import Any

from resprout.core.errors import UsageError
from resprout.stacks.barriers import CAUSAL_BARRIERS
from resprout.stacks.cbcast import CBCAST
from resprout.stacks.delta import DELTA
from resprout.stacks.flood import FLOOD
from resprout.stacks.ginger import GINGER
from resprout.stacks.gossip import GOSSIP
from resprout.stacks.installed import installed_stack, installed_stacks
from resprout.stacks.locamu import LOCAMU
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.scribe import SCRIBE
from resprout.stacks.sites import SITES
from resprout.stacks.stack import Stack

_BUILT_IN = (
    RESPROUT,
    GINGER,
    FLOOD,
    CBCAST,
    CAUSAL_BARRIERS,
    DELTA,
    LOCAMU,
    SITES,
    GOSSIP,
    SCRIBE,
)

STACKS: dict[str, Stack[Any]] = {stack.name: stack for stack in _BUILT_IN}
"""The built-in ones; no other package can take their names."""


def find_stack(name: str) -> Stack[Any]:
    """UsageError for one that is not there, or cannot be loaded."""
    stack = STACKS.get(name) or installed_stack(name)
    if stack is None:
        raise UsageError(f"unknown stack {name!r}; there is {', '.join(all_stacks())}")
    return stack


def all_stacks() -> dict[str, Stack[Any]]:
    """The built-in ones first."""
    brought = installed_stacks()
    return STACKS | {name: stack for name, stack in brought.items() if name not in STACKS}
