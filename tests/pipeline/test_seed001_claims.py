"""What docs/experiments/seed001.md says of each claim of the thesis follows from the tables of the page itself."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "experiments" / "seed001.md"
Table = dict[str, dict[str, float]]
"""By first cell of a row, by column: the first column of a name counts."""
JUDGED = ("reproduced", "contradicted")


def number(cell: str) -> float:
    text = cell.replace(",", "").strip()
    return float(text.removesuffix(" M")) * (1e6 if text.endswith(" M") else 1)


@cache
def tables(section: str) -> list[Table]:
    """Those of numbers under a heading that begins like this, in order."""
    text = PAGE.read_text()
    start = re.search(rf"^#+ {re.escape(section)}[: ].*$", text, re.M)
    assert start is not None, f"there is no section {section}"
    body = re.split(r"^#+ ", text[start.end() :], maxsplit=1, flags=re.M)[0]
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", body, re.M):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        table: Table = {}
        for row in rows:
            columns: dict[str, float] = {}
            for name, cell in zip(head[1:], row[1:], strict=True):
                columns.setdefault(name.strip("`"), number(cell))
            table[row[0]] = columns
        found.append(table)
    return found


def values(section: str, place: int, stack: str) -> list[float]:
    return [row[stack] for row in tables(section)[place].values()]


def individual(stack: str) -> list[float]:
    return [row[stack] / number(brokers) for brokers, row in tables("a")[0].items()]


def grows(of: list[float]) -> float:
    return of[-1] / of[0]


HOLDS: dict[str, Callable[[], bool]] = {
    "5.1a-1": lambda: individual("delta") == sorted(individual("delta"), reverse=True),
    "5.1a-2": lambda: 1 - grows(individual("locamu")) < (1 - grows(individual("delta"))) / 2,
    "5.1b-1": lambda: grows(values("b", 0, "delta")) > 0.75 * 127,
    "5.1b-2": lambda: values("b", 0, "delta")[-1] > values("b", 0, "locamu")[-1],
    "5.1b-3": lambda: grows(values("b", 0, "locamu")) < 1.25,
    "5.1c-1": lambda: grows(values("c", 0, "delta")) < 10,
    "5.1c-2": lambda: grows(values("c", 0, "locamu")) > 900,
    "5.1d-1": lambda: values("d", 0, "locamu")[-1] < 2 * values("d", 0, "delta")[-1],
    "5.1e-1": lambda: grows(values("e", 0, "locamu")) < 0.5,
    "5.1f-1": lambda: grows(values("f", 0, "locamu")) < 0.5,
    "5.1f-2": lambda: grows(values("f", 0, "delta")) > 1.25,
    "5.2-1": lambda: values("5.2", 2, "causal-barriers")[-1] > 10 * values("5.2", 2, "cbcast")[-1],
    "5.2-2": lambda: _crosses(values("5.2", 2, "cbcast"), values("5.2", 2, "locamu")),
    "5.3-3": lambda: values("5.3", 1, "locamu")[-1] > 2 * values("5.3", 1, "locamu")[-2],
    "5.4-1": lambda: len(set(values("5.4", 1, "LoCaMu, with names"))) == 1,
}
"""By claim that can be judged: whether the numbers of the page support it."""


def _crosses(one: list[float], other: list[float]) -> bool:
    return one[0] < other[0] and one[-1] > other[-1]


def verdicts() -> dict[str, str]:
    rows = re.findall(r"^\| (5\.\d[a-f]?-\d) \|.*\| ([a-z ]+) \|$", PAGE.read_text(), re.M)
    return dict(rows)


def test_every_claim_has_a_verdict_and_those_that_can_be_judged_are_checked() -> None:
    assert len(verdicts()) == 18
    assert {claim for claim, verdict in verdicts().items() if verdict in JUDGED} == set(HOLDS)
    assert set(verdicts().values()) <= {*JUDGED, "cannot be judged"}


@pytest.mark.parametrize("claim", HOLDS)
def test_a_verdict_follows_from_the_numbers_of_the_page(claim: str) -> None:
    assert verdicts()[claim] == ("reproduced" if HOLDS[claim]() else "contradicted")
