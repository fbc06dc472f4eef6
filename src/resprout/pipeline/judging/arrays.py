"""Small tools on arrays that numpy does not have as such."""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

NULL: Final = int(np.iinfo(np.int64).min)
"""Stands for an empty cell of a column of numbers."""
NEVER: Final = int(np.iinfo(np.int64).max)
"""Later than any row, as in `audit.records`."""


def spread(start: Array, length: Array) -> Array:
    """The places start, start + 1, ... of every extent, one extent after the other."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - length), length) + np.arange(total)


def first_places(keys: Array, size: int) -> Array:
    """For each number below `size`, where it stands first in `keys`; -1 when it does not."""
    places = np.full(size, -1, dtype=np.int64)
    places[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # of several writes the last one stays
    return places


def is_same(keys: Array) -> Array:
    """For each element but the first, whether it equals the one before."""
    same: Array = keys[1:] == keys[:-1]
    return same


def stable_order(keys: Array, size: int) -> Array:
    """Places sorted by key (each below `size`), equal keys as they stand."""
    if size <= 1 << 16:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # numpy sorts these by radix, in linear time
    return np.argsort(keys, kind="stable")


def distinct(*columns: Array) -> tuple[Array, ...]:
    """The distinct rows of these columns (numbers from 0), sorted."""
    spans = [int(column.max()) + 1 if len(column) else 1 for column in columns]
    packed, room = columns[0].astype(np.int64), spans[0]
    for column, span in zip(columns[1:], spans[1:], strict=True):
        if room * span >= 1 << 62:
            return tuple(np.unique(np.stack(columns), axis=1))
        packed, room = packed * span + column, room * span
    packed = np.sort(packed)  # much faster than np.unique, which hashes
    packed = packed[np.append(True, ~is_same(packed))[: len(packed)]]
    found = []
    for span in reversed(spans[1:]):
        packed, column = np.divmod(packed, span)
        found.append(column)
    return (packed, *reversed(found))
