"""`delta` in calm: recipient sets, confirmations, the window, headers, and what it refuses."""

from itertools import pairwise
from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.overlay.messages import Life
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.recorded import Recorded
from resprout_lab.delta import DELTA
from resprout_lab.delta.messages import (
    KnownSubscription,
    RoutedClaim,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    RoutesConfirmed,
    SubscriptionId,
    VisitedNode,
)  # fmt: skip
from resprout_lab.delta.subscriptions import LocalWishes, source_at
from tests.edge.desk import Desk
from tests.soak import SOAKING, cases
from tests.stacks.delta_net import DeltaNet, chain, row

# -- Table 1 of seed 002 -----------------------------------------------------------------------------------------------

FIGURE_5 = [("P1", "N1"), ("N1", "N2"), ("N1", "N3"), ("S1", "N2"), ("S2", "N2"), ("S3", "N3"), ("S4", "N3")]
TABLE_1 = {
    "P1": ("N1", "N2 N3", "S1 S4", "S1 S4"),
    "N1": ("N2 N3", "S1 S4", "S1 S4", "S1 S4"),
    "N2": ("S1 N1", "S1 N3", "S1 S4", "S1 S4"),
    "N3": ("S4 N1", "S4 N2", "S1 S4", "S1 S4"),
    "S1": ("S1 N2", "S1 N1", "S1 N3", "S1 S4"),
    "S2": ("N2", "S1 N1", "S1 N3", "S1 S4"),
    "S3": ("N3", "S4 N1", "S4 N2", "S1 S4"),
    "S4": ("S4 N3", "S4 N1", "S4 N2", "S1 S4"),
}
"""For delta 0 to 3. Two misprints are corrected: S2 at 0 is printed N1, and N3 at 1 is printed S4 N1."""


def path(start: str, end: str, before: str = "") -> list[str]:
    if start == end:
        return [end]
    beside = [b if a == start else a for a, b in FIGURE_5 if start in (a, b)]
    ways = (path(one, end, start) for one in beside if one != before)
    return next(([start, *way] for way in ways if way), [])


@pytest.mark.parametrize("delta", range(4))
@pytest.mark.parametrize("node", TABLE_1)
def test_recipient_sets_are_those_of_table_1(node: str, delta: int) -> None:
    paths = [path(node, "S1"), path(node, "S4")]
    assert {source_at(way, 0, delta) for way in paths} == set(TABLE_1[node][delta].split())


# -- the two unreliable examples of section 3 --------------------------------------------------------------------------


def confirm_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without confirmations: whoever subscribes is told at once."""
    want = LocalWishes.want

    def promise(self: LocalWishes, client: str, predicate: Any, confirmed: bool = False) -> list[Recorded]:
        want(self, client, predicate, confirmed=True)
        return [Recorded(client, predicate, {})]

    monkeypatch.setattr(LocalWishes, "want", promise)


def example(is_by_topic: bool) -> DeltaNet:
    """S1 and S2 at B1, the publisher at B2. What S1 asks for is on its way for long; by topic, S2 has just withdrawn
    the same."""
    net = DeltaNet(chain("B2", "B1"), delta=0)  # so that nothing is sent for a second copy
    for client, broker in (("P", "B2"), ("S1", "B1"), ("S2", "B1")):
        net.attach(client, broker)
    net.subscribe("S2", "t/#" if is_by_topic else "t/1")
    net.settle()
    net.stop("B1", "B2")
    if is_by_topic:
        net.unsubscribe("S2")
    net.subscribe("S1", "t/#")
    return net


def publish_three(net: DeltaNet, is_by_topic: bool) -> None:
    """The first goes to B1 because of S2; then that one's withdrawal comes to B2; then what S1 asks for."""
    net.publish("P", "t/1")
    net.settle()
    is_last = [isinstance(one[2], RoutedSubscription) for one in net.on_the_way]
    waiting = net.on_the_way[is_last.index(True) :] if any(is_last) else []
    net.on_the_way = net.on_the_way[: len(net.on_the_way) - len(waiting)]
    net.stopped.clear()
    net.settle()
    net.publish("P", "t/1" if is_by_topic else "t/2")
    net.settle()
    net.on_the_way += waiting
    net.settle()
    net.publish("P", "t/1")
    net.settle()


