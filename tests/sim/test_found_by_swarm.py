"""What swarms have found: each failure by name, as the smallest scenario where that is known, as its seed where not.

A seed stays the same trial only as long as what it draws from does; those here are also the memory of where to look.
`make test` tries every third seed, `make soak` all of them.
"""

from collections.abc import Sequence

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
)
from resprout.scenario.model import WorkloadSpec as Work
from resprout.sim.run import run_scenario
from resprout.sim.swarm import complaint_about, try_seed
from tests.soak import every_nth

CRASH, RECOVER, FREEZE, UNFREEZE = FaultKind.CRASH, FaultKind.RECOVER, FaultKind.FREEZE, FaultKind.UNFREEZE
PARTITION, HEAL = FaultKind.PARTITION, FaultKind.HEAL

SEEDS = {
    "a client that comes when all others are back is told 'delivered' at once, too": 630048,
    "what came from one of two dead neighbours and had gone on to the other is 'delivered' only when it is": 5900825,
    "a life that is given a place while others bury it is let go again": 97,
    "a client whose broker died is told 'delivered' only when it is": 436,
    "a client of a dead broker is told 'delivered' only when the clients of another dead one have it, too": 327,
    "clients of two dead brokers, one of which had left, miss nothing": 293,
    "a newcomer that has gone to ask somebody else is not waited for": 461,
    "a newcomer that comes back in the middle of its own repair finds a place": 496,
    "a moved client is told 'delivered' only when those have it who wait for a ghost elsewhere": 386,
    "of two brokers that give one newcomer a place, one keeps it and the other lets go": 387,
    "a newcomer that was declared dead while it asked for a place is told so": 611,
    "a client that returns is given copies in order among what it missed": 1693,
    "a newcomer whose parent dies before it answers asks others": 894,
    "a client that reached nobody for a while waits for its own broker, and is not served as if new": 232,
    "a root that is back at once and declines one of two places finds another": 785,
    "a broker that a repair leaves alone shows what waited behind a total": 393,
    "a client whose successor died as well finds the successor of the successor, and is not served as if new": 1482,
    "what was free to pass and lost its copies in a crash is shown once, in its turn": 5014,
    "a root whose configuration was heard of before its voters were asked gets their consent": 42242,
    "a voter that died far from the root is replaced before the next two die": 4801127,
    "a client of a dead broker is given copies behind the totals that they follow": 30541,
    "a client that was cut off is not given the share of a dead broker that it only asked": 40822,
    "a client is not given what was published before it subscribed, and kept by a neighbour": 42607,
    "a member whose request was lost with the session of its earlier life is asked again": 100812,
    "copies for a ghost go only where they are missing, and clients find who has their ghost": 100599,
    "a broker that once asked the voters about the root does not begin a second repair of it much later": 99000230,
}


def complaint(parents: Sequence[str | None], faults: Sequence[FaultSpec], latency_us: int = 1_000) -> str:
    """Of a tree that tolerates two faults, with a client at every broker, all of them talking from 2 s to about 3 s."""
    brokers = tuple(BrokerSpec(f"b{i}", parent, latency_us) for i, parent in enumerate(parents))
    everything = (SubscriptionSpec("#"),)
    clients = tuple(ClientSpec(f"c{i}", f"b{i}", subscriptions=everything) for i in range(len(parents)))
    work = Work(
        "random", tuple(client.name for client in clients), ("a", "b"), keys=2, operations=20,
        mix=Mix(causal=0.5, total=0.5), start_us=2_000_000, options=RandomOptions(),
    )  # fmt: skip
    scenario = Scenario(
        "found by a swarm", brokers, options={"faults_tolerated": 2}, clients=clients, workloads=(work,),
        faults=tuple(faults), time_limit_us=200_000_000,
    )  # fmt: skip
    return complaint_about(scenario, run_scenario(scenario))


@pytest.mark.parametrize("name", every_nth(SEEDS, 3))
def test_what_went_wrong_once_goes_well(name: str) -> None:
    outcome = try_seed(SEEDS[name])
    assert not outcome.failed, outcome.report


