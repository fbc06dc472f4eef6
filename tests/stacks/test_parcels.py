"""Parcels: whatever is packed comes out as it was, in parts that fit into frames, and nothing bad gets in."""

import random

import pytest

from resprout.core import limits
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.marks import Mark
from resprout.core.seen import ORIGINS_KEPT
from resprout.filters.predicate import parse_predicate
from resprout.links.frames import Data
from resprout.order.totals.messages import GrantedLock, LastTotals, LockReport, WelcomeLock
from resprout.overlay.places import Configuration, Life, Place
from resprout.stacks.resprout import RESPROUT, ResproutOptions
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import (
    PART_ITEMS,
    AskedInterest,
    Asks,
    Item,
    SeenMarks,
    Served,
    ServedAsks,
    Stub,
    Surroundings,
    Welcome,
)
from resprout.stacks.resprout.repair import parcels
from resprout.stacks.resprout.repair.parcels import (
    Parcel,
    pack_asks,
    pack_last_totals,
    pack_marks,
    pack_served,
    pack_surroundings,
)
from resprout.stacks.stack import BrokerSeat
from resprout.wire.codec import Codec

CODEC = Codec((Data,), RESPROUT.messages)
HEAD = Welcome(1, 0, Configuration())


def marks(count: int) -> tuple[Mark, ...]:
    """As long as marks get."""
    return tuple([Mark(f"{number:064}", "eventual", 1 << 62, 1 << 62) for number in range(count)])


def frame_bytes(message: ProtocolMessage) -> int:
    return len(CODEC.encoder().encode(Data(1, 0, 1, (message,))))


def unpacked(*parts: ProtocolMessage) -> Parcel:
    parcel = Parcel(HEAD)
    for part in parts:
        parcel.add(part)
    return parcel


def total(stamp: int = 3, guarantee: Guarantee = Guarantee.TOTAL) -> Bundle:
    return Bundle("p", 1, 1, 1, stamp, "t", ("k",), guarantee, b"", pack_payloads([b""]))


@pytest.mark.parametrize("count", [0, 1, PART_ITEMS - 1, PART_ITEMS, PART_ITEMS + 1, 3 * PART_ITEMS])
def test_what_is_packed_comes_out_as_it_was(count: int) -> None:
    some = marks(count)
    predicates = [parse_predicate(f"t/{number}", "x > 1" if number % 2 else None) for number in range(count)]
    asks = [(number, predicate, number % 3 == 0) for number, predicate in enumerate(predicates)]
    parcel = unpacked(*pack_marks(some), *pack_last_totals(some), *pack_asks(asks), *pack_served(predicates))
    assert parcel.seen == {mark.origin: mark.seq for mark in some}
    assert tuple(parcel.last_totals) == some
    assert parcel.asks == asks and parcel.served == predicates


def test_asks_may_all_be_called_confirmed() -> None:
    (part,) = pack_asks([(1, parse_predicate("a"), False)], confirmed=True)
    assert part == Asks((AskedInterest(1, "a", None, True),))


def test_the_surroundings_are_all_places_and_graves() -> None:
    core = Core(BrokerSeat("b0", 1, None), ResproutOptions(), random.Random(1))
    core.view.found()
    for number in range(1, 1_200):
        core.view.places[f"b{number}"] = Place(f"b{number}", 1, 1, "b0", ("b0",), "")
        core.view.tombstones[f"d{number}"] = number
    parcel = unpacked(*pack_surroundings(core))
    assert parcel.places == list(core.view.places.values())
    assert parcel.tombstones == [Life(f"d{number}", number) for number in range(1, 1_200)]


def test_no_part_is_too_large_for_a_frame_however_much_there_is() -> None:
    widest = parse_predicate("t" * limits.TOPIC_BYTES, "x = '" + "y" * (limits.WHERE_BYTES - 6) + "'")
    parts = [
        *pack_marks(marks(ORIGINS_KEPT)),
        *pack_last_totals(marks(20_000)),
        *pack_asks([(1 << 62, widest, True)] * (2 * PART_ITEMS)),
        *pack_served([widest] * PART_ITEMS),
    ]
    assert max(frame_bytes(part) for part in parts[:: len(parts) // 40]) < limits.FRAME_BYTES
    assert max(frame_bytes(part) for part in parts[-3:]) < limits.FRAME_BYTES


def test_parts_cost_at_least_what_they_take_so_that_a_window_holds_them_back() -> None:
    place = Place("b" * 64, 1 << 50, 1 << 50, "c" * 64, ("d" * 64,) * 50, "e" * 100)
    for part in (
        SeenMarks(marks(PART_ITEMS)),
        Asks((AskedInterest(1, "é" * 200, "é" * 300, True),)),
        ServedAsks((Served("a/b/c", None),)),
        Surroundings((place,) * 20, (Life("f" * 64, 1 << 50),) * 30),
        Stub("p" * 64, "ordered", 1 << 62, 1 << 62, 1 << 62, 1 << 62, -1),
    ):
        assert part.cost >= frame_bytes(part) - 12, part


def test_each_kind_of_part_finds_its_place() -> None:
    item, stub = Item(total(guarantee=Guarantee.CAUSAL), 0, 1, False), Stub("p", "ordered", 1, 1, 2, 3, 1)
    report, granted, welcome = LockReport(0, 1, total()), GrantedLock(0, 1, total()), WelcomeLock(0, 1, total(), True)
    parcel = unpacked(stub, report, item, granted, welcome)
    assert parcel.items == [stub, item], "in the order they came"
    assert (parcel.lock_reports, parcel.granted_locks, parcel.welcome_locks) == ([report], [granted], [welcome])


def test_of_two_marks_of_one_origin_the_further_counts() -> None:
    one, other, elsewhere = Mark("p", "ordered", 1, 9), Mark("p", "ordered", 1, 2), Mark("p", "ordered", 2, 1)
    for parts in ((one, other, elsewhere), (elsewhere, other, one)):
        parcel = unpacked(*[SeenMarks((mark,)) for mark in parts])
        assert parcel.seen == {("p", "ordered", 1): 9, ("p", "ordered", 2): 1}


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Asks((AskedInterest(1, "a/#/b", None, True),)), "'#' may only be the last level"),
        (Asks((AskedInterest(1, "a", "x >", True),)), "column"),
        (ServedAsks((Served("", None),)), "filter"),
        (LockReport(0, 1, total(guarantee=Guarantee.EVENTUAL)), "no place in any order"),
        (LockReport(0, 1, total(), stamp=9), "is said to be delivered at 9"),
        (LockReport(0, 1 << 50, total()), "at the impossible place"),
    ],
)
def test_what_no_honest_broker_packs_is_refused_when_it_comes(part: ProtocolMessage, why: str) -> None:
    with pytest.raises(PeerError, match=why):
        unpacked(part)


def test_a_parcel_has_only_so_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "PARTS_MAX", 3)
    with pytest.raises(PeerError, match="a parcel of more than 3 parts"):
        unpacked(*[LastTotals(())] * 4)