@pytest.mark.parametrize("is_by_topic", [False, True])
def test_without_confirmations_the_second_of_three_publications_is_lost(
    is_by_topic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirm_at_once(monkeypatch)
    net = example(is_by_topic)
    assert net.is_subscribed("S1"), "it relies on all three"
    publish_three(net, is_by_topic)
    assert [first for _, first in net.read("S1")] == [1, 3]


@pytest.mark.parametrize("is_by_topic", [False, True])
def test_with_confirmations_nobody_relies_on_what_may_be_lost(is_by_topic: bool) -> None:
    net = example(is_by_topic)
    assert not net.is_subscribed("S1"), "nothing is promised yet"
    net.stopped.clear()
    net.settle()
    assert net.is_subscribed("S1")
    publish_three(net, is_by_topic)
    assert [first for _, first in net.read("S1")] == [1, 2, 3]


# -- confirmations, and the window -------------------------------------------------------------------------------------


def test_a_publication_is_safe_and_shown_at_home_when_everybody_has_it() -> None:
    net = reading(chain("b0", "b1", "b2", "b3"), "b0", "b3")
    net.stop("b2", "b1")
    net.publish("cb0")
    net.settle()
    assert net.read("cb3") == [("cb0", 1)] and not net.read("cb0") and net.safe("cb0") == 0
    net.stopped.clear()
    net.settle()
    assert net.read("cb0") == [("cb0", 1)] and net.safe("cb0") == 1


def test_what_is_confirmed_out_of_turn_is_shown_and_told_in_turn() -> None:
    net = reading({"b0": None, "b1": "b0", "b2": "b0"}, "b1")
    net.attach("p", "b0")
    net.attach("far", "b2")
    net.subscribe("p", "#")
    net.subscribe("far", "u")
    net.settle()
    net.stop("b1", "b0")
    net.publish("p", "t")
    net.publish("p", "u")
    net.settle()
    assert net.read("far") == [("p", 2)] and not net.read("p") and net.safe("p") == 0
    net.stopped.clear()
    net.settle()
    assert net.read("p") == [("p", 1), ("p", 2)] and net.safe("p") == 2


def test_no_more_of_a_publisher_is_under_way_than_its_window() -> None:
    for window, under_way in ((1, 1), (3, 3), (64, 5)):
        net = reading(chain("b0", "b1"), "b1", window=window)
        net.attach("p", "b0")
        net.settle()
        net.stop("b1", "b0")
        for _ in range(5):
            net.publish("p")
        net.settle()
        assert len(net.between("b0", "b1", RoutedPublication)) == under_way
        net.stopped.clear()
        net.settle()
        assert net.read("cb1") == [("p", first) for first in range(1, 6)] and net.safe("p") == 5


@pytest.mark.parametrize(("brokers", "round_trip_us"), [(15, 6_000), (31, 8_000)])
def test_with_a_window_of_one_there_is_one_publication_per_round_trip_of_the_tree(
    brokers: int, round_trip_us: int
) -> None:
    """511 brokers have eight levels below the root: 62.5 in a second."""
    times = safe_times(brokers, window=1)
    assert {later - sooner for sooner, later in pairwise(times)} == {round_trip_us}


LARGE = [(511, 16_000), (1_023, 18_000)]


@pytest.mark.parametrize(("brokers", "round_trip_us"), LARGE if SOAKING else [(63, 10_000)])
def test_a_round_trip_to_some_of_the_farthest_readers_takes_as_long_as_to_all(brokers: int, round_trip_us: int) -> None:
    """At 1,023 brokers 55.6 in a second: 56,778 deliveries, if everybody else reads them."""
    leaves = [brokers // 2 + no * (brokers + 1) // 16 for no in range(8)]
    readers = [f'[[client]]\nname = "r{no}"\nbroker = "b{no}"\nlatency = "0ms"\nsubscribe = ["g"]' for no in leaves]
    publisher = '[[client]]\nname = "c0"\nbroker = "b0"\nlatency = "0ms"'
    times = safe_times(brokers, window=1, clients_per_broker=0, more="\n".join([publisher, *readers]))
    assert {later - sooner for sooner, later in pairwise(times)} == {round_trip_us}


def test_a_larger_window_is_faster_by_as_much() -> None:
    slow, fast = safe_times(15, window=1), safe_times(15, window=4)
    assert (fast[-1] - fast[0]) * 3 < slow[-1] - slow[0]


def safe_times(brokers: int, window: int, clients_per_broker: int = 1, more: str = "") -> list[int]:
    """When each publication of a client of the root is safe."""
    scenario = parse_scenario(f"""
stack = "delta"
seed = 1
[options]
window = {window}
[topology]
kind = "tree"
brokers = {brokers}
latency = "1ms"
clients_per_broker = {clients_per_broker}
client_latency = "0ms"
subscribe = ["g"]
{more}
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["g"]
operations = 12
mix = {{ fifo = 1.0 }}
interval = "0s"
window = 12
bundle_max = 1
start = "2s"
""")
    rows = run_scenario(scenario).rows
    return [row.time_us for row in rows if row.kind == "receipt" and row.receipt == "safe"]


# -- headers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_a_header_has_eight_bytes_for_each_of_the_last_delta_plus_one_brokers(delta: int) -> None:
    net = reading(chain("b0", "b1", "b2", "b3", "b4"), "b0", "b4", delta=delta)
    net.publish("cb0")
    net.settle()
    headers = [message.paper_bytes for *_, message in net.said if isinstance(message, RoutedPublication)]
    assert headers == [8 * min(hop, delta + 1) for hop in (1, 2, 3, 4)]


def reading(parents: dict[str, str | None], *brokers: str, **options: int) -> DeltaNet:
    """With a client at each of these brokers that reads `t`."""
    net = DeltaNet(parents, **options)
    for name in brokers:
        net.attach(f"c{name}", name)
        net.subscribe(f"c{name}")
    net.settle()
    return net


# -- a calm network, and what it refuses -------------------------------------------------------------------------------


def test_drawn_networks_without_faults_are_clean() -> None:
    for seed in range(cases(4, 12)):
        result = run_scenario(draw_scenario(seed, stack="delta", guarantees=DELTA.guarantees, options={}))
        verdict = judge(result.rows, promise=DELTA.promise())
        assert result.ended == "quiescent" and not verdict.violated, f"seed {seed}: {verdict.anomalies[:3]}"


@pytest.mark.parametrize("guarantee", ["causal", "total"])
def test_causal_and_total_are_refused_in_one_line(guarantee: str) -> None:
    with pytest.raises(UsageError) as error:
        row(mix=f"{guarantee} = 1.0")
    assert str(error.value).endswith(f"does not offer {guarantee!r}; it offers eventual, fifo")
    desk = Desk("delta")
    desk.serve("c")
    desk.guarantee = Guarantee.parse(guarantee)
    desk.publish("c")
    assert desk.closed == {"c": f"the stack 'delta' does not offer {guarantee!r}; it offers eventual, fifo"}


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"buffer": 0}, {"window": 0}, {"delta": -1}, {"delta": 9}, {"faults_tolerated": 1}):
        with pytest.raises(UsageError):
            DELTA.parse_options(bad)


