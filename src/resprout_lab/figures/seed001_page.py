"""docs/experiments/seed001.md: its claims, its charts, and the tables of windows and groups.

`python -m resprout_lab.figures.seed001_page docs/experiments` writes the page from `seed001/page.txt`, which holds the
text and the tables of the large sweeps, and from `seed001/runs.json` (`seed001_runs`). Each claim is computed from
these numbers, and so is its verdict; a test compares the page with both. A stack has one colour in all charts.
"""

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from resprout_lab.figures.seed001_claims import claims
from resprout_lab.figures.seed001_runs import (
    BROKERS,
    CAUSAL,
    LARGE,
    PUBLISHERS,
    SATURATING,
    SIZES,
    Measured,
    read,
)
from resprout_lab.figures.seed001_tables import PageNumbers, Table, tables_of

COLOURS: Final = {
    "resprout": "#0f766e",
    "locamu": "#b45309",
    "delta": "#6b7280",
    "cbcast": "#1d4ed8",
    "causal-barriers": "#be123c",
}
ALIASES: Final = {"LoCaMu, with names": "locamu", "CBCAST, one group": "cbcast", "Causal Barriers": "causal-barriers"}
WIDTH: Final = 720
HEIGHT: Final = 300
LEFT: Final = 70
RIGHT: Final = 140
TOP: Final = 36
BOTTOM: Final = 46
CHARTS: Final = {
    "5.1a": ("a", 0, "5.1a: individual throughput by brokers", "messages a second"),
    "5.1b": ("b", 0, "5.1b: individual throughput by publishers", "messages a second"),
    "5.1c": ("c", 0, "5.1c: individual throughput by bandwidth, Mbit", "messages a second"),
    "5.1d": ("d", 0, "5.1d: individual throughput by payload, bytes", "messages a second"),
    "5.1e": ("e", 0, "5.1e: individual throughput by f", "messages a second"),
    "5.1f": ("f", 0, "5.1f: individual throughput by degree", "messages a second"),
    "5.4": ("5.4", 0, "5.4: largest header by brokers", "bytes"),
    "5.4-nodes": ("5.4", 1, "5.4: worst header by nodes, closed forms", "bytes"),
}
"""Section and index of the table, title, and unit of the vertical axis, by file name."""


def lines(title: str, unit: str, table: Table) -> str:
    """Return a line chart with two logarithmic axes."""
    xs = [_number(label) for label in table]
    series = {
        ALIASES.get(name, name): name for name in next(iter(table.values())) if ALIASES.get(name, name) in COLOURS
    }
    numbers = [row[name] for row in table.values() for name in series.values()]
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(x: float) -> float:
        return LEFT + wide * math.log(x / xs[0]) / math.log(xs[-1] / xs[0])

    def up(y: float) -> float:
        return TOP + tall - tall * (math.log10(y) - low) / max(1, high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{title}; {unit}, logarithmic</text>',
    ]
    for exponent in range(low, high + 1):
        y = up(10.0**exponent)
        out.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**exponent:,}</text>')
    for label, x in zip(table, xs, strict=True):
        out.append(f'<text x="{across(x):.1f}" y="{TOP + tall + 18}" text-anchor="middle">{label}</text>')
    for place, (stack, name) in enumerate(series.items()):
        points = [(across(x), up(row[name])) for x, row in zip(xs, table.values(), strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[stack]}" stroke-width="2"/>')
        for (x, y), (label, row) in zip(points, table.items(), strict=True):
            told = f"<title>{stack}, {label}: {row[name]:,.0f}</title>"
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[stack]}">{told}</circle>')
        y = TOP + 14 * place
        out.append(f'<rect x="{LEFT + wide + 14}" y="{y}" width="10" height="10" fill="{COLOURS[stack]}"/>')
        out.append(f'<text x="{LEFT + wide + 28}" y="{y + 9}">{stack}</text>')
    return "\n".join([*out, "</svg>\n"])


def _number(label: str) -> float:
    return float(re.sub(r"[^\d.]", "", label))


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*out, *("| " + " | ".join(row) + " |" for row in rows)])


