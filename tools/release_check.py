"""`python -m tools.release_check WHEEL`: install the wheel with each extra in a fresh environment, and use it.

For each extra and each Python on this machine it prints the size of what was installed, the seconds that took, and the
commands that ran. With `all` it also runs the tutorial, the guides, the examples and the commands of `--help`, by their
tests, in a folder without the sources. Nothing of the checkout is on the path. It needs a package index, so it is no
part of the tests.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
COMMAND_SECONDS_MAX: Final = 600
"""A command that takes longer has failed: one that waits for ever must not keep the others from being tried."""
TALK: Final = (
    "import asyncio, resprout\n"
    "async def main():\n"
    "    async with resprout.local(brokers=3) as network:\n"
    "        async with network.connect('a', broker=1) as a, network.connect('b', broker=2) as b:\n"
    "            inbox = await b.subscribe('t')\n"
    "            receipt = await a.publish('t', b'x')\n"
    "            assert (await inbox.next()).payload == b'x'\n"
    "            await receipt.delivered()\n"
    "asyncio.run(main())\n"
)
MODEL: Final = (
    "import asyncio, pydantic, resprout\n"
    "class Sale(pydantic.BaseModel):\n"
    "    price: int\n"
    "async def main():\n"
    "    async with resprout.local() as network, network.connect('a') as a:\n"
    "        inbox = await a.subscribe('t', type=Sale)\n"
    "        await a.publish('t', Sale(price=3))\n"
    "        assert (await inbox.next()).value.price == 3\n"
    "asyncio.run(main())\n"
)
QUERY: Final = (
    "import os, subprocess, sys, resprout.spark\n"
    "from pyspark.sql import SparkSession\n"
    "from resprout.pipeline.session import find_java_home\n"
    "os.environ.update(JAVA_HOME=str(find_java_home()), PYSPARK_PYTHON=sys.executable)\n"
    "command = [sys.executable, '-m', 'resprout']\n"
    "keep = [*command, 'broker', '--name', 'b0', '--listen', '127.0.0.1:0', '--data', 'b0', '--keep', 'bank/#']\n"
    "pipe = subprocess.PIPE\n"
    "broker = subprocess.Popen([*keep, '--stop-with-stdin'], stdin=pipe, stdout=pipe, text=True)\n"
    "address = next(broker.stdout).split()[-1]\n"
    "sent = [*command, 'pub', 'bank/pt', '-', '-s', address, '--wait', 'delivered']\n"
    "subprocess.run(sent, input='3\\n4\\n', text=True, check=True)\n"
    "spark = SparkSession.builder.getOrCreate()\n"
    "resprout.spark.register(spark)\n"
    "events = spark.read.format('resprout').option('servers', address).option('subscribe', 'bank/#').load()\n"
    "total = events.selectExpr('sum(cast(cast(value as string) as int)) as total').first()['total']\n"
    "spark.stop()\n"
    "assert total == 7, total\n"
)
WEBSOCKET: Final = "import resprout.net.mqtt.layers as layers; layers.websocket_library()"
IN_BASE: Final = (("python", "-c", TALK), ("resprout", "--help"), ("resprout", "sim", "--draw", "1"))
OF_EXTRA: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "": (),
    "metrics": (("python", "-c", "import resprout.net.http.metrics"),),
    "trace": (("resprout", "sim", "--draw", "1", "--trace", "t"), ("resprout", "audit", "t")),
    "report": (("resprout", "sim", "crash-b1", "--trace", "t"), ("resprout", "report", "t", "--out", "page.html")),
    "spark": (("python", "-c", "import resprout.spark.source, resprout.spark.sink"),),
    "spark,java": (("python", "-c", QUERY),),
    "pydantic": (("python", "-c", MODEL),),
    "mqtt": (("python", "-c", WEBSOCKET),),
    "secure": (("resprout", "certificates", "certs", "--names", "b0,b1"),),
    "otel": (("python", "-c", "import resprout.telemetry"),),
    "lab": (
        ("resprout", "sim", "seed000"),
        ("resprout", "swarm", "--stack", "flood", "--seeds", "2"),
    ),
    "all": (
        ("resprout", "sim", "crash-b1", "--trace", "t"),
        ("resprout", "audit", "t", "--engine", "spark"),
    ),
}

QUIET: Final = ("--quiet", "--disable-pip-version-check")
TEST_TOOLS: Final = ("hypothesis", "paho-mqtt", "pytest", "pytest-timeout", "pytest-xdist", "setuptools>=77")
PAGES: Final = (
    "tests/cli/test_help.py",
    "tests/client/test_examples.py",
    "tests/docs/test_howto.py",
    "tests/docs/test_tutorial.py",
    "tests/spark/test_howto.py",
)
"""What users try first: the commands of `--help`, the examples, the guides and the tutorial, as tests."""
CHECKOUT: Final = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--extra", action="append", choices=OF_EXTRA, help="only these")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only these")
    options = parser.parse_args()
    if not options.wheel.is_file():
        parser.error(f"{options.wheel}: there is no such file")
    wanted = options.python or PYTHONS
    pythons = {version: _python(version) for version in wanted}
    failed = 0
    for version, python in pythons.items():
        if python is None:
            continue
        for extra in options.extra or OF_EXTRA:
            with tempfile.TemporaryDirectory() as folder:
                failed += not _check(version, python, options.wheel.resolve(), extra, Path(folder))
    missing = [version for version, python in pythons.items() if python is None]
    if missing:
        print(f"not tried: Python {', '.join(missing)}, which this machine lacks")
    return 1 if failed else 0


def _python(version: str) -> str | None:
    """Return an interpreter of this version that starts, on the path or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        if path is not None and not subprocess.run([path, "--version"], capture_output=True, check=False).returncode:
            return str(path)
    return None


