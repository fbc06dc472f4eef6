"""Writes the tables of docs/experiments/comparison.md anew: `python -m tests.pipeline.comparison_page`, some minutes.

Of the first seed of `stacks`, with what the report makes of it. What the page says in words beside them is
for people to read again.
"""

from pathlib import Path
from typing import Final

from resprout.pipeline.report.facts import RunStanding
from resprout_lab.figures.comparison import ComparedRow, compared
from tests.pipeline.played import play, runs_of

PAGE: Final = Path(__file__).parents[2] / "docs" / "experiments" / "comparison.md"
TITLES: Final = {
    "calm": "## Calm",
    "crash": "## One broker dies, for good",
    "return": "## It returns after ten seconds",
}
PROMISED: Final = "## What they say of themselves"
FORMS: Final = ("{:.1f}", "{:,.0f}", "{:,.0f}", "{:,.1f}", "{:,.1f}", "{:,.1f}", "{:,.0f}", "{:,.0f}", "{:.2f}")
"""Of each number, as `COLUMNS` of the report has them."""
SCALES: Final = (1, 1, 1e-3, 1e-3, 1e-3, 1e-3, 1, 1, 100)
NEVER: Final = "never"


def measured(row: ComparedRow) -> str:
    options = f", `{row.options}`" if row.options else ""
    numbers = [
        NEVER if number is None else form.format(number * scale)
        for number, form, scale in zip(row.numbers, FORMS, SCALES, strict=True)
    ]
    return _line([f"`{row.stack}`", f"{row.asked}{options}", *numbers, judged(row)])


def judged(row: ComparedRow) -> str:
    rules = ", ".join(f"`{rule}`" for rule in row.rules)
    told = f"{rules}, documented" if row.standing is RunStanding.DOCUMENTED else rules or "clean"
    return told if row.is_covered else f"{told}; beyond"


def promised(rows: list[ComparedRow]) -> list[str]:
    widest: dict[str, ComparedRow] = {}
    for row in rows:
        if row.stack not in widest or len(row.promised.guarantees) > len(widest[row.stack].promised.guarantees):
            widest[row.stack] = row
    return [_line([f"`{name}`", row.promised.guarantees, row.promised.survives]) for name, row in widest.items()]


def with_table(page: str, title: str, lines: list[str]) -> str:
    """The rows below the head of the first table that follows a title are these."""
    before, _, section = page.partition(f"{title}\n")
    assert section, f"{PAGE.name} has no {title!r}"
    start = section.index("|---")
    start = section.index("\n", start) + 1
    end = section.index("\n\n", start) + 1 if "\n\n" in section[start:] else len(section)
    return "".join([before, f"{title}\n", section[:start], *(f"{line}\n" for line in lines), section[end:]])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    page = PAGE.read_text()
    rows = compared(play("stacks", run) for run in runs_of("stacks"))
    page = with_table(page, PROMISED, promised(rows))
    for circumstances, title in TITLES.items():
        page = with_table(page, title, [measured(row) for row in rows if row.circumstances == circumstances])
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
