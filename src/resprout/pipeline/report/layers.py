"""Which layer of a stack says a message: the package that defines it, or what the stack declares (`Stack.layers`).
Papers count by layers, where `Family` goes by purpose."""

from functools import cache
from typing import Final

from resprout.core.contract import word_of
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.known import known_stack

CLIENTS: Final = "edge"
OWN: Final = "stacks"
OTHER: Final = "other"
BETWEEN_BROKERS: Final = "all between brokers"


@cache
def layer_of(stack: str, message: str) -> str:
    """`overlay` (Chord, HyParView), `spread` (Scribe, gossip), `replicas` (Paxos), `order`, `edge` (clients), `stacks`
    (its own); `other` for what nobody knows here."""
    known = known_stack(stack)
    if known is None:
        return OTHER
    for kind in known.messages:
        if word_of(kind) == message:
            package, layer, *_ = kind.__module__.split(".")
            if package == "resprout":
                return layer
            return next((layer for home, layer in known.layers.items() if kind.__module__.startswith(home)), OWN)
    return OTHER


def messages_by_layer(facts: RunFacts) -> dict[str, int]:
    """Between brokers: what clients and brokers say to each other is left out. Empty when nobody counted."""
    counted = facts.traffic.messages_by_type if facts.traffic is not None else None
    found: dict[str, int] = {}
    for message, count in (counted or {}).items():
        layer = layer_of(facts.stack, message)
        if layer != CLIENTS:
            found[layer] = found.get(layer, 0) + count
    return found
