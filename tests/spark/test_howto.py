"""The guide to the Spark source and sink works as printed, in the session that these tests share."""

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.terminal import ROOT, terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_guide_works_as_printed(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run_program(program: Path) -> None:
        """Java began in another folder, and takes relative paths from there."""
        program.write_text(program.read_text().replace('"checkpoint"', repr(str(tmp_path / "checkpoint"))))
        runpy.run_path(str(program))

    with terminal(tmp_path, run_program) as opened:
        assert opened.page(ROOT / "docs" / "howto" / "spark-source-and-sink.md") >= 5
