"""The figures of the report on Chord, Scribe and Multi-Paxos (seed 004): messages by layer, convergence, and how evenly
topics are dealt to nodes."""

from typing import Final

from resprout.pipeline.report import measures
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.figures import WHOLE, Cell, CellPlace, Figure, FigureAxis, Grid, Shape, in_order
from resprout_lab.figures.ring_shares import RingShares, mean_shares, ring_shares

PUBLISHED: Final = FigureAxis("published", "messages that each node publishes")
NODES: Final = FigureAxis("nodes", "nodes")
_SYSTEM: Final = FigureAxis("system", "system")
_LAYER: Final = FigureAxis("layer", "layer")
_OF: Final = FigureAxis("of", "of")

_ABOUT: Final = "Nodes without a tree, each a broker with a client that publishes and reads everything, 10 ms apart. "
_LAYERS: Final = (
    "By the layer that says them, over the whole run: overlay (Chord, HyParView), spread (Scribe, gossip), replicas "
    "(Paxos), order and stacks (what a stack has beside these). What clients and brokers say to each other is left out."
)
TOPICS: Final = tuple(f"t{number}" for number in range(30))
SIZES: Final = (10, 20, 30)
RINGS: Final = 1_000


def _messages(x: FigureAxis) -> Figure:
    return Figure(
        title="Messages by layer",
        measure=measures.LAYERS,
        value="messages of all nodes",
        x=x,
        panels=_LAYER,
        series=_SYSTEM,
        shape=Shape.LINES,
        note=_LAYERS,
    )


def topics_owned() -> tuple[Grid, ...]:
    figure = Figure(
        title="Topics of a node",
        measure=measures.BROKER_LOADS,
        value="topics that a node owns",
        x=NODES,
        panels=FigureAxis("ring", "ring"),
        series=FigureAxis("share", "share"),
        shape=Shape.LINES,
        note=f"30 topics. Computed by the rule of Chord, for the nodes of these runs and for {RINGS:,} rings.",
    )
    cells: dict[CellPlace, Cell] = {}
    for nodes in SIZES:
        rings: dict[str, RingShares] = {
            "of these runs": ring_shares([f"b{number}" for number in range(nodes)], TOPICS),
            f"mean of {RINGS:,}": mean_shares(nodes, TOPICS, RINGS),
        }
        for ring, shares in rings.items():
            for name, number in shares._asdict().items():
                cells[WHOLE, ring, str(nodes), name] = Cell(number, number, number, 0)
    panels, xs, series = (in_order(place[axis] for place in cells) for axis in (1, 2, 3))
    return (Grid(figure, (WHOLE,), panels, xs, series, cells),)


CHAPTERS: Final = (
    Chapter(
        experiment="seed004-3",
        title="Scribe 3: messages by what is published",
        about=f"{_ABOUT}20 nodes.",
        sweep="sweeps/seed004-3.toml",
        figures=(_messages(PUBLISHED),),
    ),
    Chapter(
        experiment="seed004-4",
        title="Scribe 4: convergence",
        about=f"{_ABOUT}20 nodes that publish as fast as they can, without a limit and with 10 Mbit each.",
        sweep="sweeps/seed004-4.toml",
        figures=(
            Figure(
                title="Convergence",
                measure=measures.CONVERGENCE,
                value="time until everybody has everything",
                x=PUBLISHED,
                panels=FigureAxis("bandwidth", "bandwidth"),
                series=_SYSTEM,
                shape=Shape.LINES,
                note="From the first publication to the last delivery.",
            ),
        ),
    ),
    Chapter(
        experiment="seed004-5",
        title="Scribe 5: messages by nodes",
        about=f"{_ABOUT}Each publishes 20 messages.",
        sweep="sweeps/seed004-5.toml",
        figures=(_messages(NODES),),
    ),
    Chapter(
        experiment="seed004-6",
        title="Scribe 6: how evenly topics are dealt",
        about=f"{_ABOUT}30 topics.",
        sweep="sweeps/seed004-6.toml",
        figures=(
            Figure(
                title="Load of a node",
                measure=measures.BROKER_LOADS,
                value="frames that a node sends for each publication",
                x=NODES,
                panels=_OF,
                series=_SYSTEM,
                shape=Shape.LINES,
                note="The node that sends least, the mean, and the one that sends most.",
            ),
        ),
        computed=topics_owned,
    ),
)