def _check(version: str, python: str, wheel: Path, extra: str, folder: Path) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True, env=environment)
    programs = folder / "venv" / "bin"
    empty = _bytes(folder / "venv")
    begin = time.monotonic()
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    subprocess.run([programs / "python", "-m", "pip", "install", *QUIET, wanted], check=True, env=environment)
    seconds, size = time.monotonic() - begin, _bytes(folder / "venv") - empty
    work = folder / "empty"
    work.mkdir()
    for words in (*IN_BASE, *OF_EXTRA[extra]):
        if trouble := _trouble([str(programs / words[0]), *words[1:]], work, environment):
            shown = " ".join(words[:3]).splitlines()[0]
            print(f"{version} {extra or 'base'}: {shown} FAILED: {trouble}", flush=True)
            return False
    ran = len(IN_BASE) + len(OF_EXTRA[extra])
    print(
        f"{version} {extra or 'base':10} {size / 1e6:6.0f} MB  {seconds:5.1f} s  {ran} commands ran",
        flush=True,
    )
    return extra != "all" or _run_pages(version, folder, environment)


def _run_pages(version: str, folder: Path, environment: dict[str, str]) -> bool:
    """Run the tests of `PAGES` in a copy of the checkout without its sources, against the installed wheel."""
    copy = folder / "pages"
    for part in ("tests", "docs", "examples"):
        shutil.copytree(CHECKOUT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", copy)
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", *QUIET, *TEST_TOOLS], check=True, env=environment)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "0", "--timeout", str(COMMAND_SECONDS_MAX), *PAGES],
        cwd=copy, env=environment | {"PYTHONPATH": str(copy)}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    print(
        *(lines[-40:] if done.returncode else [f"{version} help, examples, guides: {lines[-1]}"]), sep="\n", flush=True
    )
    return not done.returncode


def _trouble(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run a command; return why it failed, or nothing."""
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {COMMAND_SECONDS_MAX} s"
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1] if done.returncode else ""


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    sys.exit(main())
