"""Parcels: rows come out as they were packed, messages stay small, and rows of liars are refused."""

import itertools
import random
from typing import Any

import pytest

from resprout.core import limits
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.core.seen import Seen
from resprout.filters.predicate import parse_predicate
from resprout.links.frames import Data
from resprout.order.messages import KnownLock, RootOrderedTopic
from resprout.overlay.messages import Configuration, Life, Place
from resprout.overlay.view import MembershipView
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.resprout.messages import (
    PARCEL_ROWS,
    PARCELS,
    AskedInterest,
    Attach,
    Grant,
    Item,
    KnownClient,
    KnownPlace,
    LastTotal,
    Listener,
    ParcelEnd,
    ParcelRow,
    ParcelRows,
    SeenMark,
    ServedInterest,
    Stub,
    Tombstone,
    Welcome,
)
from resprout.stacks.resprout.repair import parcels
from resprout.stacks.resprout.repair.parcels import ROWS_BYTES, ROWS_OF, Parcel, pack, send_parcel, shared_rows
from resprout.wire.codec import Codec

CODEC = Codec((Data,), RESPROUT.messages)
ATTACH = Attach(1, "x", (), 1, 0)
WELCOME = Welcome(1, 0, Configuration(), "n")
GRANT = Grant(1, (), (), 1, 0, Configuration(), True)
WIDEST = Place("b" * 64, 1 << 50, 1 << 50, "c" * 64, ("d" * 64,) * 50, "e" * 100)


def marks(count: int) -> tuple[Mark, ...]:
    """As long as marks get."""
    return tuple([Mark(f"{number:064}", "eventual", 1 << 62, 1 << 62) for number in range(count)])


def frame_bytes(message: ProtocolMessage) -> int:
    return len(CODEC.encoder().encode(Data(1, 0, 1, (message,))))


def total(stamp: int = 3, guarantee: Guarantee = Guarantee.TOTAL, size: int = 0) -> Bundle:
    return Bundle("p", 1, 1, 1, stamp, "t", ("k",), guarantee, b"", pack_payloads([bytes(size)]))


def item(size: int) -> Item:
    return Item(total(guarantee=Guarantee.CAUSAL, size=size), 0, 1, False)


def unpacked(*rows: ParcelRow, head: Any = ATTACH) -> Parcel:
    parcel = Parcel(head)
    for message in pack(rows):
        parcel.add(message.rows)
    return parcel


@pytest.mark.parametrize("count", [0, 1, 200, 5_000])
def test_rows_come_out_as_they_were_packed(count: int) -> None:
    some = marks(count)
    view, seen = MembershipView("b0", 1, "", 1), Seen()
    view.found()
    for number in range(count):
        view.places[f"b{number}"] = Place(f"b{number}", 1, 1, "b0", ("b0",), "")
        view.tombstones[f"d{number}"] = number
        seen.raise_to((f"p{number}", "ordered", 1), number + 1)
    predicates = [parse_predicate(f"t/{number}", "x > 1" if number % 2 else None) for number in range(count)]
    asks = [(number, predicate, number % 3 == 0) for number, predicate in enumerate(predicates)]
    locks = [KnownLock(0, number, total()) for number in range(count)]
    topics = [RootOrderedTopic(f"t/{number}", number % 2 == 0) for number in range(count)]
    parcel = unpacked(*shared_rows(view, seen, asks, locks, some, topics))
    assert parcel.places == list(view.places.values())
    assert parcel.tombstones == [Life(f"d{number}", number) for number in range(count)]
    assert parcel.seen == {(f"p{number}", "ordered", 1): number + 1 for number in range(count)}
    assert (parcel.asks, parcel.locks, tuple(parcel.last_totals)) == (asks, locks, some)
    assert parcel.topics == topics


def test_a_parcel_begins_with_its_head_and_ends_with_its_end() -> None:
    sent: list[ProtocolMessage] = []
    send_parcel(sent.append, ATTACH, [Listener("c", False)])
    assert sent == [ATTACH, ParcelRows((Listener("c", False),)), ParcelEnd()]
    sent.clear()
    send_parcel(sent.append, ATTACH, [])
    assert sent == [ATTACH, ParcelEnd()]


