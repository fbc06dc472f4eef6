"""Neighbours that keep their connections and answer nothing: replaced when it lasts, waited for when it does not."""

import msgspec
import pytest

from resprout.edge.requests import ForgetAnswered, ForgetRequest
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from tests.soak import every_nth
from tests.stacks.asking import Asked, Told, ask, two_kinds
from tests.stacks.stage import check_sound, publications, receipts

SECOND = 1_000_000
SIX: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1", "b4": "b1", "b5": "b2"}
TWO: dict[str, str | None] = {"b0": None, "b1": "b0"}
HANG_US = 3 * SECOND


def hang(victim: str, lasts_us: int | None = None, at_us: int = HANG_US) -> list[FaultSpec]:
    faults = [FaultSpec(at_us, FaultKind.HANG, (victim,))]
    return faults if lasts_us is None else [*faults, FaultSpec(at_us + lasts_us, FaultKind.UNHANG, (victim,))]


def without(victim: str, parents: dict[str, str | None] = SIX) -> Scenario:
    """Nobody is its client: who is, waits until it ends."""
    return two_kinds(parents, [name for name in parents if name != victim])


def all_delivered(played: Told) -> bool:
    delivered = receipts(played, "delivered")
    return all((row.publisher, row.stream, row.seq) in delivered for row in publications(played))


@pytest.mark.parametrize("victim", ["b0", "b1", "b5"])
def test_a_broker_that_hangs_for_good_is_replaced_after_a_lease_and_everything_goes_on(victim: str) -> None:
    played = ask(without(victim), hang(victim), [])
    begun, ended = played.notes("repair_begin")[0], played.notes("repair_end")[-1]
    assert HANG_US + 3 * SECOND < begun.time_us < ended.time_us < HANG_US + 8 * SECOND
    assert played.result.ended == "quiescent" and played.verdict.anomalies == []
    assert all_delivered(played)
    around = {name for name, parent in SIX.items() if parent == victim or name == SIX[victim]}
    said = {
        row.node
        for row in played.notes("suspect")
        if row.detail == f"{victim} keeps its connection and answers nothing"
    }
    assert said == around, "the trace says who answers nothing"


@pytest.mark.parametrize("victim", ["b0", "b1", "b5"])
def test_a_broker_that_hangs_for_less_than_a_lease_keeps_its_place(victim: str) -> None:
    played = ask(two_kinds(SIX, list(SIX)), hang(victim, 2 * SECOND), [])
    assert played.notes("repair_begin") == played.notes("suspect") == played.notes("fenced") == []
    check_sound(played)
    assert played.parents() == SIX
    assert all_delivered(played)


@pytest.mark.parametrize("victim", ["b0", "b1", "b5"])
def test_a_broker_that_goes_on_after_it_was_replaced_is_fenced_and_its_clients_lose_nothing(victim: str) -> None:
    played = ask(two_kinds(SIX, list(SIX)), hang(victim, 15 * SECOND), [])
    assert [row.node for row in played.notes("fenced")] == [victim]
    assert played.incarnation(victim) == 2
    check_sound(played)
    assert all_delivered(played)


def test_the_root_of_two_goes_on_without_a_child_that_hangs() -> None:
    """Half of the list with its root decides: nobody else could decide against it."""
    played = ask(without("b1", TWO), hang("b1"), [])
    assert played.notes("repair_end")[0].node == "b0"
    assert played.result.ended == "quiescent" and played.verdict.anomalies == []
    assert all_delivered(played)


def test_the_root_of_two_goes_on_without_a_child_whose_host_falls_silent_or_that_is_stopped() -> None:
    for fault in (
        FaultSpec(HANG_US, FaultKind.FREEZE, ("b1",)),
        FaultSpec(HANG_US, FaultKind.CRASH, ("b1",), host=True),
    ):
        played = ask(without("b1", TWO), [fault], [])
        assert [row.node for row in played.notes("repair_end")] == ["b0"]
        assert all_delivered(played)


def test_a_child_does_not_go_on_without_a_root_that_hangs_in_a_tree_of_two() -> None:
    """One of two is no majority. It goes on when the root does, or when it is told to."""
    played = ask(without("b0", TWO), hang("b0", 40 * SECOND), [])
    assert played.notes("repair_begin") == []
    check_sound(played)
    assert played.parents() == TWO


