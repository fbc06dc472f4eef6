"""How far totals have come: named reports, the same ladders, and neighbours that die or come."""

import random

import pytest

from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry
from resprout.order.log import Log
from resprout.order.messages import TotalId, id_of
from resprout.order.totals import levels
from resprout.order.totals.levels import TotalAcks, TotalLevel, TotalLevels
from tests.footprint import kept_by
from tests.order.examples import bundle


class Desk:
    """One broker's log and book of totals."""

    def __init__(self, faults: int, *neighbours: str) -> None:
        self.faults = faults
        self.log = Log(faults, lambda entry: self.book.touch(entry))
        self.finished: list[Entry] = []
        self.book = TotalAcks(self.log, faults, self.finished.append)
        self.neighbours = list(neighbours)
        self.coming: set[TotalId] = set()

    def deliver(self, first: int = 1, readers: tuple[str, ...] = (), show: bool = True) -> Entry:
        made = bundle(first, guarantee=Guarantee.TOTAL)
        entry = self.log.append(made, None, None, self.faults, len(self.neighbours), 0, readers)
        entry.tseq = first
        self.coming.discard(id_of(made))
        self.book.add(entry, self.neighbours)
        if show:
            while (safe := self.log.next_to_show()) is not None:
                self.log.show(safe)
        return entry

    def hear(self, name: str, first: int, reach: int, level: int, done: bool) -> None:
        self.book.hear(name, said(first, reach, level, done), self.coming.__contains__)

    def report(self, *names: str, only_done: bool = False) -> TotalLevels | None:
        """To each of these; what the last of them is told."""
        told = dict(self.book.reports(names, only_done))
        return told.get(names[-1])


def said(first: int, reach: int, level: int, done: bool) -> TotalLevels:
    return TotalLevels((TotalLevel("p", 1, first, reach, level, done),))


def test_a_total_is_stable_and_done_when_every_neighbour_has_said_so() -> None:
    desk = Desk(1, "n1", "n2")
    entry = desk.deliver()
    desk.hear("n1", 1, 0, 1, True)
    assert entry.level == 0 and not entry.delivered
    desk.hear("n2", 1, 0, 0, False)
    assert entry.level == 1, "all have it, and its readers here have taken it"
    desk.hear("n2", 1, 0, 1, False)
    assert entry.level == 2 and desk.log.entries == {} and not desk.finished
    desk.hear("n2", 1, 0, 1, True)
    assert desk.finished == [entry] and desk.log.local_bytes == 0


def test_the_same_said_twice_counts_once_and_less_takes_nothing_back() -> None:
    desk = Desk(1, "n1", "n2")
    entry = desk.deliver()
    for _ in range(3):
        desk.hear("n1", 1, 0, 1, True)
    desk.hear("n1", 1, 0, 0, False)
    assert (entry.level, entry.undone, entry.copies) == (0, 1, 3), (
        "one of two has reported; it counts f + 1 from the start"
    )


def test_what_is_said_before_the_total_is_delivered_here_counts_when_it_is() -> None:
    desk = Desk(1, "n1")
    desk.coming.add(("p", 1, 1))
    desk.hear("n1", 1, 0, 1, True)
    entry = desk.deliver()
    assert desk.finished == [entry] and desk.log.entries == {}


def test_what_is_said_of_a_total_that_nobody_knows_is_not_kept() -> None:
    desk = Desk(1, "n1")
    before = kept_by(desk.book)
    for first in range(1, 1000):
        desk.hear("n1", first, 0, 1, True)
    assert len(desk.book) == 0 and kept_by(desk.book) == before


def test_more_than_there_are_levels_is_taken_for_the_most_there_is() -> None:
    desk = Desk(1, "n1")
    entry = desk.deliver()
    desk.hear("n1", 1, 1 << 40, 1 << 40, True)
    assert entry.level == 2 and entry.lacking == [0, 0]


