"""Whether work is worth the start of Spark: it takes ten seconds and more, in which Python has judged many a run."""

from collections.abc import Sequence
from typing import Final

from resprout.pipeline.places import RunPlace
from resprout.pipeline.session import SparkChoice

ROWS_HERE_MAX: Final = 1_000_000
"""The judge in Python needs about 11 seconds for so many, and half a gigabyte when they are all of one run."""


def is_worth_spark(places: Sequence[RunPlace], choice: SparkChoice) -> bool:
    """Also when the user has said how Spark is to run; never for nothing."""
    if not places:
        return False
    return choice != SparkChoice() or sum(place.info.rows for place in places) > ROWS_HERE_MAX
