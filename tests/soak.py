"""The number of cases that a test tries: a few in `make test`, which shows what is broken; many in `make soak`, which
finds what is rare."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SOAKING = "RESPROUT_SOAK" in os.environ


def cases(few: int, many: int) -> int:
    return many if SOAKING else few


def every_nth(items: Iterable[T], step: int) -> list[T]:
    """Return all items in `make soak`, and every `step`-th in `make test`, the first one among them."""
    return list(islice(items, 0, None, 1 if SOAKING else step))
