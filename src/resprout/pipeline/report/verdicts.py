"""The first part of the page: which promises were kept, by which stack, and what went wrong where they were not.

`promised_by` says in words what a stack guarantees, and which faults it survives with all of that kept.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from resprout.audit.verdict import RULES, VIOLATED, missed
from resprout.core.errors import UsageError
from resprout.core.guarantee import OrderScope
from resprout.pipeline.report.facts import (
    RunFacts,
    RunStanding,
    by_experiment,
    count_standings,
    is_documented,
    known_stack,
    said_about,
    worst_of,
)
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.measures import NONE
from resprout.pipeline.report.page_tables import LabelledRow, PageCell, PageTable, cells_of, header, rows_by_label
from resprout.pipeline.report.sections import RunTargets
from resprout.pipeline.results import ANOMALIES_MAX, AnomalyRow
from resprout.stacks.stack import Stack, Survival

SHOWN: Final = 3
"""Explanations of one rule and stack."""
NOT_KEPT: Final = f"Explanations of it are not among the {ANOMALIES_MAX} that are kept of a run."

UNKNOWN = "unknown: the stack is not installed here, or does not take these options"


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


class Promised(msgspec.Struct, frozen=True):
    """By one stack with some options."""

    guarantees: str
    survives: str
    survival: Survival | None
    """None when nobody can say."""

    def covers(self, facts: RunFacts) -> bool:
        """Whether no more brokers fell in this run than the stack says that it survives, and those returned that have
        to, or may. How they stood to each other is not looked at: it is for runs in which one falls, or none."""
        said, fell, gone = self.survival, facts.run.faults, facts.run.gone
        if said is None or fell > said.faults:
            return False
        return said.recovers if fell > gone else not (gone and said.all_return)


def promised_by(facts: RunFacts) -> Promised:
    stack = known_stack(facts.stack)
    options = None if stack is None else _options(stack, facts.run.options)
    if stack is None or options is None:
        return Promised(UNKNOWN, UNKNOWN, None)
    survival = stack.survives(options)
    return Promised(guarantees_of(stack, options), survives_in_words(survival), survival)


def _options(stack: Stack[Any], told: Mapping[str, str]) -> Any:
    try:
        return stack.parse_options({name: msgspec.json.decode(text) for name, text in told.items()})
    except (UsageError, msgspec.MsgspecError):
        return None


def guarantees_of(stack: Stack[Any], options: Any) -> str:
    promise = stack.promise()
    offered = [guarantee.label for guarantee in stack.offered(options)]
    scope = " within each topic" if promise.order is OrderScope.EACH_TOPIC and len(offered) > 1 else ""
    chance = "with a probability" if promise.is_probable else "for certain"
    return f"{', '.join(offered)}{scope}, {chance}; receipts: {', '.join(promise.receipts)}"


def survives_in_words(survival: Survival) -> str:
    if not survival.faults:
        more = "; ".join(_more(survival))
        return f"pauses and connections that break, no dead broker{'; ' if more else ''}{more}"
    return "; ".join((_dead(survival), *_more(survival)))


def _dead(survival: Survival) -> str:
    many = survival.faults
    if survival.each_site:
        place = "in each site"
    elif survival.span is not None:
        place = f"on any path of {survival.span}"
    else:
        place = "in the network"
    again = ", again and again" if survival.again else ""
    return f"{many} dead {'broker' if many == 1 else 'brokers'} {place} at once{again}"


def _more(survival: Survival) -> Iterator[str]:
    suffered = {
        "silent hosts": survival.silent_hosts,
        "frozen brokers": survival.freezes,
        "brokers cut off": survival.cuts,
        "partitions": survival.partitions,
        "newcomers": survival.joins,
        "brokers that leave": survival.leaves,
    }
    if any(suffered.values()):
        yield ", ".join(word for word, is_suffered in suffered.items() if is_suffered)
    if survival.least:
        yield f"with {survival.least} brokers or more"
    if survival.majority:
        who = "nearest to the root" if survival.span is not None else "whom others join by"
        yield f"most of those {who} must be left"
    if survival.all_return:
        yield "every dead broker must return"
    if survival.recovers:
        ways = {"with its disk": survival.recovers_with_disk, "without": survival.recovers_without_disk}
        early = "" if survival.returns_early else ", when its repair is over"
        yield f"a dead broker may return {' or '.join(word for word, may in ways.items() if may)}{early}"
