"""Recipient sets: for whom a message is that a broker has. Functions of paths, and of nothing else.

Nobody knows the tree beyond delta + 1 hops, so what is farther away is stood for by the broker on the way there that is
exactly delta + 1 hops away (delta-Level-2 consistency). The broker of the subscriber itself is known within delta + 1
hops (delta-Level-1).
"""

from collections.abc import Iterable, Sequence

from resprout_lab.blocks.neighbourhood import Neighbourhood


def source_at(path: Sequence[str], distance: int, delta: int) -> str:
    """Who stands for the source of a subscription at a receiver. `path`: from here to whoever stands for it here;
    `distance`: from here to the receiver, away from the source; 0: here. The recipient set of a publication are those
    who stand here for the sources of all subscriptions that match it (Table 1 of the report)."""
    return path[min(len(path) - 1, max(0, delta + 1 - distance))]


def onward(view: Neighbourhood, sender: str | None, nodes: Iterable[str]) -> list[str]:
    """Of these, whoever gets it through here: this broker lies between them and the sender. The others have it from
    elsewhere, and would wait for each other (D4)."""
    others = [name for name in nodes if name != view.name]
    return others if sender is None else [name for name in others if view.is_between(sender, name)]
