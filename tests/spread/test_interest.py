"""One broker's interest, message by message."""

import pytest

from resprout.core.errors import PeerError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.spread import interest as interest_module
from resprout.spread.covers import Wish
from resprout.spread.interest import Interest
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested

A, AB, A_ALL, ALL = (parse_predicate(text) for text in ("a", "a/b", "a/#", "#"))
ANY_B = parse_predicate("+/b")


def broker(*neighbours: str) -> Interest:
    interest = Interest()
    for name in neighbours:
        interest.add_neighbour(name)
    return interest


def want(interest: Interest, direction: str, predicate: Predicate) -> tuple[Outbound, list[Wish]]:
    outbound: Outbound = []
    return outbound, interest.want(direction, predicate, outbound)


def drop(interest: Interest, direction: str, predicate: Predicate) -> tuple[Outbound, list[Wish]]:
    outbound: Outbound = []
    return outbound, interest.drop(direction, predicate, outbound)


def confirm(interest: Interest, name: str, id: int) -> tuple[Outbound, list[Wish]]:
    outbound: Outbound = []
    return outbound, interest.confirmed_by(name, InterestConfirmed(id), outbound)


def asked(interest: Interest, name: str, id: int, text: str, where: str | None = None) -> tuple[Outbound, list[Wish]]:
    outbound: Outbound = []
    return outbound, interest.asked_by(name, Interested(id, text, where), parse_predicate(text, where), outbound)


def asks_of(interest: Interest, name: str) -> list[Predicate]:
    """What is asked of a neighbour."""
    return [predicate for _, predicate, _ in interest.standing(name)[0]]


def claims(wishes: list[Wish]) -> list[tuple[str, Predicate]]:
    return [(wish.direction, wish.predicate) for wish in wishes]


def test_without_neighbours_a_wish_is_confirmed_at_once() -> None:
    outbound, ready = want(broker(), "c", A)
    assert outbound == [] and claims(ready) == [("c", A)]


def test_a_wish_is_confirmed_only_when_all_other_neighbours_have_confirmed_it() -> None:
    interest = broker("n1", "n2", "n3")
    outbound, ready = want(interest, "c", A)
    assert outbound == [(name, Interested(1, "a", None)) for name in ("n1", "n2", "n3")] and ready == []
    assert confirm(interest, "n1", 1) == ([], [])
    assert confirm(interest, "n3", 1) == ([], [])
    assert confirm(interest, "n3", 1) == ([], []), "the same answer twice counts once"
    outbound, ready = confirm(interest, "n2", 1)
    assert outbound == [] and claims(ready) == [("c", A)]


def test_a_neighbours_wish_is_asked_of_the_others_and_confirmed_to_it_by_its_own_number() -> None:
    interest = broker("n1", "n2")
    outbound, ready = asked(interest, "n1", 42, "a", "x > 1")
    assert outbound == [("n2", Interested(1, "a", "x > 1"))] and ready == []
    assert confirm(interest, "n2", 1) == ([("n1", InterestConfirmed(42))], [])


def test_the_last_broker_of_a_branch_confirms_at_once() -> None:
    assert asked(broker("n1"), "n1", 7, "a") == ([("n1", InterestConfirmed(7))], [])


def test_what_an_asked_predicate_covers_is_not_asked_again_and_shares_its_confirmation() -> None:
    interest = broker("n")
    want(interest, "c", A_ALL)
    assert want(interest, "d", AB) == ([], [])
    _, ready = confirm(interest, "n", 1)
    assert claims(ready) == [("c", A_ALL), ("d", AB)]
    outbound, ready = want(interest, "e", A)
    assert outbound == [] and claims(ready) == [("e", A)], "covered by what is confirmed"


def test_a_wide_wish_replaces_narrow_ones_asked_first_withdrawn_then() -> None:
    interest = broker("n")
    want(interest, "c", A)
    want(interest, "c", AB)
    outbound, _ = want(interest, "d", ALL)
    assert outbound == [("n", Interested(3, "#", None)), ("n", Uninterested(1)), ("n", Uninterested(2))]
    _, ready = confirm(interest, "n", 3)
    assert claims(ready) == [("c", A), ("c", AB), ("d", ALL)], "the narrow ones wait for the wide one now"


