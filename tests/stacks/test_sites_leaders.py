"""Leaders of sites that die, freeze and wake up, brokers that return, clients that turn to others of their site."""

import msgspec
import pytest

from resprout.core.contract import LinkDown
from resprout.core.message_fields import Mark
from resprout.edge.messages import Attend, Delivery, HeldSubscription, Serving, Subscribe
from resprout.scenario.model import FaultKind, FaultSpec
from resprout.sim.swarm import try_seed
from resprout_lab.blocks import replicated
from resprout_lab.sites.commands import name_of
from resprout_lab.sites.messages import SiteLed
from tests.edge.desk import Desk
from tests.stacks.sites_runs import (
    ROW,
    STAR,
    WORK_BEGINS_US,
    Played,
    clients,
    crash,
    decide_alone,
    freeze,
    play,
    recover,
    scenario,
    sites,
    work,
)  # fmt: skip

MIDDLE_US = WORK_BEGINS_US + 60_000
HOMES = {"c0": "s0a", "c1": "s1b", "c2": "s2c", "d0": "s0b", "d2": "s2a"}


def run(*faults: FaultSpec, operations: int = 60, sharing: str = "leader") -> Played:
    """Everybody publishes and reads `t`; faults in order of time."""
    return play(
        scenario(
            sites(ROW),
            clients(HOMES, "t"),
            work(list(HOMES), "t", operations=operations),
            faults=faults,
            sharing=sharing,
        )
    )


def tseqs(played: Played) -> dict[int, set[tuple[str, int]]]:
    """By place in the one order: the publications that are claimed to stand there."""
    claimed: dict[int, set[tuple[str, int]]] = {}
    for row in played.rows:
        if row.kind == "deliver" and row.tseq is not None and row.tseq >= 0:
            claimed.setdefault(row.tseq, set()).add((row.publisher or "", row.seq or 0))
    return claimed


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", ["leader", "links", "random"])
def test_the_leader_of_every_site_may_die_at_the_same_time(sharing: str) -> None:
    played = run(crash(MIDDLE_US, "s0a", "s1a", "s2a"), sharing=sharing)
    played.check_clean()
    for site in ROW:
        first, *others = played.leaders(site)
        assert first == f"{site}a/1" and others and others[-1] != first
    assert len(played.delivered("d2")) == 60 * 5, "its own broker died, too"


def test_a_new_leader_is_told_to_all_brokers_of_the_neighbouring_sites_whoever_noticed_the_crash() -> None:
    """The report's last bug: only subscribers made a new leader tell its neighbours."""
    only_publishers = clients({"c0": "s0b", "c1": "s1b"}, "t")
    played = play(
        scenario(sites(ROW), only_publishers, work(["c1"], "t", operations=60), faults=[crash(MIDDLE_US, "s1a")])
    )
    played.check_clean()
    new = played.leaders("s1")[-1].split("/")[0]
    told = {peer for name, peer, message in played.said if isinstance(message, SiteLed) and name == new}
    assert told == {f"s{site}{letter}" for site in (0, 2) for letter in "abc"}


def test_clients_are_told_of_a_new_leader_and_turn_to_it_first() -> None:
    played = run(crash(MIDDLE_US, "s1a"))
    state = played.state("s1b")
    others = [one.name for one in played.brokers["s1b"].membership.successors]
    assert sorted(others) == ["s1a", "s1c"]
    if state.leader != "s1b/1":
        assert others[0] == "s1c"


def test_a_broker_that_returns_with_nothing_takes_the_place_of_its_earlier_life() -> None:
    played = run(crash(MIDDLE_US, "s0a", "s1a"), recover(MIDDLE_US + 3_000_000, "s0a", "s1a"), operations=300)
    played.check_clean()
    for name in ("s0a", "s1a"):
        assert f"{name}/2" in played.state(name).lives and f"{name}/1" not in played.state(name).lives
        assert played.brokers[name].membership.is_seated


