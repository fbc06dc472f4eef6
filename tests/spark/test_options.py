"""What users say, and what they are told when it cannot be."""

from pathlib import Path

import pytest

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.spark.options import sink_options, source_options

GOOD = {"servers": "localhost:7455, other", "subscribe": "bank/+, $sys/#"}


def test_what_is_not_said_has_a_meaning() -> None:
    stream, batch = source_options(GOOD, is_stream=True), source_options(GOOD, is_stream=False)
    assert stream.access.servers == ("localhost:7455", "other:7450") and stream.filters == ("bank/+", "$sys/#")
    assert (stream.start, batch.start, batch.end) == ("latest", "earliest", "latest")
    assert stream.fails_on_loss and stream.partitions_min == 1 and stream.positions_max is None


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("servers", "", "servers is needed"),
        ("servers", "host:port", "host:port"),
        ("subscribe", "a/#/b", "'#' may only be the last level"),
        ("where", "amount >", "where: expected an attribute or a value"),
        ("startingOffsets", "soon", "startingOffsets: offset='soon' is no position"),
        ("startingOffset", "latest", "no option 'startingOffset' here; there are servers, "),
        ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger: '0' is no number"),
        ("minPartitions", "many", "minPartitions: 'many'"),
        ("failOnDataLoss", "maybe", "neither true nor false"),
        ("endingOffsets", "latest", "a stream has no end"),
        ("timeout", "-1", "timeout: '-1' is no number of seconds"),
        ("token", "nobody", "NAME:SECRET"),
        ("login", "/nowhere", "login /nowhere: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(name: str, value: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint.replace("(", r"\(")) as raised:
        source_options(GOOD | {name: value}, is_stream=True)
    assert "\n" not in str(raised.value)


def test_a_batch_lies_between_two_places() -> None:
    for name, value in (("startingOffsets", "latest"), ("endingOffsets", "earliest")):
        with pytest.raises(UsageError, match=name):
            source_options(GOOD | {name: value}, is_stream=False)


def test_who_asks_is_said_by_a_file_or_by_the_words_themselves(tmp_path: Path) -> None:
    (tmp_path / "login").write_text("teller:0123456789abcdef\n")
    by_file = source_options(GOOD | {"login": str(tmp_path / "login")}, is_stream=True)
    by_word = source_options(GOOD | {"token": "teller:0123456789abcdef"}, is_stream=True)
    assert by_file.access == by_word.access and by_file.access.login == "teller:0123456789abcdef"
    with pytest.raises(UsageError, match="give one"):
        source_options(GOOD | {"token": "a:b", "login": "c"}, is_stream=True)


def test_options_that_spark_adds_do_no_harm_and_those_of_the_sink_are_its_own() -> None:
    sink = sink_options({"servers": "b0", "topic": "out", "checkpointLocation": "/tmp/x", "guarantee": "total"})
    assert (sink.topic, sink.guarantee) == ("out", Guarantee.TOTAL)
    for wrong in ({"topic": "a/+"}, {"guarantee": "best"}, {"publisher": ""}, {"subscribe": "a"}):
        with pytest.raises(UsageError):
            sink_options({"servers": "b0", **wrong})