def test_a_root_that_returns_while_its_successor_is_frozen_does_not_dissolve_the_tree() -> None:
    """Its children took the end of its second life's request for the end of their link, and retired one by one."""
    faults = [
        FaultSpec(2_000_000, FREEZE, ("b1",)),
        FaultSpec(2_000_001, CRASH, ("b0",), host=True),
        FaultSpec(2_500_000, RECOVER, ("b0",)),
        FaultSpec(12_000_000, UNFREEZE, ("b1",)),
    ]
    assert complaint([None, "b0", "b0", "b0", "b0", "b0"], faults) == ""


@pytest.mark.parametrize("latency_us", [1_000, 200_000])
def test_two_coordinators_of_one_repair_agree_on_one_of_them(latency_us: int) -> None:
    """The root and a child of it died at once; its brother and its own child had each accepted the other's list."""
    faults = [FaultSpec(4_000_000, CRASH, ("b0",)), FaultSpec(4_000_000, CRASH, ("b1",))]
    assert complaint([None, "b0", "b0", "b1", "b1"], faults, latency_us) == ""


@pytest.mark.parametrize("crash_us", [4_040_000, 4_070_000])
def test_a_client_that_returns_is_not_given_copies_before_what_stands_in_line(crash_us: int) -> None:
    """Too few had the pool to make it safe. What the coordinator's own clients read waited, what only the ghost of the
    dead broker read did not, and a client that came at that moment was given effects before causes."""
    brokers = (BrokerSpec("b0"), BrokerSpec("b1", "b0", 20_000), BrokerSpec("b2", "b0", 5_000))
    clients = (
        ClientSpec("c0", "b1"),
        ClientSpec("c1", "b0", subscriptions=(SubscriptionSpec("#"),)),
        ClientSpec("c2", "b2", subscriptions=(SubscriptionSpec("b"),)),
    )
    work = Work(
        "random", ("c0",), ("a", "b"), keys=2, operations=20, mix=Mix(causal=1.0), start_us=4_000_000,
        interval_us=5_000, options=RandomOptions(),
    )  # fmt: skip
    scenario = Scenario(
        "found by a swarm", brokers, options={"faults_tolerated": 2}, clients=clients, workloads=(work,),
        faults=(FaultSpec(crash_us, CRASH, ("b0",)),), time_limit_us=200_000_000,
    )  # fmt: skip
    assert complaint_about(scenario, run_scenario(scenario)) == ""


def complaint_of_one_cut_off(home: str, publisher: str, parents: Sequence[str | None], *faults: FaultSpec) -> str:
    """Of a tree that tolerates one fault, where a client hears everything that another one says from 4 s to 10 s."""
    brokers = tuple(BrokerSpec(f"b{i}", parent, 1_000) for i, parent in enumerate(parents))
    clients = (ClientSpec("c0", publisher), ClientSpec("c1", home, subscriptions=(SubscriptionSpec("#"),)))
    work = Work(
        "random", ("c0",), ("a", "b"), keys=2, operations=60, mix=Mix(causal=1.0), start_us=4_000_000,
        interval_us=100_000, options=RandomOptions(),
    )  # fmt: skip
    scenario = Scenario(
        "found by a swarm", brokers, options={"faults_tolerated": 1}, clients=clients, workloads=(work,),
        faults=faults, time_limit_us=200_000_000,
    )  # fmt: skip
    return complaint_about(scenario, run_scenario(scenario))


@pytest.mark.parametrize("heal_us", [9_600_000, 10_100_000])
def test_a_client_that_was_cut_off_is_served_by_its_broker_and_not_by_the_ghost_of_another(heal_us: int) -> None:
    """It had asked the dead broker, too, while it was cut off, and was taken for one of its clients."""
    faults = [
        FaultSpec(3_000_000, CRASH, ("b0",)),
        FaultSpec(3_500_000, RECOVER, ("b0",)),
        FaultSpec(4_500_000, PARTITION, ("c1",)),
        FaultSpec(heal_us, HEAL),
    ]
    assert complaint_of_one_cut_off("b2", "b1", [None, "b0", "b1"], *faults) == ""


@pytest.mark.parametrize("heal_us", [11_600_000, 12_100_000])
def test_a_client_whose_broker_and_its_successor_died_while_it_was_cut_off_misses_nothing(heal_us: int) -> None:
    """Nobody who is left took part in the first repair: the successor had told its neighbours whom it looks after."""
    faults = [
        FaultSpec(4_500_000, PARTITION, ("c1",)),
        FaultSpec(4_600_000, CRASH, ("b2",)),
        FaultSpec(8_000_000, CRASH, ("b1",)),
        FaultSpec(heal_us, HEAL),
    ]
    assert complaint_of_one_cut_off("b2", "b3", [None, "b0", "b1", "b0"], *faults) == ""