HERE = (VisitedNode("b1", 1, 9),)
ID = SubscriptionId("b1", 1, 9)


@pytest.mark.parametrize(
    "wrong",
    [
        RoutedUnsubscription(7, 1, HERE, None, ID),
        RoutedUnsubscription(1, 1, (), None, ID),
        RoutedUnsubscription(1, 1, HERE * 3, None, ID),
        RoutedUnsubscription(1, 0, HERE, None, ID),
        RoutedUnsubscription(1, 1, HERE, (("b2", "b3", "b4"),), ID),
        RoutedSubscription(1, 1, HERE, None, KnownSubscription(ID, "t/#/u", None, "b1")),
        RoutedSubscription(1, 1, HERE, None, KnownSubscription(ID, "t", None, "b9")),
        RoutedRejoin(1, 1, HERE, None, "b1", ()),
        RoutesConfirmed(3, (), ()),
        RoutesConfirmed(0, ((1, 9),), ()),
        RoutedClaim(1, 1, HERE, None, ID, 1, Life("b1", 1), (), ()),
        Progress(9, 0, 0),
        Progress(0, 0, 9),
    ],
)
def test_a_neighbour_that_says_what_cannot_be_is_cut_off_and_nothing_is_changed(wrong: Any) -> None:
    net = DeltaNet(chain("b0", "b1"))
    place = len([one for *names, one in net.said if names == ["b1", "b0"] and hasattr(one, "visited")])
    if hasattr(wrong, "place") and wrong.place == 1:
        wrong = type(wrong)(*[getattr(wrong, f) if f != "place" else place + 1 for f in wrong.__struct_fields__])
    net.on_the_way.append(("b1", "b0", wrong))
    net.settle()
    assert [(name, peer) for name, peer, _ in net.closed] == [("b0", "b1")]
    net.attach("r", "b1")
    net.attach("p", "b0")
    net.subscribe("r")
    net.settle()
    net.publish("p")
    net.settle()
    assert net.read("r") == [("p", 1)], "the link has begun anew"
