"""Bundles become rows, with everything that is known of each message."""

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from pyspark.sql.datasource import EqualTo, GreaterThan, In
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from resprout.core.errors import UsageError
from resprout.spark.options import INDEX_BITS
from resprout.spark.reading import COLUMNS, HEADERS, OTHERS, ColumnMaker, check_schema
from resprout.spark.source import Pushed
from tests.spark.shelf import event

EVENTS = [
    event(4, (b"a", b"b"), first=10, keys=("k", "b#l"), attributes=[{"n": 1, "ok": True}, {}]),
    event(5, (b"c", b"d"), life=8, first=20, topic="b", publisher="q", offsets=(1, 7)),
]


def schema(names: list[str]) -> pa.Schema:
    kinds = {"key": pa.binary(), "value": pa.binary()}
    kinds |= dict.fromkeys(("partition", "index", "timestampType"), pa.int32())
    kinds |= {"timestamp": pa.timestamp("us", "UTC"), "keys": pa.list_(pa.string())}
    kinds |= {"headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))}
    kinds |= {"attributes": pa.map_(pa.string(), pa.string())}
    kinds |= dict.fromkeys(("offset", "seq", "epoch", "position"), pa.int64())
    return pa.schema([(name, kinds.get(name, pa.string())) for name in names])


def test_every_column_has_a_value_for_every_message() -> None:
    rows = ColumnMaker(schema([*COLUMNS, *HEADERS, *OTHERS])).batch(EVENTS).to_pydict()
    assert rows["value"] == [b"a", b"b", b"c", b"d"] and rows["key"] == [b"k", b"k", None, None]
    assert rows["topic"] == ["a", "a", "b", "b"] and rows["publisher"] == ["p", "p", "q", "q"]
    assert rows["partition"] == [7, 7, 8, 8] and rows["position"] == [4, 4, 5, 5] and rows["index"] == [0, 1, 1, 7]
    assert rows["offset"] == [(position << INDEX_BITS) + index for position, index in ((4, 0), (4, 1), (5, 1), (5, 7))]
    assert rows["seq"] == [10, 11, 21, 27] and rows["guarantee"] == ["causal"] * 4
    assert [time.timestamp() for time in rows["timestamp"]] == [4, 4, 5, 5]
    assert rows["headers"][:2] == [[{"key": "n", "value": b"1"}, {"key": "ok", "value": b"true"}], None]
    assert rows["attributes"] == [[("n", "1"), ("ok", "true")], [], [], []]
    assert rows["keys"] == [["k", "b#l"]] * 2 + [[]] * 2
    assert rows["epoch"] == [3] * 4 and rows["stream"] == ["ordered"] * 4 and rows["timestampType"] == [1] * 4


def test_a_reader_has_only_the_columns_that_it_asks_for_and_none_that_there_are_not() -> None:
    assert ColumnMaker(schema(["seq", "value"])).batch(EVENTS).schema.names == ["seq", "value"]
    check_schema(StructType([StructField("topic", StringType()), StructField("seq", LongType())]))
    for field in (StructField("seq", IntegerType()), StructField("nothing", StringType())):
        with pytest.raises(UsageError, match=field.name):
            check_schema(StructType([field]))


def test_filters_on_topic_and_publisher_are_taken_and_others_left() -> None:
    pushed, left = Pushed(), GreaterThan(("seq",), 4)
    assert list(pushed.take([EqualTo(("topic",), "a"), In(("publisher",), ("p", "x")), left])) == [left]
    assert pushed.filters(("#",)) == ("a",) and pushed.filters(("b",)) == ("b",), "a key may name another topic"
    assert [pushed.wants(each) for each in EVENTS] == [True, False]
    assert list(pushed.take([EqualTo(("topic",), "b")])) == [] and not any(map(pushed.wants, EVENTS))
    assert list(Pushed().take([EqualTo(("topic",), None)])) != [] and Pushed().wants(EVENTS[0])