class Runs:
    """The measured runs. Each point has runs of several lengths, each twice as long as the one before."""

    def __init__(self, found: Iterable[Measured]) -> None:
        self._found = list(found)

    def lengths(self, part: str, stack: str, brokers: int, bandwidth: str, publishers: int) -> list[Measured]:
        wanted = (part, stack, brokers, bandwidth, publishers)
        return sorted([one for one in self._found if one.point[:5] == wanted], key=lambda one: one.messages)

    def longest(
        self, part: str, stack: str, bandwidth: str, publishers: int, brokers: int = BROKERS
    ) -> Measured | None:
        return next(iter(reversed(self.lengths(part, stack, brokers, bandwidth, publishers))), None)


def windows(runs: Runs) -> str:
    """Return the table of 5.1a, with each run and the one that is twice as long."""
    rows = []
    for stack in ("resprout", "locamu", "delta"):
        for brokers in SIZES:
            lengths = runs.lengths("5.1a", stack, brokers, "100Mbit", 1)
            for short, long in itertools.pairwise(lengths):
                change = round(100 * (long.individual / short.individual - 1))
                messages = f"{short.messages:,} and {long.messages:,}"
                rows.append(
                    (f"`{stack}`", str(brokers), messages, f"{short.individual:,.0f}",
                     f"{long.individual:,.0f}", f"{change:+d} %")
                )  # fmt: skip
    return _markdown(("stack", "brokers", "messages", "the first run", "the second", "change"), rows)


def by_publishers(runs: Runs, part: str, bandwidth: str, cell: Callable[[Measured], str]) -> str:
    rows = []
    for publishers in PUBLISHERS:
        row = [runs.longest(part, stack, bandwidth, publishers) for stack in CAUSAL]
        rows.append((str(publishers), *["–" if one is None else cell(one) for one in row]))
    return _markdown(("publishers", *[f"`{stack}`" for stack in CAUSAL]), rows)


def saturating(runs: Runs) -> str:
    """Return the table of 5.1b with as many brokers as the thesis has."""
    stacks = ("resprout", "locamu", "delta")
    rows = []
    for publishers in SATURATING:
        found = [runs.longest("5.1b", stack, "100Mbit", publishers, LARGE) for stack in stacks]
        rows.append((str(publishers), *["–" if one is None else f"{one.individual:,.0f}" for one in found]))
    return _markdown(("publishers", *[f"`{stack}`" for stack in stacks]), rows)


def largest_change(runs: Runs, part: str, bandwidth: str) -> str:
    """Return the largest relative change of throughput from doubling a run in which all brokers publish."""
    lengths = [runs.lengths(part, stack, BROKERS, bandwidth, BROKERS) for stack in CAUSAL]
    pairs = [pair for each in lengths for pair in itertools.pairwise(each)]
    changes = [abs(long.individual / short.individual - 1) for short, long in pairs]
    return f"{100 * max(changes):.0f} %" if changes else "–"


def page(found: Iterable[Measured], template: str) -> tuple[str, dict[str, str]]:
    """Return the text of the page, and the charts by file name."""
    runs = Runs(found)
    parts = {"WINDOWS": windows(runs), "SATURATING": saturating(runs), "CLAIMS": claims(PageNumbers(template), runs)}
    for part in ("5.2", "5.3"):
        for bandwidth in ("100Mbit", "10Mbit"):
            key = f"{part}_{bandwidth}"
            parts[f"THROUGHPUT_{key}"] = by_publishers(runs, part, bandwidth, lambda one: f"{one.individual:,.0f}")
            parts[f"CHANGE_{key}"] = largest_change(runs, part, bandwidth)
        parts[f"HEADERS_{part}"] = by_publishers(runs, part, "100Mbit", lambda one: f"{one.header:,.0f}")
    charts = {
        f"figure-{name}.svg": lines(title, unit, tables_of(template, section)[place])
        for name, (section, place, title, unit) in CHARTS.items()
    }
    text = template
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    return text, charts


def main(folder: Path) -> None:
    own = folder / "seed001"
    text, charts = page(read(own / "runs.json").values(), (own / "page.txt").read_text())
    (folder / "seed001.md").write_text(text)
    for name, chart in charts.items():
        (own / name).write_text(chart)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
