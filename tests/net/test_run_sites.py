"""A tree of sites with real processes: brokers that are killed, stopped by SIGSTOP and started again."""

import asyncio

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict, lines
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.scenario.load import load_scenario
from resprout.trace.schema import Row
from resprout_lab.sites import SITES
from tests.net.arrived import assert_everything_arrived

SCENARIO = "sites"


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
