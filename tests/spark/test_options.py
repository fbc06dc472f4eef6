"""What users say, and what they are told when it cannot be."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from resprout.client.past_events import Offset
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
        ("startingTimestamp", "yesterday", "startingTimestamp: 'yesterday' is no number"),
        ("subscribePattern", "(", "subscribePattern: '(' is no regular expression"),
        ("assign", '{"bank": [64]}', "assign: \\[64\\] are no partitions"),
        ("assign", '{"bank": []}', "assign: \\[\\] are no partitions"),
        ("assign", "bank", 'assign: bank is not of the form {"LOG"'),
        ("minOffsetsPerTrigger", "-3", "minOffsetsPerTrigger: '-3' is no number"),
        ("maxTriggerDelay", "soon", "maxTriggerDelay: 'soon'"),
        ("login", "/nowhere", "login /nowhere: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(name: str, value: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint.replace("(", r"\(")) as raised:
        source_options(GOOD | {name: value}, is_stream=True)
    assert "\n" not in str(raised.value)


def test_places_are_written_as_for_kafka() -> None:
    log = {"servers": "b0", "log": "bank"}
    for text, place in (
        ('{"bank": {"0": 41}}', Offset("log.bank", 41)),
        ('{"bank": {"0": -2}}', "earliest"),
        ('{"bank": {"0": -1}}', "latest"),
        ("log.bank@41", Offset("log.bank", 41)),
    ):
        assert source_options(log | {"startingOffsets": text}, is_stream=True).start == place
    with pytest.raises(UsageError, match="is no offset of the log bank"):
        source_options(log | {"startingOffsets": '{"ship": {"0": 41}}'}, is_stream=True)
    by_time = source_options(log | {"startingTimestamp": "1772323200000", "startingOffsets": "latest"}, is_stream=True)
    assert by_time.start == datetime(2026, 3, 1, tzinfo=UTC)


def test_a_log_is_read_whole_or_by_a_pattern_of_topics() -> None:
    assigned = source_options(
        {"servers": "b0", "assign": '{"bank": [0]}', "subscribePattern": "bank/.t"}, is_stream=True
    )
    assert (assigned.log, assigned.filters, assigned.pattern) == ("bank", ("#",), "bank/.t")
    assert source_options({"servers": "b0", "log": "bank"}, is_stream=False).filters == ("#",)
    with pytest.raises(UsageError, match="it names the log bank, and the option log ship"):
        source_options({"servers": "b0", "assign": '{"bank": [0]}', "log": "ship"}, is_stream=True)


def test_a_batch_is_divided_by_processors_and_a_micro_batch_as_it_always_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert source_options(GOOD, is_stream=False).partitions_min == 7
    assert source_options(GOOD, is_stream=True).partitions_min == 1


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
