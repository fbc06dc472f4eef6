"""A frame or message of any type with one number of it as wanted, and everything else as small as it may be."""

import enum
import types
import typing
from typing import Annotated, Any, get_args, get_origin

import msgspec

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.stacks.resprout.messages import PARCEL_ROWS, ParcelRows


def sample(kind: Any, path: str, number: int) -> Any:
    """`path` as in `tools.message_bounds.Row`. A row of a parcel is returned in a message."""
    made = _make(kind, "", path, number)
    return ParcelRows((made,)) if kind in PARCEL_ROWS else made


def _make(hint: Any, here: str, path: str, number: int) -> Any:
    least = 0
    if get_origin(hint) is Annotated:
        for meta in hint.__metadata__:
            if isinstance(meta, msgspec.Meta) and meta.ge is not None:
                least = int(meta.ge)
        hint = get_args(hint)[0]
    if hint is int:
        return number if here == path else max(least, 0)
    if hint is Bundle:
        return _bundle(here, path, number)
    if get_origin(hint) in (typing.Union, types.UnionType):
        inside = [inner for inner in get_args(hint) if inner is not types.NoneType]
        return _make(inside[0], here, path, number) if path.startswith(here) or len(inside) > 1 else None
    if get_origin(hint) is tuple:
        wanted = path.startswith(f"{here}[]")
        return (_make(get_args(hint)[0], f"{here}[]", path, number),) if wanted else ()
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint, include_extras=True)
        values = {
            field.name: _make(hints[field.name], f"{here}.{field.name}" if here else field.name, path, number)
            for field in msgspec.structs.fields(hint)
        }
        return hint(**values)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint))
    plain: dict[Any, Any] = {str: "a", bytes: b"", bool: False}
    return plain.get(hint, ())  # of a frame: no messages


def _bundle(here: str, path: str, number: int) -> Bundle:
    fields = {"publisher": "p", "incarnation": 1, "first": 1, "count": 1, "stamp": 1}
    for name in fields:
        if f"{here}.{name}" == path:
            fields[name] = number
    return Bundle(
        **fields,  # type: ignore[arg-type]
        topic="t",
        keys=(),
        guarantee=Guarantee.CAUSAL,
        attributes=b"",
        payloads=pack_payloads([b"x"]),
    )
