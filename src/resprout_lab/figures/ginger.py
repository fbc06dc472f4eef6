"""The figures of the thesis on Ginger: repairs, latency by guarantee, and latency by the number of keys."""

from typing import Final

from resprout.pipeline.report import measures
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.chapters import FAULTS, GUARANTEE, REPAIR_TIMES, cost_figures
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape
from resprout.pipeline.report.percentiles import percentile_figure

KEYS: Final = FigureAxis("keys", "keys per topic", "key", "keys")
PHASE: Final = FigureAxis("phase", "phase of the repair")

_BANK: Final = (
    "Eight brokers on three continents and five clients of a bank: four of ten publications are eventual, three causal "
    "and three total. Children of the root die, all at once."
)
_ROUND_TRIPS: Final = Figure(
    title="Round trips of a repair",
    measure=measures.ROUND_TRIPS,
    value="round trips of the slowest repair",
    x=FAULTS,
    note="The time of a repair divided by there and back over the slowest link around the dead; one is the goal.",
)
_REQUESTS: Final = Figure(
    title="Rounds of requests",
    measure=measures.REQUESTS,
    value="requests for a parent",
    x=FAULTS,
    note="All requests of all orphans of a run. Only the baseline makes them: in resprout the coordinator places all.",
)
_LOAD: Final = Figure(
    title="Load of each broker",
    measure=measures.BROKER_LOAD,
    value="frames sent for each publication",
    x=FigureAxis("broker", "broker"),
    panels=FAULTS,
    note="Frames that a broker sends on all its links, divided by the publications of the run.",
)

CHAPTERS: Final = (
    Chapter(
        experiment="seed000-5.3",
        title="5.3 How long a repair takes",
        about=_BANK,
        sweep="sweeps/seed000-5.3.toml",
        figures=(REPAIR_TIMES, _ROUND_TRIPS, _REQUESTS),
    ),
    Chapter(
        experiment="seed000-5.4",
        title="5.4 Latency of each guarantee",
        about=_BANK,
        sweep="sweeps/seed000-5.4.toml",
        figures=(
            Figure(
                title="Latency by brokers that die",
                measure=measures.LATENCY,
                value="median latency",
                x=FAULTS,
                panels=GUARANTEE,
                note="From the call of publish to the code of the subscriber, over all deliveries of a run.",
            ),
            Figure(
                title="Latency before, during and after the repair",
                measure=measures.LATENCY_BY_PHASE,
                value="median latency",
                x=PHASE,
                panels=GUARANTEE,
                rows=FAULTS,
                note="A delivery belongs to the phase in which it was published.",
            ),
            percentile_figure(panels=GUARANTEE, rows=FAULTS),
            *cost_figures(FAULTS),
            _LOAD,
        ),
    ),
    Chapter(
        experiment="seed000-5.5",
        title="5.5 Latency by the number of keys",
        about=f"{_BANK} The fewer keys, the more totals wait for each other.",
        sweep="sweeps/seed000-5.5.toml",
        figures=(
            Figure(
                title="Latency by keys and by brokers that die",
                measure=measures.LATENCY,
                value="median latency",
                x=KEYS,
                panels=FAULTS,
                rows=GUARANTEE,
                shape=Shape.LINES,
                note="From the call of publish to the code of the subscriber, over all deliveries of a run.",
            ),
            Figure(
                title="Throughput by keys and by brokers that die",
                measure=measures.THROUGHPUT,
                value="deliveries per second",
                x=KEYS,
                panels=FAULTS,
                shape=Shape.LINES,
            ),
        ),
    ),
)
