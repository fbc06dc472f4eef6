"""Gossip: everything reaches everybody once, what was missed is made good, and lazy push leaves a tree."""

import random
from typing import Any

import pytest

from resprout.core.errors import PeerError
from resprout.core.seen import SeenRanges
from resprout_lab.gossip import broadcast as gossip_module
from resprout_lab.gossip.broadcast import (
    DOUBTS_MAX,
    ELSEWHERE_MAX,
    RANGES_MAX,
    Apart,
    ApartDue,
    Gossiped,
    GossipSettled,
    Graft,
    IHave,
    OfferedRanges,
    Prune,
    RecoverDue,
    check_offers,
    in_parts,
)  # fmt: skip
from resprout_lab.gossip.store import ANNOUNCED_MAX, Announced, RecentBundles
from tests.spread.gossip_net import Gossipers, bundle

RING = ("ab", "bc", "cd", "de", "ea")
ORIGIN = ("p", "e", 1)


def offer(*ranges: tuple[int, int], publisher: str = "p") -> OfferedRanges:
    return OfferedRanges(publisher, bundle(publisher, 1).stream, 1, ranges)


# -- eager push --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_everything_reaches_everybody_once(lazy: bool) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        names = "abcdefghijkl"
        net = Gossipers(names, lazy)
        for no, name in enumerate(names[1:], 1):
            net.link(name + rng.choice(names[:no]))
        for _ in range(8):
            one, other = rng.sample(names, 2)
            if frozenset((one, other)) not in net.linked:
                net.link(one + other)
        for no in range(1, 20):
            name = rng.choice(names)
            net.brokers[name].publish(bundle(f"p{no}", 1))
            net.settle()
        assert net.lacking() == [], f"seed {seed}"
        assert all(len(broker.got) == len(set(broker.got)) for broker in net.brokers.values())


def test_a_publication_goes_to_all_neighbours_but_the_one_it_came_from() -> None:
    net = Gossipers("abc")
    net.link("ab", "bc", "ca")
    net.settle()
    net.brokers["a"].publish(bundle("p", 1))
    net.settle()
    assert net.said["Gossiped"] == 4, "two from a, and one each from b and c to each other"


# -- recovery ----------------------------------------------------------------------------------------------------------


def test_two_that_become_neighbours_give_each_other_what_they_lack() -> None:
    net = Gossipers("ab")
    net.brokers["a"].publish(bundle("p", 1, count=3))
    net.brokers["b"].publish(bundle("q", 1))
    net.link("ab")
    net.settle()
    assert net.lacking() == [] and net.said["Gossiped"] == 2


def test_what_a_link_lost_is_made_good_when_neighbours_compare() -> None:
    net = Gossipers("abc")
    net.link("ab", "bc")
    net.settle()
    net.lost.add(frozenset("bc"))
    net.brokers["a"].publish(bundle("p", 1))
    net.settle()
    net.lost.clear()
    assert net.lacking() == [("c", ("p", 1))]
    for _ in range(8):
        net.fire(RecoverDue)
        net.settle()
    assert net.lacking() == []


def test_neighbours_that_were_told_everything_are_told_nothing_more() -> None:
    net = Gossipers("ab")
    net.link("ab")
    net.brokers["a"].publish(bundle("p", 1))
    for _ in range(4):
        net.fire(RecoverDue)
        net.settle()
    before = net.said["IHave"]
    net.fire(RecoverDue)
    assert net.said["IHave"] == before


def test_of_several_that_have_it_one_is_asked_at_a_time() -> None:
    net = Gossipers("abc")
    net.brokers["a"].publish(bundle("p", 1))
    net.brokers["b"].publish(bundle("p", 1))
    net.link("ac", "bc")
    net.settle()
    assert net.said["Graft"] == 1 and net.brokers["c"].got == [("p", 1)]


def test_another_one_is_asked_when_the_first_does_not_give_it() -> None:
    net = Gossipers("abc")
    net.brokers["a"].publish(bundle("p", 1))
    net.brokers["b"].publish(bundle("p", 1))
    net.link("ac", "bc")
    net.carry()
    net.lost.add(frozenset("ac"))
    net.settle()
    assert net.said["Graft"] == 2 and net.brokers["c"].got == [("p", 1)]


def test_a_newcomer_is_not_owed_what_there_was_before_it() -> None:
    net = Gossipers("ab", settled=False)
    net.brokers["a"].gossip.settle()
    net.brokers["a"].publish(bundle("p", 1))
    net.link("ab")
    net.settle()
    assert net.brokers["b"].got == [] and net.brokers["b"].told == [GossipSettled()]
    net.brokers["a"].publish(bundle("p", 2))
    net.settle()
    assert net.brokers["b"].got == [("p", 2)]


