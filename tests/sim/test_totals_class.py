"""What the class of trials about totals draws."""

from resprout.sim.classes import CLASSES
from resprout.sim.classes.tree import BROKERS_MIN, totals
from resprout.sim.swarm import try_seed


def test_totals_are_in_every_mix_and_those_who_lead_fall() -> None:
    trials = [totals(seed) for seed in range(7_001, 7_005)]
    assert CLASSES["totals"] is totals
    fallen: set[str] = set()
    for trial in trials:
        scenario = trial.scenario
        assert len(scenario.brokers) >= BROKERS_MIN and scenario.options["faults_tolerated"] in (1, 2)
        assert all(work.mix.total >= 0.1 and work.keys in (1, 2, 10) for work in scenario.workloads)
        fallen.update(name for strike in trial.at_events for name in strike.fault.nodes)
    assert "b0" in fallen, "the root falls often"


def test_equal_seeds_give_equal_trials() -> None:
    assert totals(7_001) == totals(7_001)


def test_a_member_that_is_asked_twice_does_not_say_that_it_is_no_member() -> None:
    """It had attached because the coordinator of its own repair was dead. It was asked again when the session began,
    and was left out of the repair: two brokers and their clients were cut off for ever."""
    outcome = try_seed(93000050, "totals", check_period=0)
    assert not outcome.failed, outcome.report


def test_a_broker_that_wakes_after_it_was_declared_dead_owes_its_clients_nothing() -> None:
    """It had the only copy of a total that all clients of the tree had taken. The check of copies (I2) counted it."""
    outcome = try_seed(94108269, "totals")
    assert not outcome.failed, outcome.report
