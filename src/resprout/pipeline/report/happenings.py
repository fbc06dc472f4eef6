"""What happened to the network in a run, in words."""

from collections.abc import Iterator, Sequence
from typing import Final

from resprout.pipeline.report.trail import Happening
from resprout.trace import kinds

STRIKES: Final = frozenset((kinds.CRASH, kinds.FREEZE, kinds.CUT, kinds.PARTITION))

_WORDS: Final = {
    kinds.CRASH: "{node} dies",
    kinds.RECOVER: "{node} is back",
    kinds.FREEZE: "{node} freezes",
    kinds.UNFREEZE: "{node} goes on",
    kinds.HANG: "{node} hangs",
    kinds.UNHANG: "{node} goes on",
    kinds.DISK_LOW: "there is little room on the disk of {node}",
    kinds.DISK_FULL: "the disk of {node} is full",
    kinds.DISK_FREE: "there is room on the disk of {node}",
    kinds.UNRESOLVE: "the name {node} does not resolve",
    kinds.RESOLVE: "the name {node} resolves",
    kinds.JOIN: "{node} is started, to join",
    kinds.LEAVE: "{node} is asked to leave",
    kinds.CUT: "nothing passes between {node} and {detail} any more",
    kinds.HEAL: "{node} and {detail} reach each other again",
    kinds.PARTITION: "{node} is on the far side of a cut",
    kinds.REPAIR_BEGIN: "{node} begins to repair what {detail} leaves behind",
    kinds.REPAIR_END: "{node} has its place again, without {detail}",
    "fenced": "{node} ends its life: {detail}",
    "joined": "{node} has a place below {detail}",
    "moved": "{node} moves: {detail}",
    kinds.QUIESCENT: "nothing is under way any more",
    kinds.TIMEOUT: "the time limit ends the run",
}


def sentence(one: Happening) -> str:
    if one.kind == kinds.HEAL and not one.detail:
        return "every cut is healed"
    return _WORDS.get(one.kind, "{node}: {kind} {detail}").format(node=one.node, kind=one.kind, detail=one.detail)


def worth_telling(happenings: Sequence[Happening]) -> Iterator[Happening]:
    """That the tree of the scenario comes to stand, and that a run without trouble ends, is no news."""
    is_quiet = True
    for one in happenings:
        is_quiet = is_quiet and one.kind in ("joined", kinds.QUIESCENT)
        if not is_quiet:
            yield one
