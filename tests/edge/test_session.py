"""One client's session at its broker."""

import tracemalloc

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Subscribe, Taken, Turned
from resprout.order.entry import Entry


def bundle(
    first: int, count: int = 1, guarantee: Guarantee = Guarantee.CAUSAL, name: str = "c", life: int = 2
) -> Bundle:
    return Bundle(name, life, first, count, 0, "t", (), guarantee, b"", pack_payloads([b""] * count))


def session() -> ClientSession:
    return ClientSession("c", 2, 1000)


def test_a_client_counts_without_gaps_in_each_stream() -> None:
    client = session()
    client.check_next(bundle(1, 3))
    client.check_next(bundle(1, 1, Guarantee.EVENTUAL))
    client.check_next(bundle(4))
    client.check_next(bundle(2, 2))  # again, as after a resumed session: a matter for whoever looks for duplicates
    client.check_next(bundle(5))
    with pytest.raises(PeerError, match="leaves a gap after 5"):
        client.check_next(bundle(7))
    with pytest.raises(PeerError, match="leaves a gap after 1"):
        client.check_next(bundle(3, 1, Guarantee.EVENTUAL))


def test_a_session_may_begin_in_the_middle_of_a_stream() -> None:
    client = session()
    client.check_next(bundle(40))
    with pytest.raises(PeerError, match="gap after 40"):
        client.check_next(bundle(42))


@pytest.mark.parametrize(("name", "life"), [("d", 2), ("c", 1), ("c", 3)])
def test_a_client_speaks_only_for_itself(name: str, life: int) -> None:
    with pytest.raises(PeerError, match=f"c.2 published as {name}.{life}"):
        session().check_next(bundle(1, name=name, life=life))


def test_of_several_receipts_in_one_step_only_the_furthest_are_told() -> None:
    client = session()
    for seq in (1, 2, 3):
        client.turn("ordered", ReceiptLevel.ACCEPTED, seq)
    client.turn("ordered", ReceiptLevel.SAFE, 2)
    client.turn("eventual", ReceiptLevel.ACCEPTED, 1)
    client.settle("eventual", 1)
    assert sorted(client.take_turned(), key=str) == sorted(
        [
            Turned("ordered", ReceiptLevel.SAFE, 2),
            Turned("ordered", ReceiptLevel.ACCEPTED, 3),
            Turned("eventual", ReceiptLevel.DELIVERED, 1),
        ],
        key=str,
    ), "delivered includes accepted, safe of 2 does not include accepted of 3"
    assert client.take_turned() == []


def test_weaker_receipts_are_told_before_stronger_ones() -> None:
    """In this order a client that counts up never seems to hear something taken back."""
    client = session()
    client.settle("ordered", 1)
    client.turn("ordered", ReceiptLevel.SAFE, 2)
    client.turn("ordered", ReceiptLevel.ACCEPTED, 3)
    assert [turned.receipt for turned in client.take_turned()] == [
        ReceiptLevel.ACCEPTED,
        ReceiptLevel.SAFE,
        ReceiptLevel.DELIVERED,
    ]


def published(client: ClientSession, count: int) -> list[Entry]:
    entries = [Entry(no, bundle(no + 1), None, client, 0) for no in range(count)]
    for entry in entries:
        client.published(entry)
        entry.shown, entry.undone = True, 1
    client.take_turned()
    return entries


def delivered(client: ClientSession, *entries: Entry) -> list[Turned]:
    for entry in entries:
        entry.undone = 0
        client.turn_delivered(entry)
    return client.take_turned()


def test_delivered_does_not_wait_for_what_was_published_before() -> None:
    client = session()
    first, second, third, fourth = published(client, 4)
    assert delivered(client, third, fourth) == [Turned("ordered", ReceiptLevel.DELIVERED, 4, first=3)]
    assert delivered(client, first) == [Turned("ordered", ReceiptLevel.DELIVERED, 1)]
    assert delivered(client, second) == [Turned("ordered", ReceiptLevel.DELIVERED, 4)], "nothing is left out any more"
    assert client.unturned == {"ordered": {}}


def test_publications_that_are_delivered_apart_are_told_apart() -> None:
    client = session()
    entries = published(client, 6)
    assert delivered(client, entries[5], entries[0], entries[2], entries[3]) == [
        Turned("ordered", ReceiptLevel.DELIVERED, 1),
        Turned("ordered", ReceiptLevel.DELIVERED, 4, first=3),
        Turned("ordered", ReceiptLevel.DELIVERED, 6, first=6),
    ]


def test_a_publication_that_a_subscriber_has_yet_to_take_is_not_delivered() -> None:
    client = session()
    (entry,) = published(client, 1)
    client.turn_delivered(entry)
    assert client.take_turned() == []


@pytest.mark.parametrize("deliveries", [-1, 1, 4])
def test_taking_what_was_never_given_or_back_again_is_a_peers_fault(deliveries: int) -> None:
    client = session()
    for no in range(3):
        client.given.append(Entry(no, bundle(1), None, None, 0))
        client.gave += 1
    assert [entry.no for entry in client.take(2)] == [0, 1]
    assert client.take(2) == []
    with pytest.raises(PeerError, match=f"{deliveries} deliveries taken of 3 given, 2 before"):
        client.take(deliveries)


