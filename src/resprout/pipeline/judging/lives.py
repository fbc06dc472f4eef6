"""Subscribers: clients between two crashes, numbered by name and by how many of its crashes came before.

The numbers differ from those of `audit.history`; what they tell apart is the same: rows between the same two crashes.
"""

import numpy as np

from resprout.pipeline.judging.arrays import NEVER, Array


class Lives:
    def __init__(self, names: int, ends_node: Array, ends_row: Array, rows: int) -> None:
        """`ends`: crash and leave rows, in order of rows; `rows`: of the whole run."""
        self._rows = rows + 1
        self._ends = np.sort(ends_node.astype(np.int64) * self._rows + ends_row)
        self.count = names + len(self._ends)
        self.node = np.repeat(np.arange(names), 1 + np.bincount(ends_node, minlength=names)) if names else ends_node
        self.end_row = np.full(self.count, NEVER, dtype=np.int64)
        """NEVER for a life that lasts."""
        self.end_row[self._ends // self._rows + np.arange(len(self._ends))] = self._ends % self._rows
        self.frozen_at_end = np.zeros(self.count, dtype=np.bool_)
        self.freezes: dict[int, list[tuple[int, int]]] = {}
        """By life, (since, until) in rows."""

    def of(self, node: Array, row: Array) -> Array:
        if not len(self._ends):
            return node
        before: Array = np.searchsorted(self._ends, node.astype(np.int64) * self._rows + row)
        return node + before

    @property
    def correct(self) -> Array:
        found: Array = (self.end_row == NEVER) & ~self.frozen_at_end
        return found

    def freeze(self, node: Array, row: Array, begins: Array, seen_node: Array, seen_row: Array) -> None:
        """`begins`: for each row of a freeze or its end, which it is. `seen`: what these nodes observed; before the
        first of it a life has not begun, and cannot be frozen."""
        begun = np.full(self.count, NEVER, dtype=np.int64)
        np.minimum.at(begun, self.of(seen_node, seen_row), seen_row)
        since: dict[int, int] = {}
        for life, here, is_freeze in zip(self.of(node, row).tolist(), row.tolist(), begins.tolist(), strict=True):
            if is_freeze and begun[life] < here:
                since.setdefault(life, here)
            elif not is_freeze and life in since:
                self.freezes.setdefault(life, []).append((since.pop(life), here))
        for life, here in since.items():
            end = int(self.end_row[life])
            self.freezes.setdefault(life, []).append((here, end))
            self.frozen_at_end[life] = end == NEVER