def test_one_that_returned_may_be_needed_for_the_next_majority() -> None:
    faults = (crash(MIDDLE_US, "s0a"), recover(MIDDLE_US + 2_000_000, "s0a"), crash(MIDDLE_US + 8_000_000, "s0b"))
    played = play(
        scenario(
            sites(STAR),
            clients(HOMES, "t"),
            work(list(HOMES), "t", operations=60, interval_us=200_000),
            faults=faults,
        )
    )
    played.check_clean()
    assert len(played.delivered("d0")) == 60 * 5, "its broker was the second to die"


def test_a_newcomer_goes_on_from_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "SNAPSHOT_SLOTS", 40)
    played = run(crash(MIDDLE_US, "s1c"), recover(MIDDLE_US + 2_000_000, "s1c"), operations=120)
    played.check_clean()
    replica = played.brokers["s1c"].agreement.replica
    assert replica is not None and replica.ledger.snapshot.slot > 0


def test_what_a_site_keeps_for_a_neighbour_is_let_go_of_by_watermarks() -> None:
    played = run(operations=100)
    played.check_clean()
    assert all(len(link.out) < 64 for name in played.brokers for link in played.state(name).links.values())


def test_a_life_that_was_away_for_too_long_is_given_up_and_begins_another() -> None:
    frozen = freeze(MIDDLE_US, MIDDLE_US + 9_000_000, "s1c")
    late = work(["c0"], "t", operations=30, interval_us=500_000)
    played = play(scenario(sites(ROW), clients(HOMES, "t"), late, faults=frozen, return_us=3_000_000))
    assert played.result.ended == "quiescent" and not played.verdict.anomalies
    assert "s1c/2" in played.state("s1a").lives


@pytest.mark.parametrize("name", ["s0b", "s1a", "s1c", "s2a"])
def test_a_site_forms_though_one_of_its_brokers_cannot_be_reached_at_first(name: str) -> None:
    """Found by the swarm: whoever lost its parent asked others that were looking for their site themselves."""
    for at_us in (1_000, 6_000, 16_000):
        cut, heal = FaultSpec(at_us, FaultKind.PARTITION, (name,)), FaultSpec(1_200_000, FaultKind.HEAL)
        late = work(list(HOMES), "t", operations=10)
        played = play(scenario(sites(ROW), clients(HOMES, "t"), late, faults=[cut, heal]))
        played.check_clean()
        assert {row.node for row in played.rows if row.kind == "joined"} == set(played.brokers)


# -- freezes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", ["leader", "links", "random"])
def test_a_leader_that_freezes_and_wakes_up_sequences_nothing_a_second_time(sharing: str) -> None:
    played = run(*freeze(MIDDLE_US, MIDDLE_US + 4_000_000, "s0a"), sharing=sharing)
    played.check_clean()
    assert len(played.leaders("s0")) > 1, "its site has elected another"
    assert all(len(publications) == 1 for publications in tseqs(played).values())
    for client in HOMES:
        assert len(played.delivered(client)) == 60 * 5


