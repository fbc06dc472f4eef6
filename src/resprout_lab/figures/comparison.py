"""One table over all stacks: what each promises and survives, and what the same workload cost it.

A row stands for all runs of a stack with the same options, guarantee and circumstances, whatever their seeds, and shows
medians. Nothing is left out: what a stack does beyond the faults that it claims to survive is shown and marked.

`default_beside` compares the default stack with the other causal stacks point by point: which broker carries the most,
and what order costs it.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.pipeline.metrics.repairs import ALL
from resprout.pipeline.report.facts import RunFacts, RunStanding, worst_of
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.measures import MILLISECOND, NONE, Quantity, Style, share_of, style_for
from resprout.pipeline.report.page_tables import (
    LabelledRow,
    Labels,
    PageCell,
    PageRow,
    PageTable,
    cells_of,
    header,
    rows_by_label,
)
from resprout.pipeline.report.verdicts import Promised, promised_by
from resprout.stacks.stack import DEFAULT, find_stack
from resprout_lab import SYSTEMS

LEVEL: Final = 0.01
"""Two that differ by no more carry the same: where nobody is saturated, all carry what they are offered."""
_BESIDE_CAPTION: Final = (
    "Deliveries per second of the default stack, and of the best of the other causal stacks at the same point. "
    "Ordering data: the most that any of its messages carried to be put in order; its format has room for 16 bytes. "
    "Where all stacks carry what publishers offer they are level. Where payloads travel in parts all of them send the "
    "same bytes, and whose last part comes a moment earlier is ahead within the window."
)

FAULT_AXIS: Final = "fault"
"""The axis of the sweep that says what goes wrong."""
NEVER: Final = "never"
BEYOND: Final = "beyond what it survives"


class BesidePoint(msgspec.Struct, frozen=True):
    labels: Labels
    carried: float
    """By the default stack."""
    rival: str
    """The best of the others."""
    rival_carried: float
    ordering_bytes: int | None
    """The most of one message."""

    @property
    def verdict(self) -> str:
        if abs(self.carried - self.rival_carried) <= LEVEL * self.rival_carried:
            return "level"
        return "ahead" if self.carried > self.rival_carried else "behind"


def points_beside(facts: Sequence[RunFacts]) -> list[BesidePoint]:
    """Those at which the default stack and another causal one were run."""
    rates: dict[Labels, dict[str, list[float]]] = {}
    most: dict[Labels, int] = {}
    for one in facts:
        labels = tuple([value for axis, value in one.run.labels.items() if axis != "stack"])
        rate = one.traffic.steady_throughput if one.traffic else None
        if rate and one.stack in (DEFAULT, *SYSTEMS) and Guarantee.CAUSAL in find_stack(one.stack).guarantees:
            rates.setdefault(labels, {}).setdefault(one.stack, []).append(rate)
        if one.stack == DEFAULT and one.traffic and one.traffic.metadata_bytes_max is not None:
            most[labels] = max(one.traffic.metadata_bytes_max, most.get(labels, 0))
    orders = [in_order(column) for column in zip(*rates, strict=True)]
    found = []
    for labels in sorted(rates, key=lambda row: [order.index(one) for order, one in zip(orders, row, strict=True)]):
        carried = {stack: statistics.median(each) for stack, each in rates[labels].items()}
        own = carried.pop(DEFAULT, None)
        if own is not None and carried:
            rival = max(carried, key=lambda stack: carried[stack])
            found.append(BesidePoint(labels, own, rival, carried[rival], most.get(labels)))
    return found


def default_beside(facts: Sequence[RunFacts]) -> PageTable:
    points = points_beside(facts)
    axes = [axis for axis in (facts[0].run.labels if facts else {}) if axis != "stack"]
    style = style_for(Quantity.COUNT, [1.0])
    rows = [
        LabelledRow(
            point.labels,
            cells_of(
                [
                    style.number(point.carried),
                    style.number(point.rival_carried),
                    point.rival,
                    f"{point.carried / point.rival_carried:.2f}",
                    NONE if point.ordering_bytes is None else f"{point.ordering_bytes} B",
                ]
            ),
            PageCell(strong=point.verdict),
        )
        for point in points
    ]
    names = [f"{DEFAULT} is", *axes, DEFAULT, "the best of the others", "which", "ratio", "ordering data, most"]
    heads = header(*names, numeric_from=len(axes) + 1)
    return PageTable(
        "The default stack beside the other causal ones", _BESIDE_CAPTION, heads, tuple(rows_by_label(rows))
    )


class ComparedColumn(msgspec.Struct, frozen=True):
    title: str
    quantity: Quantity
    number: Callable[[RunFacts], float | None]
    of_runs: Callable[[Sequence[float]], float] = statistics.median


def _per_publication(facts: RunFacts) -> float | None:
    return None if facts.traffic is None else facts.traffic.messages_per_publication


def _frames(facts: RunFacts) -> float | None:
    return None if facts.traffic is None else facts.traffic.frames


def _bytes(facts: RunFacts) -> float | None:
    return None if facts.traffic is None else facts.traffic.frame_bytes


def _median(facts: RunFacts) -> float | None:
    """Of the slowest guarantee, where several are asked for."""
    return max((row.median_us for row in facts.latency if row.phase == ALL), default=None)


def _slowest(facts: RunFacts) -> float | None:
    return max((row.p99_us for row in facts.latency if row.phase == ALL), default=None)


def _settled(facts: RunFacts) -> float | None:
    """None when not everybody ever had everything."""
    return None if facts.traffic is None or share_of(facts) != 1.0 else facts.traffic.settled_us


def _broker_frames(facts: RunFacts) -> list[int]:
    return [row.frames_sent for row in facts.load if row.role == "broker" and row.frames_sent is not None]


def _load_mean(facts: RunFacts) -> float | None:
    frames = _broker_frames(facts)
    return statistics.fmean(frames) if frames else None


def _load_most(facts: RunFacts) -> float | None:
    return max(_broker_frames(facts), default=None)


_CAME: Final = ComparedColumn("came", Quantity.SHARE, share_of, min)
_SETTLED: Final = ComparedColumn("everybody has everything", Quantity.TIME_US, _settled)
COLUMNS: Final = (
    ComparedColumn("messages a publication", Quantity.COUNT, _per_publication),
    ComparedColumn("frames", Quantity.COUNT, _frames),
    ComparedColumn("bytes", Quantity.BYTES, _bytes),
    ComparedColumn("latency, median", Quantity.TIME_US, _median),
    ComparedColumn("latency, 99 %", Quantity.TIME_US, _slowest),
    _SETTLED,
    ComparedColumn("load of a broker, mean", Quantity.COUNT, _load_mean),
    ComparedColumn("load, most", Quantity.COUNT, _load_most),
    _CAME,
)


class ComparedRow(msgspec.Struct, frozen=True):
    stack: str
    asked: str
    """The guarantee that was asked for."""
    options: str
    """Those that are not as by default; empty for none."""
    circumstances: str
    numbers: tuple[float | None, ...]
    """One for each of `COLUMNS`."""
    standing: RunStanding
    """The worst of the runs."""
    rules: tuple[str, ...]
    """That any of them broke."""
    is_covered: bool
    """Whether the stack says that it survives this."""
    promised: Promised
    runs: int


def compared(facts: Iterable[RunFacts]) -> list[ComparedRow]:
    """The default stack first, then the systems of the laboratory, then others."""
    groups: dict[tuple[str, str, str, str], list[RunFacts]] = {}
    for one in facts:
        groups.setdefault((one.stack, *_place(one)), []).append(one)
    stacks = list(dict.fromkeys((DEFAULT, *SYSTEMS, *(stack for stack, *_ in groups))))
    orders = [in_order(key[place] for key in groups) for place in (1, 2, 3)]
    ordered = sorted(
        groups,
        key=lambda key: (stacks.index(key[0]), *(order.index(key[n]) for n, order in enumerate(orders, start=1))),
    )
    return [_row(key, groups[key]) for key in ordered]


def _place(facts: RunFacts) -> tuple[str, str, str]:
    """Guarantee, options and circumstances."""
    asked = in_order(row.guarantee for row in facts.latency if row.phase == ALL)
    options = ", ".join(f"{name} = {value}" for name, value in sorted(facts.run.options.items()))
    dead = facts.run.faults
    circumstances = facts.run.labels.get(FAULT_AXIS) or ("calm" if not dead else f"{dead} dead")
    return ", ".join(asked) or NONE, options, circumstances


def _row(key: tuple[str, str, str, str], runs: Sequence[RunFacts]) -> ComparedRow:
    stack, asked, options, circumstances = key
    promised = promised_by(runs[0])
    broken = {rule: None for one in runs if one.verdict for rule in one.verdict.rules_violated}
    return ComparedRow(
        stack=stack,
        asked=asked,
        options=options,
        circumstances=circumstances,
        numbers=tuple(_number(column, runs) for column in COLUMNS),
        standing=worst_of(runs),
        rules=tuple(broken),
        is_covered=all(promised.covers(one) for one in runs),
        promised=promised,
        runs=len(runs),
    )


def _number(column: ComparedColumn, runs: Sequence[RunFacts]) -> float | None:
    """None as soon as one run has none: what never came to be has no median."""
    numbers = [number for one in runs if (number := column.number(one)) is not None]
    return column.of_runs(numbers) if len(numbers) == len(runs) else None


# -- as a table --------------------------------------------------------------------------------------------------------

_IN_MS: Final = Style(MILLISECOND, 1)
"""All times: they are compared with each other, and the longest would hide the others."""
_CAPTION: Final = (
    "Every stack on the same machines with the same workload, from its start to its rest; each number is the median of "
    "its runs. Messages: between brokers, those that publishing causes. Frames and bytes: on all connections, those of "
    "clients, signs of life and the calm at the end included. Everybody has everything: after the last publication. "
    "Load: frames that a broker sends. Came: which part of what was owed, the least of the runs."
)


def comparison_table(facts: Sequence[RunFacts]) -> PageTable:
    rows = compared(facts)
    styles = styles_for(rows)
    titles = [_titled(column, style) for column, style in zip(COLUMNS, styles, strict=True)]
    heads = [
        *(PageCell(name, scope="col") for name in ("judged", "asked for", "what happens")),
        *(PageCell(title, scope="col", look="num wrapped") for title in titles),
    ]
    body: list[PageRow] = []
    for stack in dict.fromkeys(row.stack for row in rows):
        body += _of_stack(stack, [row for row in rows if row.stack == stack], styles)
    return PageTable("All stacks compared", _CAPTION, (PageRow(tuple(heads)),), tuple(body))


def styles_for(rows: Sequence[ComparedRow]) -> tuple[Style, ...]:
    """One for each of `COLUMNS`."""
    return tuple(
        _IN_MS
        if column.quantity is Quantity.TIME_US
        else style_for(column.quantity, [number for row in rows if (number := row.numbers[place]) is not None])
        for place, column in enumerate(COLUMNS)
    )


def _of_stack(stack: str, rows: Sequence[ComparedRow], styles: Sequence[Style]) -> list[PageRow]:
    widest = max(rows, key=lambda row: len(row.promised.guarantees)).promised
    told = f" guarantees {widest.guarantees}. It survives {widest.survives}."
    head = PageCell(told, strong=stack, colspan=len(COLUMNS) + 3, look="told")
    labelled = [LabelledRow((_asked(row), row.circumstances), _cells(row, styles), _judged(row)) for row in rows]
    return [PageRow((head,), is_first=True), *rows_by_label(labelled)]


def _asked(row: ComparedRow) -> str:
    return f"{row.asked} ({row.options})" if row.options else row.asked


def _titled(column: ComparedColumn, style: Style) -> str:
    return f"{column.title}, {style.unit.name}" if style.unit.name else column.title


def _cells(row: ComparedRow, styles: Sequence[Style]) -> tuple[PageCell, ...]:
    return tuple(PageCell(text, look="num") for text in texts_of(row, styles))


def texts_of(row: ComparedRow, styles: Sequence[Style]) -> list[str]:
    """Its numbers as they are written."""
    share = row.numbers[COLUMNS.index(_CAME)]
    return [
        NEVER if column is _SETTLED and number is None and share is not None else style.number(number)
        for column, number, style in zip(COLUMNS, row.numbers, styles, strict=True)
    ]


def _judged(row: ComparedRow) -> PageCell:
    rules = f" {', '.join(row.rules)}" if row.rules else ""
    return PageCell(f"{rules}{'' if row.is_covered else f' ({BEYOND})'}", standing=row.standing, look="judged")
