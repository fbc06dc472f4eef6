"""Trees for topics, alone: they grow, they are repaired, they are pruned, and nothing is missed on the way."""

import pytest

from resprout.filters.predicate import parse_predicate
from resprout_lab.scribe.options import TreeOptions
from resprout_lab.scribe.tree import EARLY_MAX, MISSED_TOGETHER
from resprout_lab.scribe.trees import Trees
from resprout_lab.scribe.trees_messages import (
    NOWHERE,
    AskMissed,
    BeatDue,
    JoinOverdue,
    JoinTree,
    LeaveTree,
    Scribed,
    TreeBeat,
    TreeHas,
    TreeJoined,
)
from resprout_lab.scribe.wishes import TopicWishes
from tests.spread.scribe_net import TreeNet, scribed

WAYS = {"a": "root", "b": "a", "c": "b", "d": "a", "e": "root"}
"""c - b - a - root, and d, e beside them."""


def test_a_tree_grows_along_the_ways_and_everybody_in_it_gets_everything_once_and_in_order() -> None:
    net = TreeNet(WAYS)
    net.want("c", "d")
    net.publish(5)
    assert net["c"].got == net["d"].got == [1, 2, 3, 4, 5]
    assert {name: net[name].parent for name in "abcd"} == {"a": "root", "b": "a", "c": "b", "d": "a"}
    assert "t" not in net["e"].trees.places, "nobody there wants it"
    assert len(net.messages(Scribed)) == 5 * 4, "each goes once over each link of the tree"


def test_those_who_only_pass_it_on_are_not_asked_again() -> None:
    net = TreeNet(WAYS)
    net.want("c")
    net.want("d", "b")
    assert [one[:2] for one in net.messages(JoinTree)] == [("c", "b"), ("b", "a"), ("a", "root"), ("d", "a")]


def test_a_wish_is_confirmed_when_there_is_a_way_from_the_root_and_not_before() -> None:
    net = TreeNet(WAYS)
    net["root"].trees.unroot("t")
    net.want("c")
    assert not net.messages(TreeJoined) and net["c"].told == []
    net["root"].trees.root("t", 0)
    net.settle()
    assert net["c"].is_confirmed
    assert [one[:2] for one in net.messages(TreeJoined)] == [("root", "a"), ("a", "b"), ("b", "c")]


def test_who_comes_later_begins_where_its_parent_is_or_from_the_beginning_if_it_wants_that() -> None:
    net = TreeNet(WAYS)
    net.want("a")
    net.publish(3)
    net.want("b")
    net.want("d", after=0)
    net.publish()
    assert net["b"].got == [4] and net["d"].got == [1, 2, 3, 4]


def test_who_passed_it_on_may_go_back_to_the_beginning_and_so_may_the_root() -> None:
    net = TreeNet(WAYS)
    net.want("b")
    net.publish(3)
    for name in ("a", "root"):
        net[name].trees.want("t", 0)
        net[name].trees.rewind("t", 0)
    net.settle()
    net.publish()
    assert net["a"].got == net["root"].got == [1, 2, 3, 4]
    assert net["b"].got == [1, 2, 3, 4], "once"


# -- repair ------------------------------------------------------------------------------------------------------------


def test_whoever_loses_its_parent_finds_another_and_misses_nothing() -> None:
    net = TreeNet(WAYS)
    net.want("c", "d")
    net.publish(2)
    net.ways.update(b="root", d="root")
    net.publish(3, settle=False)
    net.kill("a")
    net.publish(2)
    assert net["c"].got == net["d"].got == [1, 2, 3, 4, 5, 6, 7]
    assert net["b"].parent == "root" and net["c"].parent == "b", "children stay with theirs"


def test_another_root_goes_on_where_the_dead_one_was() -> None:
    net = TreeNet(WAYS)
    net.want("c", "e")
    net.publish(4, settle=False)
    net.on_the_way.clear()
    net.ways.update(a="e", b="a")
    dead = net.members.pop("root")
    net.members["root"] = net.members["e"]  # whoever asks the root asks this one
    for member in net.members.values():
        member.trees.unreachable(dead.name)
    reached = net["e"].trees.root("t", 4)
    for position in range(reached + 1, 5):
        net["e"].trees.spread(net.log[position])
    net.settle()
    net.pass_time(4)
    net.publish(1)
    assert net["c"].got == net["e"].got == [1, 2, 3, 4, 5]