def test_news_for_a_neighbour_are_told_once_and_done_does_not_wait_for_itself() -> None:
    desk = Desk(1, "n1", "n2")
    desk.deliver(readers=("r",))
    assert desk.report("n1") == said(1, 0, 0, False)
    assert desk.report("n1") is None
    desk.log.took(next(iter(desk.book.entries.values())))
    assert desk.report("n1") is None, "n2 has not said anything"
    desk.hear("n2", 1, 0, 0, True)
    assert desk.report("n2", "n1", only_done=True) == said(1, 0, 0, True), "everybody behind this side has it"
    assert desk.report("n2") == said(1, 0, 0, False), "n1 is behind this side, for n2"
    desk.hear("n1", 1, 0, 0, True)
    assert desk.report("n2", only_done=True) == said(1, 0, 1, True)


def test_of_what_is_done_only_what_has_changed_is_told() -> None:
    desk = Desk(1, "n1", "n2")
    for first in (1, 2):
        desk.deliver(first)
    desk.hear("n2", 1, 0, 1, True)
    assert desk.report("n1", only_done=True) == said(1, 0, 0, True)
    assert desk.report("n1", only_done=True) is None
    assert desk.report("n2") == TotalLevels((TotalLevel("p", 1, 1, 0, 0, False), TotalLevel("p", 1, 2, 0, 0, False)))
    desk.hear("n2", 2, 0, 1, True)
    assert desk.report("n1", only_done=True) == said(2, 0, 0, True), "and nothing of the first one again"


def test_with_at_most_one_fault_a_neighbour_that_is_done_has_the_highest_level_and_with_more_it_has_not() -> None:
    for faults in (0, 1, 2):
        desk = Desk(faults, "n1")
        entry = desk.deliver()
        desk.hear("n1", 1, 0, 0, True)
        assert (entry.bundle is None) == (faults <= 1)
        desk.report("n1")
        assert (desk.book.forget(desk.neighbours) != []) == (faults <= 1)


def test_many_news_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "REPORTED_MAX", 3)
    desk = Desk(1, "n1")
    for first in range(1, 8):
        desk.deliver(first)
    assert [len(news.levels) for _, news in desk.book.reports(["n1"])] == [3, 3, 1]


def test_a_total_is_forgotten_when_all_is_heard_and_everything_was_told() -> None:
    desk = Desk(1, "n1", "n2")
    kept = []
    for first in (1, 2):
        desk.deliver(first)
        for name in desk.neighbours:
            desk.hear(name, first, 0, 1, True)
        assert desk.book.forget(desk.neighbours) == [], "n2 does not know yet that all is done here"
        desk.report("n1")
        assert desk.book.forget(desk.neighbours) == []
        desk.report("n1", "n2")
        assert desk.book.forget(desk.neighbours) == [("p", 1, first)]
        assert len(desk.book) == 0
        kept.append(kept_by(desk.book))
    assert kept[0] == kept[1], "one mark for a publisher, however much has come from it"


def test_a_dead_neighbour_is_waited_for_no_more_and_its_heir_is() -> None:
    desk = Desk(1, "n1", "dead")
    entry = desk.deliver()
    desk.hear("n1", 1, 0, 1, True)
    desk.book.replace(["dead"], ["successor"])
    desk.log.settle(entry)
    assert entry.level == 0 and entry.undone == 1
    desk.hear("dead", 1, 0, 1, True)
    assert entry.undone == 1, "the dead say nothing any more"
    desk.hear("successor", 1, 0, 1, True)
    assert entry.level == 2 and desk.finished == [entry]


def test_what_the_dead_had_said_counts_no_more() -> None:
    desk = Desk(1, "n1", "dead")
    entry = desk.deliver()
    desk.hear("dead", 1, 0, 1, True)
    copies = entry.copies
    desk.book.replace(["dead"], ["successor"])
    assert entry.copies == copies - 1 and entry.lacking == [2, 2] and entry.undone == 2
    assert desk.report("successor") is not None, "the successor has heard nothing yet"


