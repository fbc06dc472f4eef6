"""The log against a reference that forgets nothing and counts everything anew, links that are replaced included."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Ahead, Levels
from tests.order.examples import bundle
from tests.order.reference import Crossing, Facts, LinkFacts, Reference

NEIGHBOURS = ("n1", "n2", "n3")
Action = Callable[[], None]


class Bench:
    """The log of one broker with its links, and their reference, told the same."""

    def __init__(self, faults: int, rng: random.Random) -> None:
        self.faults = faults
        self.rng = rng
        self.risen: list[Entry] = []
        self.log = Log(faults, self._rose)
        self.reference = Reference(faults)
        self.links = {name: Link(name, 1, faults, None) for name in NEIGHBOURS}
        self.facts = {name: LinkFacts(faults) for name in NEIGHBOURS}
        self.entries: list[Entry] = []

    def _rose(self, entry: Entry) -> None:
        self.risen.append(entry)
        for link in self.links.values():
            link.moved(entry)

    def append(self) -> None:
        """A bundle from somewhere, for some links and readers. A link that is behind is so for everything after."""
        rng = self.rng
        source = rng.choice((None, *NEIGHBOURS))
        made = bundle(len(self.entries) + 1, size=rng.randint(0, 50))
        hops = rng.randint(0, 3) if source is not None else 0
        wanting = [name for name in NEIGHBOURS if name != source and rng.random() < 0.6]
        behind = [name for name in NEIGHBOURS if name != source and self.facts[name].pending]
        behind += [name for name in wanting if name not in behind and rng.random() < 0.2]
        now = [name for name in wanting if name not in behind]
        readers = tuple([f"r{n}" for n in range(rng.randint(0, 2))])
        link = self.links[source] if source is not None else None
        entry = self.log.append(made, link, None, hops, len(now) + len(behind), len(behind), readers)
        facts = Facts(made.cost, hops, source, [], len(readers), self.faults)
        self.entries.append(entry)
        self.reference.entries.append(facts)
        if source is not None:
            self.facts[source].arrived.append(facts)
            facts.crossings.append(Crossing(self.facts[source], False, len(self.facts[source].arrived)))
        for name in now:
            self._send(name, entry, facts)
        for name in behind:
            facts.crossings.append(Crossing(self.facts[name], True))
            self.facts[name].pending.append(facts)
        facts.rise()

    def _send(self, name: str, entry: Entry, facts: Facts) -> None:
        self.links[name].sent.add(entry)
        self.facts[name].sent.append(facts)
        facts.crossings.append(Crossing(self.facts[name], True, len(self.facts[name].sent)))

    # -- what may happen next ------------------------------------------------------------------------------------------

    def possible(self) -> list[Action]:
        actions: list[Action] = []
        for name in NEIGHBOURS:
            facts = self.facts[name]
            if facts.pending:
                actions += [partial(self._catches_up, name, wants=True), partial(self._catches_up, name, wants=False)]
            actions.append(partial(self._is_told, name))
        for no, entry_facts in enumerate(self.reference.entries):
            if entry_facts.shown and entry_facts.taken < entry_facts.readers:
                actions.append(partial(self._reader_takes, no))
        first = self.reference.first_held_back()
        if first is not None and self.reference.entries[first].safe:
            actions.append(partial(self._show, first))
        return actions

    def _catches_up(self, name: str, wants: bool) -> None:
        facts = self.facts[name].pending.pop(0)
        entry = self._entry(facts)
        crossing = next(c for c in facts.crossings if c.link is self.facts[name])
        self.log.waited(entry)
        facts.crossings.remove(crossing)
        if wants:
            self._send(name, entry, facts)
        else:
            facts.rise()
            self.log.release(entry)

    def _is_told(self, name: str, everything: bool = False) -> None:
        """The neighbour says how far it is: it knows of more, and nothing beyond what is possible."""
        facts, chance = self.facts[name], 1.0 if everything else 0.6
        self._raise(facts.have, len(facts.sent), chance)
        self._raise(facts.back_have, len(facts.arrived), chance)
        ahead: list[Ahead] = []
        for sign, rungs, most in ((1, facts.firm, facts.have[0]), (-1, facts.back_firm, len(facts.arrived))):
            possible = set(range(1, most + 1))
            for number, rung in enumerate(rungs, 1):
                ahead += self._raise_rung(sign * number, rung, possible, chance)
                possible = rung  # whatever has reached a level has reached the one below
        ahead += self._raise_rung(0, facts.done, set(range(1, facts.have[0] + 1)), chance)
        firm, back_firm = (tuple(map(upto, rungs)) for rungs in (facts.firm, facts.back_firm))
        report = Levels(tuple(facts.have), firm, tuple(facts.back_have), back_firm, upto(facts.done), tuple(ahead))
        news = self.links[name].take_report(report)
        for entry_facts in self.reference.entries:
            entry_facts.rise()
        for reach, entry in news.reaches:
            self.log.count_reach(entry, reach)
        for level, entry in news.levels:
            self.log.count_level(entry, level)
        for entry in news.delivered:
            self.log.deliver_one(entry)

    def _raise(self, counts: list[int], most: int, chance: float) -> None:
        """Some of the counts; whatever has reached a level has reached the one below."""
        for index, count in enumerate(counts):
            if count < most and self.rng.random() < chance:
                counts[index] = most if chance == 1 else self.rng.randint(count + 1, most)
            most = counts[index]

    def _raise_rung(self, name: int, rung: set[int], possible: set[int], chance: float) -> list[Ahead]:
        """By some of what is possible. Those that do not follow what was said before are said one by one."""
        left = sorted(possible - rung)
        if left and self.rng.random() < chance:
            come = left if chance == 1 else self.rng.choice((left[: self.rng.randint(1, len(left))], left[-1:]))
            rung.update(come)
            return [Ahead(name, number, number) for number in come if number > upto(rung)]
        return []

    def reports(self) -> None:
        """This side tells every neighbour what it may. A reader who came later takes back nothing that was told."""
        for name, link in self.links.items():
            before = [set(numbers) for numbers in self.facts[name].told]
            told = self.facts[name].tell(self.faults)
            news, counts = link.report(), link.told
            have = [set(range(1, count + 1)) for count in (*counts.have, *counts.back_have)]
            rungs = (*counts.firm, *counts.back_firm, counts.done)
            assert [*have, *[{n for n in range(1, 200) if n in rung} for rung in rungs]] == told
            assert (news is None) == (told == before or not any(told))
            if news is not None:
                assert (*news.have, *news.back_have) == (*counts.have, *counts.back_have)
                assert (*news.firm, *news.back_firm, news.done) == tuple([rung.upto for rung in rungs])
                for part in news.ahead:
                    rung = counts.rung(part.rung)
                    assert rung is not None and rung.upto < part.first <= part.last
            assert link.report() is None, "the same is not told twice"

    def finish(self) -> None:
        """Everybody says and takes everything."""
        while (first := self.reference.first_held_back()) is not None or any(f.pending for f in self.facts.values()):
            for name in NEIGHBOURS:
                while self.facts[name].pending:
                    self._catches_up(name, wants=True)
                self._is_told(name, everything=True)
            if first is not None:
                assert self.reference.entries[first].safe
                self._show(first)
        for no, facts in enumerate(self.reference.entries):
            while facts.taken < facts.readers:
                self._reader_takes(no)
        for name in NEIGHBOURS:
            self._is_told(name, everything=True)

    def _reader_takes(self, no: int) -> None:
        facts = self.reference.entries[no]
        facts.taken += 1
        facts.rise()
        assert self.log.took(self.entries[no]) == (facts.undone == 0)

    def _show(self, no: int) -> None:
        assert self.log.held_back.take_first() is self.entries[no], "in log order"
        facts = self.reference.entries[no]
        facts.shown = True
        facts.rise()
        self.log.show(self.entries[no])

    def add_reader(self) -> None:
        """A client that returned reads what is still in the log."""
        kept = [no for no, facts in enumerate(self.reference.entries) if not facts.dropped]
        if kept:
            no = self.rng.choice(kept)
            facts = self.reference.entries[no]
            if facts.pins == 0:
                facts.level = 0
            facts.readers += 1
            self.log.add_reader(self.entries[no], "late")

    def replace(self, name: str) -> None:
        """A repair: a new link takes the place of an old one, with everything that is still to be said about."""
        old, link = self.links[name], Link(name, 2, self.faults, None)
        before, after = self.facts[name], LinkFacts(self.faults)
        self.links[name], self.facts[name] = link, after
        on_link = [(number, entry, True) for number, entry in old.sent.entries.items()]
        on_link += [(number, entry, False) for number, entry in old.arrived.entries.items()]
        late = [self._entry(facts) for facts in before.pending]
        touched: list[Entry] = []
        for entry in late:
            self.log.waited(entry)
            self.log.unawait(entry)
        for number, entry, sent in on_link:
            self.log.leave_link(old, entry, number, sent)
        for facts in self.reference.entries:
            for crossing in facts.crossings:
                crossing.over = crossing.over or crossing.link is before
        for entry in [*[entry for _, entry, sent in on_link if sent], *late]:
            self._enter(link, after, entry, sent=True)
            touched.append(entry)
        for _, entry, sent in on_link:
            if not sent:
                self._enter(link, after, entry, sent=False)
                touched.append(entry)
        for facts in self.reference.entries:
            if facts.source == name:
                self.log.change_source(self._entry(facts), link)
            facts.rise()
        for entry in touched:
            self.log.settle(entry)

    def _enter(self, link: Link, after: LinkFacts, entry: Entry, sent: bool) -> None:
        facts = self.reference.entries[entry.no]
        facts.crossings = [c for c in facts.crossings if not c.over or c.link is self._kept(c)]
        track = after.sent if sent else after.arrived
        track.append(facts)
        facts.crossings.append(Crossing(after, sent, len(track)))
        self.log.enter_link(link, entry, sent)

    def _kept(self, crossing: Crossing) -> LinkFacts | None:
        """A link whose say about the entry still stands, because nothing replaced it."""
        return crossing.link if crossing.link in self.facts.values() else None

    def _entry(self, facts: Facts) -> Entry:
        return next(e for e, f in zip(self.entries, self.reference.entries, strict=True) if f is facts)

    # -- what must agree -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        log, reference = self.log, self.reference
        assert log.next_no == len(reference.entries)
        assert log.bytes_held == reference.bytes_held()
        assert log.local_bytes == reference.local_bytes()
        for name, link in self.links.items():
            assert link.held_bytes == reference.held_bytes(name)
        for no, (entry, facts) in enumerate(zip(self.entries, reference.entries, strict=True)):
            assert (no in log.entries, entry.bundle is None) == (not facts.dropped, facts.dropped), entry
            assert (entry.reach, entry.level) == (facts.reach, facts.level), entry
            assert (entry.undone, entry.waits) == (facts.undone, facts.waits), entry
            assert entry.delivered == (facts.undone == 0)
            assert log.is_safe(entry) == facts.safe
        kept = {facts.cost for facts in reference.entries if not facts.dropped}
        assert bool(log.entries) == bool(kept)


def upto(numbers: set[int]) -> int:
    """All of the first so many."""
    return next(number for number in range(len(numbers) + 1) if number + 1 not in numbers)


def play(seed: int, faults: int, with_repairs: bool) -> Bench:
    rng = random.Random(f"log {seed} {faults}")
    bench = Bench(faults, rng)
    for _ in range(60):
        roll = rng.random()
        if roll < 0.3:
            bench.append()
        elif roll < 0.35:
            bench.reports()
        elif roll < 0.4:
            bench.add_reader()
        elif roll < 0.45 and with_repairs:
            bench.replace(rng.choice(NEIGHBOURS))
        elif actions := bench.possible():
            rng.choice(actions)()
        bench.check()
    return bench


@pytest.mark.parametrize("faults", [0, 1, 2, 3])
@pytest.mark.parametrize("with_repairs", [False, True], ids=["steady", "repairs"])
def test_the_log_agrees_with_the_reference_and_ends_empty(faults: int, with_repairs: bool) -> None:
    for seed in range(60):
        bench = play(seed, faults, with_repairs)
        bench.finish()
        bench.reports()
        bench.check()
        assert bench.log.entries == {} and not bench.log.held_back
        assert bench.log.bytes_held == bench.log.local_bytes == 0
        for link in bench.links.values():
            assert link.held_bytes == 0
            assert link.sent.entries == {} and link.arrived.entries == {}, "nothing is left to be said"
        assert all(entry.delivered for entry in bench.entries)


def test_an_entry_that_is_not_safe_keeps_later_ones_from_being_shown() -> None:
    """Unless they are let past it: see `test_unshown`."""
    log = Log(1)
    first = log.append(bundle(1), None, None, 0, 1, 0, ())
    second = log.append(bundle(2), Link("n", 1, 1, None), None, 1, 0, 0, ())
    assert not log.is_safe(first) and log.is_safe(second)
    assert log.next_to_show() is None
    log.count_reach(first, 0)
    assert log.is_safe(first)
    assert [log.next_to_show(), log.next_to_show(), log.next_to_show()] == [first, second, None]


def test_the_only_broker_of_a_tree_makes_everything_safe_and_stable_at_once() -> None:
    log = Log(2)
    entry = log.append(bundle(1), None, None, 0, 0, 0, ())
    assert log.is_safe(entry) and entry.delivered and log.entries
    log.show(log.held_back.take_first())
    assert entry.level == 3 and log.entries == {} and log.local_bytes == 0


def test_an_entry_is_not_stable_before_its_readers_have_taken_it_here_and_next_door() -> None:
    """Otherwise the crash of a neighbour would leave nobody who could show it to that neighbour's clients."""
    log = Log(1)
    entry = log.append(bundle(1), None, None, 0, 1, 0, ("reader",))
    log.count_reach(entry, 0)
    log.show(log.held_back.take_first())
    assert entry.level == 0, "the reader here has not taken it"
    log.took(entry)
    assert entry.level == 1 and log.entries, "those of the neighbour may not have"
    log.count_level(entry, 1)
    assert entry.level == 2 and log.entries == {}