def test_a_sign_of_life_tells_what_is_missing() -> None:
    net = TreeNet(WAYS)
    net.want("c")
    net.publish(2, settle=False)
    net.on_the_way.clear()
    net.pass_time(1)
    assert net["c"].got == [1, 2]


def test_what_was_missed_is_asked_for_in_portions_and_what_comes_meanwhile_waits() -> None:
    net = TreeNet(WAYS)
    net.want("c")
    net.publish(3 * MISSED_TOGETHER, settle=False)
    net.on_the_way.clear()
    net.publish(1)
    net.pass_time(2)
    assert net["c"].got == list(range(1, 3 * MISSED_TOGETHER + 2))
    asked = [one[2] for one in net.messages(AskMissed, "a")]
    assert all(one.upto - one.after <= MISSED_TOGETHER for one in asked) and len(asked) >= 3
    assert all(
        len(member.trees.places["t"].early) <= EARLY_MAX
        for member in net.members.values()
        if "t" in member.trees.places
    )


def test_what_nobody_keeps_any_more_is_skipped_and_told() -> None:
    net = TreeNet(WAYS)
    net.want("c")
    net.publish(5, settle=False)
    net.on_the_way.clear()
    net.watermark = 3
    net.publish(1)
    assert net["c"].got == [4, 5, 6] and net["c"].has_skipped


def test_a_circle_is_left_when_the_root_is_not_heard() -> None:
    """While a ring changes, ways may lead in circles, each of whom believes to be in the tree."""
    net = TreeNet(WAYS)
    net.want("c")
    place = net["a"].trees.places["t"]
    place.parent = "b"
    net["b"].trees.places["t"].children["a"] = None
    net["root"].trees.places["t"].children.clear()
    net.publish(2)
    assert net["c"].got == []
    net.pass_time(8)
    assert net["c"].got == [1, 2] and net["a"].parent == "root"


def test_below_a_root_that_is_one_no_more_nobody_is_told_to_be_in_the_tree_until_there_is_another() -> None:
    net = TreeNet(WAYS)
    net.want("b")
    net["root"].trees.unroot("t")
    net.settle()
    net.want("c", "d")
    assert not any(net[name].trees.is_in("t") for name in "abcd")
    assert not net["c"].told and not net["d"].told
    net.publish()  # by nobody, for now
    net["root"].trees.root("t", 1)
    net["root"].trees.spread(net.log[1])
    net.settle()
    assert all(net[name].trees.is_in("t") for name in "abcd")
    assert net["b"].got == [1]


def test_whoever_loses_its_way_takes_the_one_that_leads_to_the_root_now_and_keeps_those_below() -> None:
    net = TreeNet(WAYS)
    net.want("c")
    net.ways["b"] = "e"
    net["a"].trees.hear("root", TreeJoined("t", NOWHERE))
    net.ways["a"] = "b"  # which was below it
    net.settle()
    net.publish()
    assert (net["b"].parent, net["c"].parent, net["c"].got) == ("e", "b", [1])
    assert "t" not in net["a"].trees.places, "nobody needs it there"


def test_a_sign_of_life_that_crosses_a_new_wish_does_not_end_it() -> None:
    net = TreeNet(WAYS)
    net.want("a")
    net.now_us += 5
    net["root"].trees.beat_due(BeatDue())  # on its way when the child has lost patience, and asks again
    net["a"].trees.beat_due(BeatDue())
    net.settle()
    net.publish()
    assert net["a"].trees.is_in("t") and net["a"].got == [1]


def test_a_root_that_may_be_another_ones_by_now_tells_nobody_to_be_in_the_tree() -> None:
    net = TreeNet(WAYS)
    net.is_sole_root = False
    net.want("c")
    assert not net["c"].trees.is_in("t")
    net.is_sole_root = True
    net.pass_time(2)
    assert net["c"].trees.is_in("t")


def test_whoever_could_not_be_reached_is_asked_as_soon_as_it_can() -> None:
    net = TreeNet(WAYS)
    net["a"].trees.want("t")
    net.on_the_way.clear()
    net["a"].trees.met("root")
    net.settle()
    assert net["a"].trees.is_in("t")


def test_those_who_ask_again_do_not_keep_the_one_that_they_ask_from_asking() -> None:
    net = TreeNet(WAYS)
    net["a"].trees.want("t")
    net["a"].timers.clear()
    net["a"].trees.hear("b", JoinTree("t"))
    assert JoinOverdue("t") not in net["a"].timers, "it is not put off"


