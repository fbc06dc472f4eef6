"""A broker that is asked to go hands over what it has first: the tree is whole, and nobody waits for a silence."""

from resprout.edge.requests import DRAIN_US
from resprout.links.frames import FRAMES, Data
from resprout.overlay.messages import OVERLAY_MESSAGES, Probe
from resprout.scenario.model import FaultKind
from resprout.sim.run import FaultAtEvent
from resprout.stacks.resprout.draining import FAREWELL
from resprout.stacks.resprout.joining.offers import CALL, MEASURE
from resprout.wire.codec import Codec
from tests.stacks.stage import CHAIN, FORK, Played, at_event, check_all_receipts, check_sound, middle, play, scenario


def leave(event: int, name: str) -> FaultAtEvent:
    return at_event(event, FaultKind.LEAVE, name)


def gone_us(played: Played, name: str) -> int:
    (row,) = [row for row in played.notes("drain") if row.node == name]
    return row.time_us


def test_its_clients_are_told_whom_to_turn_to_and_miss_nothing() -> None:
    scene = scenario(FORK, clients_per_broker=2)
    played = play(scene, [leave(middle(scene), "b1")])
    check_sound(played)
    check_all_receipts(played)
    (told,) = played.notes("drain")
    assert (told.node, told.detail) == ("b1", "2 clients and 3 neighbours are handed over to b0")
    assert {client: played.home(client) for client in ("c1a", "c1b")} == {"c1a": "b0", "c1b": "b0"}


def test_what_it_has_accepted_is_safe_before_it_goes() -> None:
    scene = scenario(CHAIN)
    played = play(scene, [leave(middle(scene), "b1")])
    check_sound(played)
    safe_us = {
        ("c1a", row.stream, row.seq): row.time_us
        for row in played.rows
        if row.kind == "receipt" and row.receipt == "safe" and row.publisher == "c1a"
    }
    asked, went = played.notes("leave")[0].time_us, gone_us(played, "b1")
    told_there = [
        row
        for row in played.rows
        if row.kind == "receipt" and row.receipt == "accepted" and row.publisher == "c1a" and row.time_us <= went
    ]
    assert asked < went and told_there
    latency_us = 2_000
    assert all(safe_us["c1a", row.stream, row.seq] <= went + latency_us for row in told_there)


def test_it_waits_until_the_tree_around_it_is_whole() -> None:
    scene = scenario(FORK)
    event = middle(scene)
    played = play(scene, [at_event(event, FaultKind.CRASH, "b3", host=True), leave(event, "b1")])
    check_sound(played)
    check_all_receipts(played, "c0a")
    (repaired,) = [row for row in played.notes("repair_end") if row.node == "b1"]
    assert gone_us(played, "b1") >= repaired.time_us, "two of a path of three at once would be one too many"


def test_whoever_comes_meanwhile_is_sent_elsewhere() -> None:
    more = """
[[fault]]
at = "600ms"
kind = "crash"
nodes = ["b3"]
host = true
[[fault]]
at = "700ms"
kind = "leave"
nodes = ["b1"]
[[fault]]
at = "800ms"
kind = "crash"
nodes = ["c1a"]
[[fault]]
at = "900ms"
kind = "recover"
nodes = ["c1a"]
[[fault]]
at = "1s"
kind = "join"
nodes = ["b5"]
contacts = ["b1"]
latency = "4ms"
"""
    played = play(scenario(FORK, more=more))
    check_sound(played)
    went = gone_us(played, "b1")
    (served,) = [
        row for row in played.rows if row.kind == "subscribed" and row.node == "c1a" and row.time_us > 900_000
    ][:1]
    assert served.time_us < went and played.home("c1a") == "b0"
    (joined,) = [row for row in played.notes("joined") if row.node == "b5"]
    assert joined.detail != "b1" and joined.time_us > 1_000_000


def test_it_goes_without_when_its_time_is_over() -> None:
    two = {"b0": None, "b1": "b0"}
    scene = scenario(two)
    event = middle(scene)
    played = play(scene, [at_event(event, FaultKind.CRASH, "b0", host=True), leave(event + 40, "b1")])
    (over,) = played.notes("undrained")
    assert "the time is over" in str(over.detail)
    assert over.time_us - played.notes("leave")[0].time_us == DRAIN_US
    assert not played.runs("b1")


def test_whoever_is_alone_says_what_is_lost() -> None:
    scene = scenario({"b0": None}, clients_per_broker=2)
    event = middle(scene)
    played = play(scene, [at_event(event, FaultKind.FREEZE, "c0b"), leave(event + 60, "b0")])
    assert not played.runs("b0")
    (told,) = played.notes("undrained")
    assert str(told.detail).startswith("no broker is left to take over: ") and str(told.detail).endswith("are lost")


def test_a_voter_that_is_no_neighbour_of_the_root_need_not_wait_for_its_silence() -> None:
    """The root has one child, and the third voter stands below that: it is told, too."""
    scene = scenario(CHAIN)
    played = play(scene, [leave(middle(scene), "b0")])
    check_sound(played)
    check_all_receipts(played)
    left = played.notes("leave")[0].time_us
    assert all(row.time_us - left < 200_000 for row in played.notes("repair_end")), "nobody waited a lease"


def test_each_is_started_again_when_the_one_before_has_its_place() -> None:
    scene = scenario(FORK)
    played = play(scene, [at_event(middle(scene), FaultKind.RESTART, "b0", "b1", "b3")])
    check_sound(played)
    check_all_receipts(played)
    changes = [(row.kind, row.node) for row in played.rows if row.kind in ("leave", "join", "joined")]
    assert changes[len(FORK) - 1 :] == [
        (kind, name) for name in ("b0", "b1", "b3") for kind in ("leave", "join", "joined")
    ]
    assert all(played.runs(name) for name in FORK)


def test_probes_outside_the_rounds_of_the_overlay_may_cross_the_wire() -> None:
    codec = Codec(FRAMES, OVERLAY_MESSAGES)
    for number in (CALL, MEASURE, FAREWELL):
        codec.check(Data(1, 0, 0, (Probe(number),)))