def test_a_late_answer_to_a_withdrawn_wish_is_ignored() -> None:
    interest = broker("n")
    want(interest, "c", A)
    assert drop(interest, "c", A) == ([("n", Uninterested(1))], [])
    want(interest, "c", A)
    assert confirm(interest, "n", 1) == ([], []), "it speaks of the first time"
    _, ready = confirm(interest, "n", 2)
    assert claims(ready) == [("c", A)]


def test_narrow_wishes_left_behind_are_asked_again_before_the_wide_one_is_withdrawn() -> None:
    interest = broker("n")
    want(interest, "c", ALL)
    want(interest, "d", AB)
    want(interest, "d", A_ALL)
    want(interest, "e", A)
    confirm(interest, "n", 1)
    outbound, ready = drop(interest, "c", ALL)
    assert outbound == [("n", Interested(2, "a/#", None)), ("n", Uninterested(1))], "one of the three covers the others"
    assert ready == []
    _, ready = want(interest, "f", AB)
    assert claims(ready) == [("f", AB)], "the successor is as confirmed as what it was served through"


def test_a_successor_of_an_unconfirmed_wish_must_be_confirmed_itself() -> None:
    interest = broker("n")
    want(interest, "c", ALL)
    want(interest, "d", A)
    drop(interest, "c", ALL)
    assert confirm(interest, "n", 1) == ([], [])
    _, ready = confirm(interest, "n", 2)
    assert claims(ready) == [("d", A)]


def test_conditions_left_behind_do_not_cover_each_other_either() -> None:
    interest = broker("n")
    narrow, wide = parse_predicate("a", "x > 5"), parse_predicate("a", "x > 1")
    want(interest, "c", narrow)
    want(interest, "c", wide)
    want(interest, "c", A)
    drop(interest, "c", A)
    assert asks_of(interest, "n") == [wide]


def test_a_condition_that_was_covered_by_steps_too_hard_to_see_at_once_is_not_forgotten() -> None:
    """`covers` may answer no for want of patience, so what covers something is not seen to cover all beneath it."""
    low = parse_predicate("t", " or ".join(f"(zz = {n} and y{n} = 1)" for n in range(40)))
    middle = parse_predicate("t", "zz is not null")
    high = parse_predicate("t", " or ".join([*(f"a{n} = 1" for n in range(90)), "zz is not null"]))
    assert high.covers(middle) and middle.covers(low) and not high.covers(low)
    interest = broker("n")
    for predicate in (low, middle, high):
        want(interest, "c", predicate)
    drop(interest, "c", middle)
    drop(interest, "c", high)
    assert asks_of(interest, "n") == [low]
    _, ready = confirm(interest, "n", 4)
    assert claims(ready) == [("c", low)]


def test_a_wish_may_be_confirmed_because_another_of_the_same_client_is_withdrawn() -> None:
    """The wish waits for one cover, another is confirmed already, and the first goes: lobbies must expect that."""
    interest = broker("n")
    want(interest, "c", A_ALL)
    want(interest, "d", ANY_B)
    want(interest, "c", AB)
    confirm(interest, "n", 2)
    outbound, ready = drop(interest, "c", A_ALL)
    assert outbound == [("n", Uninterested(1))]
    assert claims(ready) == [("c", AB)]


def test_directions_that_want_the_same_hold_it_together() -> None:
    interest = broker("n1", "n2")
    want(interest, "c", A)
    outbound, _ = asked(interest, "n1", 1, "a")
    assert outbound == [], "n2 was asked for c, and n1 is not told of its own wish"
    assert interest.directions(A) == ("c", "n1")
    outbound, _ = drop(interest, "c", A)
    assert outbound == [("n1", Uninterested(1))], "nobody but n1 wants it now"
    outbound = []
    interest.withdrawn_by("n1", Uninterested(1), outbound)
    assert outbound == [("n2", Uninterested(1))]
    assert interest.directions(A) == ()


def test_a_new_neighbour_is_asked_for_everything_and_awaited_by_open_wishes() -> None:
    interest = broker("n1")
    want(interest, "c", A)
    want(interest, "c", parse_predicate("d"))
    interest.add_neighbour("n2")
    assert interest.asks("n2") == [("n2", Interested(1, "a", None)), ("n2", Interested(2, "d", None))]
    assert confirm(interest, "n1", 1) == ([], [])
    _, ready = confirm(interest, "n2", 1)
    assert claims(ready) == [("c", A)]


