"""How much an object keeps: for tests that nothing is left behind, and that what is kept does not grow.

Counted are entries of collections and bytes of buffers in all that can be reached from it, whatever its attributes are
called. An object that is new, or that never had to do with what has left, is what to compare it with.
"""

from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest

from tests.compiled import REASON, is_compiled

_OPAQUE = (str, bytes, int, float, complex, type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def kept_by(*roots: Any) -> int:
    """Entries of dictionaries, lists, sets and queues, and bytes of buffers. What only calls back is not followed."""
    seen: set[int] = set()
    look: list[Any] = list(roots)
    count = 0
    while look:
        found = look.pop()
        if found is None or isinstance(found, _OPAQUE) or id(found) in seen:
            continue
        seen.add(id(found))
        if is_compiled(type(found).__module__):
            pytest.skip(REASON)  # it shows nothing of what it keeps
        if isinstance(found, dict):
            count += len(found)
            look += [*found.keys(), *found.values()]
        elif isinstance(found, list | set | deque):
            count += len(found)
            look += found
        elif isinstance(found, tuple | frozenset):
            look += found
        elif isinstance(found, bytearray):
            count += len(found)
        else:
            look += _fields(found)
    return count


def _fields(found: Any) -> list[Any]:
    names = [name for kind in type(found).__mro__ for name in _slots(kind)]
    names += getattr(type(found), "__struct_fields__", ())
    return [*vars(found).values(), *_got(found, names)] if hasattr(found, "__dict__") else _got(found, names)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _got(found: Any, names: list[str]) -> list[Any]:
    return [getattr(found, name) for name in names if hasattr(found, name)]
