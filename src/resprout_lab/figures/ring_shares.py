"""How evenly keys are dealt to the members of a ring, by the rule that Chord has: a key belongs to the first member at
or behind it. Nothing here is measured; a test asks a ring."""

import bisect
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from resprout_lab.scribe.chord.ring import number_of


class RingShares(NamedTuple):
    """Keys of one member."""

    expected: float
    least: float
    most: float


def owners_of(members: Sequence[str], keys: Sequence[str]) -> Iterator[str]:
    """Of each key; members are known by where they listen, or by their names where that is enough."""
    ring = sorted((number_of(member), member) for member in members)
    numbers = [number for number, _ in ring]
    for key in keys:
        yield ring[bisect.bisect_left(numbers, number_of(key)) % len(ring)][1]


def ring_shares(members: Sequence[str], keys: Sequence[str]) -> RingShares:
    owned = dict.fromkeys(members, 0)
    for owner in owners_of(members, keys):
        owned[owner] += 1
    return RingShares(len(keys) / len(members), min(owned.values()), max(owned.values()))


def mean_shares(members: int, keys: Sequence[str], rings: int) -> RingShares:
    """Over so many rings, whose members listen elsewhere in each."""
    found = [ring_shares([f"10.0.{ring}.{n}:7000" for n in range(members)], keys) for ring in range(rings)]
    return RingShares(*(fmean(column) for column in zip(*found, strict=True)))
