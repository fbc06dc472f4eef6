"""Bundles and subscription tables to work with."""

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.filters.predicate import parse_predicate
from resprout_lab.blocks.subscriptions import Subscriptions

T = parse_predicate("t")
ALL = parse_predicate("#")


def bundle(topic: str, *rows: Attributes) -> Bundle:
    count = max(1, len(rows))
    attributes, payloads = pack_attributes(rows), pack_payloads([b"x"] * count)
    return Bundle("p", 1, 1, count, 1, topic, (), Guarantee.EVENTUAL, attributes, payloads)


def table(*neighbours: str) -> Subscriptions:
    made = Subscriptions()
    for name in neighbours:
        assert made.add_neighbour(name) == []
    return made