def test_without_an_heir_what_is_left_may_rise() -> None:
    desk = Desk(1, "n1", "dead")
    entry = desk.deliver()
    desk.hear("n1", 1, 0, 1, True)
    desk.book.replace(["dead"], [])
    desk.log.settle(entry)
    assert entry.level == 2 and entry.delivered


def test_a_newcomer_has_nothing_to_report_about_what_was_delivered_before_it_came() -> None:
    desk = Desk(1, "n1")
    entry = desk.deliver()
    desk.neighbours.append("new")
    assert desk.report("new") == said(1, 0, 0, False)
    desk.hear("new", 1, 0, 1, True)
    assert entry.undone == 1, "what it says of others' totals changes nothing"
    desk.hear("n1", 1, 0, 1, True)
    assert desk.finished == [entry]
    desk.report(*desk.neighbours)
    assert desk.book.forget(desk.neighbours) == [("p", 1, 1)]


def connected(faults: int, parents: dict[str, str | None]) -> dict[str, Desk]:
    around: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent is not None:
            around[name].append(parent)
            around[parent].append(name)
    return {name: Desk(faults, *neighbours) for name, neighbours in around.items()}


@pytest.mark.parametrize("faults", [0, 1, 2, 3])
def test_in_any_tree_and_order_all_totals_are_done_and_forgotten_and_none_too_early(faults: int) -> None:
    """Brokers deliver and report at random; no copy is forgotten before everybody within f hops has taken it."""
    for seed in range(25):
        rng = random.Random(f"totals {faults} {seed}")
        size = rng.randint(1, 6)
        parents = {f"b{n}": f"b{rng.randrange(n)}" if n else None for n in range(size)}
        desks = connected(faults, parents)
        todo = [(name, first) for name in desks for first in (1, 2, 3)]
        for name in desks:
            desks[name].coming.update(("p", 1, first) for first in (1, 2, 3))
        rng.shuffle(todo)
        entries: dict[tuple[str, int], Entry] = {}
        unread = set(todo)
        for _ in range(2_000):
            if todo and rng.random() < 0.2:
                name, first = todo.pop()
                entries[name, first] = desks[name].deliver(first, ("r",))
            elif (open_ones := sorted(unread & entries.keys())) and rng.random() < 0.3:
                name, first = rng.choice(open_ones)
                if entries[name, first].shown:
                    unread.discard((name, first))
                    if desks[name].log.took(entries[name, first]):
                        desks[name].finished.append(entries[name, first])
            else:
                _tell(desks, rng)
            _check_kept(desks, entries, unread, faults)
            if not todo and not unread and all(len(desk.book) == 0 for desk in desks.values()):
                break
        for desk in desks.values():
            assert len(desk.book) == 0 and desk.log.entries == {} and desk.log.local_bytes == 0
            assert len(desk.finished) == 3


def _tell(desks: dict[str, Desk], rng: random.Random) -> None:
    name = rng.choice(sorted(desks))
    desk = desks[name]
    # A broker that has nothing to tell of what is done tells the rest, now and then.
    for neighbour, news in desk.book.reports(desk.neighbours, only_done=rng.random() < 0.6):
        other = desks[neighbour]
        other.book.hear(name, news, other.coming.__contains__)
    desk.book.forget(desk.neighbours)


def _check_kept(
    desks: dict[str, Desk], entries: dict[tuple[str, int], Entry], unread: set[tuple[str, int]], faults: int
) -> None:
    for name, first in sorted(unread):
        for other in _within(desks, name, faults):
            entry = entries.get((other, first))
            assert entry is None or entry.bundle is not None, f"{other} forgot {first}, which {name} may still ask for"
            assert entry is None or not entry.delivered, f"{other} calls {first} delivered, which {name} has not taken"


def _within(desks: dict[str, Desk], name: str, hops: int) -> list[str]:
    found, level = [name], [name]
    for _ in range(hops):
        level = [n for inside in level for n in desks[inside].neighbours if n not in found]
        found += level
    return found
