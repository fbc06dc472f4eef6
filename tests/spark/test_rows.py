"""Which rows share a bundle, and what a table must have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.spark.ledger import BATCHES_KEPT, FOLDER
from resprout.spark.options import SinkError, SinkOptions, sink_options
from resprout.spark.sink import (
    BUNDLE_BYTES,
    PublishedRows,
    ResproutStreamWriter,
    RowBundle,
    bundles_of,
    check_columns,
)

TO_A = sink_options({"servers": "b0", "topic": "a", "guarantee": "fifo"})
LOOSE = sink_options({"servers": "b0", "topic": "a", "guarantee": "eventual"})
ANYWHERE = sink_options({"servers": "b0"})


def made(options: SinkOptions, *batches: Mapping[str, Any]) -> list[RowBundle]:
    return list(bundles_of([pa.RecordBatch.from_pydict(batch) for batch in batches], options))


def test_rows_that_go_to_the_same_place_share_a_bundle_over_batches() -> None:
    first = {"value": [b"1", b"2", b"3"], "topic": ["x", None, "x"], "key": ["k", "k", None]}
    second = {"value": [b"4", b"5"], "topic": ["x", "x"], "key": [None, None]}
    assert made(TO_A, first, second) == [
        RowBundle("x", Guarantee.FIFO, ("k",), [b"1"], None),
        RowBundle("a", Guarantee.FIFO, ("k",), [b"2"], None),
        RowBundle("x", Guarantee.FIFO, (), [b"3", b"4", b"5"], None),
    ]


def test_bundles_keep_their_limits_and_depend_on_the_rows_alone() -> None:
    rows = {"value": [b"%d" % n for n in range(3_000)]}
    bundles = made(TO_A, rows)
    assert [len(bundle.payloads) for bundle in bundles] == [1024, 1024, 952]
    halves = [{"value": rows["value"][:1500]}, {"value": rows["value"][1500:]}]
    assert made(TO_A, *halves) == bundles
    large = made(TO_A, {"value": [bytes(BUNDLE_BYTES // 2)] * 3 + [bytes(2 * BUNDLE_BYTES)]})
    assert [len(bundle.payloads) for bundle in large] == [2, 1, 1]


def test_keys_guarantees_and_attributes_come_from_columns() -> None:
    (one, two) = made(
        TO_A,
        {
            "value": ["text", None],
            "keys": [["k", "b#l"], None],
            "guarantee": ["total", None],
            "attributes": [{"n": 1, "s": None}, {"n": 2, "s": "x"}],
        },
    )
    assert one == RowBundle("a", Guarantee.TOTAL, ("k", "b#l"), [b"text"], [{"n": 1}])
    assert two == RowBundle("a", Guarantee.FIFO, (), [b""], [{"n": 2, "s": "x"}])
    (headed,) = made(TO_A, {"value": [b"x"], "headers": [[{"key": "n", "value": b"1"}]]})
    assert headed.attributes == [{"n": "1"}]
    with pytest.raises(UsageError, match="a row has no topic"):
        made(ANYWHERE, {"value": [b"x"], "topic": [None]})


def table(**kinds: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])  # type: ignore[arg-type]


def test_a_table_that_cannot_be_published_is_refused_when_the_query_is_planned() -> None:
    check_columns(table(value=BinaryType(), topic=StringType(), keys=ArrayType(StringType())), ANYWHERE)
    check_columns(table(value=StringType(), attributes=MapType(StringType(), DoubleType())), TO_A)
    check_columns(table(value=StringType(), attributes=table(n=LongType(), s=StringType())), TO_A)
    for wrong, complaint in (
        (table(topic=StringType()), "the column value is needed"),
        (table(value=BinaryType()), "a column topic is needed"),
        (table(value=LongType(), topic=StringType()), "the column value is bigint"),
        (table(value=BinaryType(), topic=StringType(), key=StringType(), keys=ArrayType(StringType())), "say the same"),
        (table(value=BinaryType(), topic=StringType(), attributes=StringType()), "the column attributes is string"),
    ):
        with pytest.raises(UsageError, match=complaint):
            check_columns(wrong, ANYWHERE)


def test_mixed_keys_share_bundles_where_the_guarantee_promises_no_order() -> None:
    rows = {"value": [b"1", b"2", b"3", b"4", b"5"], "key": [b"a", b"b", b"a", None, b"b"]}
    loose = made(LOOSE, rows)
    assert [(bundle.keys, bundle.payloads) for bundle in loose] == [
        ((), [b"4"]), (("a",), [b"1", b"3"]), (("b",), [b"2", b"5"]),
    ]  # fmt: skip
    assert [bundle.payloads for bundle in made(TO_A, rows)] == [[b"1"], [b"2"], [b"3"], [b"4"], [b"5"]]


def test_columns_without_a_use_are_left_out_and_keys_must_be_texts(caplog: pytest.LogCaptureFixture) -> None:
    check_columns(table(value=BinaryType(), topic=StringType(), offset=LongType()), ANYWHERE)
    assert "columns that are not published: offset" in caplog.text
    (bundle,) = made(TO_A, {"value": [b"x"], "offset": [7]})
    assert bundle.payloads == [b"x"]
    with pytest.raises(SinkError, match="is no text in UTF-8"):
        made(TO_A, {"value": [b"x"], "key": [b"\xff"]})


def test_a_query_clears_its_own_ledger_only(tmp_path: Path) -> None:
    options = {"servers": "b0", "topic": "a", "checkpointLocation": str(tmp_path)}
    writer = ResproutStreamWriter(options, table(value=BinaryType()), overwrite=False)
    for query in ("one", "two"):
        (tmp_path / FOLDER / query).mkdir(parents=True)
        (tmp_path / FOLDER / query / "3-0.done").write_bytes(b"")
    writer.commit([PublishedRows(5, "one"), None], 3 + BATCHES_KEPT)
    assert [path.parent.name for path in sorted(tmp_path.glob(f"{FOLDER}/*/*"))] == ["two"]
