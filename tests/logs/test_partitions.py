"""Partitions of logs: their names, and which of them keeps a message."""

import pytest

from resprout.core.errors import NameRefusedError, UsageError
from resprout.core.limits import PARTITIONS
from resprout.core.partitions import check_log_name, partition_of, split_name
from resprout.logs.declaration import LogDeclaration, check_log
from resprout.logs.table import TABLE_MAX, LogTable, declared

BANK = LogDeclaration("bank", "bank/#", ("b0", "b1", "b2"), partitions=5)


def test_a_message_belongs_to_the_partition_of_its_first_key_or_of_its_topic() -> None:
    """These numbers are in logs on disk: they never change."""
    assert [partition_of("bank/a", (key,), 8) for key in ("pt", "de", "fr", "es")] == [4, 3, 6, 3]
    assert partition_of("bank/a", (), 8) == 5 and partition_of("bank/b", (), 8) == 7
    assert partition_of("bank/a", ("fr", "pt"), 8) == partition_of("bank/b", ("fr",), 8)
    assert partition_of("bank/a", ("other#fr",), 8) == partition_of("bank/b", ("fr",), 8)
    assert partition_of("bank/a", ("fr",), 1) == 0
    spread = {partition_of("t", (f"account-{number}",), PARTITIONS) for number in range(1_000)}
    assert spread == set(range(PARTITIONS))


def test_a_partition_is_named_after_its_log() -> None:
    assert split_name("bank~3") == ("bank", 3)
    assert split_name("bank") == ("bank", None) and split_name("bank~x") == ("bank~x", None)
    assert check_log_name("bank~3") == "bank~3" and check_log_name("bank") == "bank"
    for wrong in ("bank~03", "bank~x", "bank~", "bank~100", "~1", "a b~1", "bank~1~2"):
        with pytest.raises(NameRefusedError, match="name of a log"):
            check_log_name(wrong)
    with pytest.raises(NameRefusedError, match="name of a log"):
        check_log(LogDeclaration("bank~3", "bank/#", ("b0",)))
    for count in (0, PARTITIONS + 1):
        with pytest.raises(UsageError, match=f"1 to {PARTITIONS} partitions"):
            check_log(LogDeclaration("bank", "bank/#", ("b0",), partitions=count))


def test_partitions_are_logs_of_their_own_whose_first_replicas_take_turns() -> None:
    parts = BANK.parts
    assert [part.key for part in parts] == [f"bank~{number}" for number in range(5)]
    assert [part.replicas[0] for part in parts] == ["b0", "b1", "b2", "b0", "b1"]
    assert all(set(part.replicas) == set(BANK.replicas) and part.parts == (part,) for part in parts)
    assert BANK.subscription == "log.bank"
    alone = LogDeclaration("bank", "bank/#", ("b0",))
    assert alone.parts == (alone,)


def test_a_table_finds_partitions_and_says_which_there_are() -> None:
    table = LogTable((BANK, LogDeclaration("one", "#", ("b0",))))
    assert table.find_part("bank") == BANK and table.find_part("bank~4") == BANK.parts[4]
    assert table.find_part("bank~5") is None and table.find_part("one~0") is None and table.find("bank~4") is None
    assert [part.name for part in table.parts] == [*[f"bank~{number}" for number in range(5)], "one"]
    assert table.not_found("bank~5") == "the log bank has no partition 5: it has 5"
    assert table.not_found("x~1") == "there is no log x; the logs are: bank, one"


def test_a_table_has_so_many_partitions_and_no_more() -> None:
    """Each partition is a replica with stores of its own: a broker that lies must not make others begin thousands."""
    table = LogTable(())
    for number in range(TABLE_MAX // PARTITIONS):
        table.merge((table.created(LogDeclaration(f"log{number}", "#", ("b0",), partitions=PARTITIONS), 1),))
    with pytest.raises(UsageError, match="the most it may"):
        table.created(LogDeclaration("more", "#", ("b0",)), 1)
    lies = [LogDeclaration(f"lie{number}", "#", ("b0",), partitions=PARTITIONS, generation=1) for number in range(100)]
    table.merge(map(declared, lies))
    assert len(table.parts) == 2 * TABLE_MAX
    table.merge((table.changed("log0", ()),))
    table.merge(map(declared, lies))
    assert len(table.parts) <= 2 * TABLE_MAX