# -- being served --------------------------------------------------------------------------------------------------


def test_a_client_asks_once_to_be_served_and_says_nothing_else_before_it_is() -> None:
    client = session()
    with pytest.raises(PeerError, match="c said Taken before it was served"):
        client.check_turn(Taken(0))
    client.check_turn(Attend(0))
    with pytest.raises(PeerError, match="c said Subscribe before it was served"):
        client.check_turn(Subscribe(1, "t", None))
    client.attending = True
    client.check_turn(Subscribe(1, "t", None))
    with pytest.raises(PeerError, match="c asked to be served before"):
        client.check_turn(Attend(0))


def test_a_client_that_comes_from_elsewhere_may_leave_out_what_is_settled_there() -> None:
    client = session()
    client.moved = True
    client.check_next(bundle(4))
    client.check_next(bundle(9))
    with pytest.raises(PeerError, match=r"c.2 published as c.1"):
        client.check_next(bundle(10, life=1))


def test_a_bundle_was_given_elsewhere_if_any_message_of_it_or_of_a_later_one_was() -> None:
    client = session()
    client.received = {("p", "ordered", 4): 7}
    assert client.has(bundle(5, 10, name="p", life=4)), "a filter may have kept the rest back"
    assert client.has(bundle(7, name="p", life=4)) and not client.has(bundle(1, name="p", life=3))
    assert not client.has(bundle(8, name="p", life=4)) and not client.has(bundle(1, name="p", life=5))
    assert not client.has(bundle(1, 1, Guarantee.EVENTUAL, "p", 4)) and not client.has(bundle(1, name="q", life=4))


# -- what it published elsewhere -----------------------------------------------------------------------------------


def shown(first: int, count: int = 1, *, undone: int = 0, is_shown: bool = True) -> Entry:
    entry = Entry(first, bundle(first, count), None, None, 0)
    entry.shown, entry.undone = is_shown, undone
    return entry


def test_adopted_publications_have_their_receipts_as_far_as_they_have_come() -> None:
    client = session()
    entries = [shown(4, 2, undone=1), shown(6, is_shown=False, undone=1)]
    client.adopt(entries)
    assert all(entry.client is client for entry in entries)
    assert client.take_turned() == [
        Turned("ordered", ReceiptLevel.ACCEPTED, 6),
        Turned("ordered", ReceiptLevel.SAFE, 5),
    ]
    assert delivered(client, entries[0]) == [Turned("ordered", ReceiptLevel.DELIVERED, 5, first=4)], (
        "of 1 to 3 who knows"
    )


def test_what_is_published_again_is_answered_from_its_entry() -> None:
    client = session()
    client.adopt([shown(1, undone=1), shown(2, is_shown=False)])
    client.take_turned()
    client.known(bundle(1))
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.SAFE, 1)]
    client.known(bundle(2))
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.ACCEPTED, 2)]


def test_what_is_published_again_and_has_no_entry_any_more_is_delivered() -> None:
    client = session()
    client.known(bundle(1, 3))
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.DELIVERED, 3)]


def test_such_a_receipt_says_nothing_of_the_publications_around_it() -> None:
    client = session()
    before, after = shown(1, undone=1), shown(5, undone=1)
    client.adopt([before, after])
    client.take_turned()
    client.known(bundle(2, 3))
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.DELIVERED, 4, first=2)]
    client.settle("ordered", 7)
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.DELIVERED, 7, first=6)], "the entries know better"
    assert delivered(client, before) == [Turned("ordered", ReceiptLevel.DELIVERED, 4)]
    assert delivered(client, after) == [Turned("ordered", ReceiptLevel.DELIVERED, 7)]


def test_what_is_published_again_with_other_boundaries_is_answered_from_all_entries_that_hold_it() -> None:
    client = session()
    client.adopt([shown(1, 3, undone=1), shown(4, 2, is_shown=False)])
    client.take_turned()
    client.known(bundle(2, 1))
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.SAFE, 2)], "the entry is not delivered yet"
    client.known(bundle(3, 2))
    assert client.take_turned() == [
        Turned("ordered", ReceiptLevel.ACCEPTED, 4), Turned("ordered", ReceiptLevel.SAFE, 3),
    ]  # fmt: skip
    client.known(bundle(5, 3), everywhere=False)
    assert client.take_turned() == [Turned("ordered", ReceiptLevel.SAFE, 7)], "this broker is through with 6 and 7"


@pytest.mark.parametrize("last", [3_000_000, NUMBER_MAX])
def test_a_range_that_a_client_states_is_never_walked_number_by_number(last: int) -> None:
    """Attack 2 of issue 27: `Attend.safe` of 2^61 after a reconnect took 2.5 GB in 4 seconds, and no end of it."""
    client = session()
    kept = Entry(1, bundle(5), None, None, 0)
    kept.undone = 1
    client.adopt([kept])
    tracemalloc.start()
    client.settle("ordered", last)
    told = client.take_turned()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    delivered = [(each.first, each.seq) for each in told if each.receipt is ReceiptLevel.DELIVERED]
    assert delivered == [(1, 4), (6, last)]