def test_without_a_majority_a_leader_that_wakes_up_is_a_second_sequencer(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_alone(monkeypatch)
    played = run(*freeze(MIDDLE_US, MIDDLE_US + 4_000_000, "s0a"))
    assert played.broken(), "the judge finds it"


def test_a_frozen_broker_that_does_not_lead_costs_its_clients_some_seconds_and_nobody_else_anything() -> None:
    played = run(*freeze(MIDDLE_US, MIDDLE_US + 8_000_000, "s2c"))
    played.check_clean()
    assert played.leaders("s2") == ["s2a/1"]
    last_us = max(row.time_us for row in played.rows if row.kind == "deliver" and row.node == "c0")
    assert last_us < MIDDLE_US + 8_000_000


# -- clients -----------------------------------------------------------------------------------------------------------


def test_a_client_whose_broker_dies_goes_on_at_another_of_its_site_and_misses_nothing() -> None:
    played = run(crash(MIDDLE_US, "s2c", host=True))
    played.check_clean()
    assert len(played.delivered("c2")) == 60 * 5
    assert not [row for row in played.rows if row.kind == "session_lost"]


def returned(desk: Desk, has: int) -> tuple[Serving, list[int]]:
    """A reader of `t` comes again, and has so many."""
    desk.come("s")
    received = (Mark("p", "ordered", 1, has),)
    desk.say("s", Attend(0, ("b0",), received, (HeldSubscription(1, "t", None, ()),), home=1))
    serving, *deliveries = desk.heard("s")
    return serving, [message.bundle.first for message in deliveries if isinstance(message, Delivery)]


def reader_that_left(routing: str) -> Desk:
    desk = Desk("sites", routing=routing, return_us=5_000_000)
    desk.serve("p", "s")
    desk.say("s", Subscribe(1, "t", None))
    desk.publish("p", times=3)
    desk.step(LinkDown("s", "its connection is gone"))
    desk.publish("p", times=2)
    desk.heard("s")
    return desk


@pytest.mark.parametrize("routing", ["flooding", "filtering"])
def test_a_client_that_returns_is_given_what_it_has_not_taken(routing: str) -> None:
    desk = reader_that_left(routing)
    desk.wait(4_000_000)
    serving, given = returned(desk, has=2)
    assert serving.resumed and given == [3, 4, 5]


@pytest.mark.parametrize("routing", ["flooding", "filtering"])
def test_a_client_that_returns_after_all_that_was_kept_for_it_is_told(routing: str) -> None:
    desk = reader_that_left(routing)
    desk.wait(6_000_000)
    serving, given = returned(desk, has=2)
    assert not serving.resumed and given == []


# -- much to say -------------------------------------------------------------------------------------------------------


def test_one_that_lags_by_more_than_a_message_holds_may_be_needed_for_the_next_majority() -> None:
    """Both others are behind it when the leader dies; what it missed does not fit into a promise."""
    missed = (*freeze(WORK_BEGINS_US, WORK_BEGINS_US + 5_000_000, "s0c"), crash(WORK_BEGINS_US + 5_001_000, "s0a"))
    large = msgspec.structs.replace(work(["c1"], "t", operations=110, interval_us=60_000), payload=100_000)
    played = play(scenario(sites({"s0": None}), clients({"c0": "s0b", "c1": "s0b"}, "t"), large, faults=missed, seed=2))
    played.check_clean()
    assert {"s0b/1", "s0c/1"} & set(played.leaders("s0")), "somebody else leads in the end"


def test_on_thin_lines_a_site_finds_a_leader_again_though_promises_take_longer_than_its_patience() -> None:
    thin = [msgspec.structs.replace(broker, bandwidth_bps=2_000_000) for broker in sites({"s0": None})]
    homes = {"c0": "s0b", "c1": "s0c", "c2": "s0a"}
    large = msgspec.structs.replace(work(list(homes), "t", operations=50), payload=20_000)
    faults = freeze(WORK_BEGINS_US + 1_000_000, WORK_BEGINS_US + 3_000_000, "s0a")
    asked = scenario(thin, clients(homes, "t"), large, faults=faults, seed=4)
    play(msgspec.structs.replace(asked, time_limit_us=400_000_000)).check_clean()


# -- many --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed",
    [
        80029,  # a broker that is not seated yet refused its neighbours, over and over
        80080,  # repeats of what was on its way filled a thin link
        80187,  # whoever lost its parent while sites formed asked one that was looking itself
        81102,  # each sign of life made a newcomer ask for the same snapshot again, over a thin link
    ],
)
def test_what_swarms_have_found_stays_mended(seed: int) -> None:
    outcome = try_seed(seed, stack="sites")
    assert not outcome.failed, outcome.report


def test_the_status_names_leaders_and_the_sequencer() -> None:
    played = run(crash(MIDDLE_US, "s0a"))
    roles = {name: broker.status().roles for name, broker in played.brokers.items()}
    leader = name_of(played.state("s0b").leader)
    assert roles[leader] == (f"leads the site s0 since term {played.state('s0b').term}", "orders all publications")
    assert roles["s1a"] == (f"leads the site s1 since term {played.state('s1a').term}",)
    assert sum(bool(told) for told in roles.values()) == 3
