"""Every command and program of the how-to guides works as printed. The one about Spark is run in tests/spark."""

import shutil
from pathlib import Path

import pytest

from tests.docs.terminal import ROOT, terminal

PAGES = sorted(
    path.stem for path in (ROOT / "docs" / "howto").glob("*.md") if path.stem not in ("README", "spark-source-and-sink")
)

NEEDS = {"mqtt": ("mosquitto_pub", "mosquitto_sub")}
"""Programs of others that a guide uses."""


@pytest.mark.parametrize("name", PAGES)
def test_a_guide_works_as_printed(name: str, tmp_path: Path) -> None:
    if missing := [program for program in NEEDS.get(name, ()) if shutil.which(program) is None]:
        pytest.skip(f"there is no {' and no '.join(missing)} here: install mosquitto-clients")
    with terminal(tmp_path) as opened:
        assert opened.page(ROOT / "docs" / "howto" / f"{name}.md") >= 3
