"""The runs of an experiment, one by one: what explanations lead to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from resprout.pipeline.report.anchors import anchor, run_anchor
from resprout.pipeline.report.facts import RunFacts, by_experiment
from resprout.pipeline.report.page_tables import LabelledRow, PageCell, PageTable, cells_of, header, rows_by_label
from resprout.pipeline.report.quantities import NONE
from resprout.pipeline.report.standing import RunStanding, standing_of

RUNS_MAX: Final = 500
"""Of one experiment. Of more, those that are not clean come first, and how many are left out is said."""

RunTargets = Mapping[tuple[str, str], str]
"""Where a link to a run leads, by experiment and run: to its line, or to the section that it belongs to."""


class RunList(msgspec.Struct, frozen=True):
    title: str
    table: PageTable


def listed(facts: Sequence[RunFacts]) -> list[RunFacts]:
    """Of one experiment: none of a run that is alone, which has the section for itself."""
    if len(facts) <= 1:
        return []
    if len(facts) <= RUNS_MAX:
        return list(facts)
    first = sorted(facts, key=lambda one: standing_of(one) is RunStanding.CLEAN)[:RUNS_MAX]
    kept = {one.name for one in first}
    return [one for one in facts if one.name in kept]


def targets_of(facts: Iterable[RunFacts]) -> RunTargets:
    found: dict[tuple[str, str], str] = {}
    for experiment, runs in by_experiment(facts).items():
        found |= {(experiment, one.name): anchor(experiment) for one in runs}
        found |= {(experiment, one.name): run_anchor(one) for one in listed(runs)}
    return found


def run_list(facts: Sequence[RunFacts]) -> RunList | None:
    shown = listed(facts)
    if not shown:
        return None
    left_out = len(facts) - len(shown)
    more = f" {left_out:,} more, which are not listed, came out as well or better." if left_out else ""
    caption = (
        "Every run with its name in the archive, which holds its trace for who wants to look into it; broke: the rules."
        f"{more}"
    )
    heads = header("verdict", "run", "broke", "seed", "publications", "deliveries", "lasted, s", numeric_from=3)
    table = PageTable("Runs", caption, heads, tuple(rows_by_label(list(map(_row, shown)))))
    return RunList(f"All {len(facts):,} runs" if not left_out else f"{len(shown):,} of {len(facts):,} runs", table)


def _row(one: RunFacts) -> LabelledRow:
    run = one.run
    broke = ", ".join(one.verdict.rules_violated) if one.verdict is not None else ""
    numbers = (str(run.seed), f"{run.publications:,}", f"{run.deliveries:,}", f"{run.duration_us / 1e6:,.1f}")
    cells = (PageCell(broke or NONE), *cells_of(numbers))
    return LabelledRow((one.name,), cells, PageCell(standing=standing_of(one)), run_anchor(one))
