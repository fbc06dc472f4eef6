"""Interest when brokers die, at one broker: what was confirmed stays true, what was asked is answered, bases say what
is owed. Whole trees of brokers that die are in `tests/stacks/test_interest_repair.py`."""

from resprout.core.bundle import Bundle, Origin, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark, Reached
from resprout.filters.predicate import parse_predicate
from resprout.spread.interest import Interest
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested
from tests.spread.test_interest import asked, broker, claims, confirm, drop, want

A, AB, A_ALL, ALL = (parse_predicate(text) for text in ("a", "a/b", "a/#", "#"))
P: Origin = ("p", "ordered", 1)


def bundle(seq: int, topic: str = "a", publisher: str = "p") -> Bundle:
    return Bundle(publisher, 1, seq, 1, 1, topic, (), Guarantee.CAUSAL, b"", pack_payloads([b""]))


class Kept:
    """A log of which only what is retained is known."""

    def __init__(self, **reached: int) -> None:
        self.reached = reached

    def __call__(self) -> dict[Origin, Reached]:
        return {(name, "ordered", 1): seq for name, seq in self.reached.items()}


def broker_with(kept: Kept, *neighbours: str) -> Interest:
    interest = Interest(kept)
    for name in neighbours:
        interest.add_neighbour(name)
    return interest


def owes(interest: Interest, name: str, *bundles: Bundle) -> list[bool]:
    owed = interest.owing(name)
    return [owed(one) for one in bundles]


# -- bases -------------------------------------------------------------------------------------------------------------


def test_a_confirmation_carries_what_was_under_way_here_and_behind_every_other_neighbour() -> None:
    kept = Kept(p=4, q=7)
    interest = broker_with(kept, "n1", "n2", "n3")
    asked(interest, "n1", 42, "a")
    kept.reached = {"p": 9}
    outbound: Outbound = []
    interest.confirmed_by(
        "n2", InterestConfirmed(1, (Mark("p", "ordered", 1, 6), Mark("r", "ordered", 2, 1))), outbound
    )
    interest.confirmed_by("n3", InterestConfirmed(1, (Mark("p", "ordered", 1, 5),)), outbound)
    ((name, confirmed),) = outbound
    assert name == "n1" and isinstance(confirmed, InterestConfirmed) and confirmed.id == 42
    assert set(confirmed.base) == {
        Mark("p", "ordered", 1, 6),
        Mark("q", "ordered", 1, 7),
        Mark("r", "ordered", 2, 1),
    }, "the furthest of all; what came here after it was asked is owed"


def test_a_client_is_told_the_base_of_its_subscription() -> None:
    interest = broker_with(Kept(p=4), "n")
    want(interest, "c", A)
    (wish,) = interest.confirmed_by("n", InterestConfirmed(1, (Mark("p", "ordered", 1, 6),)), [])
    assert wish.base == {P: 6}


def test_a_neighbour_owes_what_matches_something_confirmed_beyond_its_base() -> None:
    interest = broker("n")
    want(interest, "c", A)
    assert owes(interest, "n", bundle(1)) == [False], "what is not confirmed is owed nothing"
    interest.confirmed_by("n", InterestConfirmed(1, (Mark("p", "ordered", 1, 5),)), [])
    assert owes(interest, "n", bundle(5), bundle(6), bundle(6, "b"), bundle(1, publisher="q")) == [
        False,
        True,
        False,
        True,
    ]


def test_what_a_wider_interest_replaced_is_owed_as_before_until_the_wider_one_is_confirmed() -> None:
    interest = broker("n")
    want(interest, "c", AB)
    interest.confirmed_by("n", InterestConfirmed(1, (Mark("p", "ordered", 1, 5),)), [])
    want(interest, "d", A_ALL)
    assert owes(interest, "n", bundle(5, "a/b"), bundle(6, "a/b"), bundle(6, "a/c")) == [False, True, False]
    drop(interest, "c", AB)
    assert owes(interest, "n", bundle(6, "a/b")) == [True], "d may depend on it: it was confirmed when d was asked"
    interest.confirmed_by("n", InterestConfirmed(2, (Mark("p", "ordered", 1, 9),)), [])
    assert owes(interest, "n", bundle(9, "a/b"), bundle(10, "a/c")) == [False, True]


