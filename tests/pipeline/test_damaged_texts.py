"""A text that is none any more: Parquet keeps no check of its bytes, so it shows only when somebody looks at it."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from resprout.pipeline.archive import check_trace
from resprout.pipeline.judging.columns import UnreadableError, Words
from resprout.pipeline.judging.reading import groups_of, read_group
from resprout.pipeline.metrics.observed import observe
from resprout.pipeline.places import RunPlace, place_of
from resprout.trace.schema import TraceError
from tests.pipeline.small import a_trace


@pytest.fixture
def damaged(tmp_path: Path) -> RunPlace:
    path = a_trace(tmp_path / "t", node="teller") / "part-00000.parquet"
    pq.write_table(pq.read_table(path, partitioning=None), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"teller", b"te\xecler"))
    return place_of(path.parent, "e", "r")


def test_it_is_named_by_whoever_archives(damaged: RunPlace) -> None:
    with pytest.raises(TraceError, match=r"part-00000\.parquet: damaged or not Parquet"):
        check_trace(Path(damaged.folder))


def test_it_is_named_by_whoever_measures(damaged: RunPlace) -> None:
    with pytest.raises(TraceError, match=r"part-00000\.parquet: damaged or not Parquet"):
        observe(damaged)


def test_it_is_left_to_the_judge_in_python_by_whoever_judges_on_arrays(damaged: RunPlace) -> None:
    [group, *_] = groups_of(damaged.parts)
    with pytest.raises(UnreadableError):
        read_group(group, Words())
