"""Who may be shown before an entry that is not safe yet, and who may not."""

import random

import pytest

from resprout.core.guarantee import Guarantee
from resprout.order import log_holdback
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.log_holdback import LogHoldBack
from resprout.order.messages import Levels
from tests.footprint import kept_by
from tests.order.examples import bundle


class Desk:
    """The log of a broker with two neighbours, and what it has shown, in order."""

    def __init__(self, faults: int = 1) -> None:
        self.faults = faults
        self.log = Log(faults)
        self.links = {name: Link(name, 1, faults, None) for name in ("n", "m")}
        self.shown: list[int] = []

    def publish(self) -> Entry:
        """By a local client, for both neighbours."""
        entry = self.log.append(bundle(self.log.next_no + 1), None, None, 0, 2, 0, ())
        for link in self.links.values():
            link.sent.add(entry)
        return entry

    def comes_from(self, name: str, hops: int | None = None, guarantee: Guarantee = Guarantee.CAUSAL) -> Entry:
        source = self.links[name]
        made = bundle(self.log.next_no + 1, publisher=name, guarantee=guarantee)
        entry = self.log.append(made, source, None, self.faults if hops is None else hops, 1, 0, ())
        next(link for link in self.links.values() if link is not source).sent.add(entry)
        self.log.let_pass(entry, source)
        return entry

    def says_it_has(self, name: str, count: int) -> None:
        heard = self.links[name].heard
        have = (count, *heard.have[1:])
        firm, back_firm = (tuple(rung.upto for rung in rungs) for rungs in (heard.firm, heard.back_firm))
        report = Levels(have, firm, tuple(heard.back_have), back_firm, heard.done.upto)
        for reach, entry in self.links[name].take_report(report).reaches:
            self.log.count_reach(entry, reach)

    def show(self) -> list[int]:
        """What can be shown now, by place."""
        shown: list[int] = []
        while (entry := self.log.next_to_show()) is not None:
            assert not entry.shown, "nothing is shown twice"
            assert self.log.is_safe(entry)
            self.log.show(entry)
            shown.append(entry.no)
        self.shown += shown
        return shown


def test_what_comes_from_a_neighbour_passes_what_that_neighbour_does_not_have() -> None:
    desk = Desk()
    desk.publish()
    desk.comes_from("n")
    assert desk.show() == [1]
    desk.comes_from("n")
    desk.comes_from("m")
    assert desk.show() == [2, 3]
    desk.says_it_has("n", 1)
    assert desk.show() == [0] and not desk.log.held_back


def test_what_comes_after_the_word_of_the_neighbour_that_it_has_it_waits() -> None:
    """With two faults to tolerate, the word of one neighbour does not make it safe."""
    desk = Desk(2)
    desk.publish()
    before = desk.comes_from("n")
    desk.says_it_has("n", 1)
    after = desk.comes_from("n")
    other = desk.comes_from("m")
    assert desk.show() == [before.no, other.no], "n may have answered it, m cannot have"
    desk.says_it_has("m", 1)
    assert desk.show() == [0, after.no]


def test_what_the_neighbour_has_counts_by_its_place_in_the_log() -> None:
    """It may have learnt from something later that nothing of what was before it is missing there."""
    desk = Desk(2)
    desk.publish()
    desk.links["n"].upto = 0  # as if something at this place or later had crossed and the publication had not
    desk.comes_from("n")
    assert desk.show() == []


def test_nothing_passes_what_came_the_same_way_before_it() -> None:
    desk = Desk(2)
    unsafe = desk.comes_from("n", hops=1)
    later = desk.comes_from("n")
    other = desk.comes_from("m")
    assert desk.show() == [other.no]
    desk.says_it_has("m", 1)
    assert desk.show() == [unsafe.no, later.no]


def test_publications_of_local_clients_pass_nothing() -> None:
    desk = Desk()
    desk.publish()
    second = desk.publish()
    desk.log.count_reach(second, 0)
    assert desk.log.is_safe(second) and desk.show() == []


def test_nothing_that_is_logged_later_passes_a_wall() -> None:
    desk = Desk()
    desk.publish()
    desk.log.held_back.put_wall()
    behind = desk.comes_from("n")
    desk.publish()
    free = desk.comes_from("m")
    assert desk.show() == []
    desk.says_it_has("m", 1)
    assert desk.show() == [0, behind.no, free.no], "the wall is gone with what was before it"


def test_a_wall_without_anybody_before_it_holds_nobody_up() -> None:
    desk = Desk()
    desk.log.held_back.put_wall()
    desk.publish()
    assert desk.comes_from("n").no in desk.show()


