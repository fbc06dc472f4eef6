"""Attributes that random publications carry, and filters and conditions that are interesting for them."""

import random
from collections.abc import Sequence
from typing import Final

from resprout.core.names import AttributeValue

KINDS: Final = ("a", "b", "c")
AMOUNT_MAX: Final = 999


def draw_attributes(rng: random.Random) -> dict[str, AttributeValue]:
    """Each one is missing now and then, because a condition over nothing is the case people get wrong."""
    full: dict[str, AttributeValue] = {
        "amount": rng.randint(0, AMOUNT_MAX),
        "kind": rng.choice(KINDS),
        "ratio": rng.randint(0, 100) / 100,
        "urgent": rng.random() < 0.5,
    }
    return {name: value for name, value in full.items() if rng.random() < 0.9}


def draw_where(rng: random.Random) -> str:
    """A condition that holds for some of `draw_attributes` and not for others."""
    low, high = sorted((rng.randint(0, AMOUNT_MAX), rng.randint(0, AMOUNT_MAX)))
    kind, other = rng.sample(KINDS, 2)
    return rng.choice((
        f"amount > {low}",
        f"amount between {low} and {high}",
        f"amount <= {high} and kind != '{kind}'",
        f"kind = '{kind}'",
        f"kind in ('{kind}', '{other}') or amount >= {high}",
        f"kind like '{kind}%'",
        f"not (kind = '{kind}' or ratio < 0.{rng.randint(1, 9)})",
        "urgent = true",
        f"urgent = false and ratio >= 0.{rng.randint(1, 9)}",
        "ratio is null",
        f"amount is not null and amount != {low}",
    ))  # fmt: skip


def draw_filter(rng: random.Random, topics: Sequence[str]) -> str:
    """One of the topics, exactly or with a wildcard in place of one level or of the rest."""
    levels = rng.choice(topics).split("/")
    shape = rng.random()
    if shape < 0.5:
        return "/".join(levels)
    place = rng.randrange(len(levels))
    if shape < 0.75:
        return "/".join([*levels[:place], "+", *levels[place + 1 :]])
    return "/".join([*levels[:place], "#"])
