"""The log against a reference that forgets nothing and counts everything anew."""

from collections.abc import Callable
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from tests.order.examples import bundle
from tests.order.reference import Facts, Neighbour, Reference

SOURCES = ("n1", "n2")
Action = Callable[[], None]


class Bench:
    """The log and its reference, told the same."""

    def __init__(self, faults: int) -> None:
        self.faults = faults
        self.log = Log(faults)
        self.reference = Reference(faults)
        self.links = {name: Link(name, faults, None) for name in SOURCES}
        self.entries: list[Entry] = []

    def append(self, source: str | None, awaited: int, behind: int, readers: int, hops: int, size: int) -> None:
        made = bundle(len(self.entries) + 1, size=size)
        link = self.links[source] if source is not None else None
        names = tuple(f"r{n}" for n in range(readers))
        self.entries.append(self.log.append(made, link, None, hops, awaited + behind, behind, names))
        neighbours = [Neighbour(behind=False) for _ in range(awaited)] + [Neighbour(behind=True) for _ in range(behind)]
        self.reference.entries.append(Facts(made.cost, hops, source, neighbours, readers))

    # -- what may happen next ------------------------------------------------------------------------------------------

    def possible(self) -> list[Action]:
        actions: list[Action] = []
        for no, facts in enumerate(self.reference.entries):
            for neighbour in facts.neighbours:
                actions += self._of_neighbour(no, neighbour)
            if facts.source is not None and facts.source_levels < self.faults:
                actions.append(partial(self._source_reports, no))
            if facts.shown and facts.taken < facts.readers:
                actions.append(partial(self._reader_takes, no))
        first = self.reference.first_unshown()
        if first is not None and self.reference.entries[first].safe(self.faults):
            actions.append(partial(self._show, first))
        return actions

    def _of_neighbour(self, no: int, neighbour: Neighbour) -> list[Action]:
        if neighbour.released:
            return []
        if neighbour.behind:
            return [partial(self._catches_up, no, neighbour), partial(self._does_not_want, no, neighbour)]
        actions: list[Action] = []
        if neighbour.levels <= self.faults:
            actions.append(partial(self._reports, no, neighbour))
        if neighbour.levels and not neighbour.done:
            actions.append(partial(self._is_done, no, neighbour))
        return actions

    def _catches_up(self, no: int, neighbour: Neighbour) -> None:
        neighbour.behind = False
        self.log.waited(self.entries[no])

    def _does_not_want(self, no: int, neighbour: Neighbour) -> None:
        before = self.reference.entries[no].level(self.faults)
        neighbour.behind = False
        neighbour.released = True
        self.log.waited(self.entries[no])
        rose = self.log.release(self.entries[no])
        assert rose == (self.reference.entries[no].level(self.faults) > before)

    def _reports(self, no: int, neighbour: Neighbour) -> None:
        entry, facts = self.entries[no], self.reference.entries[no]
        before = facts.level(self.faults)
        if neighbour.levels == 0:
            entry.copies += 1
        rose = self.log.raise_level(entry, neighbour.levels)
        neighbour.levels += 1
        assert rose == (facts.level(self.faults) > before)

    def _source_reports(self, no: int) -> None:
        facts = self.reference.entries[no]
        facts.source_levels += 1
        self.log.raise_level(self.entries[no], facts.source_levels)

    def _is_done(self, no: int, neighbour: Neighbour) -> None:
        neighbour.done = True
        assert self.log.deliver_one(self.entries[no]) == (self.reference.entries[no].undone == 0)

    def _reader_takes(self, no: int) -> None:
        facts = self.reference.entries[no]
        facts.taken += 1
        assert self.log.took(self.entries[no]) == (facts.undone == 0)

    def _show(self, no: int) -> None:
        assert self.log.unshown.popleft() is self.entries[no], "in log order"
        self.reference.entries[no].shown = True
        self.log.show(self.entries[no])

    # -- what must agree -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        log, reference = self.log, self.reference
        assert log.next_no == len(reference.entries)
        assert log.bytes_held == reference.bytes_held()
        assert log.local_bytes == reference.local_bytes()
        for name, link in self.links.items():
            assert link.held_bytes == reference.held_bytes(name)
        for no, (entry, facts) in enumerate(zip(self.entries, reference.entries, strict=True)):
            dropped = facts.dropped(self.faults)
            assert (no in log.entries, entry.bundle is None) == (not dropped, dropped), entry
            assert (entry.level, entry.undone, entry.waits) == (facts.level(self.faults), facts.undone, facts.waits)
            assert entry.delivered == (facts.undone == 0)
            assert log.is_safe(entry) == facts.safe(self.faults)


APPENDS = st.tuples(
    st.sampled_from((None, *SOURCES)), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 3),
    st.integers(0, 50),
)  # fmt: skip


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    faults=st.integers(0, 3),
    script=st.lists(st.one_of(APPENDS, st.integers(0, 1000)), max_size=60),
    order=st.integers(0, 1000),
)
def test_the_log_agrees_with_the_reference_and_ends_empty(
    faults: int, script: list[tuple[str | None, int, int, int, int, int] | int], order: int
) -> None:
    bench = Bench(faults)
    for line in script:
        if isinstance(line, tuple):
            source, awaited, behind, readers, hops, size = line
            bench.append(source, awaited, behind, readers, hops if source is not None else 0, size)
        elif actions := bench.possible():
            actions[line % len(actions)]()
        bench.check()
    while actions := bench.possible():
        actions[order % len(actions)]()
        bench.check()
    assert bench.log.entries == {} and not bench.log.unshown
    assert bench.log.bytes_held == bench.log.local_bytes == 0
    assert all(link.held_bytes == 0 for link in bench.links.values())


def test_an_entry_that_is_not_safe_keeps_later_ones_from_being_shown() -> None:
    log = Log(1)
    first = log.append(bundle(1), None, None, 0, 1, 0, ())
    second = log.append(bundle(2), Link("n", 1, None), None, 1, 0, 0, ())
    assert not log.is_safe(first) and log.is_safe(second)
    assert log.unshown[0] is first
    first.copies += 1
    log.raise_level(first, 0)
    assert log.is_safe(first)


def test_the_only_broker_of_a_tree_makes_everything_safe_and_stable_at_once() -> None:
    log = Log(2)
    entry = log.append(bundle(1), None, None, 0, 0, 0, ())
    assert log.is_safe(entry) and entry.level == 3 and entry.delivered
    log.show(log.unshown.popleft())
    assert log.entries == {} and log.local_bytes == 0


def test_copies_kept_for_others_do_not_count_against_their_source() -> None:
    """Two brokers that each held the other back for such copies would wait for ever."""
    log, source = Log(1), Link("n", 1, None)
    entry = log.append(bundle(1), source, None, 1, 1, 0, ())
    log.show(log.unshown.popleft())
    assert log.entries == {0: entry} and source.held_bytes == 0
    slow = log.append(bundle(2), source, None, 1, 0, 0, ("reader",))
    assert source.held_bytes == 0, "what is not shown yet waits for safety, not for a reader"
    log.show(log.unshown.popleft())
    assert source.held_bytes == slow.cost
    log.took(slow)
    assert source.held_bytes == 0
