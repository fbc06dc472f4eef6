"""One member of a HyParView overlay, with hands on its wires."""

import random
from typing import Any

import pytest

from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.errors import PeerError, UsageError
from resprout_lab.blocks.mesh import OverlayMember
from resprout_lab.gossip.hyparview import (
    ASKED_MAX,
    AskedTooLong,
    HyParView,
    NeighbourDown,
    NeighbourUp,
    ShuffleDue,
)  # fmt: skip
from resprout_lab.gossip.hyparview_messages import (
    ForwardJoin,
    JoinOverlay,
    NeighbourAnswer,
    NeighbourDropped,
    NeighbourRequest,
    Shuffle,
    ShuffleReply,
)  # fmt: skip
from resprout_lab.gossip.options import SAMPLE_MAX, TTL_MAX, ViewOptions


class Alone:
    """A member that others speak to by hand."""

    def __init__(self, *contacts: str, name: str = "me", **options: int) -> None:
        self.said: list[tuple[str, Any]] = []
        self.told: list[Outcome] = []
        self.timers: dict[Timer, None] = {}
        self.overlay = HyParView(OverlayMember(name, "here"), contacts, ViewOptions(**options), random.Random(1), self)
        self.overlay.begin()

    def say(self, member: OverlayMember, message: ProtocolMessage) -> None:
        self.said.append((member.name, message))

    def wake(self, timer: Timer, after_us: int) -> None:
        self.timers[timer] = None

    def let_sleep(self, timer: Timer) -> None:
        self.timers.pop(timer, None)

    def tell(self, outcome: Outcome) -> None:
        self.told.append(outcome)

    def hear(self, name: str, *messages: Any) -> list[tuple[str, Any]]:
        """What it says to that."""
        before = len(self.said)
        for message in messages:
            self.overlay.hear(name, message)
        return self.said[before:]

    def befriend(self, *names: str) -> None:
        for name in names:
            self.hear(name, NeighbourRequest(1, "", False, False))

    @property
    def neighbours(self) -> list[str]:
        return list(self.overlay.neighbours)


def member(name: str) -> OverlayMember:
    return OverlayMember(name)


def test_whoever_joins_asks_its_contact_and_is_in_when_that_answers() -> None:
    me = Alone("a", "b")
    assert me.said == [("a", JoinOverlay(1, "here"))] and me.neighbours == []
    me.hear("a", NeighbourAnswer(1, True, "there", False))
    assert me.neighbours == ["a"] and me.told == [NeighbourUp("a")]
    assert list(me.timers) == [ShuffleDue()]


def test_a_contact_that_is_not_there_is_followed_by_the_next() -> None:
    me = Alone("a", "b")
    me.overlay.unreachable("a", lives=False)
    assert me.said[-1] == ("b", JoinOverlay(2, "here"))
    me.overlay.asked_too_long(AskedTooLong("b", 2, False))
    assert me.said[-1][0] == "b", "there is nobody else"


def test_a_contact_takes_a_newcomer_in_any_case_and_tells_the_others() -> None:
    me = Alone(active=2)
    me.befriend("a", "b")
    said = me.hear("n", JoinOverlay(4, "far"))
    (dropped,) = [name for name, message in said if isinstance(message, NeighbourDropped)]
    (left,) = {"a", "b"} - {dropped}
    assert me.neighbours == [left, "n"]
    (told,) = [message for name, message in said if name == "n"]
    assert told.accepted and [other.name for other in told.others] in (["a", "b"], ["b", "a"])
    assert said[-1] == (left, ForwardJoin(OverlayMember("n", "far"), 6))
    assert me.told[-2:] == [NeighbourDown(dropped), NeighbourUp("n")]


def test_the_word_of_a_newcomer_walks_on_is_remembered_and_ends_in_a_request() -> None:
    me = Alone()
    me.befriend("a", "b")
    assert me.hear("a", ForwardJoin(member("n"), 3)) == [("b", ForwardJoin(member("n"), 2))]
    assert list(me.overlay.views.passive) == ["n"]
    assert me.hear("a", ForwardJoin(member("n"), 0)) == [("n", NeighbourRequest(1, "here", False, False))]
    assert me.hear("a", ForwardJoin(member("n"), 0)) == [], "it was asked"
    assert me.hear("a", ForwardJoin(member("me"), 0)) == []


