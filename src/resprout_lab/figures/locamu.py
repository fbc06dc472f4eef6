"""The figures of the thesis on LoCaMu: throughput and headers by size, publishers, bandwidth, payload, f and degree."""

from collections.abc import Callable
from typing import Final

from resprout.pipeline.report import measures
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.figures import WHOLE, Cell, CellPlace, Figure, FigureAxis, Grid, Shape, in_order
from resprout_lab.figures import papers
from resprout_lab.figures.default_beside import default_beside

_ABOUT: Final = (
    "Brokers in a tree with 1 ms and 100 Mbit each, shared by their links, one client at each; 32 bytes of payload. "
)
_STEADY: Final = (
    "Deliveries at all brokers together, each in the middle half of what it was given. What brokers send to clients "
    "takes no bandwidth. "
)
_BUNDLES: Final = FigureAxis("bundles", "messages in a bundle")
_HEADERS: Final = (
    "By the formula of the stack's paper; of resprout, which has none, the ordering bytes as encoded. "
    "LoCaMu's exchange of what was received is counted, too, where it claims a size."
)


def _throughput(x: FigureAxis, panels: FigureAxis | None = _BUNDLES, note: str = "") -> Figure:
    return Figure(
        title="Throughput",
        measure=measures.STEADY_THROUGHPUT,
        value="deliveries per second",
        x=x,
        panels=panels,
        shape=Shape.LINES,
        note=_STEADY + note,
    )


def _saturated(letter: str, title: str, x: FigureAxis, about: str = "") -> Chapter:
    return Chapter(
        experiment=f"seed001-5.1{letter}",
        title=f"LoCaMu 5.1{letter}: {title}",
        about=f"{_ABOUT}Publishers saturate the network. {about}".strip(),
        sweep=f"sweeps/seed001-5.1{letter}.toml",
        figures=(_throughput(x),),
        table=None if letter == "e" else default_beside,  # there f is a part of the stack's label
    )


PUBLISHERS: Final = FigureAxis("publishers", "publishers")
_BANDWIDTH: Final = FigureAxis("bandwidth", "bandwidth")


def _published(figure: str, groups: str) -> Chapter:
    return Chapter(
        experiment=f"seed001-{figure}",
        title=f"LoCaMu {figure}: causal stacks by publishers, {groups}",
        about=f"{_ABOUT}Each publisher makes 100 messages a second, so every bundle has one message.",
        sweep=f"sweeps/seed001-{figure}.toml",
        figures=(
            _throughput(PUBLISHERS, _BANDWIDTH),
            Figure(
                title="Headers",
                measure=measures.HEADER_BYTES,
                value="mean header",
                x=PUBLISHERS,
                panels=_BANDWIDTH,
                shape=Shape.LINES,
                note=_HEADERS,
            ),
            Figure(
                title="Bytes on the links",
                measure=measures.LINK_BYTES,
                value="bytes for each publication and link",
                x=PUBLISHERS,
                panels=_BANDWIDTH,
                shape=Shape.LINES,
                note="All that brokers sent each other, as encoded: headers, payload, acknowledgements, joining.",
            ),
        ),
        table=default_beside,
    )


# -- 5.4 ---------------------------------------------------------------------------------------------------------------

NODES_MOST: Final = 65_536
ORDERING_BYTES_MOST: Final = 16
"""Of the default stack: what is checked wherever it runs."""


WITH_NAMES: Final = "locamu, with names"
"""What the stack counts: the thesis' formula for compressed headers, when everything in one has changed."""


def _computed(title: str, value: str, x: FigureAxis, labels: list[int], forms: dict[str, Callable[[int], int]]) -> Grid:
    figure = Figure(
        title=title, measure=measures.LARGEST_HEADER, value=value, x=x, shape=Shape.LINES,
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


CHAPTERS: Final = (
    _saturated("a", "throughput by brokers", FigureAxis("brokers", "brokers")),
    _saturated("b", "throughput by publishers", PUBLISHERS, "127 brokers with 10 Mbit."),
    _saturated("c", "throughput by bandwidth", _BANDWIDTH, "127 brokers."),
    _saturated("d", "throughput by payload", FigureAxis("payload", "bytes of payload"), "127 brokers."),
    _saturated("e", "throughput by f", FigureAxis("f", "faults tolerated"), "127 brokers."),
    _saturated("f", "throughput by degree", FigureAxis("degree", "degree"), "127 brokers."),
    _published("5.2", "one group"),
    _published("5.3", "255 groups"),
    Chapter(
        experiment="seed001-5.4",
        title="LoCaMu 5.4: worst headers and memory",
        about="Everybody publishes at once, and once more when all of that has come. Beside it the closed forms.",
        sweep="sweeps/seed001-5.4.toml",
        figures=(
            Figure(
                title="Largest headers, simulated",
                measure=measures.LARGEST_HEADER,
                value="largest header",
                x=FigureAxis("brokers", "brokers"),
                shape=Shape.LINES,
                note=_HEADERS,
            ),
        ),
        computed=closed_forms,
    ),
)
