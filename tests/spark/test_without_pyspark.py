"""Whoever has no Spark imports everything else, and is told what to install."""

import subprocess
import sys

from tests.patience import PATIENCE_S

WITHOUT = "import sys; sys.modules['pyspark'] = None; import resprout"


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", f"{WITHOUT}; {code}"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_the_package_is_imported_without_pyspark() -> None:
    done = run("resprout.connect, resprout.spark.register")
    assert (done.returncode, done.stderr) == (0, "")


def test_to_register_without_pyspark_says_what_to_install() -> None:
    said = run("resprout.spark.register(None)").stderr
    assert "UsageError: the format `resprout` needs pyspark: pip install 'resprout[spark]'" in said