def test_a_full_member_declines_unless_there_is_nobody_else() -> None:
    me = Alone(active=2)
    me.befriend("a", "b")
    assert me.hear("c", NeighbourRequest(8, "", False, True)) == [("c", NeighbourAnswer(8, False, "here", True))]
    said = me.hear("c", NeighbourRequest(9, "", True, False))
    assert said[0] == ("c", NeighbourAnswer(9, True, "here", False))
    assert "c" in me.neighbours and len(me.neighbours) == 2


def test_the_last_place_is_kept_for_whom_it_was_asked_for_unless_a_greater_name_asks() -> None:
    for name, accepted in (("k", False), ("m", True), ("n", True)):
        me = Alone(active=3)
        me.befriend("a", "b", "c")
        me.hear("a", ShuffleReply((member("m"),)))
        me.hear("b", NeighbourDropped((), leaving=True))
        assert me.said[-1] == ("m", NeighbourRequest(1, "here", False, False))
        assert me.hear(name, NeighbourRequest(4, "", False, False)) == [
            (name, NeighbourAnswer(4, accepted, "here", False))
        ]


def test_members_in_a_circle_that_ask_each_other_for_their_last_places_come_to_rest() -> None:
    """Each accepted whom it was asked by, was accepted when its place was taken, withdrew, and was withdrawn from."""
    circle = {name: Alone(name=name, active=2) for name in "abc"}
    for one, asked in (("a", "b"), ("b", "c"), ("c", "a")):
        circle[one].befriend("x", "y")
        circle[one].hear("x", ShuffleReply((member(asked),)))
        circle[one].hear("y", NeighbourDropped((), leaving=True))
        assert circle[one].said[-1] == (asked, NeighbourRequest(1, "here", False, False))
    heard = dict.fromkeys(circle, 2)
    for _ in range(10):  # what all have said comes at the same time
        said = [(one, *what) for one, me in circle.items() for what in me.said[heard[one] :]]
        heard = {one: len(me.said) for one, me in circle.items()}
        for one, other, message in said:
            circle[other].hear(one, message)
    assert not said
    assert {one: me.neighbours for one, me in circle.items()} == {"a": ["x"], "b": ["x", "c"], "c": ["x", "b"]}


def test_a_neighbour_that_fails_is_replaced_by_one_that_is_known() -> None:
    me = Alone()
    me.befriend("a")
    me.hear("a", ShuffleReply((member("x"),)))
    me.overlay.unreachable("a", lives=False)
    assert me.said[-1] == ("x", NeighbourRequest(1, "here", True, False)), "urgent: it has nobody else"
    me.hear("x", NeighbourAnswer(1, True, "", False))
    assert me.neighbours == ["x"] and list(me.overlay.views.lost) == ["a"]


def test_whoever_was_lost_is_called_again_though_nobody_is_missing() -> None:
    me = Alone(active=2)
    me.befriend("a", "b")
    me.overlay.unreachable("b", lives=False)
    me.befriend("c")
    me.overlay.shuffle_due(ShuffleDue())
    assert me.said[-1] == ("b", NeighbourRequest(1, "here", True, True))
    me.hear("b", NeighbourAnswer(1, True, "", True))
    assert "b" in me.neighbours and len(me.neighbours) == 2, "so that parts of a network grow together"


def test_whoever_is_short_of_neighbours_asks_urgently_and_its_contacts_as_well() -> None:
    me = Alone("k", "l")
    me.hear("k", NeighbourAnswer(1, True, "", False, (member("x"),)))
    assert list(me.overlay.views.passive) == ["x"] and len(me.said) == 1, "others are on their way"
    me.overlay.shuffle_due(ShuffleDue())
    assert me.said[-1] == ("x", NeighbourRequest(2, "here", True, True))
    me.hear("x", NeighbourAnswer(2, True, "", True))
    assert me.neighbours == ["k", "x"] and me.said[3:] == [("l", JoinOverlay(3, "here", True))]


@pytest.mark.parametrize("active", [2, 3, 4, 5, 8])
def test_whoever_gives_way_is_not_short_by_that(active: int) -> None:
    """Or nobody would ever come to rest."""
    me, short = Alone(active=active), []
    short.append(me.overlay.views.is_short)
    me.befriend(*(f"n{no}" for no in range(active)))
    short.append(me.overlay.views.is_short)
    me.hear("n0", NeighbourDropped(()))
    short.append(me.overlay.views.is_short)
    assert short == [True, False, False]


def test_who_is_to_be_reached_is_a_neighbour_whoever_gives_way() -> None:
    me = Alone(active=2)
    me.befriend("a", "b")
    me.overlay.reach("x")
    me.overlay.reach("x")
    me.overlay.reach("a")
    assert me.said[2:] == [("x", NeighbourRequest(1, "here", True, False))]
    me.hear("x", NeighbourAnswer(1, True, "there", False))
    assert me.neighbours[1:] == ["x"] and isinstance(me.said[-1][1], NeighbourDropped)


