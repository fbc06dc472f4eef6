"""The closed forms of the thesis on LoCaMu as figures: worst headers and memory of each system, not measured."""

from collections.abc import Callable
from typing import Final

from resprout.pipeline.report.figures import WHOLE, Cell, CellPlace, Figure, FigureAxis, Grid, Shape, in_order
from resprout_lab.figures import papers

NODES_MOST: Final = 65_536
ORDERING_BYTES_MOST: Final = 16
"""Of the default stack: what is checked wherever it runs."""
WITH_NAMES: Final = "locamu, with names"
"""What the stack counts: the thesis' formula for compressed headers, when everything in one has changed."""


def _computed(title: str, value: str, x: FigureAxis, labels: list[int], forms: dict[str, Callable[[int], int]]) -> Grid:
    figure = Figure(
        title=title, measure="largest_header", value=value, x=x, shape=Shape.LINES,
        note="Computed by closed forms, not measured.",
    )  # fmt: skip
    cells: dict[CellPlace, Cell] = {}
    for series, form in forms.items():
        for label in labels:
            number = float(form(label))
            cells[WHOLE, WHOLE, str(label), series] = Cell(number, number, number, 0)
    return Grid(figure, (WHOLE,), (WHOLE,), in_order(map(str, labels)), in_order(forms), cells)


def closed_forms() -> tuple[Grid, ...]:
    """Up to 65,536 nodes in 1,500 groups; f = 1 and degree 3 where they are not varied."""
    nodes = [*papers.sizes_fourfold(16, NODES_MOST)]
    fixed: dict[str, Callable[[int], int]] = {
        "cbcast": lambda _: papers.cbcast_header(papers.group_sizes(NODES_MOST)),
        "causal-barriers": lambda _: papers.barriers_header(NODES_MOST),
        "resprout": lambda _: ORDERING_BYTES_MOST,
    }
    return (
        _computed(
            "Worst headers by nodes", "worst header", FigureAxis("nodes", "nodes"), nodes,
            {
                "locamu": lambda _: papers.locamu_header(1, 3),
                WITH_NAMES: lambda _: papers.locamu_header_with_names(1, 3),
                "cbcast": lambda count: papers.cbcast_header(papers.group_sizes(count)),
                "causal-barriers": papers.barriers_header,
                "resprout": lambda _: ORDERING_BYTES_MOST,
            },
        ),
        _computed(
            "Memory of a node by nodes", "memory", FigureAxis("nodes", "nodes"), nodes,
            {
                "locamu": lambda _: papers.locamu_memory(1, 3),
                "cbcast": lambda count: papers.cbcast_memory(papers.group_sizes(count)),
                "causal-barriers": papers.barriers_memory,
            },
        ),
        _computed(
            "Worst headers by f", "worst header", FigureAxis("f", "faults tolerated"), [1, 2, 3],
            {
                "locamu": lambda f: papers.locamu_header(f, 3),
                WITH_NAMES: lambda f: papers.locamu_header_with_names(f, 3),
                **fixed,
            },
        ),
        _computed(
            "Worst headers by degree", "worst header", FigureAxis("degree", "degree"), [3, 5, 9, 17],
            {
                "locamu": lambda degree: papers.locamu_header(1, degree),
                WITH_NAMES: lambda degree: papers.locamu_header_with_names(1, degree),
                **fixed,
            },
        ),
    )  # fmt: skip