def test_who_leaves_has_nothing_asked_anew_that_only_it_needed() -> None:
    interest = broker("n")
    for predicate in (ALL, A_ALL, AB, A):
        want(interest, "c", predicate)
    want(interest, "d", AB)
    confirm(interest, "n", 1)
    outbound: Outbound = []
    assert interest.drop_all("c", outbound) == []
    assert outbound == [("n", Interested(2, "a/b", None)), ("n", Uninterested(1))]
    assert interest.directions(AB) == ("d",) and interest.directions(ALL) == ()
    assert interest.drop_all("c", outbound) == [] and len(outbound) == 2, "there was nothing left to drop"


def test_wishes_of_who_leaves_are_never_confirmed_and_those_of_others_may_be() -> None:
    interest = broker("n")
    want(interest, "c", A_ALL)
    want(interest, "d", ANY_B)
    for client in ("c", "e"):
        want(interest, client, AB)
    confirm(interest, "n", 2)
    outbound: Outbound = []
    assert claims(interest.drop_all("c", outbound)) == [("e", AB)]
    assert confirm(interest, "n", 1) == ([], [])


def test_what_covered_others_and_is_not_wanted_any_more_is_not_asked_when_its_own_cover_goes() -> None:
    interest = broker("n")
    for direction, predicate in (("c", A), ("c", AB), ("d", A_ALL), ("e", ALL)):
        want(interest, direction, predicate)
    confirm(interest, "n", 4)
    assert drop(interest, "d", A_ALL) == ([], [])
    outbound, _ = drop(interest, "e", ALL)
    assert outbound == [("n", Interested(5, "a", None)), ("n", Interested(6, "a/b", None)), ("n", Uninterested(4))]
    assert claims(want(interest, "f", AB)[1]) == [("f", AB)], "they are as confirmed as before"


def test_what_covered_others_may_be_wanted_again() -> None:
    interest = broker("n")
    for direction, predicate in (("c", A), ("c", AB), ("d", A_ALL), ("e", ALL)):
        want(interest, direction, predicate)
    drop(interest, "d", A_ALL)
    assert want(interest, "d", A_ALL) == ([], [])
    outbound, _ = drop(interest, "e", ALL)
    assert outbound == [("n", Interested(5, "a/#", None)), ("n", Uninterested(4))], "what it covered came with it"
    _, ready = confirm(interest, "n", 5)
    assert claims(ready) == [("c", A), ("c", AB), ("d", A_ALL)]


def test_wishes_that_come_and_go_while_nobody_answers_leave_nothing_behind() -> None:
    interest = broker("n")
    want(interest, "c", ALL)
    want(interest, "c", AB)
    for _ in range(50):
        want(interest, "d", AB)
        drop(interest, "d", AB)
    _, ready = confirm(interest, "n", 1)
    assert claims(ready) == [("c", ALL), ("c", AB)]


def test_a_neighbour_that_asks_for_too_much_is_not_to_blame_and_the_rest_is_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attack 9 of issue 27: clients elsewhere asked, and the broker that passed it on was cut off and fenced."""
    monkeypatch.setattr(interest_module, "NEIGHBOUR_INTERESTS_MAX", 3)
    interest = broker("n")
    for id in range(3):
        asked(interest, "n", id, f"a/{id}")
    outbound: Outbound = []
    interest.asked_by("n", Interested(3, "a/3", None), parse_predicate("a/3", None), outbound)
    assert outbound == [] and interest.passed_over == 1
    interest.withdrawn_by("n", Uninterested(3), [])
    interest.withdrawn_by("n", Uninterested(0), [])
    asked(interest, "n", 4, "a/4")
    with pytest.raises(PeerError, match="never asked"):
        broker("n").withdrawn_by("n", Uninterested(3), [])


@pytest.mark.parametrize(("id", "text"), [(1, "b"), (2, "a")])
def test_asking_twice_is_a_peers_fault(id: int, text: str) -> None:
    interest = broker("n")
    asked(interest, "n", 1, "a")
    with pytest.raises(PeerError, match="was asked before"):
        asked(interest, "n", id, text)


def test_withdrawing_what_was_never_asked_is_a_peers_fault() -> None:
    with pytest.raises(PeerError, match="interest 9 was never asked"):
        broker("n").withdrawn_by("n", Uninterested(9), [])


def test_an_answer_to_a_question_never_asked_is_ignored() -> None:
    assert confirm(broker("n"), "n", 3) == ([], [])