def test_strangers_are_those_that_are_known_and_contacts_but_neither_neighbours_nor_the_lost() -> None:
    me = Alone("k", "l", "a")
    assert len({stranger.name for _ in range(50) if (stranger := me.overlay.stranger())}) == 3
    me.befriend("a")
    me.hear("a", ShuffleReply((member("x"),)))
    me.overlay.unreachable("l", lives=False)
    me.overlay.unreachable("k", lives=False)
    assert me.overlay.views.lost
    assert {stranger.name for _ in range(50) if (stranger := me.overlay.stranger())} == {"x", "l"}
    assert Alone().overlay.stranger() is None


def test_each_that_is_known_is_asked_once_in_a_round_and_again_after_a_shuffle() -> None:
    me = Alone()
    me.befriend("a", "b")
    me.hear("a", ShuffleReply((member("x"), member("y"))))
    me.hear("b", NeighbourDropped(()))
    asked = []
    while isinstance(me.said[-1][1], NeighbourRequest) and me.said[-1][0] not in asked:
        name, request = me.said[-1]
        asked.append(name)
        me.hear(name, NeighbourAnswer(request.number, False, "", False))
    assert sorted(asked) == ["x", "y"]
    me.overlay.shuffle_due(ShuffleDue())
    assert isinstance(me.said[-1][1], NeighbourRequest) and me.said[-1][1].background


def test_an_answer_that_comes_too_late_makes_no_neighbour_of_one_side_only() -> None:
    me = Alone("a")
    me.hear("a", NeighbourRequest(5, "", False, False))
    me.hear("a", NeighbourAnswer(1, True, "", False))
    assert me.neighbours == ["a"] and me.told == [NeighbourUp("a")]
    assert me.hear("b", NeighbourAnswer(7, True, "", False)) == [("b", NeighbourDropped(()))]
    assert me.neighbours == ["a"]


def test_whoever_leaves_says_so_and_is_forgotten() -> None:
    me, you = Alone(), Alone()
    me.befriend("a")
    me.overlay.leave()
    assert me.said[-1] == ("a", NeighbourDropped((), leaving=True)) and me.neighbours == []
    you.befriend("a")
    you.hear("a", NeighbourDropped((), leaving=True))
    assert you.neighbours == [] and not you.overlay.views.passive and not you.overlay.views.lost


def test_one_that_breaks_the_rules_is_replaced_and_not_remembered() -> None:
    me = Alone()
    me.befriend("a")
    me.hear("a", ShuffleReply((member("x"),)))
    me.overlay.forget("a")
    assert me.said[-1][0] == "x" and not me.overlay.views.lost


@pytest.mark.parametrize(
    "wrong",
    [
        ForwardJoin(member("n"), TTL_MAX + 1),
        Shuffle(member("n"), TTL_MAX + 1, ()),
        Shuffle(member("n"), 0, tuple(member(f"x{no}") for no in range(SAMPLE_MAX + 1))),
        ShuffleReply(tuple(member(f"x{no}") for no in range(SAMPLE_MAX + 1))),
        NeighbourDropped(tuple(member(f"x{no}") for no in range(SAMPLE_MAX + 1))),
    ],
)
def test_what_nobody_says_is_refused_and_changes_nothing(wrong: Any) -> None:
    me = Alone()
    me.befriend("a")
    with pytest.raises(PeerError):
        me.hear("a", wrong)
    assert me.neighbours == ["a"] and not me.overlay.views.passive


def test_every_table_has_a_bound() -> None:
    me = Alone()
    me.befriend("a")
    for no in range(100):
        me.hear("a", ShuffleReply(tuple(member(f"x{no}.{i}") for i in range(SAMPLE_MAX))))
        me.hear("a", ForwardJoin(member(f"n{no}"), 0))
        me.overlay.unreachable(f"n{no}", lives=False)
    assert len(me.overlay.views.passive) == 30 and len(me.overlay.views.lost) <= 30
    for no in range(100):
        me.hear("a", ForwardJoin(member(f"n{no}"), 0))
    assert len(me.overlay.needed) <= 1 + ASKED_MAX


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"active": 0}, {"active": 1}, {"passive_walk": 7}, {"join_walk": 99}, {"shuffle_passive": 99}):
        with pytest.raises(UsageError):
            ViewOptions(**bad)
