"""Attributes of rows as columns. Each distinct text is read once."""

import numpy as np

from resprout.pipeline.judging.arrays import Array, spread
from resprout.pipeline.judging.columns import ListColumn, UnreadableError, Words
from resprout.trace.schema import TraceError, from_text


def cells_of(lists: ListColumn) -> tuple[Array, Array, Array]:
    """(row, name, text) of every attribute."""
    length = np.maximum(lists.length, 0)
    places = spread(lists.start, length)
    return np.repeat(np.arange(len(length)), length), lists.content[0][places], lists.content[1][places]


def text_of(cells: tuple[Array, Array, Array], name: int, count: int) -> Array:
    """For each row the text of one attribute; -1 for none."""
    found = np.full(count, -1, dtype=np.int64)
    here = cells[1] == name
    found[cells[0][here]] = cells[2][here]
    return found


def values_of(words: Words, texts: Array) -> list[object]:
    """The values of the distinct texts, in order; None for a missing one."""
    try:
        return [None if text < 0 else from_text(words.values.texts[text]) for text in np.unique(texts).tolist()]
    except TraceError as error:
        raise UnreadableError(str(error)) from None


def table_of(values: list[int], texts: Array, words: Words) -> Array:
    """For each word of the values what was found for it, given for the distinct ones in order; the last is for -1."""
    table = np.zeros(len(words.values) + 1, dtype=np.int64)
    table[np.unique(texts)] = values
    return table
