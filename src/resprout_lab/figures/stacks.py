"""The comparison of all stacks, and what gossip's probability comes to."""

from typing import Final

from resprout.pipeline.report import measures
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape
from resprout_lab.figures.comparison import comparison_table

_DEAD: Final = FigureAxis("share", "share of brokers that die at once")
_VIEW: Final = FigureAxis("view", "neighbours, active and passive")
_PUSH: Final = FigureAxis("push", "push")
_DEATH: Final = FigureAxis("death", "death")

CHAPTERS: Final = (
    Chapter(
        experiment="stacks",
        title="All stacks compared",
        about=(
            "Fifteen brokers in five sites, a client at each, and five topics that six clients read each. Calm, with "
            "one broker that dies for good, and with one that dies and returns ten seconds later. What is guaranteed "
            "and survived is what each stack says of itself; runs beyond that are there to show what happens then."
        ),
        sweep="sweeps/stacks.toml",
        figures=(),
        table=comparison_table,
    ),
    Chapter(
        experiment="gossip",
        title="Reliability of gossip",
        about=(
            "Forty brokers with a client each that publishes and reads. Some of the brokers die at once in the middle "
            "of it; none in the first point of each curve. Told: their hosts say that the processes are gone. Silent: "
            "the hosts are gone, too."
        ),
        sweep="sweeps/gossip.toml",
        figures=(
            Figure(
                title="What came, at everybody",
                measure=measures.RELIABILITY,
                value="share of what was owed that came",
                x=_DEAD,
                panels=_DEATH,
                rows=_PUSH,
                series=_VIEW,
                shape=Shape.LINES,
                note=(
                    "Of all that was owed. Most of what is missing is missing at clients of the dead, which go on "
                    "elsewhere and are told that they may have missed something."
                ),
            ),
            Figure(
                title="What came, where nobody was told",
                measure=measures.RELIABILITY_UNTOLD,
                value="share of what was owed that came, but for what was told to be missing",
                x=_DEAD,
                panels=_DEATH,
                rows=_PUSH,
                series=_VIEW,
                shape=Shape.LINES,
                note="What is missing without a word is what the overlay lost.",
            ),
            Figure(
                title="Copies",
                measure=measures.COPIES,
                value="messages that bring one publication to all brokers",
                x=_DEAD,
                panels=_DEATH,
                rows=_PUSH,
                series=_VIEW,
                shape=Shape.LINES,
                note="A tree would need one for each broker but the first.",
            ),
        ),
    ),
)
