"""Who runs what when, where several workers share the tests.

A test goes to whichever worker is free, but for files whose tests share something that is dear to make: those stay
together, and begin first. The marks of xdist that say so are lost on the pytest of today, without a word (it has its
own idea of what a test is called), so the files are named here. Tests with processes and sockets mostly wait: they are
spread among those that compute, so that both cores have something to do throughout, and what is left at the end is
short.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import pytest
from xdist.scheduler import LoadScopeScheduling

T = TypeVar("T")

SPARK: Final = "spark"
_WITH_SPARK: Final = (
    "archive", "audit_engines", "conclude", "judging", "judging_agreement", "live_stream", "metrics_many",
    "report_gather", "session", "sweep", "sweep_interrupted", "tasks",
)  # fmt: skip
_ALONE: Final = (
    "tests/audit/test_values.py",
    "tests/cli/test_broker_traffic.py",
    "tests/cli/test_keepers_die.py",
    "tests/docs/test_imports.py",
    "tests/filters/test_meaning.py",
    "tests/logs/test_lies.py",
    "tests/pipeline/test_claims.py",
    "tests/pipeline/test_cluster.py",
    "tests/pipeline/test_comparison.py",
    "tests/pipeline/test_generated.py",
    "tests/pipeline/test_report_page.py",
    "tests/pipeline/test_seed001.py",
    "tests/pipeline/test_seed001_claims.py",
    "tests/pipeline/test_seed004.py",
    "tests/sim/test_counts.py",
    "tests/sim/test_mishaps.py",
    "tests/stacks/test_ginger_annexes.py",
    "tests/stacks/test_scribe_replicas.py",
    "tests/stacks/test_waiting_totals.py",
)
_SOURCE_AND_SINK: Final = ("howto", "logs", "partitions", "source", "sink")
TOGETHER: Final = (
    {f"tests/pipeline/test_{name}.py": SPARK for name in _WITH_SPARK}
    | {f"tests/spark/test_{name}.py": SPARK for name in _SOURCE_AND_SINK}
    | {file: file for file in _ALONE}
)
"""By file: what its tests share. One worker has all that share the same."""

WAITING: Final = ("tests/net/", "tests/cli/", "tests/client/")
"""Folders of tests that wait for processes and sockets, the longest ones first."""
FIRST: Final = ("tests/tools/",)
"""Folders with one test that takes so long that everybody would wait for it at the end."""
SPREAD: Final = 0.85
"""Over so much of the others they are spread."""


def file_of(test: str) -> str:
    return test.partition("::")[0]


def unit_of(test: str) -> str:
    """Tests of one unit go to one worker, one after the other."""
    return TOGETHER.get(file_of(test), test)


class Turns(LoadScopeScheduling):  # type: ignore[misc]  # it is not typed
    """Hands out tests one by one, and whole files where that is said above."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def spread(waiting: Sequence[T], others: Sequence[T]) -> list[T]:
    """Both in their order, evenly mixed; the last ones are others."""
    places = [(SPREAD * (place + 0.5) / len(waiting), one) for place, one in enumerate(waiting)]
    places += [((place + 0.5) / len(others), one) for place, one in enumerate(others)]
    return [one for _, one in sorted(places, key=lambda placed: placed[0])]


def in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    first = [item for item in items if item.nodeid.startswith(FIRST)]
    waiting = [item for folder in WAITING for item in items if item.nodeid.startswith(folder)]
    others = [item for item in items if not item.nodeid.startswith((*FIRST, *WAITING))]
    return [*first, *spread(waiting, others)]