def test_rows_share_messages_up_to_a_size_and_keep_their_order() -> None:
    rng = random.Random(1)
    rows: list[ParcelRow] = []
    for mark in marks(2_000):
        choices: tuple[ParcelRow, ...] = (SeenMark(mark), item(rng.choice((0, 100, 40_000))), KnownPlace(WIDEST))
        rows.append(rng.choice(choices))
    messages = list(pack(rows))
    assert [row for message in messages for row in message.rows] == rows
    for message, following in itertools.pairwise(messages):
        assert message.cost <= ROWS_BYTES + 5 or len(message.rows) == 1
        assert message.cost + ParcelRows(following.rows[:1]).cost > ROWS_BYTES, "no room is wasted"


def test_no_message_is_too_large_for_a_frame() -> None:
    where = "x = '" + "y" * (limits.WHERE_BYTES - 6) + "'"
    rows: list[ParcelRow] = [
        *[AskedInterest(1 << 62, "t" * limits.TOPIC_BYTES, where, True)] * 1_000,
        *[SeenMark(mark) for mark in marks(5_000)],
        item(limits.PAYLOAD_BYTES),
        KnownPlace(WIDEST),
    ]
    assert max(frame_bytes(message) for message in pack(rows)) < limits.FRAME_BYTES


def test_rows_cost_what_they_take_so_that_a_window_holds_them_back() -> None:
    head = frame_bytes(ParcelRows(()))
    for row in (
        SeenMark(marks(1)[0]),
        AskedInterest(1, "é" * 200, "é" * 300, True),
        ServedInterest("a/b/c", None),
        KnownPlace(WIDEST),
        Tombstone(Life("f" * 64, 1 << 50)),
        Stub("p" * 64, "ordered", 1 << 62, 1 << 62, 1 << 62, 1 << 62, -1),
        item(5_000),
        KnownLock(0, 1, total(size=5_000)),
    ):
        message = ParcelRows((row,) * 10)
        assert message.cost >= frame_bytes(message) - head, row


def test_each_kind_of_row_finds_its_place() -> None:
    first, stub = item(0), Stub("p", "ordered", 1, 1, 2, 3, 1)
    parcel = unpacked(
        stub, KnownLock(0, 1, total()), first, ServedInterest("a", None), Listener("c", False), Listener("d", True),
        KnownClient(Life("c", 2)),
    )  # fmt: skip
    assert parcel.items == [stub, first], "in the order they came"
    assert parcel.locks == [KnownLock(0, 1, total())] and parcel.served == [parse_predicate("a")]
    assert (parcel.listeners, parcel.dead_listeners, parcel.clients) == ({"c"}, {"d"}, [Life("c", 2)])


def test_of_two_marks_of_one_origin_the_further_counts() -> None:
    one, other, elsewhere = Mark("p", "ordered", 1, 9), Mark("p", "ordered", 1, 2), Mark("p", "ordered", 2, 1)
    for some in ((one, other, elsewhere), (elsewhere, other, one)):
        parcel = unpacked(*map(SeenMark, some))
        assert parcel.seen == {("p", "ordered", 1): 9, ("p", "ordered", 2): 1}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (AskedInterest(1, "a/#/b", None, True), "'#' may only be the last level"),
        (AskedInterest(1, "a", "x >", True), "column"),
        (ServedInterest("", None), "filter"),
        (KnownLock(0, 1, total(guarantee=Guarantee.EVENTUAL)), "no place in any order"),
        (KnownLock(0, 1, total(), stamp=9), "is said to be delivered at 9"),
        (KnownLock(0, 1 << 50, total()), "at the impossible place"),
    ],
)
def test_rows_that_no_honest_broker_packs_are_refused_when_they_come(row: ParcelRow, why: str) -> None:
    with pytest.raises(PeerError, match=why):
        unpacked(row)


def test_rows_are_refused_behind_a_head_that_they_do_not_belong_to() -> None:
    for row in (item(0), Stub("p", "ordered", 1, 1, 2, 3, 1), ServedInterest("a", None), Listener("c", True)):
        with pytest.raises(PeerError, match=f"{type(row).__name__}.* does not belong to Welcome"):
            unpacked(row, head=WELCOME)
    for row in (ServedInterest("a", None), Listener("c", True)):
        with pytest.raises(PeerError, match="does not belong to Grant"):
            unpacked(row, head=GRANT)


def test_every_head_says_which_rows_may_follow_it() -> None:
    assert set(ROWS_OF) == set(PARCELS) and frozenset(PARCEL_ROWS) == ROWS_OF[Attach] | ROWS_OF[Welcome]


def test_a_parcel_has_only_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "ROWS_MAX", 3)
    with pytest.raises(PeerError, match="a parcel of more than 3 rows"):
        unpacked(*[LastTotal(Mark("p", "ordered", 1, 1))] * 4)
