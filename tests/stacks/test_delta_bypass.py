"""Dead brokers of `delta` are passed over, and return; islands and barriers; what is beyond the model."""

import pytest

from resprout.edge.messages import Serving
from resprout.edge.requests import SessionLost
from resprout.sim.swarm import try_seed
from resprout_lab.delta import DELTA, recovery
from resprout_lab.delta.messages import (
    MeetRequest,
    RoutedHeal,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    SyncSnapshot,
)  # fmt: skip
from resprout_lab.delta.operations import DeltaOptions
from resprout_lab.delta.publishing import PublishOperation
from resprout_lab.delta.returning import ReturnOver
from resprout_lab.delta.tree import KnownTree
from tests.stacks.asking import ask
from tests.stacks.delta_net import DeltaNet, chain, crash, recover, row, rules, strike

ROW = [f"b{no}" for no in range(5)]
BUSY = row(operations=40)
B3_B4 = ["b3", "b4"]


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROW)
def test_a_broker_that_dies_is_passed_over_and_nothing_is_lost(name: str) -> None:
    assert not rules(strike(BUSY, crash(name)))


@pytest.mark.parametrize("name", ROW)
@pytest.mark.parametrize("after_us", [1, 40_000, 2_000_000])
def test_a_broker_that_returns_is_told_what_it_missed_and_nothing_is_lost(name: str, after_us: int) -> None:
    assert not rules(strike(BUSY, crash(name), recover(name, at_us=1_200_000 + after_us)))


def test_two_in_a_row_are_passed_over_with_delta_two_and_return_as_a_chain() -> None:
    scenario = row(operations=40, brokers=6, options="delta = 2")
    assert not rules(strike(scenario, crash("b2", "b3")))
    assert not rules(strike(scenario, crash("b2", "b3"), recover("b2", "b3")))
    assert not rules(strike(scenario, crash("b2", "b3"), recover("b3"), recover("b2", at_us=1_380_000)))


def test_without_calling_those_beyond_the_dead_the_judge_complains_or_the_run_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KnownTree, "look_beyond", lambda self: None)
    assert rules(strike(BUSY, crash("b2")))


def test_two_dead_in_a_row_are_beyond_delta_one_and_the_judge_says_so() -> None:
    assert "lost" in rules(strike(BUSY, crash("b1", "b2")))
    assert DELTA.survives(DeltaOptions()).faults == 1, "it never said that it would survive this"


# -- clients of the dead -----------------------------------------------------------------------------------------------


def test_clients_of_a_dead_broker_go_on_at_another_one_and_miss_nothing() -> None:
    told = ask(strike(BUSY, crash("b4")), (), ())
    assert not told.news(SessionLost, "c4")
    last = [one.seq for one in told.rows if one.kind == "deliver" and one.node == "c0" and one.publisher == "c4"]
    assert last == list(range(1, 41)), "all that it publishes comes, once, in order"


def test_a_client_is_served_elsewhere_when_its_broker_is_known_to_be_dead() -> None:
    net = DeltaNet(chain("b0", "b1", "b2"))
    net.attach("c", "b1", tried=("b0",), home=1)
    assert not is_served(net, "c")
    net.crash("b0")
    assert is_served(net, "c")


def test_what_a_dead_broker_sent_to_one_neighbour_only_reaches_the_others_even_if_its_publisher_is_gone() -> None:
    net = orphaned()
    net.crash("b0")
    net.settle()
    assert net.read("r1") == net.read("r2") == [("p", 1)]


def test_without_adoption_what_only_one_neighbour_has_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublishOperation, "adopt", lambda self: None)
    net = orphaned()
    net.crash("b0")
    net.settle()
    assert net.read("r1") == [("p", 1)] and not net.read("r2")


def orphaned() -> DeltaNet:
    """A publication of `p` at `b0` is at `b1`, and on its way to `b2`."""
    net = DeltaNet({"b0": None, "b1": "b0", "b2": "b0"})
    for client, broker in (("p", "b0"), ("r1", "b1"), ("r2", "b2")):
        net.attach(client, broker)
    net.subscribe("r1")
    net.subscribe("r2")
    net.settle()
    net.stop("b0", "b2")
    net.publish("p")
    net.settle()
    net.stopped.clear()
    return net


def test_what_a_client_publishes_again_elsewhere_is_shown_once_and_in_order() -> None:
    net = orphaned()
    net.publish("p")
    net.crash("b0")
    net.settle()
    net.attach("p", "b1", tried=("b0",), home=1)
    for first in (1, 2, 3):
        net.publish("p", first=first)
    net.settle()
    assert net.read("r1") == net.read("r2") == [("p", 1), ("p", 2), ("p", 3)] and net.safe("p") == 3


def is_served(net: DeltaNet, client: str) -> bool:
    return any(isinstance(one, Serving) for one in net.told.get(client, []))


# -- recovery ----------------------------------------------------------------------------------------------------------


