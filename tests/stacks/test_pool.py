"""The pool of a repair: one order, one side for every bundle, and who takes what as what."""

import random

import pytest

from resprout.core.bundle import Bundle, pack_payloads, unpack_payloads
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry
from resprout.order.messages import KnownLock
from resprout.stacks.resprout import ResproutOptions
from resprout.stacks.resprout.messages import Item, Stub
from resprout.stacks.resprout.parts import BrokerParts
from resprout.stacks.resprout.repair.pool import DEAD_SIDE, OWN_SIDE, Inventory, Pool, PoolTaker, in_order
from resprout.stacks.stack import BrokerSeat


def bundle(stamp: int, publisher: str = "p", first: int = 1, guarantee: Guarantee = Guarantee.CAUSAL) -> Bundle:
    return Bundle(publisher, 1, first, 1, stamp, "t", (), guarantee, b"", pack_payloads([b""]))


def item(stamp: int, side: int = 0, publisher: str = "p", first: int = 1) -> Item:
    return Item(bundle(stamp, publisher, first), side, 1, False)


def stub(stamp: int, side: int = 0, publisher: str = "p", first: int = 1) -> Stub:
    return Stub(publisher, "ordered", 1, first, first, stamp, side)


def broker_parts(faults: int = 1) -> BrokerParts:
    """A broker with links to `dead` and `other`, both open."""
    parts = BrokerParts(BrokerSeat("b", 1, None), ResproutOptions(faults_tolerated=faults), random.Random(1))
    parts.life.begin(0)
    parts.life.view.found()
    for name in ("dead", "other"):
        parts.peers.came_up(name, 1, 1 << 20)
        parts.neighbours.open(parts.neighbours.begin_links({name: 1}, {})[name])
    return parts


def shape(items: list[Item | Stub]) -> list[tuple[int, int, bool]]:
    """(stamp, side, whether it has a bundle)."""
    return [
        (one.bundle.stamp, one.side, True) if isinstance(one, Item) else (one.stamp, one.side, False) for one in items
    ]


# -- what the coordinator collects -------------------------------------------------------------------------------------


def test_the_pool_has_everything_once_in_the_order_of_stamps() -> None:
    pool = Pool()
    pool.add_member(1, [item(5, publisher="q"), item(2), item(9, first=2)])
    pool.add_member(2, [item(2), item(7, publisher="r")])
    assert len(pool) == 4
    assert [stamp for stamp, _, _ in shape(pool.ordered())] == [2, 5, 7, 9]


def test_the_side_of_a_bundle_is_that_of_the_member_who_sent_it_to_the_dead() -> None:
    pool = Pool()
    pool.add_member(1, [item(2, side=1), item(3, side=0)])
    pool.add_member(2, [item(2, side=0), item(3, side=1), item(4, side=0)])
    assert shape(pool.ordered()) == [(2, 1, True), (3, 2, True), (4, DEAD_SIDE, True)]


def test_a_bundle_is_worth_more_than_its_stub() -> None:
    for order in (0, 1):
        pool = Pool()
        parts: list[Item | Stub] = [stub(2, side=1), item(2, side=0)]
        for number, part in enumerate(parts[::-1] if order else parts, 1):
            pool.add_member(number, [part])
        assert [has for _, _, has in shape(pool.ordered())] == [True]


def test_what_the_coordinator_itself_sent_is_its_own_and_what_came_from_the_dead_is_not() -> None:
    parts = broker_parts()
    dead = parts.links["dead"]
    mine = parts.forwarding.accept(bundle(2, "mine"), None, None, 0, False)
    through = parts.forwarding.accept(bundle(3, "far"), parts.links["other"], None, 1, False)
    theirs = parts.forwarding.accept(bundle(4, "theirs"), dead, None, 1, False)
    orphan = parts.forwarding.accept(bundle(5, "orphan"), dead, None, 1, False)
    assert mine and through and theirs and orphan
    pool = Pool()
    pool.add_member(1, [item(4, side=1, publisher="theirs"), item(2, side=0, publisher="mine")])
    pool.add_own(Inventory(parts.log, dead))
    sides = {one.bundle.publisher: one.side for one in pool.ordered() if isinstance(one, Item)}
    assert sides == {"theirs": 1, "mine": OWN_SIDE, "orphan": DEAD_SIDE}, "hops >= f: `far` was not sent there"


def test_delivered_totals_stand_at_their_stamps_among_the_rest() -> None:
    locks = [
        KnownLock(0, 1, bundle(4, "t", guarantee=Guarantee.TOTAL), 4),
        KnownLock(0, 2, bundle(1, "u", guarantee=Guarantee.TOTAL)),
    ]
    things = in_order([item(6), item(3, first=2)], locks)
    assert [thing.bundle.stamp for thing in things if not isinstance(thing, Stub)] == [3, 4, 6], "one has no place yet"


# -- how it is taken ---------------------------------------------------------------------------------------------------


def taker(parts: BrokerParts, *, owed: bool = True, spread: bool = True) -> PoolTaker:
    return PoolTaker(parts.pool, Inventory(parts.log, parts.links["dead"]), lambda bundle: owed, spread=spread)


