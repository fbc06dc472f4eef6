"""On how many brokers `safe` rests here. Fewer than f + 1 where the whole tree has fewer: people are told so."""

from typing import TYPE_CHECKING

from resprout.order.entry import Entry
from resprout.overlay import lineage

if TYPE_CHECKING:
    from resprout.stacks.resprout.core import Core


class Copies:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self._few = 0
        """So many, if that is fewer than f + 1; otherwise 0."""

    def count(self, entry: Entry) -> int:
        """Of a local publication that is safe. Where it is known to be everywhere within f hops (`Log.is_safe`), it is
        at as many brokers as there are: f + 1, unless the whole tree has fewer."""
        core = self._core
        usual = core.faults + 1
        if len(core.links) >= core.faults or (entry.tseq < 0 and max(entry.hops + 1, entry.copies) >= usual):
            copies = usual
        else:
            near = len(self._near()) if core.links else 1
            copies = min(usual, max(near, 1 if entry.tseq >= 0 else entry.copies))
        few = copies if copies < usual else 0
        if few != self._few:
            self._few = few
            if few:
                core.note(
                    "few_copies", f"what is called safe here rests on {few} of {usual} brokers: the tree is small"
                )
            else:
                core.note("enough_copies", f"what is called safe here rests on {usual} brokers")
        return copies

    def _near(self) -> list[str]:
        """Who is within f hops, this broker included."""
        view = self._core.view
        return [name for name in lineage.branches(view, self._core.faults) if not view.is_dead(name)]
