"""The first part of the page: which promises were kept, by whom, and what went wrong where they were not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from resprout.audit.verdict import RULES, VIOLATED, missed
from resprout.pipeline.report.facts import RunFacts, by_experiment
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.known import is_documented, said_about
from resprout.pipeline.report.page_tables import LabelledRow, PageCell, PageTable, cells_of, header, rows_by_label
from resprout.pipeline.report.quantities import NONE
from resprout.pipeline.report.run_list import RunTargets
from resprout.pipeline.report.standing import RunStanding, count_standings, worst_of
from resprout.pipeline.tables import ANOMALIES_MAX, AnomalyRow

SHOWN: Final = 3
"""Explanations of one rule and stack."""
NOT_KEPT: Final = f"Explanations of it are not among the {ANOMALIES_MAX} that are kept of a run."


class PageBanner(msgspec.Struct, frozen=True):
    """The whole in one line, and in another what it consists of. It comes first on the page, before the list of what is
    there, which may fill a phone."""

    look: str
    line: str
    parts: str


class PageExplanation(msgspec.Struct, frozen=True):
    text: str
    where: str
    link: str
    """To the run."""
    at: str


class PageViolation(msgspec.Struct, frozen=True):
    standing: RunStanding
    rule: str
    line: str
    explanations: tuple[PageExplanation, ...]


class NotJudged(msgspec.Struct, frozen=True):
    rule: str
    line: str


class PageVerdicts(msgspec.Struct, frozen=True):
    violations: tuple[PageViolation, ...]
    table: PageTable | None
    """Of all runs by experiment and stack; of a run that is alone, every rule."""
    table_title: str
    """Of a table that is folded up, unless `is_open`; empty for one that is not."""
    is_open: bool
    left_out: tuple[NotJudged, ...]


def verdicts_of(facts: Sequence[RunFacts], targets: RunTargets) -> PageVerdicts:
    is_alone = len(facts) == 1
    return PageVerdicts(
        violations=_violations(facts, targets),
        table=_rules(facts[0]) if is_alone else _standings(facts),
        table_title=f"All {len(RULES)} rules" if is_alone else "",
        is_open=any(one.verdict is not None and one.verdict.status == VIOLATED for one in facts),
        left_out=() if is_alone else _left_out(facts),
    )


def banner(facts: Sequence[RunFacts]) -> PageBanner:
    count = count_standings(facts)
    look, line = _headline(count, len(facts), any(map(_is_partial, facts)))
    parts = [
        (count[RunStanding.CLEAN], "clean"),
        (count[RunStanding.DOCUMENTED], "with nothing but the documented anomaly of their stack"),
        (count[RunStanding.UNFINISHED], "not at rest when their time was over"),
        (count[RunStanding.NOT_JUDGED], "not judged"),
    ]
    rest = "; ".join(f"{number:,} {what}" for number, what in parts if number)
    is_mixed = len(facts) > 1 and count[RunStanding.CLEAN] < len(facts)
    return PageBanner(look, line, f"{rest}." if is_mixed and rest else "")


def _headline(count: Mapping[RunStanding, int], total: int, is_partial: bool) -> tuple[str, str]:
    """How it looks, and what it says."""
    judged = total - count[RunStanding.NOT_JUDGED]
    if bad := count[RunStanding.VIOLATED]:
        return "bad", "The run broke a promise." if total == 1 else f"{bad:,} of {total:,} runs broke a promise."
    if stuck := count[RunStanding.UNFINISHED]:
        who = "The run" if total == 1 else f"{stuck:,} of {total:,} runs"
        return "bad", f"{who} did not come to rest before the time limit."
    if not judged:
        return "plain", "The run was not judged." if total == 1 else "None of the runs was judged."
    far = ", as far as they were judged" if is_partial else ""
    if count[RunStanding.DOCUMENTED]:
        return "known", f"No promise was broken unexpectedly in {_runs(judged)}{far}."
    if total == 1:
        return "good", f"The run kept every promise{far}."
    who = f"All {judged:,} runs" if judged == total else f"{judged:,} of {total:,} runs were judged and"
    return "good", f"{who} kept every promise{far}."


def _is_partial(facts: RunFacts) -> bool:
    """Something that matters was not judged; that there is no bank in a run is no such thing."""
    return facts.verdict is not None and bool(missed(facts.verdict.skipped))


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _standings(facts: Sequence[RunFacts]) -> PageTable:
    rows = []
    for experiment, runs in by_experiment(facts).items():
        for stack in in_order(one.stack for one in runs):
            some = [one for one in runs if one.stack == stack]
            counts = [f"{count:,}" if count else NONE for count in count_standings(some).values()]
            verdict = PageCell(standing=worst_of(some))
            rows.append(LabelledRow((experiment, stack), cells_of([f"{len(some):,}", *counts]), verdict))
    heads = header("verdict", "experiment", "stack", "runs", *(one.word for one in RunStanding), numeric_from=3)
    caption = "How the runs of each experiment and stack were judged; the verdict is the worst of them"
    return PageTable("Verdicts", caption, heads, tuple(rows_by_label(rows)))


def _rules(facts: RunFacts) -> PageTable | None:
    """Of one run: every promise, and whether it was kept."""
    verdict = facts.verdict
    if verdict is None:
        return None
    rows = []
    for rule, promise in RULES.items():
        if rule in verdict.rules_violated:
            standing = RunStanding.DOCUMENTED if is_documented(facts.stack, rule) else RunStanding.VIOLATED
        else:
            standing = RunStanding.NOT_JUDGED if rule in verdict.skipped else RunStanding.CLEAN
        reason = verdict.skipped.get(rule) or verdict.notes.get(rule)
        said = f"{promise} ({reason})" if reason else promise
        rows.append(LabelledRow((rule,), (PageCell(said),), PageCell(standing=standing)))
    heads = header("verdict", "rule", "promise", numeric_from=3)
    return PageTable("Rules", "Every rule, and how it came out", heads, tuple(rows_by_label(rows)))


def _violations(facts: Sequence[RunFacts], targets: RunTargets) -> tuple[PageViolation, ...]:
    """What nobody expects comes first."""
    broken: dict[tuple[str, str], list[RunFacts]] = {}
    for stack in in_order(one.stack for one in facts):
        for rule in RULES:
            runs = [one for one in facts if one.stack == stack and one.verdict and rule in one.verdict.rules_violated]
            if runs:
                broken[stack, rule] = runs
    found = sorted(broken.items(), key=lambda item: is_documented(*item[0]))
    total = Counter(one.stack for one in facts)
    return tuple(_violation(stack, rule, runs, total[stack], targets) for (stack, rule), runs in found)


def _violation(stack: str, rule: str, broken: Sequence[RunFacts], of: int, targets: RunTargets) -> PageViolation:
    told, about = is_documented(stack, rule), said_about(stack, rule)
    line = f"by {stack}, in {len(broken):,} of {_runs(of)}. The promise: {RULES[rule]}."
    if about:
        line += f" {'Why' if told else 'A possible reason'}: {about}."
    shown = [anomaly for one in broken for anomaly in one.anomalies if anomaly.rule == rule][:SHOWN]
    explanations = tuple(_explained(anomaly, targets) for anomaly in shown)
    return PageViolation(RunStanding.DOCUMENTED if told else RunStanding.VIOLATED, rule, line, explanations)


def _explained(anomaly: AnomalyRow, targets: RunTargets) -> PageExplanation:
    where = f"{anomaly.experiment} / {anomaly.run}" if anomaly.run != anomaly.experiment else anomaly.run
    link = targets[anomaly.experiment, anomaly.run]
    return PageExplanation(anomaly.text, where, link, f"{anomaly.time_us / 1e6:,.3f}\u00a0s")


def _left_out(facts: Sequence[RunFacts]) -> tuple[NotJudged, ...]:
    """Rules that could not be judged, or only in part, and why."""
    reasons: dict[tuple[str, str, str], int] = {}
    for one in facts:
        if one.verdict is None:
            continue
        for how, told in (("not judged", one.verdict.skipped), ("judged in part", one.verdict.notes)):
            for rule, reason in told.items():
                reasons[rule, how, reason] = reasons.get((rule, how, reason), 0) + 1
    place = {rule: number for number, rule in enumerate(RULES)}
    ordered = sorted(reasons.items(), key=lambda item: (place.get(item[0][0], len(place)), item[0]))
    return tuple(NotJudged(rule, f"{how} in {_runs(count)}: {reason}") for (rule, how, reason), count in ordered)
