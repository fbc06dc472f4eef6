"""HyParView: views that are the same from both ends, and an overlay that hangs together whatever fails."""

import random
from typing import Any

import pytest

from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.overlay.hyparview.membership import (
    HyParView,
    NeighbourDown,
    NeighbourUp,
    ShuffleDue,
)  # fmt: skip
from resprout.overlay.hyparview.messages import (
    ForwardJoin,
    JoinOverlay,
    NeighbourAnswer,
    NeighbourDropped,
    NeighbourRequest,
    Shuffle,
    ShuffleReply,
)  # fmt: skip
from resprout.overlay.hyparview.options import SAMPLE_MAX, TTL_MAX, ViewOptions
from resprout.overlay.hyparview.requests import ASKED_MAX, AskedTooLong
from resprout.overlay.hyparview.views import Views
from resprout.overlay.wires import OverlayMember
from tests.overlay.hyparview_net import Members

# -- many of them ------------------------------------------------------------------------------------------------------


def test_a_thousand_members_hang_together_after_three_in_ten_fail_at_once() -> None:
    net = Members(seed=7)
    net.grow(1_000, every_us=4_000)
    net.pass_time(4_000_000)
    assert net.components() == [1_000]
    assert max(net.degrees()) == 5 and net.degrees()[5] > 950, net.degrees()
    net.kill(net.rng.sample(list(net.living), 300))
    assert net.one_sided(), "they are missed before they are replaced"
    net.pass_time(4_000_000)
    net.rest()
    assert net.components() == [700] and net.one_sided() == []
    assert max(net.degrees()) == 5 and net.degrees()[5] > 650, net.degrees()


def test_without_those_it_only_knows_of_a_network_falls_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Views, "add_passive", lambda self, member, told=(): None)
    net = Members(seed=7)
    net.grow(150)
    net.kill(["m0", *net.rng.sample(list(net.living)[1:], 74)])
    net.pass_time(4_000_000)
    assert len(net.components()) > 1


def test_views_are_the_same_from_both_ends_whatever_comes_and_goes() -> None:
    for seed in range(12):
        net, made = Members(seed), 40
        net.grow(made, every_us=3_000)
        for _ in range(25):
            if net.rng.random() < 0.5:
                net.join(f"m{made}", net.rng.choice(list(net.living)), "m0")
                made += 1
            else:
                net.kill([net.rng.choice(list(net.living)[1:])])
            net.pass_time(net.rng.choice((0, 5_000, 200_000)))
        net.pass_time(6_000_000)
        net.rest()
        assert net.one_sided() == [], f"seed {seed}"
        assert net.components() == [len(net.living)], f"seed {seed}"
        assert all(list(member.linked) == list(member.overlay.neighbours) for member in net.living.values())


def test_two_halves_find_each_other_when_the_network_heals() -> None:
    net = Members(seed=3)
    net.grow(60)
    net.pass_time(2_000_000)
    net.part(list(net.living)[:30])
    net.pass_time(30_000_000)
    assert net.components() == [30, 30]
    net.cut = frozenset()
    net.pass_time(10_000_000)
    net.rest()
    assert net.components() == [60] and net.one_sided() == []


def test_whoever_is_alone_comes_back_when_its_contact_does() -> None:
    net = Members(seed=5)
    net.join("a")
    net.join("b", "a")
    net.pass_time(1_000_000)
    net.kill(["a"])
    net.pass_time(10_000_000)
    assert net.components() == [1]
    net.join("a")
    net.pass_time(3_000_000)
    assert net.components() == [2]


def test_everybody_may_join_by_one_contact_at_the_same_time() -> None:
    net = Members(seed=9)
    net.join("m0")
    for no in range(1, 100):
        net.join(f"m{no}", "m0")
    net.pass_time(4_000_000)
    net.rest()
    assert net.components() == [100] and net.one_sided() == []


def test_shuffles_replace_the_dead_among_those_that_are_only_known() -> None:
    net = Members(seed=4)
    net.grow(200)
    net.kill(net.rng.sample(list(net.living), 60))
    net.pass_time(1_000_000)
    before = _known_dead(net)
    net.pass_time(60_000_000)
    assert _known_dead(net) < before / 2


def _known_dead(net: Members) -> int:
    return sum(name not in net.living for member in net.living.values() for name in member.overlay.views.passive)


def test_newcomers_wait_for_a_contact_that_is_not_in_the_overlay_itself() -> None:
    net = Members(seed=6)
    for no in range(9, 0, -1):
        net.join(f"m{no}", f"m{no - 1}")
    net.join("m0")
    net.pass_time(1_000_000)
    net.rest()
    assert net.components() == [10] and net.degrees()[1] == 0, "the last of the chain has heard of others, too"


def test_two_that_know_only_each_other_do_not_wait_for_ever() -> None:
    net = Members(seed=6)
    net.join("a", "b")
    net.join("b", "a")
    net.join("c", "a")
    net.pass_time(5_000_000)
    assert net.components() == [3]


# -- one of them -------------------------------------------------------------------------------------------------------


class Alone:
    """A member that others speak to by hand."""

    def __init__(self, *contacts: str, **options: int) -> None:
        self.said: list[tuple[str, Any]] = []
        self.told: list[Outcome] = []
        self.timers: dict[Timer, None] = {}
        self.overlay = HyParView(OverlayMember("me", "here"), contacts, ViewOptions(**options), random.Random(1), self)
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
    me.overlay.gone("a", lives=False)
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


def test_a_neighbour_that_fails_is_replaced_by_one_that_is_known() -> None:
    me = Alone()
    me.befriend("a")
    me.hear("a", ShuffleReply((member("x"),)))
    me.overlay.gone("a", lives=False)
    assert me.said[-1] == ("x", NeighbourRequest(1, "here", True, False)), "urgent: it has nobody else"
    me.hear("x", NeighbourAnswer(1, True, "", False))
    assert me.neighbours == ["x"] and list(me.overlay.views.lost) == ["a"]


def test_whoever_was_lost_is_called_again_though_nobody_is_missing() -> None:
    me = Alone(active=2)
    me.befriend("a", "b")
    me.overlay.gone("b", lives=False)
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


@pytest.mark.parametrize("active", [1, 2, 3, 4, 5, 8])
def test_whoever_gives_way_is_not_short_by_that(active: int) -> None:
    """Or nobody would ever come to rest."""
    me, short = Alone(active=active), []
    short.append(me.overlay.views.is_short)
    me.befriend(*(f"n{no}" for no in range(active)))
    short.append(me.overlay.views.is_short)
    me.hear("n0", NeighbourDropped(()))
    short.append(me.overlay.views.is_short)
    assert short == [True, False, active == 1]


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
        me.overlay.gone(f"n{no}", lives=False)
    assert len(me.overlay.views.passive) == 30 and len(me.overlay.views.lost) <= 30
    for no in range(100):
        me.hear("a", ForwardJoin(member(f"n{no}"), 0))
    assert len(me.overlay.needed) <= 1 + ASKED_MAX


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"active": 0}, {"passive_walk": 7}, {"join_walk": 99}, {"shuffle_passive": 99}):
        with pytest.raises(UsageError):
            ViewOptions(**bad)
