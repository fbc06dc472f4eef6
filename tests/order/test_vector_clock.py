"""Vector clocks: what travels is what changed, and it says as much as all of it would."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import PeerError
from resprout_lab.blocks import causal_order
from resprout_lab.blocks.causal_order import COUNT_MAX, VectorClock, check_changes, paper_bytes
from tests.order.causal_net import CausalNet
from tests.soak import cases


def test_only_what_has_changed_travels() -> None:
    clock = VectorClock()
    clock.raise_to("G1", "b", 1)
    clock.raise_to("G2", "a", 2)
    assert clock.since(0) == (("G1", (("b", 1),)), ("G2", (("a", 2),)))
    last = clock.version
    assert clock.since(last) == ()
    assert clock.tick("G1", "b") == 2
    assert clock.since(last) == (("G1", (("b", 2),)),)
    assert clock.tick("G1", "a") == 1 and clock.tick("G1", "b") == 3
    assert clock.since(last) == (("G1", (("a", 1), ("b", 3))),)


def test_counts_never_fall_and_what_was_known_is_no_change() -> None:
    clock = VectorClock()
    clock.merge((("g", (("a", 5),)),))
    last = clock.version
    clock.merge((("g", (("a", 3),)),))
    clock.raise_to("g", "a", 5)
    assert clock.at("g", "a") == 5 and clock.since(last) == () and clock.at("h", "a") == 0


def test_a_group_that_is_gone_is_not_told_any_more() -> None:
    clock = VectorClock()
    clock.merge((("g", (("a", 1), ("b", 1))), ("h", (("a", 1),))))
    clock.forget("g")
    clock.forget("nobody")
    assert clock.since(0) == (("h", (("a", 1),)),) and len(clock) == 1 and list(clock) == [("h", "a", 1)]


def test_a_message_waits_for_its_predecessor_and_for_what_it_depends_on() -> None:
    clock = VectorClock()
    changes = (("g", (("a", 2), ("b", 1))),)
    assert clock.missing(changes, own=("g", "a")) == (("g", "a"), 1)
    clock.raise_to("g", "a", 1)
    assert clock.missing(changes, own=("g", "a")) == (("g", "b"), 1)
    assert clock.missing(changes, own=("g", "a"), is_mine=lambda column, row: row == "a") is None
    clock.raise_to("g", "b", 1)
    assert clock.missing(changes, own=("g", "a")) is None
    assert clock.missing(changes) == (("g", "a"), 2), "unless it is a dependency like any other"


@settings(max_examples=cases(50, 150), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from("gh"), st.sampled_from("abc"), st.integers(0, 3)), max_size=40),
    st.integers(0, 40),
)
def test_changes_since_any_moment_make_the_clock_of_then_the_clock_of_now(
    steps: list[tuple[str, str, int]], place: int
) -> None:
    clock, then, version = VectorClock(), VectorClock(), 0
    for number, (column, row, by) in enumerate(steps):
        if number == place:
            version = clock.version
            then.merge(clock.since(0))
        clock.raise_to(column, row, clock.at(column, row) + by)
    then.merge(clock.since(version))
    assert then.since(0) == clock.since(0)
    assert sorted(clock) == [(c, r, clock.at(c, r)) for c in "gh" for r in "abc" if clock.at(c, r)]


def test_a_liar_cannot_use_up_the_numbers_or_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    check_changes((("g", (("a", COUNT_MAX),)),))
    for count in (0, -1, COUNT_MAX + 1):
        with pytest.raises(PeerError, match="counts from 1"):
            check_changes((("g", (("a", count),)),))
    monkeypatch.setattr(causal_order, "ENTRIES_MAX", 3)
    rows = tuple((f"m{number}", 1) for number in range(4))
    with pytest.raises(PeerError, match="more than 3 entries"):
        check_changes((("g", rows),))
    clock = VectorClock()
    clock.merge((("g", rows[:3]),))
    clock.merge((("g", (("m0", 9),)),))
    with pytest.raises(PeerError, match="more than 3 entries"):
        clock.merge((("h", rows[:1]),))
    assert len(clock) == 3


def test_sizes_are_those_that_the_papers_print() -> None:
    assert paper_bytes((("G1", (("1", 1),)),)) == 12
    assert paper_bytes((("G1", (("1", 1), ("2", 1))), ("G2", (("1", 1),)))) == 32
    assert paper_bytes(()) == 0


@pytest.mark.parametrize("seed", range(60))
def test_compressed_clocks_deliver_what_whole_ones_deliver_and_in_causal_order(seed: int) -> None:
    """Overlapping groups, copies, and any order of arrival; the twin carries whole clocks and searches everything."""
    net = CausalNet(seed)
    net.run()
    assert net.delivered > 50
    assert net.entries_sent <= net.entries_whole


def test_who_hears_nothing_new_sends_one_entry_however_large_its_clock_is() -> None:
    clock = VectorClock()
    clock.merge(tuple((f"G{group}", tuple((f"m{member}", 7) for member in range(50))) for group in range(20)))
    last = clock.version
    for number in range(1, 10):
        clock.tick("G3", "me")
        changes, last = clock.since(last), clock.version
        assert changes == (("G3", (("me", number),)),) and paper_bytes(changes) == 12
