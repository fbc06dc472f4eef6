"""One row per observation, as a Python value. `trace.arrow_schema` has the same columns for Arrow.

The columns are a promise to users and to Spark; a change of their meaning, order or type raises `SCHEMA_VERSION`.
"""

from typing import Final

import msgspec

SCHEMA_VERSION: Final = 1


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one node saw at one moment; None where a column does not apply. See `trace.kinds` for which do.

    Rows are facts and never change. No row refers to another, so the garbage collector need not look at them. They are
    written with keywords; only whoever reads millions of them gives the cells in order.
    """

    time_us: int
    """Virtual or monotonic, one clock per run."""
    node: str
    """Who observed it."""
    kind: str
    publisher: str | None = None
    incarnation: int | None = None
    stream: str | None = None
    """"eventual" or "ordered", as `core.guarantee.Guarantee.stream`."""
    seq: int | None = None
    topic: str | None = None
    keys: tuple[str, ...] | None = None
    guarantee: str | None = None
    attributes: dict[str, str] | None = None
    """Values in the text form of `trace.text`."""
    position: int | None = None
    """Of a delivery: dense from 0 per client, from 0 again for each of its incarnations."""
    receipt: str | None = None
    filter: str | None = None
    where: str | None = None
    tseq: int | None = None
    """Of a total: its place in the order that the run claims."""
    hops: int | None = None
    metadata_bytes: int | None = None
    payload_bytes: int | None = None
    detail: str | None = None


COLUMNS: Final[tuple[str, ...]] = Row.__struct_fields__
