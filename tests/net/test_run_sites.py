"""A tree of sites with real processes: brokers that are killed, stopped by SIGSTOP and started again."""

import asyncio
from random import Random

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict, lines
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.scenario.load import load_scenario
from resprout.trace.schema import Row
from resprout_lab.sites import SITES
from tests.net.arrived import assert_everything_arrived
from tests.soak import cases

SCENARIO = "sites"
ALL = [f"s{site}{letter}" for site in range(3) for letter in "abc"]


def run(faults: str, operations: int = 12) -> tuple[ProcessRunResult, Verdict]:
    scenario = load_scenario(
        SCENARIO,
        [
            f"workload.0.operations={operations}",
            "workload.0.start=5s",
            "options.patience_us=2_000_000",  # a machine with much to do is slow, and not dead
            f"fault=[{faults}]",
        ],
    )
    result = asyncio.run(RealRun(scenario).finish())
    verdict = judge(result.rows, bank_initial=scenario.bank_initial, promise=SITES.promise())
    assert not verdict.anomalies, "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    assert_everything_arrived(verdict, 4 * operations, 4)
    return result, verdict


def since_the_fault(result: ProcessRunResult, kind: str) -> list[Row]:
    struck = next(place for place, row in enumerate(result.rows) if row.kind in ("crash", "freeze"))
    return [row for row in result.rows[struck:] if row.kind == kind]


def leaders(result: ProcessRunResult, site: str) -> list[str]:
    """That have come since the fault."""
    notes = [row.detail or "" for row in since_the_fault(result, "leader")]
    return [note.split()[0] for note in notes if f"the site {site} " in note]


def test_a_bank_on_sites() -> None:
    run("")


def test_the_leaders_of_two_sites_are_killed_and_return() -> None:
    crash = '{at="5300ms", kind="crash", nodes=["s0a", "s1a"]}'
    back = '{at="11s", kind="recover", nodes=["s0a", "s1a"]}'
    result, _ = run(f"{crash}, {back}", operations=25)
    for site in ("s0", "s1"):
        assert leaders(result, site) and f"{site}a/1" not in leaders(result, site)
    again = [row.node for row in since_the_fault(result, "joined")]
    assert set(again) >= {"s0a", "s1a"}, "both are brokers of their sites again"


def test_a_leader_that_is_stopped_and_goes_on_is_no_second_sequencer() -> None:
    """The judge compares the places that brokers claim for totals: none is given twice."""
    stop, go_on = '{at="5300ms", kind="freeze", nodes=["s0a"]}', '{at="13s", kind="unfreeze", nodes=["s0a"]}'
    result, verdict = run(f"{stop}, {go_on}", operations=25)
    assert leaders(result, "s0") and "s0a/1" not in leaders(result, "s0"), "its site has elected another meanwhile"
    assert [check.status for check in verdict.checks if check.rule == "tseq"] == ["clean"]


def strike(at_ms: int, kind: str, *names: str) -> str:
    nodes = ", ".join(f'"{name}"' for name in names)
    return f'{{at="{at_ms}ms", kind="{kind}", nodes=[{nodes}]}}'


def draw_round(number: int) -> str:
    """In turn: a site loses its majority, all sites restart at once, leaders are frozen. All of them come back."""
    rng = Random(number)
    at_ms = rng.randint(5_000, 5_800)
    back_ms = at_ms + rng.randint(500, 6_000)
    site = f"s{rng.randrange(3)}"
    match number % 3:
        case 0:
            names = rng.sample([f"{site}{letter}" for letter in "abc"], 2)
            return f"{strike(at_ms, 'crash', *names)}, {strike(back_ms, 'recover', *names)}"
        case 1:
            return f"{strike(at_ms, 'crash', *ALL)}, {strike(back_ms, 'recover', *ALL)}"
        case _:
            leaders = rng.sample(["s0a", "s1a", "s2a"], rng.randint(1, 3))
            return f"{strike(at_ms, 'freeze', *leaders)}, {strike(back_ms, 'unfreeze', *leaders)}"


@pytest.mark.parametrize("number", range(cases(2, 20)))
def test_rounds_of_failures_lose_nothing(number: int) -> None:
    run(draw_round(number), operations=25)