@pytest.mark.parametrize("owed", [True, False])
def test_of_a_bundle_that_is_known_in_part_the_rest_is_taken(owed: bool) -> None:
    """Its publisher returned in the same life, and repeated 1 to 3 in a bundle of 1 to 5."""

    def numbered(last: int, stamp: int) -> Bundle:
        payloads = pack_payloads([b"%d" % n for n in range(1, last + 1)])
        return Bundle("p", 1, 1, last, stamp, "t", (), Guarantee.CAUSAL, b"", payloads)

    parts = broker_parts()
    link = parts.links["other"]
    known = parts.forwarding.accept(numbered(3, 2), link, None, 1, False)
    longer = Item(numbered(5, 3), 0, 1, False)
    entry, entered = taker(parts, owed=owed).take(longer, link, 1, keeps_source=False)
    assert known is not None and entry is not known and entered
    assert (entry.first, entry.last, entry.is_backup) == (4, 5, not owed)
    assert isinstance(entry.bundle, Bundle) and unpack_payloads(entry.bundle) == [b"4", b"5"]
    assert parts.seen.mark(("p", "ordered", 1)) == 5


def test_what_is_new_and_owed_goes_to_the_log_and_on_and_the_rest_is_kept_as_a_copy() -> None:
    for owed in (True, False):
        parts = broker_parts()
        link = parts.links["other"]
        entry, entered = taker(parts, owed=owed).take(item(2), link, 1, keeps_source=False)
        assert entered and entry.source is link
        assert entry.is_backup == (not owed)
        assert parts.log.entries == {0: entry}
        assert parts.seen.mark(("p", "ordered", 1)) == 1, "either way it will not be taken again"
        assert parts.clock.now >= 2


def test_what_was_seen_before_is_only_a_copy_even_if_it_is_owed() -> None:
    parts = broker_parts()
    parts.seen.raise_to(("p", "ordered", 1), 5)
    entry, _ = taker(parts).take(item(2, first=3), parts.links["other"], 1, keeps_source=False)
    assert entry.is_backup, "it came another way, or later ones did: it must not be shown after them"


def test_what_is_here_already_keeps_its_entry_and_changes_its_side() -> None:
    parts = broker_parts()
    dead, other = parts.links["dead"], parts.links["other"]
    entry = parts.forwarding.accept(bundle(2), dead, None, 1, False)
    assert entry is not None
    taken, entered = taker(parts).take(item(2, side=2), other, 1, keeps_source=False)
    assert taken is entry and not entered and entry.source is other


def test_what_this_side_sent_stays_this_sides_own() -> None:
    parts = broker_parts()
    entry = parts.forwarding.accept(bundle(2), None, None, 0, False)
    taken, _ = taker(parts).take(item(2, side=1), parts.links["other"], 1, keeps_source=True)
    assert taken is entry and taken.source is None


def test_nothing_is_handed_back_that_was_never_handed_over() -> None:
    parts = broker_parts()
    with pytest.raises(PeerError, match="hands back what was never handed over"):
        taker(parts).take(item(2, side=1), parts.links["other"], 1, keeps_source=True)


def test_a_pool_that_is_spread_is_safe_and_one_that_is_not_waits_for_copies() -> None:
    for spread in (True, False):
        parts = broker_parts(faults=2)
        entry, _ = taker(parts, spread=spread).take(item(2), parts.links["other"], 0, keeps_source=False)
        assert parts.log.is_safe(entry) == spread


def test_the_copies_that_died_do_not_make_anything_safe() -> None:
    parts = broker_parts(faults=2)
    entry = parts.forwarding.accept(bundle(2), parts.links["dead"], None, 2, False)
    assert entry is not None and parts.log.is_safe(entry) and not entry.shown
    taker(parts, spread=False).take(item(2, side=-1), None, 0, keeps_source=False)
    assert not parts.log.is_safe(entry)


def test_a_stub_is_counted_and_remembered_and_needs_nothing_more() -> None:
    parts = broker_parts()
    entry, entered = taker(parts).take(stub(2), parts.links["other"], 1, keeps_source=False)
    assert not entered and entry.bundle is None and entry.delivered
    assert parts.log.entries == {} and parts.seen.mark(("p", "ordered", 1)) == 1


def test_what_was_to_cross_the_dead_link_and_had_not_yet_is_in_the_inventory() -> None:
    parts = broker_parts()
    dead = parts.links["dead"]
    parts.neighbours.shut(dead)
    late = parts.forwarding.accept(bundle(2), None, None, 0, False)
    assert late is not None and late.undone == 2
    inventory = Inventory(parts.log, dead)
    assert [one.side for one in inventory.items()] == [1]
    after = parts.forwarding.accept(bundle(3, first=2), None, None, 0, False)
    assert isinstance(after, Entry) and after.no == inventory.snapshot, "that follows the Grant"
    assert inventory.leave(late.id) is late and late.undone == 1
    assert inventory.leave(after.id) is None
