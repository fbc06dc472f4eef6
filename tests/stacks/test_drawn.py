"""Drawn networks of every stack beside the default one, with the faults that it says it survives, are clean.

A few of each are in `make test`; CI has forty with `make seeds`, and `make soak` five hundred.
"""

import msgspec
import pytest

from resprout.sim.run import Trial
from resprout.sim.swarm import swarm_trial, try_seed
from resprout.stacks.stack import find_stack
from resprout_lab import SYSTEMS
from tests.soak import cases

BLOCK = 2


@pytest.mark.parametrize("first", range(1, cases(2, 40) + 1, BLOCK))
@pytest.mark.parametrize("stack", SYSTEMS)
def test_drawn_networks_keep_every_promise(stack: str, first: int) -> None:
    seeds = range(first, first + BLOCK)
    failures = [outcome.report for seed in seeds if (outcome := try_seed(seed, stack=stack)).failed]
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("stack", ["locamu", "delta", "cbcast", "causal-barriers"])
def test_drawn_networks_with_small_groups_that_overlap_keep_every_promise(stack: str) -> None:
    seeds = range(1, cases(2, 100) + 1)
    failures = [outcome.report for seed in seeds if (outcome := try_seed(seed, "groups", stack)).failed]
    assert not failures, "\n\n".join(failures)


def test_a_drawn_group_is_read_by_two_or_three_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rehearsals that find the moments of faults, which are not looked at here."""
    monkeypatch.setattr("resprout.sim.swarm.with_mishaps", Trial)
    monkeypatch.setattr("resprout.sim.swarm.with_rest", lambda trial, idle_us: trial)
    for seed in range(1, cases(6, 30)):
        scenario = swarm_trial(seed, "groups", "locamu").scenario
        topics = [topic for work in scenario.workloads for topic in work.topics if topic.startswith("group/")]
        readers = [
            sum(topic in [one.filter for one in client.subscriptions] for client in scenario.clients)
            for topic in topics
        ]
        assert len(topics) >= 2 and max(readers) <= 3, f"seed {seed}"


@pytest.mark.parametrize("stack", ["locamu", "delta", "cbcast", "causal-barriers"])
def test_every_option_of_the_multicasts_is_drawn(stack: str) -> None:
    tried = find_stack(stack)
    assert set(tried.drawn) == {field.name for field in msgspec.structs.fields(tried.options)}
    assert all(len(set(values)) > 1 for values in tried.drawn.values())
