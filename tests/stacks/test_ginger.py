"""Ginger as a whole: random trees, any single crash, and what its options do. The corrections have their own file."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from resprout.audit.verdict import CLEAN
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Close, LinkUp, Locate, Received, Retire, Send
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Successor
from resprout.links.frames import Data, Goodbye, Hello, SessionWelcome
from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Mix, Scenario
from resprout.sim.run import FaultAtEvent
from resprout.stacks.registry import find_stack
from resprout.stacks.stack import BrokerSeat
from resprout.wire.codec import Codec
from resprout_lab.ginger import GINGER
from resprout_lab.ginger.broker import GingerBroker
from resprout_lab.ginger.messages import (
    GINGER_MESSAGES,
    Contact,
    Metadata,
    NodeGone,
    ParentRequest,
    Progress,
    TotalLock,
    TreeViewUpdate,
)  # fmt: skip
from resprout_lab.ginger.options import GingerOptions
from tests.stacks.ginger_runs import (
    ALL_FOUR,
    WORK_BEGINS_US,
    clients,
    crash,
    crash_points,
    notes,
    play,
    scenario,
    tree,
    work,
)  # fmt: skip

OPTIONS = {
    "total_degree": (2, 3, 1_000),
    "ack_delay_us": (0, 2_000, 20_000),
    "buffer": (5, 100, 10_000),
    "timer_us": (500_000, 2_000_000),
}


def drawn(seed: int) -> Scenario:
    """A tree of any shape with all four guarantees on one or two topics."""
    rng = random.Random(f"ginger {seed}")
    parents: dict[str, str | None] = {"b0": None}
    for no in range(1, rng.randint(2, 8)):
        parents[f"b{no}"] = f"b{rng.randrange(no)}"
    topics = ("a", "b")
    names = list(parents)
    homes = {f"c{no}": rng.choice(names) for no in range(rng.randint(2, 5))}
    guests = tuple(c for n, h in homes.items() for c in clients({n: h}, *rng.choice((("a",), ("b",), topics, ("#",)))))
    mix = rng.choice((ALL_FOUR, Mix(causal=0.5, total=0.5), Mix(total=1.0), Mix(eventual=0.4, causal=0.3, total=0.3)))
    workload = work(
        list(homes),
        *topics,
        mix=mix,
        keys=rng.choice((1, 2, 10)),
        operations=rng.randint(5, 20),
        interval_us=rng.choice((200, 1_000, 4_000)),
        foreign_keys=rng.choice((0.0, 0.3)),
    )
    everyone = clients({"s": rng.choice(names)}, *topics)
    return scenario(
        tree(parents, rng.choice((50, 1_000, 10_000))),
        (*guests, *everyone),
        workload,
        seed=seed,
        total_degree=rng.choice((2, 3, 1_000)),
        buffer=rng.choice((20, 10_000)),
        timer_us=500_000,
    )


@pytest.mark.parametrize("block", range(6))
def test_any_single_crash_loses_doubles_and_reorders_nothing(block: int) -> None:
    """The barrier aside, which is G13."""
    for seed in range(block * 10, block * 10 + 10):
        mortal = drawn(seed)
        rng = random.Random(f"victim {seed}")
        victim = rng.choice(mortal.brokers).name
        moments = crash_points(mortal, victim, 50, host=rng.random() < 0.2)
        play(mortal, [rng.choice(moments)]).check_clean()


@pytest.mark.parametrize("block", range(3))
def test_drawn_scenarios_without_faults_are_clean(block: int) -> None:
    """Content filters, subscriptions that come and go, bursts, slow links."""
    for seed in range(block * 12, block * 12 + 12):
        calm = draw_scenario(
            seed, stack="ginger", guarantees=tuple(Guarantee), options=OPTIONS, brokers_max=7, operations_max=30
        )
        played = play(calm)
        assert not played.anomalies, [anomaly.explanation for anomaly in played.anomalies[:5]]
        assert played.result.ended == "quiescent"


def test_the_same_scenario_gives_the_same_trace() -> None:
    mortal = msgspec.structs.replace(drawn(3), faults=(crash(WORK_BEGINS_US + 5_000, "b0"),))
    assert play(mortal).result.digest == play(mortal).result.digest


# -- crashes one after the other, returns, mistakes --------------------------------------------------------------------


def test_one_crash_after_the_other_is_repaired_until_one_broker_is_left() -> None:
    chain = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"})
    faults = tuple(crash(WORK_BEGINS_US + no * 20_000_000, name) for no, name in enumerate(("b1", "b0", "b2")))
    homes = {"c0": "b0", "c1": "b1", "c2": "b2", "c3": "b3"}
    workload = work(list(homes), "a", operations=40, interval_us=1_500_000)
    played = play(scenario(chain, clients(homes, "a"), workload, faults=faults, time_limit_us=200_000_000))
    played.check_clean()
    assert list(played.brokers) == ["b3"]


def test_a_root_whose_host_falls_silent_is_followed_by_who_waits_for_all_orphans() -> None:
    """The follower may hear of the death from an orphan that noticed first, which is not all there is to wait for."""
    brokers = tree({"r": None, "a": "r", "b": "r", "c": "r", "d": "r"})
    homes = {"c1": "a", "c2": "b", "c3": "d"}
    for at_us in (WORK_BEGINS_US, WORK_BEGINS_US + 9_000):
        silent = FaultSpec(at_us, FaultKind.CRASH, nodes=("r",), host=True)
        played = play(scenario(brokers, clients(homes, "t"), work(list(homes), "t"), faults=(silent,)))
        played.check_clean()
        assert len(played.brokers) == 4


def test_a_broker_that_returns_joins_as_a_leaf_and_takes_part() -> None:
    chain = tree({"b0": None, "b1": "b0", "b2": "b1"})
    faults = (
        crash(WORK_BEGINS_US + 5_000, "b1"),
        FaultSpec(WORK_BEGINS_US + 8_000, FaultKind.RECOVER, nodes=("b1",)),
    )
    homes = {"c0": "b0", "c1": "b1", "c2": "b2"}
    played = play(scenario(chain, clients(homes, "a"), work(list(homes), "a", operations=30), faults=faults))
    played.check_clean()
    assert set(played.brokers) == {"b0", "b1", "b2"}
    assert played.brokers["b1"].seat.incarnation == 2
    assert played.brokers["b1"].core.children == []


def test_a_broker_that_was_only_frozen_is_told_that_it_is_dead_and_begins_a_new_life() -> None:
    chain = tree({"b0": None, "b1": "b0", "b2": "b1"})
    faults = (
        FaultSpec(WORK_BEGINS_US + 5_000, FaultKind.FREEZE, nodes=("b1",)),
        FaultSpec(WORK_BEGINS_US + 12_000_000, FaultKind.UNFREEZE, nodes=("b1",)),
    )
    homes = {"c0": "b0", "c1": "b1", "c2": "b2"}
    played = play(scenario(chain, clients(homes, "a"), work(list(homes), "a", operations=30), faults=faults))
    played.check_clean()
    assert played.brokers["b1"].seat.incarnation == 2
    assert ("b2", "b1") in notes(played, "repair_end")


def test_brokers_that_join_while_another_dies_find_their_place() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b0"})
    homes = {"c0": "b0", "c1": "b1", "c2": "b2"}
    for later_us in (0, 1_000, 2_500, 5_000):
        faults = (
            FaultSpec(WORK_BEGINS_US + 4_000, FaultKind.JOIN, nodes=("n0",), parent="b1"),
            crash(WORK_BEGINS_US + 4_000 + later_us, "b1"),
        )
        played = play(scenario(star, clients(homes, "a"), work(list(homes), "a", operations=30), faults=faults))
        played.check_clean()
        assert "n0" in played.parents()


def test_each_orphan_notes_when_its_repair_begins_and_ends_and_every_round_of_requests() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"})
    homes = clients({"c2": "b2", "c3": "b3"}, "a")
    played = play(scenario(star, homes, work(["c2"], "a"), faults=(crash(WORK_BEGINS_US + 5_000, "b1"),)))
    played.check_clean()
    for kind in ("repair_begin", "repair_round", "repair_end"):
        assert sorted(notes(played, kind)) == [("b2", "b1"), ("b3", "b1")]
    assert sorted(notes(played, "suspect")) == [("b0", "b1"), ("b2", "b1"), ("b3", "b1")]


# -- options -----------------------------------------------------------------------------------------------------------


def test_the_stack_is_registered_with_its_options_and_all_four_guarantees() -> None:
    assert find_stack("ginger") is GINGER
    assert GINGER.guarantees == tuple(Guarantee)
    assert GINGER.parse_options({"total_degree": 3, "buffer": 150}).max_hops == 3
    for bad in ({"total_degree": 0}, {"buffer": 0}, {"timer_us": 1}, {"max_hops": 0}, {"degree": 3}):
        with pytest.raises(UsageError):
            GINGER.parse_options(bad)


def test_an_eventual_publication_may_overtake_and_breaks_nothing() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b0"}, latency_us=5_000)
    homes = {"c0": "b0", "c1": "b1", "c2": "b2"}
    busy = work(list(homes), "a", mix=Mix(eventual=0.4, causal=0.3, total=0.3), operations=40, interval_us=2_000)
    waiting = play(scenario(star, clients(homes, "a"), busy))
    waiting.check_clean()
    overtaking = play(scenario(star, clients(homes, "a"), busy, eventual_waits=False))
    overtaking.check_clean()
    assert overtaking.result.digest != waiting.result.digest


def test_each_total_of_a_bundle_has_a_place_of_its_own() -> None:
    homes = {"c0": "b0", "c1": "b1"}
    busy = work(list(homes), "a", mix=Mix(total=1.0), operations=30, interval_us=0)
    played = play(scenario(tree({"b0": None, "b1": "b0"}), clients(homes, "a"), busy))
    assert played.verdict.check("tseq").status == CLEAN
    assert len({row.tseq for row in played.result.rows if row.kind == "deliver"}) == 60


def test_an_orphan_says_with_its_request_what_is_wanted_below_it() -> None:
    row = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b2"})
    readers = (*clients({"c0": "b0"}, "x"), *clients({"c2": "b2"}, "a"), *clients({"c3": "b3"}, "a", "b/#"))
    played = play(scenario(row, readers, work(["c0"], "a"), faults=(crash(WORK_BEGINS_US + 5_000, "b1"),)))
    played.check_clean()
    (request,) = [request for request in played.messages(ParentRequest) if request.dead]
    assert sorted(wish.filter for wish in request.wants) == ["a", "b/#"]


# -- the wire and hostile peers ----------------------------------------------------------------------------------------


def test_every_message_has_a_form_on_the_wire_under_a_tag_of_its_own() -> None:
    Codec((Hello, SessionWelcome, Data, Goodbye), GINGER.messages)
    tags = [kind.__struct_config__.tag for kind in GINGER_MESSAGES]
    assert all(isinstance(tag, int) and 128 <= tag <= 159 for tag in tags)
    assert len(set(tags)) == len(tags)


def broker() -> GingerBroker:
    """A root with one client and the session of another broker."""
    machine = GingerBroker(BrokerSeat("b0", 1, None), GingerOptions(), random.Random(1))
    machine.start(0)
    machine.step(LinkUp("c", "client", 1, 1 << 20), 0)
    machine.step(LinkUp("b1", "broker", 1, 1 << 20), 0)
    return machine


def nonsense() -> Iterator[tuple[str, object]]:
    bundle = Bundle("x", 1, 1, 1, 1, "a", (), Guarantee.CAUSAL, b"", pack_payloads([b""]))
    yield "c", Metadata(bundle, 1)
    yield "c", ParentRequest((), ())
    yield "b1", Progress(5, 5, 5)
    yield "b1", TotalLock(1, bundle, 0)
    yield "b1", Metadata(bundle, 1)


@pytest.mark.parametrize("number", range(5))
def test_what_a_peer_must_not_say_ends_its_session_and_nothing_else(number: int) -> None:
    machine = broker()
    neighbour = list(nonsense())[number][0] == "b1" and number < 4
    if neighbour:
        machine.step(Received("b1", ParentRequest((), ())), 0)
        assert "b1" in machine.core.links
    peer, message = list(nonsense())[number]
    effects = machine.step(Received(peer, message), 0)
    closed = [effect.peer for effect in effects if isinstance(effect, Close)]
    assert closed == ([peer] if neighbour or peer == "c" else []), "before it is a neighbour, it is only not heard"
    assert not machine.core.log


def test_a_broker_that_hears_of_its_death_retires_once_and_only_for_this_life() -> None:
    machine = broker()
    assert not any(isinstance(e, Retire) for e in machine.step(Received("b1", NodeGone(7)), 0))
    assert any(isinstance(e, Retire) for e in machine.step(Received("b1", NodeGone(1)), 0))


def test_the_degree_left_counts_neighbours_and_nothing_else() -> None:
    machine = broker()
    assert machine.view.degree_left == 1_000
    machine.step(Received("b1", ParentRequest((), ())), 0)
    assert machine.view.degree_left == 999
    machine.step(Received("b1", TreeViewUpdate(1, (Contact("b2"),), (), (), ())), 0)
    assert machine.view.children_of("b1") == ("b2",)
    machine.tree.declare("b1")
    assert machine.view.degree_left == 1_000


def test_neighbours_and_clients_learn_where_others_listen() -> None:
    machine = GingerBroker(BrokerSeat("b0", 1, None, address="one:1"), GingerOptions(), random.Random(1))
    machine.start(0)
    machine.step(LinkUp("b1", "broker", 1, 1 << 20), 0)
    effects = machine.step(Received("b1", ParentRequest((), (), address="two:2")), 0)
    assert Locate("b1", "two:2") in effects
    views = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, TreeViewUpdate)]
    assert views[-1].address == "one:1" and views[-1].succession == (Contact("b1", "two:2"),)
    assert machine.view.successors == (Successor("b1", "two:2"),)


def test_a_crash_at_a_given_event_can_be_replayed() -> None:
    mortal = drawn(7)
    moment = FaultAtEvent(crash_points(mortal, "b0", 10)[4].event, crash(0, "b0"))
    first, second = play(mortal, [moment]), play(mortal, [moment])
    assert first.result.digest == second.result.digest
    first.check_clean()
