"""What a disk says of the life before, and who is owed what of it."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from resprout.core.bundle import Bundle, pack_payloads, to_record
from resprout.core.contract import Effect, Forget, LinkUp, Persist, Received, Recovered, Send, TimerFired
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.edge.messages import Attend, Subscribe
from resprout.filters.index import MatchIndex
from resprout.overlay.messages import Life
from resprout.sim.swarm import try_seed
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.broker import Tick
from resprout.stacks.resprout.disk_log import LIVES_CARRIED
from resprout.stacks.resprout.former import (
    Former,
    FormerWish,
    KeptListeners,
    KeptMarks,
    KeptRoster,
    Owing,
    Roster,
    bundle_record,
    encode,
    in_order,
)
from resprout.stacks.stack import BrokerSeat

HOME = Life("b1", 3)
ROSTER = Roster("net", HOME, 2, (Life("b0", 1),), moved=("moved",))


def made(first: int, stamp: int = 10, publisher: str = "p") -> Bundle:
    return Bundle(publisher, 1, first, 1, stamp, "t", (), Guarantee.CAUSAL, b"", b"x")


def former(*records: bytes) -> Former:
    return Former([encode(KeptRoster(ROSTER)), *records])


def test_what_was_to_be_read_here_is_owed_and_what_had_passed_before_is_not() -> None:
    found = former(bundle_record(made(5), -1, ("reader",), ("b0",)), encode(KeptMarks((Mark("p", "ordered", 1, 4),))))
    assert found.is_owed("reader", HOME, made(5), on_its_way=False)
    assert not found.is_owed("another", HOME, made(5), on_its_way=True)
    assert not found.is_owed("another", HOME, made(4), on_its_way=True), "it was here, and is forgotten"
    assert found.is_owed("another", HOME, made(6), on_its_way=True)
    assert not found.is_owed("another", HOME, made(6), on_its_way=False), "it was never on its way here"


def test_whoever_came_from_elsewhere_is_owed_whatever_it_asked_for() -> None:
    found = former(bundle_record(made(5), -1, (), ()), bundle_record(made(6), -1, ("~ghost",), ()))
    assert found.is_owed("moved", HOME, made(5), on_its_way=False)
    assert found.is_owed("returning", HOME, made(6), on_its_way=False), "a ghost kept it for somebody"
    assert found.is_owed("of another broker", Life("b9", 1), made(5), on_its_way=False)
    assert Former().is_owed("anybody", HOME, made(5), on_its_way=False), "an empty disk says nothing"


def test_what_was_written_twice_is_one_and_the_latest_roster_counts() -> None:
    later = Roster("net", HOME, 3, ())
    found = former(
        bundle_record(made(5, stamp=30), 7, ("a",), ("b0",)),
        bundle_record(made(5, stamp=20), -1, ("b",), ("b2",)),
        encode(KeptRoster(later)),
        b"noise",
    )
    (entry,) = found.entries.values()
    assert (entry.bundle.stamp, entry.tseq) == (20, 7)
    assert sorted(entry.readers) == ["a", "b"] and sorted(entry.sent_to) == ["b0", "b2"]
    assert found.roster == later and (found.count, found.unreadable) == (5, 1)


def test_those_who_listened_are_known_unless_somebody_was_waited_for_whom_nobody_knew() -> None:
    found = former(encode(KeptListeners(("a", "b"), ())), encode(KeptListeners(("c",), ("a",))))
    assert sorted(found.listeners or ()) == ["b", "c"]
    assert former(encode(KeptListeners(("a", "~ghost"), ()))).listeners is None
    assert Former().listeners is None


def test_the_order_is_that_of_stamps_and_never_against_a_publisher() -> None:
    found = Former()
    for bundle in (made(3, 11), made(2, 50), made(1, 5), made(1, 20, "q")):
        found.add(bundle, -1, (), ())
    assert [(e.bundle.publisher, e.bundle.first) for e in in_order(found.entries.values())] == [
        ("p", 1), ("q", 1), ("p", 2), ("p", 3),
    ]  # fmt: skip


def tree(*links: tuple[str, str]) -> Owing:
    names = sorted({name for link in links for name in link})

    def roster(name: str) -> Roster:
        others: Iterable[str] = [b if a == name else a for a, b in links if name in (a, b)]
        return Roster("net", Life(name, 1), 1, tuple(Life(other, 1) for other in others))

    return Owing(map(roster, names))


def test_what_was_on_its_way_to_a_neighbour_is_owed_to_everybody_behind_it() -> None:
    owing = tree(("b0", "b1"), ("b1", "b2"), ("b2", "b3"), ("b0", "b4"))
    assert owing.regions({"b0": frozenset({"b1"})}) == ("b1", "b2", "b3")
    assert owing.regions({"b0": frozenset({"b1"}), "b1": frozenset()}) == ()
    assert owing.regions({"b0": frozenset({"b1", "b4"}), "b1": frozenset({"b2"})}) == ("b2", "b3", "b4")
    assert owing.regions({"b2": frozenset({"b1"})}) == ("b0", "b1", "b4")


def test_a_broker_that_is_alone_shows_at_once_what_it_finds_on_its_disk() -> None:
    """`test_without_the_journal_the_same_is_lost` broke the invariant I9: what was published again is safe where nobody
    else is, and stood in line until somebody else published. Until then its record stayed on disk, too."""
    broker = ResproutBroker(BrokerSeat("b", 1, None), ResproutOptions(durable=True), random.Random(1))
    broker.start(0)
    found = Bundle("x", 1, 1, 1, 0, "t", (), Guarantee.FIFO, b"", pack_payloads([b"kept"]))
    effects = broker.step(Recovered((to_record(found),)), 1)
    assert not broker.parts.log.held_back
    assert [effect.count for effect in effects if isinstance(effect, Forget)][-1] == 0


def test_what_is_hidden_from_wildcards_is_on_disk_before_it_is_confirmed() -> None:
    """Seed 3201666 of the class blackout: the record was written at the next tick. When everything stopped before that,
    nobody kept such topics for the client until it was back."""
    broker, before = keeping_broker()
    effects = [*broker.step(Received("c", Subscribe(1, "$hidden", None)), 2)]
    place = next(i for i, effect in enumerate(effects) if isinstance(effect, Send) and effect.peer == "c")
    roster = Former([*before, *records_of(effects[:place])]).roster
    assert roster is not None and [wish.filter for wish in roster.hidden] == ["$hidden"]


def test_what_is_hidden_from_wildcards_costs_the_same_however_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such subscription was followed by a look at all others, and by a record with all of them: 14,000 were enough
    for 5 GB on disk."""
    broker, records = keeping_broker()
    with monkeypatch.context() as context:
        context.setattr(MatchIndex, "predicates_of", lambda index, id: pytest.fail("all are looked at"))
        for number in range(100, 200):
            written = records_of(broker.step(Received("c", Subscribe(number, f"$hidden/{number}", None)), 2))
            assert sum(map(len, written)) < 100
            records += written
        broker.step(Received("c", Subscribe(1, "$hidden/100", None)), 2)
    roster = Former(records).roster
    assert roster is not None and len(roster.hidden) == 100
    roster = Former([*records, *records_of(broker.step(TimerFired(Tick()), 3))]).roster
    assert roster is not None and len(roster.hidden) == 100, "the next roster has all of them"