FAR_AWAY = """
name = "a census that takes longer than a newcomer waits"
seed = 3020054
time_limit = "300s"
[options]
lease_us = 20_000_000
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "3s"
[[broker]]
name = "b2"
parent = "b0"
latency = "10ms"
[[fault]]
at = "40s"
kind = "crash"
nodes = ["b2"]
[[fault]]
at = "60s"
kind = "recover"
nodes = ["b2"]
disk = false
first = true
"""


def test_a_newcomer_that_asks_again_while_it_is_looked_for_is_taken_in_all_the_same() -> None:
    """It knows nobody else, and each time that it asked the search began anew (seed 3020054 of `restarts`)."""
    scenario = parse_scenario(FAR_AWAY)
    result = run_scenario(scenario)
    assert complaint_about(scenario, result) == ""
    assert [row.node for row in result.rows if row.kind == "joined"] == ["b2", "b1", "b2"]


@pytest.mark.parametrize("seed", [7001863, 7001959])
def test_a_run_is_not_over_while_dead_authorities_are_passed_over(seed: int) -> None:
    """The root and whoever would have declared it dead fell silent together: the others wait two leases for that one
    before they go on, and nothing else is pending meanwhile."""
    assert not try_seed(seed, "totals").complaint


def test_a_publisher_that_comes_to_a_broker_which_never_saw_its_publications_is_told_all_the_same() -> None:
    """Nobody wanted them, so they went no farther than to f + 1 brokers. Its broker died with the next one, which was
    back as a newcomer far away and served it: there nobody knew that anything was to be told."""
    assert not try_seed(3032233, "doubled-clients").complaint


def test_a_client_that_turns_back_while_it_is_being_served_elsewhere_is_still_owed_what_it_misses() -> None:
    """Its broker was frozen and declared dead. The coordinator said Serving and counted the client as returned, and the
    ghost ended; but the client had heard its old broker again a moment before, and turned back to it. That one was
    fenced, and the next life of it owes nothing: deliveries were missing, and `delivered` was told of them. Now a ghost
    waits until the client says that it has come (seed 7100522 of `totals`)."""
    assert not try_seed(7100522, "totals").complaint


LOST_DISK = """
name = "a disk that knew who was owed what is lost"
seed = 3200078
time_limit = "200s"
[options]
faults_tolerated = 1
durable = "journal"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "140ms"
[[broker]]
name = "b2"
parent = "b1"
latency = "40ms"
[[client]]
name = "c0"
broker = "b1"
[[client]]
name = "c1"
broker = "b0"
subscribe = ["a"]
[[client]]
name = "c2"
broker = "b2"
subscribe = ["a"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["a"]
operations = 40
interval = "100ms"
start = "3s"
[[fault]]
at = "4100ms"
kind = "crash"
nodes = ["b0", "b1", "b2"]
[[fault]]
at = "7s"
kind = "recover"
nodes = ["b0"]
found = true
[[fault]]
at = "7100ms"
kind = "recover"
nodes = ["b2"]
[[fault]]
at = "8s"
kind = "recover"
nodes = ["b1"]
disk = false
"""


@pytest.mark.parametrize("latency_ms", [1, 300])
def test_what_was_on_its_way_from_a_broker_whose_disk_is_lost_is_not_missing_without_a_word(latency_ms: int) -> None:
    """Seed 3200078 of the class `blackout`, while it drew empty disks: b2 had it, and only b1 knew that b0 had not.
    With a slow line, c1 was told after the publishers had been told 'delivered'."""
    slow = LOST_DISK.replace('broker = "b0"', f'broker = "b0"\nlatency = "{latency_ms}ms"')
    result = run_scenario(parse_scenario(slow))
    verdict = judge(result.rows)
    assert {check.rule for check in verdict.checks if check.anomalies} == {"lost_told"}, "\n".join(lines(verdict))
    assert {row.node for row in result.rows if row.kind == "session_lost"} == {"c1", "c2"}
    assert result.ended == "quiescent"


def test_a_client_that_returned_is_not_given_what_it_asked_for_later_when_everything_stops_again() -> None:
    """Its broker was through with it when the client subscribed, and still had it on its disk."""
    outcome = try_seed(8100030, "blackout")
    assert not outcome.failed, outcome.report