def test_a_reader_who_comes_later_makes_the_level_count_from_the_beginning() -> None:
    log = Log(1)
    entry = log.append(bundle(1), None, None, 0, 1, 0, ())
    log.count_reach(entry, 0)
    log.show(log.held_back.take_first())
    assert entry.level == 1
    log.add_reader(entry, "late")
    log.count_level(entry, 1)
    assert entry.level == 0 and log.entries and not entry.delivered
    log.took(entry)
    assert entry.level == 2 and log.entries == {}


def test_copies_kept_for_others_do_not_count_against_their_source() -> None:
    """Two brokers that each held the other back for such copies would wait for ever."""
    log, source = Log(1), Link("n", 1, 1, None)
    entry = log.append(bundle(1), source, None, 1, 1, 0, ())
    log.show(log.held_back.take_first())
    assert log.entries == {0: entry} and source.held_bytes == 0


def test_what_waits_for_readers_counts_against_no_source() -> None:
    """It counts against the readers, so that one who does not read holds back nobody else."""
    log, source = Log(1), Link("n", 1, 1, None)
    passed_on = log.append(bundle(1), source, None, 1, 0, 0, ("reader",))
    own = log.append(bundle(2), None, None, 1, 0, 0, ("reader",))
    assert source.held_bytes == 0 and log.local == {own.publisher: own.cost}
    log.show(log.held_back.take_first())
    log.show(log.held_back.take_first())
    assert source.held_bytes == log.local_bytes == 0 and log.local == {}
    late = log.append(bundle(3), source, None, 1, 1, 1, ("reader",))
    log.show(log.held_back.take_first())
    assert source.held_bytes == late.cost, "it waits for a link"
    log.waited(late)
    assert source.held_bytes == 0 and set(log.entries) == {passed_on.no, own.no, late.no}


def test_what_was_forgotten_can_be_kept_again_and_is_forgotten_again() -> None:
    log, link = Log(1), Link("n", 1, 1, None)
    entry = log.append(bundle(1), None, None, 0, 1, 0, ())
    link.sent.add(entry)
    log.show(log.held_back.take_first())
    news = link.take_report(Levels((1,), (1,), (), (0,), 0))
    for reach, each in news.reaches:
        log.count_reach(each, reach)
    for level, each in news.levels:
        log.count_level(each, level)
    assert not log.entries and log.bytes_held == 0
    assert not link.waits_with(bundle(1)), "the neighbour has said all that let it go"
    log.weigh(entry, 1)  # as if it had been put on disk meanwhile
    log.revive(entry, bundle(1))
    log.add_reader(entry, "ghost")
    assert log.entries == {entry.no: entry} and log.bytes_held == entry.cost == bundle(1).cost
    log.settle(entry)
    assert entry.no in log.entries, "somebody reads it"
    log.took(entry)
    assert not log.entries and log.bytes_held == 0