def test_two_newcomers_do_not_settle_each_other_but_a_third_settles_both() -> None:
    net = Gossipers("abc", settled=False)
    net.link("bc")
    net.settle()
    assert not net.brokers["b"].told and not net.brokers["c"].told
    net.brokers["a"].gossip.settle()
    net.link("ab")
    net.settle()
    assert net.brokers["b"].told == net.brokers["c"].told == [GossipSettled()]


# -- parts of an overlay -----------------------------------------------------------------------------------------------


def test_some_that_are_no_neighbours_are_told_what_there_is_and_again_when_there_is_more() -> None:
    net = Gossipers("ab")
    net.link("ab")
    a = net.brokers["a"]
    for no in (1, 2):
        a.publish(bundle("p", no))
        for _ in range(ELSEWHERE_MAX + 4):
            net.fire(RecoverDue)
            net.settle()
        assert a.elsewhere == [IHave((offer((1, no)),), True, routine=True)] * ELSEWHERE_MAX
        a.elsewhere.clear()


def test_who_lacks_for_long_what_another_has_that_is_no_neighbour_is_apart_from_it() -> None:
    a = Gossipers("a").brokers["a"]
    for name in "xyz":
        a.gossip.hear_elsewhere(name, IHave((offer((1, 2)),), True))
    a.gossip.hear_elsewhere("x", IHave((offer((1, 3)),), True))
    assert [timer for timer in a.timers if isinstance(timer, ApartDue)] == [ApartDue(name) for name in "xyz"]
    a.gossip.begin_link("x")
    for name in "xyz":
        a.gossip.apart_due(ApartDue(name))
    assert Apart("x") not in a.told, "it is a neighbour now"
    a.gossip.end_link("x")
    for name in "yz":
        a.gossip.hear_elsewhere(name, IHave((offer((1, 2)),), True))
        a.gossip.apart_due(ApartDue(name))
    assert a.told[-2:] == [Apart("y"), Apart("z")]


def test_what_comes_by_way_of_neighbours_meanwhile_is_no_sign_of_parts() -> None:
    a = Gossipers("a").brokers["a"]
    a.gossip.hear_elsewhere("x", IHave((offer((1, 1)),), True))
    a.publish(bundle("p", 1))
    a.gossip.apart_due(ApartDue("x"))
    assert a.told == [GossipSettled()]
    a.gossip.hear_elsewhere("x", IHave((offer((1, 1)),), True))
    a.gossip.apart_due(ApartDue("x"))
    assert a.told == [GossipSettled()]


def test_of_several_that_are_apart_one_is_enough() -> None:
    a = Gossipers("a").brokers["a"]
    for no in range(2 * DOUBTS_MAX):
        a.gossip.hear_elsewhere(f"x{no}", IHave((offer((1, 2)),), True))
    assert len([timer for timer in a.timers if isinstance(timer, ApartDue)]) == DOUBTS_MAX
    for no in range(DOUBTS_MAX):
        a.gossip.apart_due(ApartDue(f"x{no}"))
    assert a.told[1:] == [Apart("x0")]


def test_who_is_not_owed_anything_yet_lacks_nothing() -> None:
    a = Gossipers("a", settled=False).brokers["a"]
    a.gossip.hear_elsewhere("x", IHave((offer((1, 2)),), True))
    assert ApartDue("x") not in a.timers
    a.publish(bundle("p", 1))
    for _ in range(4):
        a.gossip.recover_due(RecoverDue())
    assert not a.elsewhere


# -- lazy push ---------------------------------------------------------------------------------------------------------


def test_lazy_push_leaves_a_tree() -> None:
    net = Gossipers("abcde", lazy=True)
    net.link(*RING, "ac", "bd")
    net.settle()
    for no in range(1, 6):
        net.brokers["a"].publish(bundle("p", no))
        net.settle()
    before = net.said["Gossiped"]
    net.brokers["a"].publish(bundle("p", 6))
    net.settle()
    assert net.said["Gossiped"] - before == 4, "each of the others gets one copy"
    assert net.lacking() == []


def test_there_is_a_tree_for_each_publisher() -> None:
    net = Gossipers("abc", lazy=True)
    net.link("ab", "bc", "ca")
    net.settle()
    for no in range(1, 4):
        for name in "abc":
            net.brokers[name].publish(bundle(f"p{name}", no))
        net.settle()
    before = net.said["Gossiped"]
    for name in "abc":
        net.brokers[name].publish(bundle(f"p{name}", 4))
    net.settle()
    assert net.said["Gossiped"] - before == 6 and net.said["Graft"] == 0
    assert net.brokers["a"].gossip.is_eager("b", "pa") and not net.brokers["a"].gossip.is_eager("b", "pc")


def test_publishers_that_a_link_remembers_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip_module, "LAZY_MAX", 2)
    net = Gossipers("ab", lazy=True)
    net.link("ab")
    for publisher in "xyz":
        net.brokers["a"].hear("b", Prune(publisher))
    assert [net.brokers["a"].gossip.is_eager("b", publisher) for publisher in "xyz"] == [True, False, False]


