"""What can be set about Ginger: the parameters of the thesis under its own names, and which corrections are applied.

The thesis gives pseudocode, text and logs (annexes II to IX). Where the pseudocode contradicts the text or a log, this
package follows those two: such misprints are listed in docs/stacks/ginger.md and are no options. What is wrong in all
three is left as published, unless its correction is named in `corrected`.
"""

from typing import Annotated, Final

import msgspec

CORRECTIONS: Final = {
    "acyclic": "G3: two orphans accept each other and form a cycle without a root",
    "whole_tree": "G4, G9, G16: a broker that moves, or a client that moves to it, misses topics it was not part of",
    "named_repairs": "G5: counters of connections end a repair too early, or hold messages for good",
    "marks": "G6: what a publisher sent is not retransmitted when the receiver's buffer holds nothing of it",
    "keep": "G7: a bounded buffer evicts what a neighbour still lacks",
    "duplicates": "G8: a message that two orphans push is delivered twice",
    "succession": "G10: a sibling that dies in an election leaves two roots",
    "root_order": "G11, G12: totals that lock one key from two sides of the tree wait for each other for ever",
    "client_queue": "G14: a message overtakes an earlier one of its publisher that a lock holds",
    "safe_first": "G15: clients of a broker that dies have seen a message that no other broker has",
    "ordered_workers": "a worker overtakes another one: messages of one publisher leave in another order",
}
"""By name: the finding of docs/stacks/ginger.md, and the anomaly that the correction removes."""

AS_PUBLISHED: Final = "none"
CORRECTED: Final = "all"


def _read(text: str) -> frozenset[str]:
    """The corrections that `all`, `none`, `all but A, B` or `A, B` name."""
    if text in (AS_PUBLISHED, CORRECTED):
        return frozenset(CORRECTIONS if text == CORRECTED else ())
    without = text.removeprefix("all but ")
    names = {name.strip() for name in without.split(",")}
    if unknown := sorted(names - CORRECTIONS.keys()):
        raise ValueError(f"corrected: there is no correction {unknown[0]!r}; there is {', '.join(CORRECTIONS)}")
    return frozenset(CORRECTIONS.keys() - names if without != text else names)


class GingerOptions(msgspec.Struct, frozen=True, dict=True):
    corrected: str = CORRECTED
    """The corrections to apply: `all`, `none` (as published), `all but A, B`, or `A, B`."""
    total_degree: Annotated[int, msgspec.Meta(ge=1)] = 3
    """*total-degree*: brokers and clients that a broker has as neighbours before it refuses a ParentRequest."""
    buffer_size: Annotated[int, msgspec.Meta(ge=1)] = 150
    """*bufferSize*: messages of one topic that a broker keeps for others. With `keep`, it keeps them for `keep_us`."""
    timer_us: Annotated[int, msgspec.Meta(ge=1_000)] = 2_000_000
    """*timerDuration*: how long a broker waits for a connection. Also how long it may be silent before it counts as
    dead; the thesis learns of deaths from TCP alone."""
    max_hops: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """*maxHops*: the distance up to which a broker knows others."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10
    """*nr-actors*: messages that a broker processes at a time. It matters where processing takes time (`work_us`)."""
    work_us: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Mean time that a worker takes for a message, drawn evenly between nothing and twice as much."""
    keep_us: Annotated[int, msgspec.Meta(ge=1_000)] = 10_000_000
    """How long a broker keeps a message for others (with `keep`), and a client one that it published. Longer than a
    repair takes; what is kept for longer delays publishers that are held back."""
    held_max: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may be kept here before it is held back."""

    def __post_init__(self) -> None:
        self.__dict__["corrections"] = _read(self.corrected)

    def corrects(self, name: str) -> bool:
        assert name in CORRECTIONS, name
        return name in self.__dict__["corrections"]
