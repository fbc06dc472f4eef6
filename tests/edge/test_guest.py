"""One client's session at its broker."""

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, Receipt
from resprout.edge.guest import Guest
from resprout.edge.messages import Turned
from resprout.order.entry import Entry


def bundle(
    first: int, count: int = 1, guarantee: Guarantee = Guarantee.CAUSAL, name: str = "c", life: int = 2
) -> Bundle:
    return Bundle(name, life, first, count, 0, "t", (), guarantee, b"", pack_payloads([b""] * count))


def guest() -> Guest:
    return Guest("c", 2, 1000)


def test_a_client_counts_without_gaps_in_each_stream() -> None:
    client = guest()
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
    client = guest()
    client.check_next(bundle(40))
    with pytest.raises(PeerError, match="gap after 40"):
        client.check_next(bundle(42))


@pytest.mark.parametrize(("name", "life"), [("d", 2), ("c", 1), ("c", 3)])
def test_a_client_speaks_only_for_itself(name: str, life: int) -> None:
    with pytest.raises(PeerError, match=f"c.2 published as {name}.{life}"):
        guest().check_next(bundle(1, name=name, life=life))


def test_of_several_receipts_in_one_step_only_the_furthest_are_told() -> None:
    client = guest()
    for seq in (1, 2, 3):
        client.turn("ordered", Receipt.ACCEPTED, seq)
    client.turn("ordered", Receipt.SAFE, 2)
    client.turn("eventual", Receipt.ACCEPTED, 1)
    client.turn("eventual", Receipt.DELIVERED, 1)
    assert sorted(client.take_turned(), key=str) == sorted(
        [
            Turned("ordered", Receipt.SAFE, 2),
            Turned("ordered", Receipt.ACCEPTED, 3),
            Turned("eventual", Receipt.DELIVERED, 1),
        ],
        key=str,
    ), "delivered includes accepted, safe of 2 does not include accepted of 3"
    assert client.take_turned() == []


def test_weaker_receipts_are_told_before_stronger_ones() -> None:
    """In this order a client that counts up never seems to hear something taken back."""
    client = guest()
    client.turn("ordered", Receipt.DELIVERED, 1)
    client.turn("ordered", Receipt.SAFE, 2)
    client.turn("ordered", Receipt.ACCEPTED, 3)
    assert [turned.receipt for turned in client.take_turned()] == [Receipt.ACCEPTED, Receipt.SAFE, Receipt.DELIVERED]


def test_delivered_is_cumulative_and_waits_for_what_was_published_before() -> None:
    client = guest()
    first, second = (Entry(no, bundle(no + 1), None, client, 0) for no in range(2))
    for entry in (first, second):
        client.published(entry)
        entry.shown = True
    first.undone = 1
    client.turn_delivered("ordered")
    assert client.take_turned() == [Turned("ordered", Receipt.ACCEPTED, 2)]
    first.undone = 0
    client.turn_delivered("ordered")
    assert client.take_turned() == [Turned("ordered", Receipt.DELIVERED, 2)]


@pytest.mark.parametrize("deliveries", [-1, 1, 4])
def test_taking_what_was_never_given_or_back_again_is_a_peers_fault(deliveries: int) -> None:
    client = guest()
    for no in range(3):
        client.given.append(Entry(no, bundle(1), None, None, 0))
        client.gave += 1
    assert [entry.no for entry in client.take(2)] == [0, 1]
    assert client.take(2) == []
    with pytest.raises(PeerError, match=f"{deliveries} deliveries taken of 3 given, 2 before"):
        client.take(deliveries)