@pytest.mark.parametrize("after_us", [4_000, 8_000, 10_000, 20_000, 500_000])
def test_a_newcomer_that_hangs_in_the_middle_of_joining_holds_nobody_up(after_us: int) -> None:
    join = FaultSpec(HANG_US, FaultKind.JOIN, ("b9",), parent="b0", latency_us=1_000)
    played = ask(two_kinds({"b0": None}, ["b0"]), [join, *hang("b9", at_us=HANG_US + after_us)], [])
    assert played.result.ended == "quiescent" and played.verdict.anomalies == []
    assert all_delivered(played)


def test_a_connection_that_breaks_and_stands_again_does_not_keep_a_hung_broker_in_its_place() -> None:
    link = (("b0", "b1"),)
    flaps = [
        FaultSpec(HANG_US + number * SECOND + later_us, kind, links=link)
        for number in range(1, 20)
        for later_us, kind in ((0, FaultKind.CUT), (300_000, FaultKind.HEAL))
    ]
    faults = sorted([*hang("b1"), *flaps], key=lambda fault: fault.at_us)
    played = ask(without("b1"), faults, [])
    assert played.notes("repair_begin")[0].time_us < HANG_US + 9 * SECOND
    assert all_delivered(played)


# -- by force ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victim", "asked"), every_nth([("b0", "t2"), ("b0", "t3"), ("b1", "t3"), ("b1", "t2"), ("b5", "t2")], 2)
)
def test_a_broker_that_is_alive_is_forgotten_by_force_and_joins_as_a_new_one(victim: str, asked: str) -> None:
    at_us = 4 * SECOND
    request = ForgetRequest((victim,), force=True)
    played = ask(two_kinds(SIX, list(SIX)), [FaultSpec(60 * SECOND, FaultKind.HEAL)], [Asked(at_us, asked, request)])
    assert [news.body.reason for news in played.news(ForgetAnswered)] == [""]
    assert played.notes("repair_begin")[0].time_us < at_us + SECOND
    assert {row.node for row in played.notes("fenced")} == {victim}
    assert played.incarnation(victim) == 2
    check_sound(played)
    assert all_delivered(played)


def test_a_founder_that_falls_silent_before_anybody_else_has_a_vote_is_forgotten_for_good() -> None:
    """Its list is itself: when it is forgotten, nobody is left whose consent could be asked for."""
    join = FaultSpec(HANG_US, FaultKind.JOIN, ("b1",), parent="b0", latency_us=3_000)
    dies = FaultSpec(HANG_US + 20_000, FaultKind.CRASH, ("b0",), host=True)
    scene = two_kinds({"b0": None}, ["b0"])
    late = msgspec.structs.replace(scene.clients[0], name="t1", broker="b1")
    scene = msgspec.structs.replace(scene, clients=(*scene.clients, late))
    played = ask(scene, [join, dies], [Asked(HANG_US + 30 * SECOND, "t1", ForgetRequest(("b0",)))])
    assert [news.body.reason for news in played.news(ForgetAnswered)] == [""]
    assert [row.node for row in played.notes("repair_end")] == ["b1"]
    assert played.parents() == {"b1": None}


def test_a_broker_that_is_too_far_away_to_be_known_is_not_forgotten_there_by_force_either() -> None:
    played = ask(two_kinds(SIX, list(SIX)), [], [Asked(4 * SECOND, "t3", ForgetRequest(("b5",), force=True))])
    reason = "b5: not known to b3, which waits for no such broker: ask a broker next to it"
    assert [news.body.reason for news in played.news(ForgetAnswered)] == [reason]


def test_the_child_of_two_goes_on_without_a_root_that_hangs_when_it_is_forgotten_by_force() -> None:
    at_us = HANG_US + SECOND
    requests = [Asked(at_us, "t1", ForgetRequest(("b0",), force)) for force in (False, True)]
    played = ask(without("b0", TWO), hang("b0"), requests)
    refused, done = [news.body.reason for news in played.news(ForgetAnswered)]
    assert refused == "b0 is alive here: stop it first, or forget it by force"
    assert done == ""
    assert [row.detail for row in played.notes("forget")] == ["b0, as t1 says, by force"]
    assert played.notes("repair_end")[0].node == "b1"
    assert all_delivered(played)
