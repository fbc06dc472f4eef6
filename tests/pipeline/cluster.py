"""A standalone master of Spark and one worker on loopback, each a process in a folder of its own."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark

import resprout
from resprout.pipeline.session import find_java_home
from tests.patience import PATIENCE_S
from tests.pipeline.java import SHORT_LIVED

_SPARK: Final = Path(pyspark.__file__).parent
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = re.compile(r"Successfully registered with master")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Its address, when the worker has registered."""
    folder.mkdir()
    with _process(folder, "master", "--port", "0") as master:
        address = _wait(master, _MASTER)[1]
        words = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), address)
        with _process(folder, "worker", *words) as worker:
            _wait(worker, _REGISTERED)
            yield address


def environment() -> dict[str, str]:
    """Of whoever takes part: this Java, and the package that is tested."""
    return os.environ | {
        "JAVA_HOME": str(find_java_home()),
        "PYTHONPATH": str(Path(resprout.__file__).parent.parent),
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class _Process:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log


@contextlib.contextmanager
def _process(folder: Path, what: str, *words: str) -> Iterator[_Process]:
    log = folder / f"{what}.log"
    command = [
        str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}.{what.title()}",
        "--host", "127.0.0.1", "--webui-port", "0", *words,
    ]  # fmt: skip
    with (
        log.open("wb") as out,
        subprocess.Popen(command, cwd=folder, env=environment(), stdout=out, stderr=out) as process,
    ):
        try:
            yield _Process(process, log)
        finally:
            process.terminate()  # the script has become Java itself, and a worker ends its executors
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: _Process, sign: "re.Pattern[str]") -> "re.Match[str]":
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.process.poll() is None:
        if (found := sign.search(process.log.read_text(errors="replace"))) is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{process.log.name}: {process.log.read_text(errors='replace')[-2000:]}")
