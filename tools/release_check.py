"""`python -m tools.release_check WHEEL`: install the wheel with each extra in a fresh environment, and use it.

For each extra and each Python on this machine it prints the size of what was installed, the seconds that took, and the
commands that ran. Nothing of the checkout is on the path. It needs a package index, so it is no part of the tests.
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
IN_BASE: Final = (("python", "-c", TALK), ("resprout", "--help"), ("resprout", "sim", "--draw", "1"))
OF_EXTRA: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "": (),
    "metrics": (("python", "-c", "import resprout.net.http.metrics"),),
    "trace": (("resprout", "sim", "--draw", "1", "--trace", "t"), ("resprout", "audit", "t")),
    "report": (("resprout", "sim", "crash-b1", "--trace", "t"), ("resprout", "report", "t", "--out", "page.html")),
    "spark": (("python", "-c", "import resprout.spark.source, resprout.spark.sink"),),
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--extra", action="append", choices=OF_EXTRA, help="only these")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only these")
    options = parser.parse_args()
    if not options.wheel.is_file():
        parser.error(f"{options.wheel}: there is no such file")
    wanted = options.python or PYTHONS
    pythons = [path for version in wanted if (path := _python(version)) is not None]
    failed = 0
    for python in pythons:
        for extra in options.extra or OF_EXTRA:
            with tempfile.TemporaryDirectory() as folder:
                failed += not _check(python, options.wheel.resolve(), extra, Path(folder))
    missing = [version for version in wanted if _python(version) is None]
    if missing:
        print(f"not tried: Python {', '.join(missing)}, which this machine lacks")
    return 1 if failed else 0


def _python(version: str) -> str | None:
    """The interpreter of this version, if it starts: a shim of one that is not installed does not."""
    path = shutil.which(f"python{version}")
    if path is None or subprocess.run([path, "--version"], capture_output=True, check=False).returncode:
        return None
    return path


def _check(python: str, wheel: Path, extra: str, folder: Path) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True, env=environment)
    programs = folder / "venv" / "bin"
    empty = _bytes(folder / "venv")
    begin = time.monotonic()
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([programs / "python", "-m", "pip", "install", *quiet, wanted], check=True, env=environment)
    seconds, size = time.monotonic() - begin, _bytes(folder / "venv") - empty
    work = folder / "empty"
    work.mkdir()
    for words in (*IN_BASE, *OF_EXTRA[extra]):
        if trouble := _trouble([str(programs / words[0]), *words[1:]], work, environment):
            shown = " ".join(words[:3]).splitlines()[0]
            print(f"{Path(python).name} {extra or 'base'}: {shown} FAILED: {trouble}", flush=True)
            return False
    ran = len(IN_BASE) + len(OF_EXTRA[extra])
    print(
        f"{Path(python).name} {extra or 'base':8} {size / 1e6:6.0f} MB  {seconds:5.1f} s  {ran} commands ran",
        flush=True,
    )
    return True


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
