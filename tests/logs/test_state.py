"""Which command becomes which entry of a log."""

import pytest

from resprout.core.bundle import Bundle, pack_payloads, unpack_payloads
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.logs.declaration import LogDeclaration, check_logs
from resprout.logs.records import LogCommand, LogEntry, bundle_command, read_entry, to_bytes
from resprout.logs.state import FEEDS_KEPT, LogState


def bundle(first: int, count: int = 1, publisher: str = "p") -> Bundle:
    payloads = pack_payloads([b"%d" % number for number in range(first, first + count)])
    return Bundle(publisher, 1, first, count, 7, "bank/a", (), Guarantee.FIFO, b"", payloads)


def began(feed: str = "f") -> LogState:
    state = LogState()
    assert state.apply(to_bytes(LogCommand(feed, 1, 5, -1, begins=True))) == []
    return state


def entries(records: list[bytes]) -> list[LogEntry]:
    found = [read_entry(record) for record in records]
    return [entry for entry in found if entry is not None]


def numbers(entry: LogEntry) -> list[bytes]:
    messages = entry.messages
    assert messages is not None
    return unpack_payloads(messages)


def test_entries_count_offsets_and_messages() -> None:
    state = began()
    first = entries(state.apply(bundle_command("f", 2, 10, -1, bundle(1, 3))))
    second = entries(state.apply(bundle_command("f", 3, 9, 4, bundle(4))))
    assert [(each.number, each.offset, each.count, each.time_us, each.tseq) for each in first + second] == [
        (0, 0, 3, 10, -1),
        (1, 3, 1, 10, 4),
    ]
    assert (state.next, state.end) == (2, 4)


def test_a_command_behind_a_hole_is_skipped_until_the_hole_is_filled() -> None:
    state = began()
    assert state.apply(bundle_command("f", 3, 10, -1, bundle(2))) == []
    assert len(state.apply(bundle_command("f", 2, 10, -1, bundle(1)))) == 1
    assert len(state.apply(bundle_command("f", 3, 10, -1, bundle(2)))) == 1


def test_a_later_feed_appends_only_what_an_earlier_one_has_not_brought() -> None:
    state = began()
    state.apply(bundle_command("f", 2, 10, -1, bundle(1, 3)))
    assert state.apply(bundle_command("g", 1, 11, -1, bundle(2, 2))) == []
    (entry,) = entries(state.apply(bundle_command("g", 2, 11, -1, bundle(2, 4))))
    assert numbers(entry) == [b"4", b"5"]
    messages = entry.messages
    assert messages is not None and (messages.first, messages.last) == (4, 5)


def test_a_total_that_an_earlier_feed_has_brought_in_part_keeps_the_places_of_the_rest() -> None:
    state = began()
    state.apply(bundle_command("f", 2, 10, 70, bundle(1, 2)))
    (entry,) = entries(state.apply(bundle_command("g", 1, 11, 70, bundle(1, 4))))
    assert (entry.tseq, entry.offset, entry.count) == (72, 2, 2)


def test_another_life_of_a_publisher_is_another_origin() -> None:
    state = began()
    state.apply(bundle_command("f", 2, 10, -1, bundle(1, 3)))
    assert len(state.apply(bundle_command("f", 3, 10, -1, bundle(1, 3, "q")))) == 1


def test_a_snapshot_goes_on_where_the_state_was() -> None:
    state, copy = began(), LogState()
    state.apply(bundle_command("f", 2, 10, -1, bundle(1, 3)))
    copy.load(state.dump())
    for each in (state, copy):
        assert each.apply(bundle_command("g", 1, 11, -1, bundle(1, 3))) == []
    command = bundle_command("f", 3, 12, -1, bundle(4))
    assert state.apply(command) == copy.apply(command) != []
    assert state.dump() == copy.dump()


def test_a_log_that_lost_all_replicas_begins_with_a_gap() -> None:
    (gap, entry) = entries(LogState().apply(bundle_command("f", 1, 10, -1, bundle(5))))
    assert "lost" in gap.gap and gap.messages is None and (gap.count, entry.offset) == (1, 1)


def test_a_subscription_that_begins_again_is_a_gap() -> None:
    state = began()
    (gap,) = entries(state.apply(to_bytes(LogCommand("g", 1, 9, -1, begins=True))))
    assert gap.gap == "the subscription of the log was lost"


def test_a_gap_that_the_feeder_was_told_of_is_an_entry() -> None:
    (gap,) = entries(began().apply(to_bytes(LogCommand("f", 2, 9, -1, gap="b1 lost its copies"))))
    assert (gap.offset, gap.gap) == (0, "b1 lost its copies")


def test_what_is_no_command_changes_nothing() -> None:
    state = began()
    before = state.dump()
    assert state.apply(b"\xc1") == [] and state.dump() == before


def test_few_feeds_are_remembered() -> None:
    state = began()
    for number in range(2 * FEEDS_KEPT):
        state.apply(bundle_command(f"g{number}", 1, 10, -1, bundle(number + 1)))
    assert len(state.feeds) == FEEDS_KEPT


@pytest.mark.parametrize(
    ("logs", "reason"),
    [
        ((LogDeclaration("a", "a/#", ()),), "1 to 9 different brokers"),
        ((LogDeclaration("a", "a/#", ("b0", "b0")),), "different brokers"),
        ((LogDeclaration("a b", "a/#", ("b0",)),), "name of a log"),
        ((LogDeclaration("a" * 41, "a/#", ("b0",)),), "longer than"),
        ((LogDeclaration("a", "a/#/b", ("b0",)),), "a/#/b"),
        ((LogDeclaration("a", "a/#", ("b0",)), LogDeclaration("a", "b", ("b0",))), "more than once"),
    ],
)
def test_declarations_that_cannot_be_are_refused(logs: tuple[LogDeclaration, ...], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_logs(logs)
