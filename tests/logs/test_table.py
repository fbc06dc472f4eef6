"""Tables of logs, which brokers exchange until they are equal."""

import random

import pytest

from resprout.core.errors import UsageError
from resprout.logs.declaration import LogDeclaration
from resprout.logs.table import TABLE_MAX, DeclaredLog, LogTable, declared

BANK = LogDeclaration("bank", "bank/#", ("b0", "b1", "b2"))


def made(name: str, generation: int, version: int = 0, replicas: tuple[str, ...] = ("b0",)) -> DeclaredLog:
    return declared(LogDeclaration(name, f"{name}/#", replicas, generation=generation, version=version))


def test_tables_that_heard_the_same_in_any_order_are_equal() -> None:
    rng = random.Random(7)
    changes = [
        made(name, generation, version, replicas)
        for name in ("a", "b")
        for generation in (3, 5)
        for version in (0, 1, 2)
        for replicas in ((), ("b0",), ("b1", "b2"))
    ]
    digests = set()
    for _ in range(20):
        table = LogTable(())
        rng.shuffle(changes)
        for change in changes:
            table.merge((change,))
        digests.add(table.digest)
        assert table.told == (made("a", 5, 2, ("b1", "b2")), made("b", 5, 2, ("b1", "b2")))
    assert len(digests) == 1


def test_a_command_wins_against_the_configuration_also_after_a_restart() -> None:
    table = LogTable((BANK,))
    assert table.memory == b"" and table.digest == 0
    assert table.merge((table.changed("bank", ("b0", "b1", "b3")),))
    again = LogTable((BANK,), table.memory)
    assert [log.replicas for log in again.logs] == [("b0", "b1", "b3")] and again.digest == table.digest
    assert again.merge((again.changed("bank", ()),)) and LogTable((BANK,), again.memory).logs == ()


def test_a_log_that_is_created_again_is_another_one() -> None:
    table = LogTable(())
    table.merge((table.created(BANK, 40),))
    (first,) = table.logs
    with pytest.raises(UsageError, match="there is a log bank already"):
        table.created(BANK, 41)
    assert not table.is_over(first.subscription)
    table.merge((table.changed("bank", ()),))
    assert table.find("bank") is None and table.is_over(first.subscription)
    table.merge((table.created(BANK, 40),))  # the clock stands still
    second = table.find("bank")
    assert second is not None and second.key != first.key and second.journal == first.journal
    assert table.is_over(first.subscription) and not table.is_over(second.subscription)
    assert table.is_over("log.bank"), "a configured log of this name"
    assert not table.is_over("bank") and not table.is_over("log.billing") and not table.is_over("billing")


def test_a_table_does_not_grow_without_end() -> None:
    table = LogTable(())
    for number in range(TABLE_MAX):
        table.merge((table.created(LogDeclaration(f"log{number}", "#", ("b0",)), 1),))
    with pytest.raises(UsageError, match="the most it may"):
        table.created(LogDeclaration("more", "#", ("b0",)), 1)
    table.merge(made(f"other{number}", 1) for number in range(4 * TABLE_MAX))
    assert len(table.told) == 2 * TABLE_MAX
    with pytest.raises(UsageError, match="no command has declared it"):
        table.merge((made("x", 0),))
    with pytest.raises(UsageError, match="1 to 9 different brokers"):
        table.merge((made("x", 1, 0, ("b0", "b0")),))
