"""Clients that lost their broker come to another one: what they bring along, what they are given and told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.bundle import Bundle, pack_payloads, unpack_payloads
from resprout.core.contract import Send
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import Mark, from_marks
from resprout.edge.broker import owed as owed_module
from resprout.edge.broker.ghosts import home_of
from resprout.edge.broker.owed import Owed, read_held
from resprout.edge.messages import Attend, Delivery, HeldSubscription, Serving, Subscribed, Turned, Unsubscribed
from resprout.filters.predicate import parse_predicate
from resprout.overlay.messages import Life
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from tests.edge.house import ROOM, SERVING, House
from tests.soak import cases

DEAD = frozenset((Life("b1", 1), Life("b2", 1)))
GHOST = "~ghost of b1"


def held(filter: str = "t", where: str | None = None, id: int = 1, base: tuple[Mark, ...] = ()) -> HeldSubscription:
    return HeldSubscription(id, filter, where, base)


def attend(
    *subscriptions: HeldSubscription, received: tuple[Mark, ...] = (), tried: tuple[str, ...] = ("b1",), home: int = 1
) -> Attend:
    return Attend(0, tried, received, subscriptions, home=home)


def haunted(*filters: str, neighbours: tuple[str, ...] = ()) -> House:
    """A house with a ghost of b1 and b2 that wants these."""
    house = House("p", neighbours=neighbours)
    house.told("p")
    house.ghosts.add(GHOST, DEAD, [parse_predicate(each) for each in filters or ("#",)], house.out)
    return house


def come_back(house: House, message: Attend, name: str = "a", room: int = ROOM) -> list[Any]:
    """As a stack does it; what the client is told, deliveries as their first numbers."""
    session = house.serve(name, message, room=room)
    house.ghosts.claim(session, message, Owed(message), house.ghosts.of(home_of(message)), house.out)
    told = house.told(name)
    assert isinstance(told[0], Serving) and told[0].resumed
    return told[1:]


# -- what it brings along ------------------------------------------------------------------------------------------


def test_subscriptions_that_are_brought_along_go_on_under_their_numbers_without_another_confirmation() -> None:
    house = House(neighbours=("n",))
    session = house.serve("a", attend(held("t", id=4), held("u", "x > 1", id=7), held("t", id=9)))
    assert house.outbound == [("n", Interested(1, "t", None)), ("n", Interested(2, "u", "x > 1"))]
    house.sessions.confirm(house.interest.confirmed_by("n", InterestConfirmed(1), house.outbound), house.out)
    assert house.told("a") == [SERVING] and list(session.subscriptions) == [4, 7, 9]
    house.unsubscribe("a", 4)
    assert house.outbound[2:] == [] and house.told("a") == [Unsubscribed(4)]
    house.unsubscribe("a", 9)
    assert house.outbound[2:] == [("n", Uninterested(1))]


def test_another_subscription_to_the_same_has_the_base_of_the_first() -> None:
    house = House()
    one, two = Mark("p", "ordered", 1, 5), Mark("p", "ordered", 1, 9)
    house.serve("a", attend(held(base=(two,)), held(id=2, base=(one,))))
    house.subscribe("a", 3)
    assert house.told("a") == [SERVING, Subscribed(3, (two,))]


def test_a_confirmation_tells_what_had_passed_before() -> None:
    house = House("a", "b", neighbours=("n",))
    for name in "ab":
        house.subscribe(name, 1)
    wishes = house.interest.confirmed_by("n", InterestConfirmed(1, (Mark("p", "ordered", 1, 9),)), house.outbound)
    house.sessions.confirm(wishes, house.out)
    assert house.told("a") == house.told("b") == [SERVING, Subscribed(1, (Mark("p", "ordered", 1, 9),))]
    house.subscribe("a", 2)
    assert house.told("a") == [Subscribed(2, (Mark("p", "ordered", 1, 9),))]


@pytest.mark.parametrize(
    ("subscriptions", "why"),
    [
        ((held(id=3), held("u", id=3)), "subscription 3 is there twice"),
        ((held("a/#/b", id=5),), "subscription 5: .*'#' may only be the last level"),
        ((held("a", "x >", id=5),), "subscription 5: "),
        ((held(id=1), held(id=2), held(id=3)), "more than 2 subscriptions"),
    ],
)
def test_what_cannot_have_been_confirmed_is_a_peers_fault_and_leaves_nothing(
    subscriptions: tuple[HeldSubscription, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_module, "HELD_SUBSCRIPTIONS_MAX", 2)
    house = House(neighbours=("n",))
    session = house.sessions.arrive("a", 1, ROOM)
    with pytest.raises(PeerError, match=why):
        house.sessions.welcome(session, attend(*subscriptions), (), True, house.out)
    assert not house.out and not house.outbound and not session.attending and session.subscriptions == {}
    with pytest.raises(PeerError, match=why):
        Owed(attend(*subscriptions))


def test_a_client_that_cannot_be_resumed_has_to_subscribe_again() -> None:
    house = House(neighbours=("n",))
    session = house.serve("a", attend(held("t", id=4)), resumed=False)
    assert [message.resumed for message in house.told("a")] == [False]
    assert session.subscriptions == {} and house.outbound == []
    house.subscribe("a", 4)
    assert house.outbound == [("n", Interested(1, "t", None))]


def test_a_returned_client_is_known_by_what_it_has_until_it_leaves() -> None:
    house = House("b")
    session = house.serve("a", attend(received=(Mark("p", "ordered", 1, 3),)), resumed=False)
    bundle = house.bundle(payloads=(b"", b"", b"", b""))
    assert session.has(bundle) and not session.has(house.bundle())
    assert list(house.sessions.returned) == ["a"]
    house.leave("a")
    assert house.sessions.returned == {}


# -- ghosts --------------------------------------------------------------------------------------------------------


def test_a_ghost_wants_what_the_clients_of_the_dead_wanted_until_it_expires() -> None:
    house = haunted("t", "u/+", neighbours=("n",))
    assert house.outbound == [("n", Interested(1, "t", None)), ("n", Interested(2, "u/+", None))]
    house.sessions.confirm(house.interest.confirmed_by("n", InterestConfirmed(1), house.outbound), house.out)
    assert house.interest.index.match_any(("u/x",), {}) == [GHOST]
    assert house.ghosts.knows(Life("b2", 1)) and house.ghosts.lives() == (Life("b1", 1), Life("b2", 1))
    assert not house.ghosts.knows(Life("x", 1)) and not house.ghosts.knows(Life("b2", 2)), "lives, not names"
    house.ghosts.expire(GHOST, house.out)
    assert house.outbound[2:] == [("n", Uninterested(1)), ("n", Uninterested(2))] and house.out == []
    assert (
        not house.ghosts.knows(Life("b1", 1))
        and GHOST not in house.ghosts
        and house.interest.index.match_any(("t",), {}) == []
    )


def test_what_a_ghost_has_inherited_is_not_asked_again() -> None:
    house = House(neighbours=("n",))
    house.interest.want(GHOST, parse_predicate("t"), house.outbound)
    house.outbound.clear()
    house.ghosts.add(GHOST, DEAD, [parse_predicate("t"), parse_predicate("u"), parse_predicate("u")], house.out)
    assert house.outbound == [("n", Interested(2, "u", None))]


def test_what_a_ghost_is_shown_is_sent_to_nobody_and_kept_until_it_expires() -> None:
    house = haunted()
    entries = [house.give(GHOST, by="p") for _ in range(3)]
    assert [effect for effect in house.out if isinstance(effect, Send)] == []
    assert house.told("p") == [Turned("ordered", ReceiptLevel.SAFE, 3)], "somebody may still be owed it"
    assert all(entry.bundle is not None for entry in entries)
    house.append(GHOST, by="p")
    house.ghosts.expire(GHOST, house.out)
    house.show()
    assert house.told("p") == [Turned("ordered", ReceiptLevel.DELIVERED, 4)]
    assert house.empty


def test_a_ghost_reads_what_was_there_before_it_if_that_is_for_it_and_once() -> None:
    house = House("p", "a")
    early, other, gone = house.give("a", by="p"), house.give("a", topic="u"), house.give()
    assert gone.bundle is None, "nobody needs it any more"
    held_back = house.append(by="p")
    late = house.append(payloads=(b"", b""), topic="v", rows=({"n": 1}, {"n": 5}))
    filtered = house.append(topic="v", rows=({"n": 1},))
    house.ghosts.add(GHOST, DEAD, [parse_predicate("t"), parse_predicate("v", "n > 4")], house.out)
    for entry in (early, other, gone, held_back, late, filtered):
        for _ in range(2):
            house.ghosts.read(GHOST, entry)
    house.show()
    assert list(house.sessions.all[GHOST].backlog) == [early, held_back, late]
    house.take("a", 2)
    assert list(house.log.entries.values()) == [early, held_back, late]
    house.ghosts.expire(GHOST, house.out)
    assert house.empty


# -- what it is given ----------------------------------------------------------------------------------------------


def test_a_client_that_returns_is_given_what_it_missed_before_anything_shown_later() -> None:
    house = haunted()
    for _ in range(3):
        house.give(GHOST, by="p")
    assert come_back(house, attend(held())) == [1, 2, 3]
    house.give(GHOST, "a", by="p")
    assert house.told("a") == [4]


def test_without_room_what_it_missed_waits_before_what_comes_later() -> None:
    house = haunted()
    for _ in range(2):
        house.give(GHOST)
    assert come_back(house, attend(held()), room=1) == [1]
    house.give("a")
    house.unsubscribe("a", 1)
    assert house.told("a") == []
    house.sessions.writable(house.clients["a"], ROOM, house.out)
    assert house.told("a") == [2, 3, Unsubscribed(1)]


def test_everybody_who_returns_has_a_share_and_the_log_waits_for_all_of_them_and_the_ghost() -> None:
    house = haunted()
    house.give(GHOST, by="p")
    for name in ("a", "c"):
        assert come_back(house, attend(held()), name) == [1]
    house.told("p")
    house.take("a", 1)
    house.ghosts.expire(GHOST, house.out)
    assert house.told("p") == [] and not house.empty
    house.take("c", 1)
    assert house.told("p") == [Turned("ordered", ReceiptLevel.DELIVERED, 1)] and house.empty


def test_a_returned_client_that_vanishes_is_owed_nothing_any_more() -> None:
    house = haunted()
    for _ in range(2):
        house.give(GHOST, by="p")
    come_back(house, attend(held()), room=1)
    house.leave("a")
    house.ghosts.expire(GHOST, house.out)
    assert house.told("p")[-1] == Turned("ordered", ReceiptLevel.DELIVERED, 2) and house.empty


def test_only_what_was_lost_with_its_own_brokers_is_given() -> None:
    house = haunted()
    house.give(GHOST)
    assert come_back(house, attend(held(), tried=("b7",))) == []
    assert come_back(house, attend(held(), tried=("b7", "b2")), "c") == [], "it only asked b2, which never served it"
    assert come_back(house, attend(held(), tried=("b2", "b7"), home=2), "d") == [], "a later life of b2 served it"
    assert come_back(house, attend(held(), tried=("b2", "b7")), "e") == [1]


def test_several_ghosts_are_merged_in_the_order_of_causes_each_thing_once() -> None:
    house = haunted()
    other = "~ghost of b7"
    lives = frozenset((Life("b7", 1), Life("b1", 1)))
    house.ghosts.add(other, lives, [parse_predicate("#")], house.out)
    for stamp, readers in ((5, (GHOST,)), (3, (other,)), (9, (GHOST, other)), (3, (GHOST, other))):
        house.give(*readers, stamp=stamp)
    assert come_back(house, attend(held(), tried=("b1",))) == [2, 4, 1, 3]
    assert come_back(house, attend(held(), tried=("b2",)), "c") == [4, 1, 3], "so is what waits with one alone"


def test_what_lies_within_the_base_or_was_received_is_not_given() -> None:
    house = haunted()
    for publisher in ("x", "y"):
        for _ in range(3):
            entry = house.log.append(house.bundle(publisher), None, None, 0, 0, 0, (house.sessions.all[GHOST],))
            house.show()
            assert entry.shown
    message = attend(held(base=(Mark("x", "ordered", 1, 2),)), received=(Mark("y", "ordered", 1, 1),))
    session = house.serve("a", message)
    claimed = house.ghosts.claim(session, message, Owed(message), house.ghosts.of(home_of(message)), house.out)
    assert [(item.bundle.publisher, item.first) for item in claimed if item.bundle] == [("x", 3), ("y", 2), ("y", 3)]


def test_a_wider_subscription_with_a_smaller_base_is_owed_what_the_other_is_not() -> None:
    house = haunted()
    for _ in range(3):
        house.give(GHOST)
    base = (Mark("p", "ordered", 1, 2),)
    assert come_back(house, attend(held("t", base=base), held("#", id=2, base=base[:0]))) == [1, 2, 3]


def test_a_content_filter_picks_what_is_owed_and_others_get_all_of_it() -> None:
    house = haunted()
    house.give(GHOST, payloads=(b"0", b"1", b"2"))
    given: dict[str, Delivery] = {}
    for name, where in (("a", "n > 0"), ("c", None), ("d", "n = 9")):
        message = attend(held("t", where))
        house.ghosts.claim(house.serve(name, message), message, Owed(message), [GHOST], house.out)
        for told in house.messages(name):
            if isinstance(told, Delivery):
                given[name] = told
    assert given["a"].offsets == (1, 2) and unpack_payloads(given["a"].bundle) == [b"1", b"2"]
    assert given["c"].offsets is None and given["c"].bundle.count == 3
    assert "d" not in given


def test_what_a_former_session_picked_does_not_stick_to_the_name() -> None:
    house = haunted()
    entry = house.give(GHOST, payloads=(b"0", b"1"))
    entry.picks = {"a": (1,), "z": (0,)}
    come_back(house, attend(held()))
    assert entry.picks == {"z": (0,)}


def test_a_bundle_that_cannot_be_read_is_owed_to_nobody_who_would_have_to_read_it() -> None:
    bad = Bundle("p", 1, 1, 1, 1, "t", (), Guarantee.CAUSAL, b"\xc1", pack_payloads([b"x"]))
    assert list(Owed(attend(held("t", "x = 1"))).offsets(bad)) == []
    assert list(Owed(attend(held("t"))).offsets(bad)) == [0], "as whoever is there when it passes"


@settings(max_examples=cases(50, 150), deadline=None, derandomize=True)
@given(
    subscriptions=st.lists(
        st.tuples(st.sampled_from(("t", "u", "#", "+")), st.sampled_from((None, "n > 1", "n = 0")), st.integers(0, 6)),
        max_size=4,
    ),
    received=st.integers(0, 6),
    topic=st.sampled_from(("t", "u", "v/w")),
    first=st.integers(1, 6),
    numbers=st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_what_is_owed_is_what_each_subscription_by_itself_would_be_owed(
    subscriptions: list[tuple[str, str | None, int]], received: int, topic: str, first: int, numbers: list[int]
) -> None:
    brought = tuple(
        held(filter, where, id, (Mark("p", "ordered", 1, base),) if base else ())
        for id, (filter, where, base) in enumerate(subscriptions)
    )
    house = House()
    house.published["p"] = first - 1
    bundle = house.bundle(topic=topic, payloads=[b""] * len(numbers), rows=[{"n": n} for n in numbers])
    marks = (Mark("p", "ordered", 1, received),) if received else ()
    expected = [
        offset
        for offset, n in enumerate(numbers)
        if first > received
        and any(one.predicate.matches(topic, {"n": n}) and first > max(one.base.values(), default=0)
                for one in read_held(brought))
    ]  # fmt: skip
    assert list(Owed(attend(*brought, received=marks)).offsets(bundle)) == expected
    assert from_marks(marks) == ({("p", "ordered", 1): received} if received else {})


def test_a_ghost_is_idle_once_when_the_last_that_it_waits_for_has_returned() -> None:
    house = House("c")
    ghosts = house.ghosts
    waited_for: dict[str, tuple[str, ...] | None] = {
        "~1": ("d", "e"), "~2": ("d",), "~3": (), "~4": None, "~5": ("e",)
    }  # fmt: skip
    for name, clients in waited_for.items():
        ghosts.add(name, frozenset({Life(name[1:], 1)}), (), house.out, clients)
    assert ghosts.take_idle() == ["~3"], "nobody was there"
    ghosts.unawait("d")
    assert list(ghosts.idle) == ["~2"]
    ghosts.unawait("e")
    ghosts.unawait("e")
    ghosts.expire("~5", house.out)
    assert ghosts.take_idle() == ["~1", "~2"], "the oldest first, and not whoever is gone"
    assert ghosts.take_idle() == [] and not ghosts.idle