def test_two_that_ask_each_other_wait_instead_of_asking_for_ever() -> None:
    net = TreeNet({"a": "b", "b": "a"})
    net["a"].trees.want("t")
    net["b"].trees.want("t")
    net.settle()
    assert len(net.messages(JoinTree)) == 2
    net.ways["a"] = "root"
    net.pass_time(4)
    net.publish()
    assert net["a"].got == net["b"].got == [1]


def test_one_that_cannot_be_reached_is_not_asked_again_at_once() -> None:
    net = TreeNet(WAYS)
    net["a"].trees.want("t")
    net.on_the_way.clear()
    for _ in range(3):
        net["a"].trees.unreachable("root")
    assert len(net.messages(JoinTree)) == 1, "when it is time it is"


# -- pruning -----------------------------------------------------------------------------------------------------------


def test_who_wants_it_no_more_leaves_and_so_do_those_who_only_passed_it_on() -> None:
    net = TreeNet(WAYS)
    net.want("c", "d")
    net["c"].trees.unwant("t")
    net.settle()
    assert "t" not in net["c"].trees.places and "t" not in net["b"].trees.places
    net.publish()
    assert net["d"].got == [1] and len(net.messages(Scribed)) == 2
    net["d"].trees.unwant("t")
    net.settle()
    assert list(net["root"].trees.places["t"].children) == []


def test_whoever_is_given_what_it_left_says_so_again() -> None:
    net = TreeNet(WAYS)
    net["a"].trees.hear("root", scribed(1))
    net["a"].trees.hear("root", TreeJoined("t", 1))
    assert [one[2] for one in net.said] == [LeaveTree("t"), LeaveTree("t")]


def test_members_that_are_needed_are_named() -> None:
    net = TreeNet(WAYS)
    net.want("c")
    assert sorted(net["b"].trees.needed) == ["a", "c"] and list(net["e"].trees.needed) == []


# -- S1 and S2: what the seed has wrong --------------------------------------------------------------------------------


def spread_to(monkeypatch: pytest.MonkeyPatch, name: str, replacement: object) -> TreeNet:
    monkeypatch.setattr(Trees, name, replacement)
    net = TreeNet(WAYS)
    net.want("c", "d")
    net.publish(3)
    return net


def test_s1_a_publication_goes_to_the_children() -> None:
    net = TreeNet(WAYS)
    net.want("c", "d")
    net.publish(3)
    assert sorted(one[1] for one in net.messages(Scribed, "a")) == ["b"] * 3 + ["d"] * 3


def test_s1_given_to_the_parent_twice_and_never_to_children_it_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    net = spread_to(monkeypatch, "_onward", lambda self, place: [place.parent, place.parent] if place.parent else [])
    assert net["c"].got == net["d"].got == []


def test_s2_a_subscription_is_three_steps_each_with_its_state() -> None:
    net = TreeNet(WAYS)
    net.want("d")
    assert net["d"].trees.places["t"].wanted
    assert net["d"].parent == "a"
    assert list(net["a"].trees.places["t"].children) == ["d"]


def test_s2_an_owner_that_does_not_add_the_child_gives_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net = spread_to(monkeypatch, "_adopt", lambda self, place, name: None)
    assert net["c"].got == net["d"].got == []


def test_s2_a_child_that_does_not_note_its_parent_is_never_in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trees, "_attach", lambda self, place, name: None)
    net = TreeNet(WAYS)
    net.want("c")
    net.pass_time(1)
    assert net["c"].parent is None and not net["c"].trees.is_in("t"), "and its wish is never confirmed"


def test_s2_a_subscription_that_is_not_marked_is_shown_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net = TreeNet(WAYS)
    net.want("b", "c")
    net["b"].trees.places["t"].wanted = False
    net.publish()
    assert net["b"].got == [] and net["c"].got == [1]


def test_brokers_that_wait_for_each_other_in_a_ring_do_not_tell_each_other_in_and_out_for_ever() -> None:
    """Found as seed 121085 of `scribe`: a broker froze, ways ran in a ring, and over those links no time passed."""
    net = TreeNet({"a": "b", "b": "c", "c": "a"})
    net.want("a", "b", "c")
    net.on_the_way += [("b", "a", TreeJoined("t", 0)), ("b", "a", TreeJoined("t", NOWHERE))]  # of a way that was
    net.settle()
    assert not any(net[name].parent for name in "abc"), "no way leads from the root to any of them"
    net.ways["c"] = "root"
    net.pass_time(4)
    net.publish(3)
    assert net["a"].got == net["b"].got == net["c"].got == [1, 2, 3]


