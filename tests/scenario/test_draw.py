import hashlib
import os
import subprocess
import sys
from pathlib import Path

from resprout.core.guarantee import Guarantee
from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import ChatterOptions, RandomOptions, Scenario
from resprout.scenario.write import describe, to_toml
from tests.patience import PATIENCE_S

SEEDS = range(120)

PROGRAM = """
import hashlib
from resprout.scenario.draw import draw_scenario
from resprout.scenario.write import to_toml
from tests.scenario.perfect import PerfectNetwork
digest = hashlib.sha256()
for seed in range(25):
    scenario = draw_scenario(seed, operations_max=10)
    digest.update(to_toml(scenario).encode())
    network = PerfectNetwork(scenario)
    network.run()
    digest.update(repr(network.wishes).encode())
print(digest.hexdigest())
"""


def drawn() -> list[Scenario]:
    return [draw_scenario(seed) for seed in SEEDS]


def test_what_is_drawn_and_what_applications_do_is_the_same_in_every_process() -> None:
    """Python's hash of texts differs between these processes; nothing may depend on it."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].strip()) == hashlib.sha256().digest_size * 2


def test_seeds_draw_different_scenarios() -> None:
    assert len({to_toml(scenario) for scenario in drawn()}) == len(SEEDS)


def test_draws_cover_what_a_swarm_must_meet() -> None:
    scenarios = drawn()
    brokers = {len(scenario.brokers) for scenario in scenarios}
    workloads = [workload for scenario in scenarios for workload in scenario.workloads]
    subscriptions = [s for scenario in scenarios for client in scenario.clients for s in client.subscriptions]
    random_options = [w.options for w in workloads if isinstance(w.options, RandomOptions)]
    assert brokers == set(range(1, 13))
    assert {len(scenario.clients) for scenario in scenarios} == set(range(1, 9))
    assert {scenario.options["faults_tolerated"] for scenario in scenarios} == {0, 1, 2}
    assert {guarantee for w in workloads for guarantee, _ in w.mix.shares} == set(Guarantee)
    assert any(s.where for s in subscriptions)
    assert any("+" in s.filter for s in subscriptions)
    assert any("#" in s.filter for s in subscriptions)
    assert any(options.churn for options in random_options)
    assert any(options.burst > 1 for options in random_options)
    assert any(isinstance(w.options, ChatterOptions) and w.options.depth > 3 for w in workloads)
    assert any(broker.bandwidth_bps for scenario in scenarios for broker in scenario.brokers)
    assert any(not client.subscriptions for scenario in scenarios for client in scenario.clients)


def test_a_swarm_chooses_what_may_be_drawn() -> None:
    for seed in SEEDS:
        scenario = draw_scenario(
            seed,
            guarantees=(Guarantee.TOTAL,),
            options={"mode": ("x",)},
            brokers_max=2,
            clients_max=3,
            operations_max=5,
        )
        assert scenario.options == {"mode": "x"}
        assert len(scenario.brokers) <= 2
        assert len(scenario.clients) <= 3
        assert all(w.mix.total == 1.0 and w.operations <= 5 for w in scenario.workloads)


def test_a_description_tells_what_was_drawn_in_a_few_lines() -> None:
    for scenario in drawn():
        text = describe(scenario)
        assert text.count("\n") == 1 + len(scenario.workloads)
        assert f"seed {scenario.seed}" in text
        assert f"{len(scenario.brokers)} brokers" in text
