"""Causal broadcast: what comes too early waits, headers are those of the thesis, calm runs are clean."""

from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.core.contract import Hold, LinkDown, Release, Retire
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Publish, Unsubscribe, Unsubscribed
from resprout.scenario.draw import draw_scenario
from resprout.sim.run import run_scenario
from resprout.spread.messages import Interested
from resprout_lab.blocks.causal_order import VectorClock
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.multicast.messages import GroupsTold
from resprout_lab.cbcast import CBCAST, broker
from resprout_lab.cbcast.broker import CausalOrder, Multicast
from tests.edge.desk import Desk
from tests.soak import cases
from tests.stacks.multicast_net import ANSWER, FIRST, SECOND, Carried, OneBroker, message, row

# -- order -------------------------------------------------------------------------------------------------------------


def test_whatever_order_links_bring_readers_see_causal_order_over_all_topics() -> None:
    for seed in range(cases(6, 20)):
        net = Carried(seed)
        net.run_out_of_order()
        assert net.too_early() == [], f"seed {seed}"
        assert all(sorted(read) == sorted(net.past) for read in net.read.values()), "everything, once"


def test_without_the_hold_back_the_same_links_break_causal_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CausalOrder, "missing", lambda self, arrival: None)
    nets = [Carried(seed) for seed in range(cases(6, 20))]
    for net in nets:
        net.run_out_of_order()
    assert all(net.too_early() for net in nets)


def test_what_depends_on_another_topic_waits_for_it_and_is_passed_on_behind_it() -> None:
    net = OneBroker()
    net.say("b1", ANSWER)
    assert net.shown() == [] and not net.said("b2", Multicast)
    net.say("b1", FIRST)
    assert net.shown() == [("x", 1), ("y", 1)]
    assert [one.sender for one in net.said("b2", Multicast)] == ["b7/1", "b8/1"]


def test_messages_of_one_sender_to_one_group_come_in_order() -> None:
    net = OneBroker()
    net.say("b1", SECOND)
    assert net.shown() == []
    net.say("b2", FIRST)
    assert net.shown() == [("x", 1), ("x", 2)]


def test_a_publication_counts_what_was_shown_before_it_and_only_what_is_new_since_the_last_one() -> None:
    net = OneBroker()
    net.say("b1", SECOND, FIRST)
    for topic in ("t", "t", "u"):
        net.publish(topic)
    mine = [one.clocks for one in net.said("b2", Multicast) if one.sender == "b0/1"]
    assert mine == [
        (("t", (("b0/1", 1), ("b7/1", 2))),),
        (("t", (("b0/1", 2),)),),
        (("t", (("b0/1", 2), ("b7/1", 2))), ("u", (("b0/1", 1),))),
    ]


def test_what_weaker_guarantees_ask_for_is_counted_alike() -> None:
    net = OneBroker()
    net.bundles.guarantee = Guarantee.EVENTUAL
    net.publish()
    assert net.said("b1", Multicast)[0].clocks == (("t", (("b0/1", 1),)),)


def test_a_bundle_that_two_members_multicast_is_shown_once_and_counted_twice() -> None:
    net = OneBroker()
    again = message("x", "b8/1", (("t", (("b8/1", 1),)),))
    after = message("z", "b8/1", (("t", (("b8/1", 2),)),))
    net.say("b1", FIRST)
    net.say("b2", again, again, after)
    assert net.shown() == [("x", 1), ("z", 1)]
    assert len(net.said("b1", Multicast)) == 2, "the other members wait for that number, too"


def test_of_a_bundle_that_two_members_multicast_the_one_that_may_be_delivered_first_is_shown() -> None:
    net = OneBroker()
    waits = message("x", "b8/1", (("t", (("b8/1", 1), ("b9/1", 1))),))
    net.say("b1", waits)
    net.say("b2", FIRST, SECOND)
    assert net.shown() == [("x", 1), ("x", 2)], "the second must not come without the first"
    net.say("b2", message("y", "b9/1", (("t", (("b9/1", 1),)),)))
    assert net.shown() == [("x", 1), ("x", 2), ("y", 1)]