def standing(*names: str, **options: int) -> DeltaNet:
    """In a row, with a reader at each end."""
    net = DeltaNet(chain(*names), **options)
    for name in (names[0], names[-1]):
        net.attach(f"c{name}", name)
        net.subscribe(f"c{name}")
    net.settle()
    return net


def test_a_recovering_broker_passes_on_what_is_guided_and_confirms_it_when_it_knows_enough() -> None:
    net = standing("b0", "b1", "b2", "b3")
    net.crash("b1")
    net.settle()
    net.stop("b2", "b1")  # its answer takes long
    net.start("b1")
    net.settle()
    net.publish("cb0")
    net.settle()
    guided = net.between("b0", "b1", RoutedPublication)[-1]
    assert guided.to == (("b2",),), "as far as b0 knows the tree"
    assert net.safe("cb0") == 0 and not net.read("cb3")
    net.stopped.clear()
    net.settle()
    assert net.read("cb3") == [("cb0", 1)] and net.safe("cb0") == 1
    net.publish("cb0")
    assert net.between("b0", "b1", RoutedPublication)[-1].to is None, "it knows by itself now"


def test_a_chain_of_recovering_brokers_learns_from_its_living_ends() -> None:
    net = standing("b0", "b1", "b2", "b3", delta=2)
    net.crash("b1", "b2")
    net.settle()
    net.stop("b3", "b2")
    net.start("b1")
    net.start("b2")
    net.settle()
    assert not net.between("b2", "b1", SyncSnapshot), "it has nothing to tell yet"
    net.stopped.clear()
    net.settle()
    (told,) = net.between("b2", "b1", SyncSnapshot)
    assert [one.id.name for one in told.subscriptions] == ["b3"]
    net.publish("cb0")
    net.settle()
    assert net.read("cb3") == [("cb0", 1)] and net.safe("cb0") == 1


def test_a_broker_is_operational_when_everybody_nearby_knows_that_it_is_back() -> None:
    net = standing("b0", "b1", "b2", "b3")
    net.crash("b1")
    net.settle()
    net.stop("b3", "b2")
    net.start("b1")
    net.settle()
    net.attach("c", "b1")
    assert net.between("b2", "b3", RoutedRejoin) and not is_served(net, "c")
    net.stopped.clear()
    net.settle()
    assert is_served(net, "c")


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        pytest.param(97100080, "faults", id="a newcomer whose parent is silent asks another broker"),
        pytest.param(97100095, "groups", id="what an earlier life had numbered comes after the broker is back"),
        pytest.param(313000054, "faults", id="a client that is back waits for what its earlier life has published"),
        pytest.param(310300027, "faults", id="what was published between the return of a broker and that of a client"),
        pytest.param(313000080, "faults", id="who was suspected before its place was known is passed over"),
    ],
)
def test_found_by_the_swarm(seed: int, drawn: str) -> None:
    outcome = try_seed(seed, drawn, "delta")
    assert not outcome.failed, outcome.report


def test_a_snapshot_of_many_subscriptions_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "SNAPSHOT_PART", 160)
    net = DeltaNet(chain("b0"))
    net.attach("r", "b0")
    for no in range(5):
        net.subscribe("r", f"t/{no}", id=no)
    net.add("b1", "b0")
    net.settle()
    assert [len(one.subscriptions) for one in net.between("b0", "b1", SyncSnapshot)] == [2, 2, 1]
    net.attach("p", "b1")
    for no in range(5):
        net.publish("p", f"t/{no}")
    net.settle()
    assert [first for _, first in net.read("r")] == [1, 2, 3, 4, 5]


def test_what_earlier_lives_of_a_broker_wanted_is_withdrawn_when_nothing_is_kept_for_their_clients() -> None:
    net = standing("b0", "b1", "b2", "b3", "b4")
    net.crash("b4")
    net.settle()
    net.start("b4")
    net.settle()
    net.fire("b4", ReturnOver("b4", 0))
    net.settle()
    net.publish("cb0")
    net.settle()
    assert not net.between("b1", "b2", RoutedPublication), "nobody wants it any more; b1 has a second copy"


def test_a_broker_that_returns_while_all_that_knew_its_place_are_gone_waits() -> None:
    net = standing("b0", "b1")
    net.crash("b0", "b1")
    net.start("b1")
    net.settle()
    net.attach("c", "b1")
    assert not is_served(net, "c")


def test_a_child_that_asks_a_recovering_broker_is_taken_in_when_that_one_knows_where_it_stands() -> None:
    """It is one of the contacts that the broker has called, and it is still needed."""
    net = standing("b0", "b1")
    net.crash("b1")
    net.add("j", "b1")
    net.stop("b0", "b1")
    net.start("b1")
    net.settle()
    net.closed.clear()
    net.stopped.clear()
    net.settle()
    assert not net.closed
    net.attach("cj", "j")
    net.subscribe("cj")
    net.settle()
    net.publish("cb0")
    net.settle()
    assert net.read("cj") == [("cb0", 1)]


