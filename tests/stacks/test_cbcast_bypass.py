"""What a broker of CBCAST says and does when a neighbour dies, and that nothing is shown that only one broker has."""

from typing import Any

import msgspec
import pytest

from resprout.core.contract import Hold, LinkUp, Open, Retire, Silent
from resprout.core.guarantee import ReceiptLevel
from resprout.edge.messages import Attend, GoTo, Serving, Subscribe, Turned
from resprout.edge.requests import SessionLost
from resprout.overlay.messages import Place
from resprout.scenario.model import ClientSpec, FaultKind, FaultSpec
from resprout.sim.swarm import try_seed
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.multicast.messages import Around, Flushed
from resprout_lab.blocks.tree import PlacesNear
from resprout_lab.cbcast.broker import Multicast
from tests.stacks.asking import ask
from tests.stacks.multicast_net import ANSWER, FIRST, ROOM, OneBroker, crash, message, row, rules, strike


@pytest.mark.parametrize("stack", ["cbcast", "causal-barriers"])
def test_clients_of_a_dead_broker_go_on_at_a_neighbour_and_miss_nothing(stack: str) -> None:
    told = ask(crash(stack, "b3"), (), ())
    assert told.news(SessionLost, "c3") == [] and rules(crash(stack, "b3")) == set()
    last = [one.seq for one in told.rows if one.kind == "deliver" and one.node == "c0" and one.publisher == "c3"]
    assert last[-1] == 100 and len(last) == len(set(last)), "what it publishes comes, once"


def test_a_newcomer_waits_for_nothing_that_was_before_it() -> None:
    join = FaultSpec(1_500_000, FaultKind.JOIN, ("j0",), parent="b2", latency_us=1_000)
    scenario = msgspec.structs.replace(strike(join), clients=(row().clients[0], at(row().clients[1], "j0")))
    assert rules(scenario) == set()


def test_a_newcomer_whose_parent_is_silent_asks_another_broker() -> None:
    silent = FaultSpec(1_300_000, FaultKind.CRASH, ("b2",), host=True)
    join = FaultSpec(1_500_000, FaultKind.JOIN, ("j0",), parent="b2", latency_us=1_000)
    scenario = msgspec.structs.replace(strike(silent, join), clients=(row().clients[0], at(row().clients[1], "j0")))
    assert rules(scenario) == set()


@pytest.mark.parametrize("stack", ["cbcast", "causal-barriers"])
@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        pytest.param(97100033, "groups", id="nothing waits for a newcomer that came after what only a dead broker had"),
        pytest.param(97300012, "faults", id="clients of a broker that was frozen are sent on by its next life"),
    ],
)
def test_found_by_the_swarm(stack: str, seed: int, drawn: str) -> None:
    outcome = try_seed(seed, drawn, stack)
    assert not outcome.failed, outcome.report


def at(client: ClientSpec, broker: str) -> ClientSpec:
    return msgspec.structs.replace(client, broker=broker)


# -- one broker next to a dead one -------------------------------------------------------------------------------------


def beside(**options: int) -> OneBroker:
    """Beyond `b1` there are `b5` and `b6`; it has confirmed what the reader here wants."""
    net = OneBroker(ROOM, "cbcast", **options)
    net.confirm("b1")
    net.say("b1", PlacesNear((Place("b1", 1, 1, None, ("b0", "b5", "b6"), ""),)))
    return net


def test_a_publication_is_shown_and_safe_when_another_broker_has_it() -> None:
    net = OneBroker()
    net.say("p", Subscribe(1, "t", None))
    net.publish()
    assert net.shown("p") == [] and not is_safe(net)
    net.say("b2", Progress(1, 0, 0))
    assert net.shown("p") == net.shown() == [("p", 1)] and is_safe(net)


def test_when_a_neighbour_dies_its_other_neighbours_are_called_and_given_what_it_may_owe() -> None:
    net = beside()
    net.publish()
    net.say("b1", FIRST)
    net.publish()
    net.say("b1", Progress(1, 1, 0))  # the first publication is beyond it
    net.step(Silent("b1", refused=True))
    assert [effect.peer for effect in net.effects if isinstance(effect, Open)] == ["b5", "b6"]
    net.step(LinkUp("b5", "broker", 1, ROOM))
    assert net.said("b5", Around) == [Around("b1")]
    assert [(one.bundle.publisher, one.bundle.first) for one in net.said("b5", Multicast)] == [("x", 1), ("p", 2)]
    net.step(LinkUp("b6", "broker", 1, ROOM))
    net.say("b5", Flushed("b1"))
    assert not net.said("b5", Flushed), "b6 may have more for it"
    net.say("b6", Flushed("b1"))
    assert net.said("b5", Flushed) == net.said("b6", Flushed) == [Flushed("b1")]


def test_only_the_oldest_neighbour_of_the_dead_connects_its_others() -> None:
    net = OneBroker()
    net.say("b1", PlacesNear((Place("b1", 1, 1, None, ("b5", "b0", "b6"), ""),)))
    net.publish()
    net.step(Silent("b1", refused=True))
    assert [effect.peer for effect in net.effects if isinstance(effect, Open)] == ["b5"]
    net.step(LinkUp("b5", "broker", 1, ROOM))
    assert len(net.said("b5", Multicast)) == 1 and net.said("b5", Flushed) == [Flushed("b1")], "all that is here"
    net.step(LinkUp("r", "client", 1, ROOM))
    net.say("r", Attend(0, tried=("b1",), home=1, subscriptions=()))
    assert [one.successor.name for one in net.said("r", GoTo)] == ["b5"], "which has what it may lack"