def test_a_client_that_publishes_again_what_came_another_way_is_told_that_it_is_safe() -> None:
    net = OneBroker()
    bundle = net.bundles.bundle("p")
    net.say("b1", Multicast(bundle, 1, "b7/1", (), (("t", (("b7/1", 1),)),)))
    net.say("p", Publish(bundle))
    assert net.shown() == [("p", 1)] and not net.said("b1", Multicast)
    assert [one.sender for one in net.said("b2", Multicast)] == ["b7/1"]


def test_who_unsubscribes_while_something_is_held_back_is_not_shown_it_after_that() -> None:
    net = OneBroker()
    net.say("b1", SECOND)
    net.say("s", Unsubscribe(1))
    net.say("b1", FIRST)
    assert net.said("s", Unsubscribed) and net.shown() == []


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_headers_are_as_large_as_in_the_thesis() -> None:
    assert message("x", "1", (("t", (("1", 1),)),)).paper_bytes == 12, "G1[1:1]"
    clock = VectorClock()
    for member in range(1_024):
        clock.tick("t", f"b{member}")
    assert message("x", "b0", clock.since(0)).paper_bytes == 4 + 8 * 1_024


def test_a_sender_that_nobody_answers_has_headers_of_twelve_bytes_for_ever() -> None:
    net = OneBroker()
    for _ in range(5):
        net.publish()
    assert [one.paper_bytes for one in net.said("b1", Multicast)] == [12] * 5


def test_a_header_that_fits_into_no_message_costs_the_publisher_its_session_and_counts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker, "HEADER_MAX", 60)
    net = OneBroker()
    net.say("b1", message("x", "b7/1", (("t", (("b7/1", 9), ("b8/1", 9))),), 0, 1))
    net.publish()
    assert net.closed == {"p": "more has changed since the last message to 't' than a message can say"}
    assert not net.said("b1", Multicast) and net.shown() == [("x", 1)]


# -- groups ------------------------------------------------------------------------------------------------------------


def told(net: OneBroker, **wanted: str) -> None:
    """Neighbours say what is wanted behind them, and that this is all."""
    for name in ("b1", "b2"):
        if name in wanted:
            net.say(name, Interested(1, wanted[name], None))
        net.say(name, GroupsTold())


def test_a_publication_goes_only_where_its_topic_is_wanted() -> None:
    net = OneBroker()
    net.publish("t")
    told(net, b1="t", b2="u")
    net.publish("t")
    net.say("b1", Progress(2, 0, 0))
    net.publish("u")
    assert [one.bundle.topic for one in net.said("b1", Multicast)] == ["t", "t"]
    assert [one.bundle.topic for one in net.said("b2", Multicast)] == ["t", "u"], "at first everything"


def test_a_publication_that_is_wanted_nowhere_else_goes_to_one_neighbour_for_a_second_copy() -> None:
    net = OneBroker()
    told(net)
    net.publish("t")
    assert len(net.said("b1", Multicast)) == 1 and not net.said("b2", Multicast)


def test_what_did_not_go_over_a_link_is_marked_once_and_not_waited_for() -> None:
    net = OneBroker()
    told(net, b2="u")
    net.say("b1", FIRST, SECOND)
    for _ in range(2):
        net.publish("u")
    first, second = net.said("b2", Multicast)
    assert first.clocks == (("t", (("b7/1", 2),)), ("u", (("b0/1", 1),))) and first.skipped == (0,)
    assert second.clocks == (("u", (("b0/1", 2),)),) and second.skipped == ()

    other = OneBroker()
    other.say("b1", message("p", "b0/9", (*first.clocks[:1], ("u", (("b0/9", 1),))), *first.skipped, topic="u"))
    assert other.shown() == [("p", 1)]