def test_a_newcomer_whose_parent_dies_before_others_have_heard_of_it_is_believed_where_it_stands() -> None:
    net = standing("b0", "b1", "b2")
    net.stop("b1", "b0")
    net.stop("b1", "b2")
    net.add("j", "b1")
    net.settle()
    net.crash("b1")
    net.stopped.clear()
    net.settle()
    net.attach("cj", "j")
    net.subscribe("cj")
    net.settle()
    net.publish("cb0")
    net.settle()
    assert net.read("cj") == net.read("cb2") == [("cb0", 1)] and net.safe("cb0") == 1


# -- islands and barriers ----------------------------------------------------------------------------------------------


def test_a_subscription_goes_around_an_island_without_a_mark_and_the_island_is_told_when_it_is_back() -> None:
    net = standing("b0", "b1", "b2", "b3")
    net.crash("b1")
    net.settle()
    net.attach("late", "b3")
    net.subscribe("late", "u")
    net.settle()
    assert net.is_subscribed("late") and net.between("b2", "b0", RoutedSubscription)
    net.start("b1")
    net.settle()
    net.attach("p", "b1")
    net.publish("p", "u")
    net.settle()
    assert net.read("late") == [("p", 1)]


def divided() -> DeltaNet:
    """Two of six in a row are dead, with delta 1; `late`, at one side, has subscribed meanwhile."""
    net = standing("b0", "b1", "b2", "b3", "b4", "b5")
    net.attach("p", "b5")
    net.attach("late", "b0")
    net.settle()
    net.crash("b2", "b3")
    net.settle()
    net.subscribe("late", "+")
    net.settle()
    return net


def test_a_subscription_that_meets_a_barrier_is_confirmed_with_its_name() -> None:
    net = divided()
    assert net.is_subscribed("late")
    told = [one for *_, one in net.said if getattr(one, "barriers", ()) and not isinstance(one, RoutedPublication)]
    assert told[-1].barriers[0][1] == (("b2", "b3"),)


def test_when_a_barrier_opens_what_was_kept_is_sent_beyond_and_the_barrier_is_over() -> None:
    net = divided()
    net.start("b2")
    net.start("b3")
    net.settle()
    assert any(isinstance(one, RoutedHeal) for *_, one in net.said)
    for topic in ("u", "t"):
        net.publish("p", topic)
    net.settle()
    assert net.read("late") == [("p", 1), ("p", 2)] and net.safe("p") == 2


def test_what_was_withdrawn_before_a_barrier_opens_is_never_asked_beyond_it() -> None:
    net = divided()
    net.unsubscribe("late")
    net.settle()
    net.said.clear()
    net.start("b2")
    net.start("b3")
    net.settle()
    assert not [one for one in net.between("b3", "b4", RoutedSubscription) if one.wish.filter == "+"]
    net.publish("p", "u")
    net.settle()
    assert not net.read("late") and net.safe("p") == 1


def test_before_a_barrier_is_over_nobody_is_shown_what_may_have_passed_brokers_that_do_not_know_it() -> None:
    net = divided()
    net.start("b2")
    net.start("b3")
    net.settle(
        until=lambda: any(isinstance(one, RoutedSubscription) for *names, one in net.on_the_way if names == B3_B4)
    )
    net.stop("b3", "b4")  # what `late` wants takes long to get there
    net.publish("p", "u")
    net.publish("p", "t")
    net.settle()
    marked = net.between("b1", "b0", RoutedPublication)
    assert [(one.bundle.first, one.barriers) for one in marked] == [(2, (("b2", "b3"),))]
    assert net.read("cb0") == [("p", 2)], "this one was confirmed before there was a barrier"
    assert not net.read("late"), "not the second without the first"


def test_a_barrier_hides_nothing_from_another_subscription_of_the_same_client() -> None:
    net = divided()
    net.subscribe("cb0", "v", id=2)  # unrelated to what it had before the barrier
    net.settle()
    net.start("b2")
    net.start("b3")
    net.settle(
        until=lambda: any(isinstance(one, RoutedSubscription) for *names, one in net.on_the_way if names == B3_B4)
    )
    net.stop("b3", "b4")
    net.publish("p", "t")
    net.settle()
    (marked,) = net.between("b1", "b0", RoutedPublication)
    assert marked.barriers == (("b2", "b3"),)
    assert net.read("cb0") == [("p", 1)], "its subscription to t was confirmed before there was a barrier"


def test_who_is_met_around_the_dead_is_told_of_whom() -> None:
    net = standing("b0", "b1", "b2")
    net.crash("b1")
    net.settle()
    (met,) = net.between("b0", "b2", MeetRequest)
    assert [(life.name, life.incarnation) for life in met.between] == [("b1", 1)]


def test_a_message_that_waits_for_the_window_of_its_publisher_is_still_on_its_way() -> None:
    """Window 1 and a round trip of 1.2 s: a message was accepted 10.7 s before the broker of a reader died, and left
    the publisher's broker after that. The swarm took it for a message that the dead broker had had."""
    outcome = try_seed(97100062, stack="delta")
    assert not outcome.complaint, outcome.report
