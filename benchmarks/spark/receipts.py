"""The receipts of a generated run. They are true: `delivered` comes after all who are promised the publication."""

from typing import Final

import msgspec
import numpy as np

from benchmarks.spark.network import Array, Network
from benchmarks.spark.traffic import Deliveries, Publications

RECEIPTS: Final = ("accepted", "safe", "delivered")
_SHARES: Final = (0.4, 0.3, 0.3)
"""The first share of publications is of publishers that ask for no receipts; the others are told all of them."""
_BACK_US: Final = 1_000
"""From the last subscriber back to the publisher, at least."""


class Receipts(msgspec.Struct, frozen=True):
    time_us: Array
    publication: Array
    word: Array
    """Place in `RECEIPTS`."""


def give_receipts(
    network: Network, published: Publications, delivered: Deliveries, rng: np.random.Generator
) -> Receipts:
    """A publisher that has crashed hears nothing any more, and of what is lost nobody hears."""
    n = len(published)
    wanted = rng.choice(len(RECEIPTS), n, p=_SHARES)
    accepted = published.time_us + rng.integers(500, 3_000, n)
    safe = accepted + rng.integers(20_000, 60_000, n)
    done = np.maximum(safe, delivered.done_us) + rng.integers(_BACK_US, 30_000, n)
    times = np.concatenate([accepted, safe, done])
    word = np.repeat(np.arange(len(RECEIPTS)), n)
    number = np.tile(np.arange(n), len(RECEIPTS))
    given = (wanted[number] > 0) & ~published.lost[number] & (times < network.end_us[published.life[number]])
    return Receipts(times[given], number[given], word[given])