def test_what_a_neighbour_of_the_dead_has_skipped_is_waited_for_until_all_others_have_sent_theirs() -> None:
    net = beside()
    net.step(Silent("b1", refused=True))
    for name in ("b5", "b6"):
        net.step(LinkUp(name, "broker", 1, ROOM))
    answer = msgspec.structs.replace(ANSWER, skipped=(0,))
    net.say("b5", answer, Flushed("b1"))
    assert net.shown() == [], "b6 may have it"
    net.say("b6", FIRST, Flushed("b1"))
    assert net.shown() == [("x", 1), ("y", 1)]

    other = beside()
    other.step(Silent("b1", refused=True))
    for name in ("b5", "b6"):
        other.step(LinkUp(name, "broker", 1, ROOM))
    other.say("b5", answer, Flushed("b1"))
    other.say("b6", Flushed("b1"))
    assert other.shown() == [("y", 1)], "it had not"


def test_a_neighbour_of_the_dead_is_heard_until_it_has_sent_all_however_little_room_there_is() -> None:
    """Seed 220000005: with `held_back` 100 the broker began anew, again and again."""
    net = beside(held_back=1, buffer=1)
    net.step(Silent("b1", refused=True))
    for name in ("b5", "b6"):
        net.step(LinkUp(name, "broker", 1, ROOM))
    late = [message("x", "b7/1", (("t", (("b7/1", no),)),), *([0] * (no == 9)), first=no) for no in range(9, 13)]
    net.say("b5", *late, Flushed("b1"))
    assert not [effect for effect in net.effects if isinstance(effect, Retire | Hold)] and net.shown() == []
    net.say("b6", Flushed("b1"))
    assert [number for _, number in net.shown()] == [9, 10, 11, 12]


def test_what_is_published_before_the_others_are_links_reaches_them_as_well() -> None:
    net = beside()
    net.step(Silent("b1", refused=True))
    net.step(LinkUp("b5", "broker", 1, ROOM))
    net.publish()
    net.step(LinkUp("b6", "broker", 1, ROOM))
    net.publish()
    for name in ("b5", "b6"):
        assert [one.bundle.first for one in net.said(name, Multicast)] == [1, 2]


def test_a_broker_is_told_of_a_death_by_another_neighbour_of_the_dead() -> None:
    net = beside()
    net.publish()
    for name in ("b5", "b6"):
        net.step(LinkUp(name, "broker", 1, ROOM))
    net.say("b5", Around("b1"))
    assert "b1" in net.closed
    for name in ("b5", "b6"):
        assert net.said(name, Around) == [Around("b1")] and len(net.said(name, Multicast)) == 1, "what b1 may owe"
    net.say("b5", FIRST, Flushed("b1"))
    net.say("b6", Flushed("b1"))
    assert net.shown() == [("x", 1)]


def test_a_client_of_the_dead_is_served_when_all_that_it_may_have_seen_has_come() -> None:
    net = beside()
    net.step(LinkUp("r", "client", 1, ROOM))
    net.say("r", Attend(0, tried=("b1",)))
    net.step(Silent("b1", refused=True))
    for name in ("b5", "b6"):
        net.step(LinkUp(name, "broker", 1, ROOM))
        assert not net.said("r", Serving)
        net.say(name, Around("b1"), Flushed("b1"))
    assert net.said("r", Serving)


def test_nobody_is_told_of_a_child_that_may_not_know_yet_that_it_is_one() -> None:
    net = OneBroker()
    net.join("b3")
    before = len(net.said("b2", PlacesNear))
    net.say("b3", PlacesNear((Place("b3", 1, 2, None, ("b0",), ""),)))
    told = net.said("b2", PlacesNear)
    assert len(told) > before and not any("b3" in place.neighbours for one in told[:before] for place in one.places)


def test_a_child_of_the_dead_that_is_new_here_is_given_what_it_may_be_owed() -> None:
    net = beside()
    net.publish()
    net.step(Silent("b1", refused=True))
    for name in ("b5", "b6", "b7"):
        net.step(LinkUp(name, "broker", 1, ROOM))
    net.publish()
    net.say("b7", Around("b1"))
    net.publish()
    assert [one.bundle.first for one in net.said("b7", Multicast)] == [1, 2, 3]
    for name in ("b5", "b6", "b7"):
        net.say(name, Flushed("b1"))
    assert net.said("b7", Flushed)


@pytest.mark.parametrize("wrong", [Around("b9"), Progress(1, 0, 0), Progress(0, 1, 0), Progress(0, 0, 1)])
def test_a_neighbour_that_says_what_cannot_be_of_links_is_cut_off(wrong: Any) -> None:
    net = OneBroker()
    net.say("b1", wrong)
    assert list(net.closed) == ["b1"]


def is_safe(net: OneBroker) -> bool:
    return any(told.receipt is ReceiptLevel.SAFE for told in net.said("p", Turned))