def keeping_broker() -> tuple[ResproutBroker, list[bytes]]:
    """Return a broker that keeps its log on disk and serves the client `c`, with what it has written so far."""
    broker = ResproutBroker(BrokerSeat("b", 1, None), ResproutOptions(durable="journal"), random.Random(1))
    effects = [*broker.start(0), *broker.step(Recovered(()), 0)]
    effects += broker.step(LinkUp("c", "client", 1, 1 << 20), 0)
    effects += broker.step(Received("c", Attend(0)), 1)
    return broker, records_of(effects)


def records_of(effects: Iterable[Effect]) -> list[bytes]:
    return [effect.record for effect in effects if isinstance(effect, Persist)]


def rosters_during_a_restart(records: Iterable[bytes]) -> list[Roster]:
    """Return the rosters that a broker writes when it starts with these records and leads the restart of everything."""
    broker = ResproutBroker(BrokerSeat("b1", 4, None), ResproutOptions(durable="journal"), random.Random(1))
    broker.start(0)
    written = [effect for effect in broker.step(Recovered(tuple(records)), 1) if isinstance(effect, Persist)]
    rosters = [Former([effect.record]).roster for effect in written]
    assert broker.parts.life.reviving
    return [roster for roster in rosters if roster is not None]


def test_a_roster_of_a_restart_that_may_fail_keeps_what_the_next_restart_needs() -> None:
    """Seed 62074441 of the class restarts: b0 began a second life during the restart. Its roster had lost the
    subscriptions to topics with `$` of the clients that were not back."""
    hidden = (FormerWish("$ops/#", None), FormerWish("$ops/b", "amount > 13"))
    before = Roster(
        "net", HOME, 2, (Life("b0", 1),), (Life("b2", 7),), (Life("dead", 1),), hidden, (), (Life("given up", 1),)
    )
    found = rosters_during_a_restart([encode(KeptRoster(before))])[-1]
    assert (found.network, found.life) == ("net", Life("b1", 4))
    assert found.hidden == hidden
    assert (found.neighbours, found.others) == (before.neighbours, before.others), "the next restart waits for them"
    assert found.looks_after == (Life("dead", 1), HOME)
    assert found.given_up == before.given_up


def test_restarts_that_fail_add_a_bounded_number_of_lives_to_a_roster() -> None:
    found = ROSTER
    for incarnation in range(HOME.incarnation + 1, HOME.incarnation + 2 * LIVES_CARRIED):
        before = msgspec.structs.replace(found, life=Life("b1", incarnation))
        found = rosters_during_a_restart([encode(KeptRoster(before))])[-1]
    assert len(found.looks_after) == LIVES_CARRIED
    assert Life("b1", HOME.incarnation + 1) in found.looks_after, "the oldest one served clients"


def test_a_producer_that_repeats_after_a_full_restart_says_nothing_new() -> None:
    """A client that had subscribed since was given what it had not asked for, behind messages that depend on it."""
    outcome = try_seed(132140093, "producers")
    assert not outcome.failed, outcome.report


def test_how_far_origins_had_come_is_known_of_entries_that_were_forgotten() -> None:
    former = Former([encode(KeptMarks((Mark("gone", "ordered", 1, 7),))), bundle_record(made(3), -1, (), ())])
    assert former.seen == {("gone", "ordered", 1): 7, made(3).origin: 3}
