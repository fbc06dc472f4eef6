"""The digest taken over columns is the one taken over rows."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.pipeline.judging.columns import Words
from resprout.pipeline.judging.reading import Fingerprint, groups_of, read_group
from resprout.trace.schema import Row, digest_of
from tests.audit.bank_model import bank_trace
from tests.pipeline.judging_cases import Case, write

INT64 = st.integers(-(1 << 63) + 1, (1 << 63) - 1) | st.sampled_from(
    [sign * (1 << bits) + step for bits in (5, 7, 8, 15, 16, 31, 32, 62) for step in (-1, 0, 1) for sign in (1, -1)]
)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(max_size=40) | st.sampled_from(["x" * 31, "x" * 32, "é" * 200, "y" * 70_000])


def rows() -> Any:
    none = st.none()
    return st.builds(
        Row, time_us=INT64, node=TEXT, kind=TEXT, publisher=none | TEXT, incarnation=none | INT32, stream=none | TEXT,
        seq=none | INT64, topic=none | TEXT, keys=none | st.lists(TEXT, max_size=20).map(tuple),
        attributes=none | st.dictionaries(TEXT, TEXT, max_size=18), position=none | INT64, detail=none | TEXT,
    )  # fmt: skip


def fingerprint_of(folder: Path, case: Case, part_rows: int) -> str:
    fingerprint = Fingerprint()
    for group in groups_of(write(folder, case, part_rows).parts):
        read_group(group, Words(), fingerprint)
    return fingerprint.value


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(rows(), min_size=1, max_size=12))
def test_any_rows(tmp_path_factory: pytest.TempPathFactory, some: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    assert fingerprint_of(folder, Case("any", some), 5) == digest_of(some)


def test_rows_of_a_run_however_they_are_divided(tmp_path: Path) -> None:
    case = Case("bank", bank_trace(1))
    for part_rows in (7, 100, 10_000):
        assert fingerprint_of(tmp_path, case, part_rows) == digest_of(case.rows)