def test_who_inherits_from_a_wide_interest_inherits_its_base() -> None:
    interest = broker("n")
    want(interest, "c", A_ALL)
    interest.confirmed_by("n", InterestConfirmed(1, (Mark("p", "ordered", 1, 5),)), [])
    want(interest, "d", AB)
    drop(interest, "c", A_ALL)
    assert owes(interest, "n", bundle(5, "a/b"), bundle(6, "a/b"), bundle(6, "a/c")) == [False, True, False]


def test_after_a_repair_nothing_that_it_handed_over_is_owed_again() -> None:
    interest = broker("n")
    want(interest, "c", A)
    confirm(interest, "n", 1)
    assert owes(interest, "n", bundle(3)) == [True]
    interest.rebase("n", {P: 3})
    assert owes(interest, "n", bundle(3), bundle(4)) == [False, True]
    want(interest, "d", AB)
    interest.rebase("n", {P: 8})
    interest.confirmed_by("n", InterestConfirmed(2, ()), [])
    assert owes(interest, "n", bundle(2, "a/b")) == [True], "one that was not confirmed has its own base"


# -- a neighbour is replaced -------------------------------------------------------------------------------------------


def test_what_a_dead_neighbour_wanted_goes_and_who_waited_for_it_waits_no_more() -> None:
    interest = broker("n", "dead")
    asked(interest, "dead", 1, "a/b")
    want(interest, "c", A)
    confirm(interest, "n", 2)
    outbound: Outbound = []
    assert claims(interest.remove_neighbour("dead", outbound)) == [("c", A)], "nobody else is missing"
    assert outbound == [("n", Uninterested(1))]
    assert interest.directions(AB) == ()
    interest.add_neighbour("dead")
    assert interest.standing("dead") == ([(1, A, False)], []), "a later life begins from nothing"


def test_a_member_goes_on_with_its_coordinator_where_it_was_with_the_dead() -> None:
    member = broker("dead", "n")
    want(member, "c", A)
    confirm(member, "dead", 1)
    confirm(member, "n", 1)
    asked(member, "dead", 5, "b")
    confirm(member, "n", 2)
    asked(member, "dead", 6, "a/b")
    assert member.standing("dead") == ([(1, A, True)], [parse_predicate("b")])
    member.replace_neighbour("dead", "successor")
    outbound: Outbound = []
    assert (
        member.reconcile("successor", [(1, parse_predicate("b"), True), (2, parse_predicate("c"), False)], outbound)
        == []
    )
    assert outbound == [("n", Interested(4, "c", None)), ("n", Uninterested(3))], "a/b is not wanted there any more"
    assert owes(member, "successor", bundle(1)) == [True], "what was confirmed still is"
    assert confirm(member, "n", 4) == ([("successor", InterestConfirmed(2))], [])


def test_who_asked_of_the_dead_without_an_answer_is_answered_by_its_successor() -> None:
    member = broker("dead")
    want(member, "c", A)
    member.replace_neighbour("dead", "successor")
    member.reconcile("successor", [], [])
    assert claims(confirm(member, "successor", 1)[1]) == [("c", A)]
    assert confirm(member, "successor", 1) == ([], [])


def test_a_wish_that_the_dead_never_answered_is_asked_again_under_the_new_link() -> None:
    member = broker("dead", "n")
    asked(member, "dead", 5, "a")
    member.replace_neighbour("dead", "successor")
    assert confirm(member, "n", 1) == ([], []), "the dead is not told"
    outbound: Outbound = []
    member.reconcile("successor", [(9, A, False)], outbound)
    assert outbound == [("successor", InterestConfirmed(9))], "n has confirmed it meanwhile"


def test_what_a_new_neighbour_had_confirmed_to_the_dead_is_not_asked_again() -> None:
    centre = broker("n", "dead")
    want(centre, "c", A)
    want(centre, "c", parse_predicate("b"))
    for id in (1, 2):
        confirm(centre, "n", id)
    centre.remove_neighbour("dead", [])
    centre.add_neighbour("member")
    outbound: Outbound = []
    ready = centre.presume("member", [A_ALL], {P: 3}, outbound)
    assert claims(ready) == [] and outbound == []
    assert centre.standing("member")[0] == [(1, A, True), (2, parse_predicate("b"), False)]
    assert owes(centre, "member", bundle(3), bundle(4)) == [False, True]
