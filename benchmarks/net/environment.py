"""What there is on this machine to compare with."""

import os
import shutil
from pathlib import Path
from typing import Final

from resprout.cli.load.team import package_environment

ROOT: Final = Path(__file__).parent.parent.parent
BENCH_PYTHON: Final = ROOT / ".venv-bench" / "bin" / "python"

_MORE_PATHS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where packages put servers, and where the search path of a user often does not look."""


def find_server(name: str) -> str | None:
    """The program, or None when it is not installed."""
    paths = [os.environ.get("PATH", os.defpath), *_MORE_PATHS]
    return shutil.which(name, path=os.pathsep.join(paths))


def worker_environment() -> dict[str, str]:
    """For programs of this folder in the environment of the benchmarks: it has neither the package nor this folder."""
    environment = package_environment()
    return {**environment, "PYTHONPATH": os.pathsep.join((str(ROOT), environment["PYTHONPATH"]))}