# -- how far all of it has come ----------------------------------------------------------------------------------------


def test_the_root_hears_how_far_the_whole_tree_has_come_and_not_before() -> None:
    net = TreeNet({"a": "root", "b": "a", "c": "b"})
    net.want("c")
    net.publish(3)
    assert net.floors[-1] == 3 and net["root"].trees.floor("t") == 3
    net.publish(2, settle=False)
    assert net["root"].trees.floor("t") == 3, "nothing has come to anybody below"
    net.settle()
    assert net["root"].trees.floor("t") == 5


def test_who_joins_late_and_wants_what_was_before_holds_the_root_to_it_until_it_has_it() -> None:
    net = TreeNet({"a": "root", "b": "a"})
    net.want("a")
    net.publish(4)
    net["b"].trees.want("t", 0)
    net.settle()
    has = [message.position for source, _, message in net.said if isinstance(message, TreeHas) and source == "a"]
    assert 0 in has and has[-1] == 4 and net["root"].trees.floor("t") == 4


def test_whoever_is_gone_is_waited_for_no_more() -> None:
    net = TreeNet({"a": "root", "b": "root"})
    net.want("a", "b")
    net.publish(1, settle=False)
    net.kill("b")
    assert net["root"].trees.floor("t") == 1


# -- wishes of clients that were elsewhere -----------------------------------------------------------------------------


def test_one_answer_of_how_far_a_topic_has_come_is_for_all_wishes_of_a_client() -> None:
    """What comes between two confirmations of one client is shown to it (seed 146162 of the swarm)."""
    net, asked = TreeNet({"a": "root"}), list[str]()
    wishes = TopicWishes(net["a"].trees, lambda client: True, asked.append)
    predicates = [parse_predicate("t"), parse_predicate("t", "kind = 'b'")]
    for predicate in predicates:
        wishes.want("c", predicate)
    net.settle()
    assert asked == ["t"] and not wishes.look()
    wishes.has_come("t", 5)
    assert [recorded.predicate for recorded in wishes.look()] == predicates and asked == ["t"]
    assert not wishes.shows("c", "t", 5) and wishes.shows("c", "t", 6)


def test_whoever_is_not_in_the_tree_asks_again_soon_and_then_ever_more_rarely() -> None:
    net = TreeNet({"a": "root"})
    net.members["a"].trees = Trees(TreeOptions(retry_us=20, join_us=300), net["a"])
    net["a"].trees.want("t")
    for _ in range(6):
        net["a"].trees.join_overdue(JoinOverdue("t"))
    assert net["a"].waits_us == [20, 40, 80, 160, 300, 300, 300]
    net.settle()
    assert net["a"].is_confirmed
    net["a"].trees.unreachable("root")
    assert net["a"].waits_us[-1] == 20


def test_members_of_a_tree_hear_who_leads_its_topic() -> None:
    net = TreeNet({"a": "root", "b": "a"})
    net["root"].trees.root("t", 0, "root/1@here")
    net.want("a", "b")
    net.settle()
    assert net["b"].roots == ["root/1@here"]


def test_who_joins_a_sleeping_tree_late_waits_for_no_sign_of_life() -> None:
    """Found by the swarm: a member that had missed something was taken for awake when that came, and looked for another
    parent every few seconds."""
    options = TreeOptions(beat_us=1, idle_beats=2, silent_us=3, retry_us=2, join_us=2, report_bytes=1)
    net = TreeNet({"a": "root", "b": "a"})
    for member in net.members.values():
        member.trees = Trees(options, member)
    net["root"].trees.root("t", 0)
    net.want("a")
    net.publish(3)
    net.pass_time(4)
    beats = len(net.messages(TreeBeat))
    net.want("b", after=0)
    net.pass_time(8)
    assert net["b"].got == [1, 2, 3]
    assert len(net.messages(TreeBeat)) == beats and len(net.messages(JoinTree)) == 2
    net.publish()
    net.pass_time(1)
    assert net["b"].got == [1, 2, 3, 4] and len(net.messages(TreeBeat)) > beats
