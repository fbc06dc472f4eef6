"""Which broker a centre with too many neighbours sends away, and where to: decided from its view of the tree alone."""

import random

import pytest

from resprout.order.link import Link, LinkState
from resprout.overlay.messages import Place
from resprout.spread.interest import Interest
from resprout.stacks.resprout import ResproutOptions
from resprout.stacks.resprout.joining.offers import ASKED_IN_A_ROW, PAUSE_LEASES, Balance, Offers
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import OFFERED_MAX, MoveAway, Offer
from resprout.stacks.stack import BrokerSeat

LEASE_US = 3_000_000
PAUSE_US = PAUSE_LEASES * LEASE_US

STEMS: dict[str, str | None] = {"c": None, "w": "c", "x": "c", "y": "c", "z": "c"}
"""Of a centre c with four children that all have children."""
STEMS |= {"wa": "w", "wb": "w", "xa": "x", "ya": "y", "yb": "y", "za": "z", "zb": "z"}
STEMS |= {"waa": "wa", "yaa": "ya", "zaa": "za"}


class Centre:
    """One broker that knows where others stand."""

    def __init__(self, parents: dict[str, str | None], name: str = "c", degree: int = 3) -> None:
        options = ResproutOptions(total_degree=degree, lease_us=LEASE_US)
        self.life = BrokerLife(BrokerSeat(name, 1, parents[name]), options)
        self.life.view.parent = parents[name]
        self.links: dict[str, Link] = {}
        interest = Interest()
        for other, parent in parents.items():
            if parent == name or other == parents[name]:
                self.links[other] = Link(other, 1, 1, None)
                self.links[other].move_to(LinkState.OPEN)
                self.life.view.neighbours[other] = True
                self.life.view.sessions[other] = 1
                interest.add_neighbour(other)
        self.offers = Offers(self.life, interest, random.Random(1))
        self.balance = Balance(self.life, self.links, interest, self.offers)
        self.learn(parents)

    def learn(self, parents: dict[str, str | None], version: int = 1) -> None:
        """Hear from every broker where it stands."""
        for name, parent in parents.items():
            if name != self.life.view.name:
                around = tuple([other for other in parents if parents[other] == name or other == parent])
                self.life.view.learn(Place(name, 1, version, parent, around, "", (1,) * len(around)))

    def move(self) -> tuple[str, list[str]] | None:
        """Who is asked when the next move may begin, and which places it is offered."""
        self.life.now_us += PAUSE_US
        move = self.balance.find_move()
        return None if move is None else (move[0], sorted(offer.name for offer in move[1].offers))


def test_the_smallest_branch_gives_up_leaves_and_is_offered_places_outside_of_it() -> None:
    centre = Centre(STEMS)
    assert centre.move() == ("x", ["wa", "wb", "ya", "yb", "za", "zb"])
    assert centre.balance.find_move() is None, "one moves at a time"


def test_a_child_without_children_goes_before_any_branch() -> None:
    centre = Centre({**STEMS, "v": "c"})
    assert (move := centre.move()) is not None and move[0] == "v"


def test_a_broker_within_its_limit_moves_nobody() -> None:
    assert Centre(STEMS, degree=4).move() is None


def test_a_branch_that_does_not_get_smaller_comes_after_the_others() -> None:
    centre = Centre(STEMS)
    asked = [move[0] for _ in range(ASKED_IN_A_ROW + 1) if (move := centre.move()) is not None]
    assert asked[:-1] == ["x"] * ASKED_IN_A_ROW and asked[-1] != "x"


def test_a_branch_that_gets_smaller_is_asked_on() -> None:
    parents = {**STEMS, "xb": "x"} | {name + "c": name for name in ("wb", "yb", "zb")}
    centre = Centre(parents)
    for _ in range(ASKED_IN_A_ROW):
        assert (move := centre.move()) is not None and move[0] == "x"
    centre.learn({name: parent for name, parent in parents.items() if name != "xb"}, version=2)
    assert (move := centre.move()) is not None and move[0] == "x"


def test_newcomers_are_sent_into_a_branch_that_is_emptied_only_if_there_is_no_other_place() -> None:
    centre = Centre(STEMS)
    assert "xa" in {offer.name for offer in centre.offers.make("n", ())}
    assert centre.move() is not None
    assert not {"x", "xa"} & {offer.name for offer in centre.offers.make("n", ())}
    only = Centre({"c": None, "x": "c", "xa": "x"}, degree=2)
    only.offers.emptied = "x"
    assert [offer.name for offer in only.offers.make("n", ())] == ["xa"]


class Stem(Centre):
    """A broker with a leaf and a branch, which is asked by its parent."""

    def __init__(self, degree: int = 3) -> None:
        super().__init__({"c": None, "x": "c", "leaf": "x", "stem": "x", "twig": "stem"}, "x", degree)

    def pass_on(self, *offers: Offer) -> str | None:
        move = self.balance.pass_on(MoveAway(offers or (Offer("y", ""),)))
        return None if move is None else move[0]


def test_a_broker_with_children_passes_a_request_on_to_each_in_turn_a_leaf_first() -> None:
    stem = Stem()
    asked = []
    for _ in range(3):
        stem.life.now_us += LEASE_US
        asked.append(stem.pass_on())
    assert asked == ["leaf", "stem", "leaf"]


def test_however_often_a_parent_asks_one_request_per_lease_is_passed_on() -> None:
    stem = Stem()
    passed = 0
    for _ in range(100):
        stem.life.now_us += LEASE_US // 10
        passed += stem.pass_on() is not None
    assert passed == 10


def test_a_broker_that_has_too_many_neighbours_itself_passes_nothing_on() -> None:
    assert Stem(degree=2).pass_on() is None


@pytest.mark.parametrize("count", [1, OFFERED_MAX, 100])
def test_no_more_offers_are_passed_on_than_are_looked_at(count: int) -> None:
    stem = Stem()
    move = stem.balance.pass_on(MoveAway(tuple([Offer(f"y{number}", "") for number in range(count)])))
    assert move is not None and len(move[1].offers) == min(count, OFFERED_MAX)
