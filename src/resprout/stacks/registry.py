"""The stacks by name."""

from typing import Any

from resprout.core.errors import UsageError
from resprout.stacks.flood import FLOOD
from resprout.stacks.ginger import GINGER
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.stack import Stack

STACKS: dict[str, Stack[Any]] = {stack.name: stack for stack in (RESPROUT, GINGER, FLOOD)}


def find_stack(name: str) -> Stack[Any]:
    try:
        return STACKS[name]
    except KeyError:
        raise UsageError(f"unknown stack {name!r}; there is {', '.join(STACKS)}") from None