def test_after_a_crash_everybody_in_line_waits_for_his_turn() -> None:
    """A repair may find that what was safe has too few copies. Once that was shown too soon, and then once more."""
    desk = Desk(2)
    desk.publish()
    desk.says_it_has("n", 1)
    first, second = desk.comes_from("n"), desk.comes_from("n")
    assert desk.show() == []
    desk.log.held_back.line_up()
    first.hops, first.copies = 0, 1
    desk.says_it_has("m", 1)
    assert desk.show() == [0], "the second does not pass the first, which came the same way"
    desk.log.count_reach(first, 0)
    desk.log.count_reach(first, 0)
    assert desk.show() == [first.no, second.no]


@pytest.mark.parametrize("faults", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_exactly_those_are_shown_whose_reasons_to_wait_are_gone(seed: int, faults: int) -> None:
    """Against a reference that looks at everything anew each time."""
    rng = random.Random(f"{seed} {faults}")
    desk = Desk(faults)
    bounds: dict[int, int] = {}
    wall = -1
    for _ in range(120):
        roll = rng.random()
        if roll < 0.3:
            entry = desk.publish()
            bounds[entry.no] = entry.no - 1
        elif roll < 0.7:
            name = rng.choice(("n", "m"))
            upto = desk.links[name].upto
            entry = desk.comes_from(name, rng.choice((1, faults, faults + 1)))
            bounds[entry.no] = max(upto, wall) if entry.hops >= faults else entry.no - 1
        elif roll < 0.95:
            name = rng.choice(("n", "m"))
            link = desk.links[name]
            desk.says_it_has(name, rng.randint(link.heard.have[0], link.sent.count))
        else:
            desk.log.held_back.put_wall()
            wall = max([wall, *(entry.no for entry in desk.log.held_back)])
        desk.show()
        done = set(desk.shown)
        for entry in desk.log.held_back:
            held_up = any(no not in done for no in range(bounds[entry.no] + 1))
            assert held_up or not desk.log.is_safe(entry), f"{entry} may be shown"
        for place, no in enumerate(desk.shown):
            assert set(range(bounds[no] + 1)) <= set(desk.shown[:place]), f"{no} came before what it may depend on"
    assert len(desk.shown) == len(set(desk.shown))
    for name in desk.links:
        theirs = [no for no in desk.shown if desk.log.entries[no].source is desk.links[name]]
        assert theirs == sorted(theirs)


def test_eventual_waits_for_nothing_but_what_its_publisher_sent_before_in_that_stream() -> None:
    desk = Desk()
    own = desk.publish()
    desk.log.held_back.put_wall()
    desk.says_it_has("n", 0)
    first = desk.comes_from("n", guarantee=Guarantee.EVENTUAL)
    assert desk.show() == [first.no], "past a wall, and past what is not safe"
    unsafe = desk.comes_from("n", hops=0, guarantee=Guarantee.EVENTUAL)
    second = desk.comes_from("n", guarantee=Guarantee.EVENTUAL)
    other = desk.comes_from("m", guarantee=Guarantee.EVENTUAL)
    assert desk.show() == [other.no], "only of its own publisher"
    ordered = desk.comes_from("n")
    desk.says_it_has("m", 1)
    assert desk.show() == [own.no, ordered.no], "and nothing waits for it"
    desk.says_it_has("m", 3)
    assert desk.show() == [unsafe.no, second.no]


def test_in_a_repair_eventual_lines_up_too() -> None:
    desk = Desk()
    unsafe = desk.comes_from("m", hops=0, guarantee=Guarantee.EVENTUAL)
    before = desk.comes_from("n", guarantee=Guarantee.EVENTUAL)
    desk.log.held_back.line_up()
    after = desk.comes_from("n", guarantee=Guarantee.EVENTUAL)
    assert desk.show() == [], "too few may have what was safe"
    desk.says_it_has("n", 1)
    assert desk.show() == [unsafe.no, before.no, after.no]


def test_origins_of_which_nothing_waits_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_holdback, "PUBLISHERS_KEPT", 4)
    line = LogHoldBack(lambda entry: True)
    kept: list[int] = []
    for number in range(100):
        line.append(Entry(number, bundle(1, publisher=f"c{number}", guarantee=Guarantee.EVENTUAL), None, None, 0))
        if number >= 3:
            line.take_first()
        kept.append(kept_by(line))
    assert max(kept[20:]) <= max(kept[:20]), "it does not grow"