def test_a_member_that_joins_a_group_late_does_not_wait_for_what_was_before() -> None:
    net = OneBroker()
    told(net)
    for _ in range(3):
        net.publish("t")
    net.say("b1", Progress(3, 0, 0))
    net.say("b2", Interested(1, "t", None))
    net.publish("t")
    assert [(one.bundle.first, one.skipped) for one in net.said("b2", Multicast)] == [(4, (0,))]


def test_clocks_name_groups_that_the_sender_is_not_in_only_if_a_header_did() -> None:
    net = OneBroker()
    told(net, b2="u")
    net.say("b1", message("y", "b8/1", (("u", (("b8/1", 1),)), ("v", (("b9/1", 4),))), 1, topic="u"))
    net.publish("u")
    mine = [one for one in net.said("b2", Multicast) if one.sender == "b0/1"]
    assert mine[0].clocks == (("u", (("b0/1", 1), ("b8/1", 1))), ("v", (("b9/1", 4),)))


# -- room --------------------------------------------------------------------------------------------------------------


def test_what_is_held_back_counts_against_the_neighbour_that_brought_it() -> None:
    net = OneBroker(buffer=3)
    late = [message("x", "b7/1", (("t", (("b7/1", no),)),), first=no) for no in range(2, 7)]
    net.say("b1", *late)
    assert [effect.peer for effect in net.effects if isinstance(effect, Hold)] == ["b1"]
    net.step(LinkDown("s", "gone"))
    net.say("b2", FIRST)
    assert [effect.peer for effect in net.effects if isinstance(effect, Release)] == ["b1"]


def test_a_broker_that_is_brought_more_than_it_can_hold_back_begins_anew() -> None:
    net = OneBroker(held_back=1)
    net.say("b1", SECOND, message("x", "b7/1", (("t", (("b7/1", 3),)),), first=3))
    told = [effect.reason for effect in net.effects if isinstance(effect, Retire)]
    assert told == ["too much that cannot be delivered waits here"]


# -- a calm network ----------------------------------------------------------------------------------------------------


def test_drawn_networks_without_faults_are_clean() -> None:
    for seed in range(cases(4, 12)):
        result = run_scenario(draw_scenario(seed, stack="cbcast", guarantees=CBCAST.guarantees, options={}))
        verdict = judge(result.rows, promise=CBCAST.promise())
        assert result.ended == "quiescent" and not verdict.violated, f"seed {seed}: {verdict.anomalies[:3]}"


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_total_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError) as error:
        row(guarantee="total")
    assert str(error.value).endswith("does not offer 'total'; it offers eventual, fifo, causal")
    assert "\n" not in str(error.value)
    desk = Desk("cbcast")
    desk.serve("c")
    desk.guarantee = Guarantee.TOTAL
    desk.publish("c")
    assert desk.closed == {"c": "the stack 'cbcast' does not offer 'total'; it offers eventual, fifo, causal"}


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"buffer": 0}, {"held_back": 0}, {"faults_tolerated": 1}):
        with pytest.raises(UsageError):
            CBCAST.parse_options(bad)


@pytest.mark.parametrize(
    "wrong",
    [
        message("x", "b7/1", ()),
        message("x", "b7/1", (("u", (("b7/1", 1),)),)),
        message("x", "b7/1", (("t", (("b7/1", 0),)),)),
        message("x", "b7/1", (("t", (("b7/1", 1 << 60),)),)),
        message("x", "b0/1", (("t", (("b0/1", 7),)),)),
        message("x", "b7/1", (("t", (("b0/1", 7), ("b7/1", 1))),), 0),
        message("x", "b7/1", (("t", (("b7/1", 1),)),), 1),
    ],
)
def test_a_neighbour_whose_clocks_cannot_be_is_cut_off(wrong: Any) -> None:
    net = OneBroker()
    net.say("b1", wrong)
    net.publish()
    assert list(net.closed) == ["b1"] and not net.said("b1", Multicast)
    assert [one.clocks for one in net.said("b2", Multicast)] == [(("t", (("b0/1", 1),)),)]
