"""What the messages of a run are for, as its stack says."""

from functools import cache

from resprout.core.errors import UsageError
from resprout.stacks.families import Family
from resprout.stacks.registry import find_stack


@cache
def family_of(stack: str, message: str) -> Family:
    """By the name of its type; what a stack does not know, or a stack that is not installed here, is `OTHER`."""
    try:
        return find_stack(stack).family_of(message)
    except UsageError:
        return Family.OTHER
