"""The first part of the page: which promises were kept, by whom, and what went wrong where they were not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from resprout.audit.verdict import RULES, VIOLATED, missed
from resprout.pipeline.report.facts import RunFacts, by_experiment
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.known import is_documented, said_about
from resprout.pipeline.report.markup import Markup, element, joined
from resprout.pipeline.report.number_tables import boxed_table, cells_of, header, rows_by_label
from resprout.pipeline.report.quantities import NONE
from resprout.pipeline.report.standing import RunStanding, count_standings, tag
from resprout.pipeline.tables import ANOMALIES_MAX, AnomalyRow

SHOWN: Final = 3
"""Explanations of one rule and stack."""


def verdict_section(facts: Sequence[RunFacts]) -> Markup:
    return element(
        "section",
        element("h2", "Verdicts"),
        _violations(facts),
        _rules(facts[0]) if len(facts) == 1 else _standings(facts),
        _left_out(facts) if len(facts) > 1 else None,
        id="verdicts",
    )


def banner(facts: Sequence[RunFacts]) -> Markup:
    """The whole in one line, and in another what it consists of. It comes first on the page, before the list of what is
    there, which may fill a phone."""
    count = count_standings(facts)
    look, line = _headline(count, len(facts), any(map(_is_partial, facts)))
    parts = [
        (count[RunStanding.CLEAN], "clean"),
        (count[RunStanding.DOCUMENTED], "with nothing but the documented anomaly of their stack"),
        (count[RunStanding.NOT_JUDGED], "not judged"),
    ]
    rest = "; ".join(f"{number:,} {what}" for number, what in parts if number)
    is_mixed = len(facts) > 1 and count[RunStanding.CLEAN] < len(facts)
    return element("div", line, element("p", f"{rest}.") if is_mixed and rest else None, class_=f"banner {look}")


def _headline(count: Mapping[RunStanding, int], total: int, is_partial: bool) -> tuple[str, str]:
    """How it looks, and what it says."""
    judged = total - count[RunStanding.NOT_JUDGED]
    if bad := count[RunStanding.VIOLATED]:
        return "bad", "The run broke a promise." if total == 1 else f"{bad:,} of {total:,} runs broke a promise."
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


def _standings(facts: Sequence[RunFacts]) -> Markup:
    rows = []
    for experiment, runs in by_experiment(facts).items():
        for stack in in_order(one.stack for one in runs):
            some = [one for one in runs if one.stack == stack]
            counts = [f"{count:,}" if count else NONE for count in count_standings(some).values()]
            rows.append(((experiment, stack), cells_of([f"{len(some):,}", *counts])))
    names = ("experiment", "stack", "runs", *(standing.value[0] for standing in RunStanding))
    heads = header(*names, numeric_from=2)
    return boxed_table("How the runs of each experiment and stack were judged", heads, rows_by_label(rows), "Verdicts")


def _rules(facts: RunFacts) -> Markup | None:
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
        rows.append(((rule,), cells_of([tag(standing), said], numeric_from=2)))
    heads = header("rule", "verdict", "promise", numeric_from=3)
    table = boxed_table("Every rule, and how it came out", heads, rows_by_label(rows), "Rules")
    return element("details", element("summary", f"All {len(RULES)} rules"), table, open=verdict.status == VIOLATED)


def _violations(facts: Sequence[RunFacts]) -> Markup | None:
    """What nobody expects comes first."""
    broken: dict[tuple[str, str], list[RunFacts]] = {}
    for stack in in_order(one.stack for one in facts):
        for rule in RULES:
            runs = [one for one in facts if one.stack == stack and one.verdict and rule in one.verdict.rules_violated]
            if runs:
                broken[stack, rule] = runs
    if not broken:
        return None
    found = sorted(broken.items(), key=lambda item: is_documented(*item[0]))
    total = Counter(one.stack for one in facts)
    return joined(
        element("h3", "What was found"),
        [_violation(stack, rule, runs, total[stack]) for (stack, rule), runs in found],
    )


def _violation(stack: str, rule: str, broken: Sequence[RunFacts], of: int) -> Markup:
    told, about = is_documented(stack, rule), said_about(stack, rule)
    shown = [anomaly for one in broken for anomaly in one.anomalies if anomaly.rule == rule][:SHOWN]
    return joined(
        element(
            "p",
            tag(RunStanding.DOCUMENTED if told else RunStanding.VIOLATED),
            element("strong", f" {rule}"),
            f" by {stack}, in {len(broken):,} of {_runs(of)}. The promise: {RULES[rule]}.",
            f" {'Why' if told else 'A possible reason'}: {about}." if about else None,
        ),
        element(
            "details", element("summary", "First explanations"), element("ul", map(_explained, shown)), open=not told
        )
        if shown
        else element(
            "p", f"Explanations of it are not among the {ANOMALIES_MAX} that are kept of a run.", class_="quiet"
        ),
    )


def _explained(anomaly: AnomalyRow) -> Markup:
    where = f"{anomaly.experiment} / {anomaly.run}" if anomaly.run != anomaly.experiment else anomaly.run
    return element(
        "li", anomaly.text, " ", element("span", f"({where}, {anomaly.time_us / 1e6:,.3f}\u00a0s)", class_="quiet")
    )


def _left_out(facts: Sequence[RunFacts]) -> Markup | None:
    """Rules that could not be judged, or only in part, and why."""
    reasons: dict[tuple[str, str, str], int] = {}
    for one in facts:
        if one.verdict is None:
            continue
        for how, told in (("not judged", one.verdict.skipped), ("judged in part", one.verdict.notes)):
            for rule, reason in told.items():
                reasons[rule, how, reason] = reasons.get((rule, how, reason), 0) + 1
    if not reasons:
        return None
    place = {rule: number for number, rule in enumerate(RULES)}
    ordered = sorted(reasons.items(), key=lambda item: (place.get(item[0][0], len(place)), item[0]))
    lines = [
        element("li", element("strong", rule), f" {how} in {_runs(count)}: {reason}")
        for (rule, how, reason), count in ordered
    ]
    return element("details", element("summary", "What was not judged, and why"), element("ul", lines))
