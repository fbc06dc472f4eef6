"""Bundles and entries to work with."""

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee


def bundle(
    first: int = 1,
    count: int = 1,
    *,
    publisher: str = "p",
    incarnation: int = 1,
    guarantee: Guarantee = Guarantee.CAUSAL,
    size: int = 10,
    stamp: int = 1,
) -> Bundle:
    payloads = pack_payloads([bytes(size)] * count)
    return Bundle(publisher, incarnation, first, count, stamp, "t", (), guarantee, b"", payloads)


def publication(
    publisher: str, first: int, keys: tuple[str, ...], guarantee: Guarantee, *, count: int = 1, topic: str = "t",
    incarnation: int = 1, stamp: int = 0,
) -> Bundle:  # fmt: skip
    payloads = pack_payloads([b""] * count)
    return Bundle(publisher, incarnation, first, count, stamp, topic, keys, guarantee, b"", payloads)
