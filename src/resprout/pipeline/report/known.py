"""What stacks that do not keep every promise say about it: told as such on the page, and never left out."""

from typing import Any

from resprout.core.errors import UsageError
from resprout.stacks.registry import find_stack
from resprout.stacks.stack import Stack


def is_documented(stack: str, rule: str) -> bool:
    known = known_stack(stack)
    return known is not None and rule in known.known_anomalies


def said_about(stack: str, rule: str) -> str:
    """Empty when nothing is said about it."""
    known = known_stack(stack)
    return "" if known is None else known.known_anomalies.get(rule, "") or known.known_limits.get(rule, "")


def known_stack(name: str) -> Stack[Any] | None:
    """None for one that is not installed where its traces are read."""
    try:
        return find_stack(name)
    except UsageError:
        return None