def test_a_tree_that_breaks_is_mended_by_what_was_announced() -> None:
    net = Gossipers("abc", lazy=True)
    net.link("ab", "bc", "ca")
    net.settle()
    for no in range(1, 4):
        net.brokers["a"].publish(bundle("p", no))
        net.settle()
    assert not net.brokers["b"].gossip.is_eager("c", "p")
    net.lost.add(frozenset("ab"))
    net.brokers["a"].publish(bundle("p", 4))
    net.settle()
    assert net.lacking() == [] and net.said["Graft"] == 1
    assert net.brokers["b"].gossip.is_eager("c", "p") and net.brokers["c"].gossip.is_eager("b", "p")


def test_without_lazy_push_nobody_is_pruned() -> None:
    net = Gossipers("abc")
    net.link("ab", "bc", "ca")
    for no in range(1, 4):
        net.brokers["a"].publish(bundle("p", no))
        net.settle()
    assert net.said["Prune"] == 0 and net.brokers["b"].gossip.is_eager("c", "p")


# -- what is kept and said ---------------------------------------------------------------------------------------------


def test_the_oldest_gives_way_when_the_store_is_full() -> None:
    cost = bundle("p", 1).cost
    store = RecentBundles(3 * cost)
    for no in range(1, 6):
        store.put(bundle("p", no), 0)
    stream = bundle("p", 1).stream
    assert len(store) == 3 and store.offers() == {("p", stream, 1): [(3, 5)]}
    assert [found.bundle.first for found in store.find(("p", stream, 1), [(1, 3), (5, 9)])] == [3, 5]
    assert list(store.find(("q", stream, 1), [(1, 9)])) == []


def test_bundles_are_found_by_any_of_their_numbers() -> None:
    store = RecentBundles(1 << 20)
    store.put(bundle("p", 1, count=4), 0)
    store.put(bundle("p", 9, count=2), 0)
    origin = bundle("p", 1).origin
    assert store.offers() == {origin: [(1, 4), (9, 10)]}
    assert [found.bundle.first for found in store.find(origin, [(3, 3)])] == [1]
    assert [found.bundle.first for found in store.find(origin, [(4, 9)])] == [1, 9]
    assert list(store.find(origin, [(5, 8)])) == []


def test_offers_in_parts_are_the_same_offers_and_each_part_may_be_said() -> None:
    offered = {(f"p{no}", "e", 1): [(3 * i + 1, 3 * i + 2) for i in range(no)] for no in range(1, 150)}
    parts = in_parts(offered)
    assert len(parts) > 1
    found: dict[Any, list[tuple[int, int]]] = {}
    for part in parts:
        check_offers(part)
        assert IHave(part, True).bulk < 1 << 20
        for one in part:
            found.setdefault(one.origin, []).extend(one.ranges)
    assert found == offered and in_parts({}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        (offer((0, 3)),),
        (offer((3, 2)),),
        (offer((5, 6), (1, 2)),),
        (offer((1, 2), (3, 4)),),
        (offer((1, 5), (4, 8)),),
        (offer(*((3 * i + 1, 3 * i + 2) for i in range(RANGES_MAX + 1))),),
        tuple(offer() for _ in range(RANGES_MAX + 1)),
    ],
)
def test_what_nobody_offers_or_asks_for_is_refused(wrong: Any) -> None:
    net = Gossipers("ab")
    net.link("ab")
    for message in (IHave(wrong, True), Graft(wrong)):
        with pytest.raises(PeerError):
            net.brokers["a"].hear("b", message)


def test_what_is_offered_and_never_given_is_asked_for_and_forgotten() -> None:
    net = Gossipers("ab")
    net.link("ab")
    net.settle()
    net.brokers["a"].hear("b", IHave((offer((1, 1 << 60)),), True))
    net.settle()
    assert net.said["Graft"] == 1 and not net.brokers["a"].timers.keys() - {RecoverDue()}


def test_what_neighbours_announce_has_a_bound() -> None:
    announced = Announced(SeenRanges())
    for no in range(ANNOUNCED_MAX + 500):
        announced.note("a", ORIGIN, ((2 * no + 1, 2 * no + 1),))
    (ranges,) = announced.take()["a"].values()
    assert len(ranges) == ANNOUNCED_MAX
    announced.note("a", ORIGIN, ((1, 2),))
    announced.forget("a")
    assert announced.take() == {} and not announced


def test_a_repeat_that_was_asked_for_prunes_nobody() -> None:
    net = Gossipers("ab", lazy=True)
    net.link("ab")
    net.settle()
    net.brokers["a"].publish(bundle("p", 1))
    net.settle()
    net.brokers["b"].hear("a", Gossiped(bundle("p", 1), 1, asked=True))
    assert net.said["Prune"] == 0
    net.brokers["b"].hear("a", Gossiped(bundle("p", 1), 1))
    assert net.said["Prune"] == 1
