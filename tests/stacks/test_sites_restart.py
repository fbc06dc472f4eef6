"""Sites whose brokers return with their disks: a site that lost its majority serves again when a majority is back."""

import random
from collections.abc import Sequence

import msgspec
import pytest

from resprout.audit.verdict import lines
from resprout.core.contract import Recovered, Retire
from resprout.edge.messages import HoldTold
from resprout.scenario.model import FaultKind, FaultSpec, Mix
from resprout.sim.run import Run
from resprout.stacks.stack import BrokerSeat
from resprout_lab.sites.broker import SitesBroker
from resprout_lab.sites.options import SitesOptions
from tests.soak import cases
from tests.stacks.sites_runs import STAR, Played, clients, crash, freeze, play, recover, scenario, sites, work

HOMES = {f"c{site}{letter}": f"s{site}{letter}" for site in range(3) for letter in "abc"}
ALL = tuple(HOMES.values())
EVENTUAL = Mix(eventual=1.0)
CRASH_US, BACK_US = 1_200_000, 2_400_000


def back(at_us: int, *names: str) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.RECOVER, names)


def run(*faults: FaultSpec, order: str = "total", operations: int = 40) -> Played:
    busy = work(list(HOMES), "t", "u", operations=operations, interval_us=20_000)
    if order != "total":
        busy = work(list(HOMES), "t", "u", operations=operations, interval_us=20_000, mix=EVENTUAL)
    return play(scenario(sites(STAR), clients(HOMES, "t", "u"), busy, faults=faults, order=order))


def check_all_delivered(played: Played, operations: int = 40) -> None:
    played.check_clean()
    for client in HOMES:
        assert len(played.delivered(client)) == len(HOMES) * operations


@pytest.mark.parametrize("names", [("s1a", "s1b"), ("s0a", "s0c"), ("s2a", "s2b", "s2c")])
def test_a_site_that_lost_its_majority_serves_again_when_it_is_back(names: Sequence[str]) -> None:
    """Two of three that crashed and returned with their disks used to lose 3,884 of 8,100 deliveries, and the site
    never decided anything again."""
    check_all_delivered(run(crash(CRASH_US, *names), back(BACK_US, *names)))


@pytest.mark.parametrize("order", ["none", "total"])
def test_all_sites_may_restart_at_once(order: str) -> None:
    check_all_delivered(run(crash(CRASH_US, *ALL), back(BACK_US, *ALL), order=order))


def test_a_majority_is_enough_after_everything_has_stopped() -> None:
    some = tuple(name for name in ALL if not name.endswith("c"))
    played = run(crash(CRASH_US, *ALL), back(BACK_US, *some), back(9_000_000, *(set(ALL) - set(some))))
    check_all_delivered(played)


def test_a_site_restarts_again_and_again() -> None:
    names = ("s1a", "s1b", "s1c")
    faults = [fault for at_us in range(1_200_000, 12_000_000, 4_000_000)
              for fault in (crash(at_us, *names), back(at_us + 500_000, *names))]  # fmt: skip
    check_all_delivered(run(*faults))


def test_a_broker_without_its_disk_is_another_member_and_one_with_it_is_the_same() -> None:
    played = run(crash(CRASH_US, "s1b"), back(BACK_US, "s1b"))
    assert "s1b/0" in played.state("s1a").members and "s1b/2" in played.state("s1a").lives
    played = run(crash(CRASH_US, "s1b"), recover(BACK_US, "s1b"))
    assert "s1b/2" in played.state("s1a").members
    played.check_clean()


@pytest.mark.parametrize("missing", ["s0a", "s0b", "s1a", "s1c", "s2b"])
def test_a_site_forms_without_a_broker_that_is_missing_at_the_start(missing: str) -> None:
    """It used to wait for that one for ever; after that was mended, still for its first broker."""
    played = run(crash(1_000, missing), back(6_000_000, missing))
    assert played.result.ended == "quiescent" and not played.verdict.anomalies
    assert {row.node for row in played.rows if row.kind == "joined"} >= set(ALL)
    assert len(played.state(missing).brokers) == 3


def while_sites_form(seed: int) -> Played:
    """One broker of each site is missing, crashes, or is cut off while the sites form, and returns, with its disk or
    without. Work begins at 25 s, when clients of brokers that returned are served."""
    rng = random.Random(seed)
    faults = []
    for site in STAR:
        name, at_us, kind = (
            f"{site}{rng.choice('abc')}",
            rng.choice((1, rng.randint(1, 20_000), rng.randint(1, 4_000_000))),
            rng.random(),
        )
        back_us = at_us + rng.choice((rng.randint(1, 50_000), rng.randint(1, 6_000_000)))
        if kind < 0.7:
            faults += [crash(at_us, name), FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5)]
        elif kind < 0.85:
            faults += freeze(at_us, back_us, name)
        else:
            others = tuple((name, f"{site}{letter}") for letter in "abc" if name != f"{site}{letter}")
            faults += [FaultSpec(at_us, FaultKind.CUT, links=others), FaultSpec(back_us, FaultKind.HEAL, links=others)]
    faults.sort(key=lambda fault: fault.at_us)
    late = msgspec.structs.replace(work(list(HOMES), "t", operations=5), start_us=25_000_000)
    near_us = rng.choice((100, 500, 20_000))
    return play(scenario(sites(STAR, near_us), clients(HOMES, "t"), late, faults=faults, seed=seed))


@pytest.mark.parametrize(
    "seed",
    [
        100,  # a broker began after its session with another one, and before it had heard that one: it never told it so
        109,  # the same
        *range(cases(6, 300)),
    ],
)
def test_sites_form_whatever_happens_to_a_minority_of_each_meanwhile(seed: int) -> None:
    played = while_sites_form(seed)
    assert played.result.ended == "quiescent"
    assert not played.broken() - {"lost_told"}, "\n".join(lines(played.verdict))
    for client in HOMES:
        assert len(played.delivered(client)) == len(HOMES) * 5
    for name, broker in played.brokers.items():
        assert broker.membership.is_seated and len(broker.agreement.members) == 3, name


def test_a_disk_that_cannot_be_read_ends_the_life_and_is_named() -> None:
    broker = SitesBroker(BrokerSeat("s0a", 2, None), SitesOptions(), random.Random(1))
    broker.start(0)
    effects = broker.step(Recovered((b"\xc1 no record",)), 1)
    (retire,) = [effect for effect in effects if isinstance(effect, Retire)]
    assert "s0a has on disk cannot be read" in retire.reason and not retire.again


def test_logs_of_sites_do_not_grow_on_disk() -> None:
    busy = work(list(HOMES), "t", "u", operations=150, interval_us=5_000)
    run = Run(scenario(sites(STAR), clients(HOMES, "t", "u"), busy), None, ())
    run.finish()
    for name in ALL:
        assert len(run.world.nodes[name].disk.records) < 3 * 512


def test_clients_of_a_site_without_a_majority_are_told_and_served_when_it_is_back() -> None:
    played = run(crash(CRASH_US, "s1a", "s1b"), back(9_000_000, "s1a", "s1b"))
    check_all_delivered(played)
    told = [message.reason for broker, peer, message in played.said if isinstance(message, HoldTold) and peer == "c1c"]
    assert told[0].startswith("the site s1 waits until most of its 3 brokers are back") and told[-1] == ""
