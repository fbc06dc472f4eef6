"""In which order several workers take the tests."""

import re
from pathlib import Path

import pytest

from tests.turns import TOGETHER, spread, unit_of

ROOT = Path(__file__).parents[1]


def test_every_file_that_stays_together_is_there() -> None:
    assert [file for file in TOGETHER if not (ROOT / file).is_file()] == []


def test_every_file_that_makes_something_once_for_all_of_its_tests_stays_together() -> None:
    """Otherwise each worker makes it again."""
    once = re.compile(r'^@(pytest\.fixture\(scope="module"|(functools\.)?cache$)', re.MULTILINE)
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    sharing = [file for file, text in texts.items() if once.search(text)]
    assert sharing and [file for file in sharing if file not in TOGETHER] == []


def test_tests_that_share_something_are_one_unit_of_work_and_others_go_alone() -> None:
    assert unit_of("tests/pipeline/test_tasks.py::test_a") == unit_of("tests/pipeline/test_sweep.py::test_b")
    assert unit_of("tests/sim/test_counts.py::test_a") == unit_of("tests/sim/test_counts.py::test_b[x]")
    assert unit_of("tests/sim/test_run.py::test_a") != unit_of("tests/sim/test_run.py::test_b")


@pytest.mark.parametrize(("waiting", "others"), [(3, 9), (9, 3), (0, 4), (4, 0)])
def test_those_that_wait_are_spread_among_the_others(waiting: int, others: int) -> None:
    mixed = spread([f"w{no}" for no in range(waiting)], [f"o{no}" for no in range(others)])
    assert [one for one in mixed if one[0] == "w"] == [f"w{no}" for no in range(waiting)]
    assert [one for one in mixed if one[0] == "o"] == [f"o{no}" for no in range(others)]
    if waiting and others:
        assert mixed[-1][0] == "o"
        assert len("".join(one[0] for one in mixed).split("w")) - 1 == waiting