@pytest.mark.parametrize("family", every_nth(("restarts", "blackout"), 2))
def test_a_subscription_to_a_topic_with_a_dollar_sign_outlives_a_restart_that_begins_twice(family: str) -> None:
    """b0 led the restart alone, and joined another leader in its next life. It had forgotten that c5, which was not
    back, wanted `$ops/#`; publishers were told 'delivered'."""
    outcome = try_seed(62074441, family)
    assert not outcome.failed, outcome.report


def test_brokers_that_joined_a_root_whose_voters_chose_another_one_are_taken_in_there() -> None:
    """Four of nine brokers had joined the first of two roots and proposed configurations for ever; the second root
    followed these, lost its lease, and could not tell them that the tree went on without them."""
    outcome = try_seed(93000088, "restarts", check_period=0)
    assert not outcome.failed, outcome.report


STOPPED_TWICE = """
name = "everything stops again while the first broker waits for the others"
time_limit = "300s"
[options]
faults_tolerated = 1
durable = "journal"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[broker]]
name = "b2"
parent = "b1"
[[broker]]
name = "b3"
parent = "b2"
[[client]]
name = "c0"
broker = "b0"
[[client]]
name = "c1"
broker = "b3"
latency = "300ms"
subscribe = ["TOPIC"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["TOPIC"]
operations = 60
interval = "100ms"
start = "3s"
[[fault]]
at = "4100ms"
kind = "crash"
nodes = ["b0", "b1", "b2", "b3"]
[[fault]]
at = "5s"
kind = "recover"
nodes = ["b0", "b2", "b3"]
[[fault]]
at = "15s"
kind = "recover"
nodes = ["b1"]
[[fault]]
at = "16s"
kind = "crash"
nodes = ["b0", "b1", "b2", "b3"]
[[fault]]
at = "17s"
kind = "recover"
nodes = ["b0", "b1", "b2", "b3"]
"""


@pytest.mark.parametrize("topic", ["a", "$ops/b"])
def test_a_broker_that_led_a_restart_alone_waits_for_the_others_when_everything_stops_again(topic: str) -> None:
    """Its roster named nobody else. So it went on without the logs of the others, and clients lost what was safe."""
    scenario = parse_scenario(STOPPED_TWICE.replace("TOPIC", topic))
    result = run_scenario(scenario)
    assert not complaint_about(scenario, result)
    assert not [row.node for row in result.rows if row.kind == "session_lost"]


ROLLING = {
    "the new neighbour of a broker that goes has forgotten what its clients have not taken": 44,
    "with f = 2 and two brokers, what is on both is not on f + 1": 241,
    "what came while there was only one broker is with no other when that goes": 278,
    "a publisher whose broker's keeper is gone, too, is told 'delivered' when nobody can keep anything any more": 490,
    "votes about a root that take longer than a lease to come are counted": 62,
    "what only the dead had, beside those whose readers have not taken it, is given to others": 970006,
    "a total that a client two hops away has not taken is kept when both brokers between go": 970045,
}


@pytest.mark.parametrize("seed", ROLLING.values(), ids=ROLLING.keys())
def test_a_rolling_restart_that_went_wrong_once_goes_well(seed: int) -> None:
    outcome = try_seed(seed, "rolling")
    assert not outcome.failed, outcome.report


def test_with_f_2_a_newcomer_is_given_what_a_reader_behind_its_source_has_not_taken() -> None:
    """The invariant I2 found it: a broker shared with newcomers only what somebody on its own side had not taken. A
    publication that a client of its source had not taken was at two of three brokers, and f = 2 crashes lose it."""
    outcome = try_seed(83417065, "in-turn")
    assert not outcome.failed, outcome.report


def test_a_member_whose_grant_takes_longer_than_a_lease_is_not_taken_for_dead() -> None:
    """It said nothing while it came: its coordinator heard of no other sign of life, declared it dead, and never told
    it so, because it tells those who speak to it. Over links of 400 ms half of the tree was left outside."""
    outcome = try_seed(5210991, "hung")
    assert not outcome.failed, outcome.report


def test_a_ghost_does_not_wait_for_the_grant_of_a_member_that_has_restarted() -> None:
    """The next life of a member begins to count its places anew, so the ghost took its Grant for one on its way, and
    kept a client that never returned for ever."""
    assert not try_seed(731018).complaint
