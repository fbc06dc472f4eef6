"""Linearizability of the keys of a bucket by search: the brute-force twin of `audit.values`.

It tries every order of the writes that respects real time and the places that are known, and asks whether a register
that is written in this order explains every outcome. It shares nothing with the judge but the rows.
"""

from collections.abc import Iterator, Sequence

from resprout.trace import kinds
from resprout.trace.schema import Row, values

Op = tuple[str, int, int, int | None, bool, int, bool, int]
"""Topic, begin, end, expected revision, whether it deletes, place, whether it was applied, current revision."""


def is_linearizable(rows: Sequence[Row]) -> bool:
    ops = _ops(rows)
    places = [op[5] for op in ops]
    return len(set(places)) == len(places) and any(_explains(order) for order in _orders(ops, []))


def _ops(rows: Sequence[Row]) -> list[Op]:
    begun = {(row.publisher, row.seq): row for row in rows if row.kind == kinds.PUBLISH}
    ops: list[Op] = []
    for row in rows:
        if row.kind == kinds.OUTCOME:
            asked = begun[row.publisher, row.seq]
            told, about = values(asked.attributes), row.attributes or {}
            expected = told.get("kv.expected")
            assert row.tseq is not None and asked.topic is not None
            ops.append(
                (
                    asked.topic, asked.time_us, row.time_us, expected if isinstance(expected, int) else None,
                    told.get("kv.delete") is True, row.tseq, about["applied"] == "yes", int(about["current"]),
                )
            )  # fmt: skip
    return ops


def _orders(left: list[Op], done: list[Op]) -> Iterator[list[Op]]:
    """Yield the orders in which no write comes behind one that began after its end, and places rise."""
    if not left:
        yield done
        return
    first_end = min(op[2] for op in left)
    for op in left:
        if op[1] <= first_end and all(op[5] > before[5] for before in done):
            yield from _orders([other for other in left if other is not op], [*done, op])


def _explains(order: Sequence[Op]) -> bool:
    register: dict[str, int] = {}
    for topic, _, _, expected, deletes, place, applied, current in order:
        if (expected is None or expected == register.get(topic, 0)) != applied:
            return False
        if applied:
            register[topic] = 0 if deletes else place
        if register.get(topic, 0) != current:
            return False
    return True
