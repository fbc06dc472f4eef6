"""What the checks on everything that peers say cost: this version beside the one before them, in turns, as ratios.

The version before is the commit `RESPROUT_BEFORE`, taken out of the repository into a temporary folder; without git, or
without that commit, only rules are compared. Both versions run in processes that stand all the time and work in turns,
so a busy machine disturbs both alike.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

from benchmarks.checks_worker import DOORS, LONE
from benchmarks.measure import Measure

ROOT: Final = Path(__file__).parents[1]
BEFORE: Final = os.environ.get("RESPROUT_BEFORE", "05d03aeb")
"""The last commit that believed what peers say about themselves."""
NOW, THEN = "now", "before the checks"
WORKS: Final = (*LONE, *DOORS)


def run(quick: bool = False) -> list[Measure]:
    rounds = 3 if quick else 9
    with contextlib.ExitStack() as stack:
        workers = {NOW: stack.enter_context(_worker(ROOT))}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resprout-before-")))
        if _take_out(BEFORE, folder):
            workers[THEN] = stack.enter_context(_worker(folder))
        else:
            print(f"bench: there is no commit {BEFORE} here; this version is not compared with it", file=sys.stderr)
        found: dict[tuple[str, str], list[float]] = {}
        for turn in range(rounds + 1):  # the first warms up
            for work in WORKS:
                for version in _in_turn(list(workers), turn):
                    rate = _ask(workers[version], work)
                    if turn:
                        found.setdefault((version, work), []).append(rate)
    return _measures({key: statistics.median(rates) for key, rates in found.items()})


def _measures(rates: dict[tuple[str, str], float]) -> list[Measure]:
    plain, ruled = DOORS
    measures = [Measure(f"{ruled}", rates[NOW, ruled], "msg/CPU s", "without rules", rates[NOW, plain])]
    return measures + [
        Measure(work, rates[NOW, work], "msg/CPU s", THEN, rates[THEN, work], "at least 0.95")
        for work in WORKS
        if (THEN, work) in rates
    ]


def _in_turn(versions: list[str], turn: int) -> list[str]:
    """Each begins every other time: the second finds a warmer machine."""
    return versions if turn % 2 else versions[::-1]


def _take_out(commit: str, folder: Path) -> bool:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "src", "benchmarks"], capture_output=True, check=False
        )
    except OSError:
        return False
    if done.returncode:
        return False
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


@contextlib.contextmanager
def _worker(tree: Path) -> Iterator["subprocess.Popen[str]"]:
    program = ROOT / "benchmarks" / "checks_worker.py"
    # Its own folder would come first on the path: a program given with -c has none.
    words = [sys.executable, "-c", f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')"]
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tree, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"the version in {tree} does not start"
            yield process
        finally:
            process.kill()


def _ask(process: "subprocess.Popen[str]", work: str) -> float:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{work}\n")
    process.stdin.flush()
    return float(process.stdout.readline())
