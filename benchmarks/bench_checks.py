"""What the checks on everything that peers say cost: this version beside the one before them, in turns, as ratios.

The version before is the commit `RESPROUT_BEFORE`, taken out of the repository into a temporary folder; without git, or
without that commit, only rules are compared. Both versions run in processes that stand all the time and work in turns,
so a busy machine disturbs both alike.

Two figures for each work. The ratio is the median of the ratios of single rounds: both works of a round are done within
a second of each other, in processor time. The name tells between which ratios half of the rounds lie. What a recording
of brokers takes is counted, too, in instructions of Python: that is the same in every run, and shows a difference of
one in a thousand. It leaves out what is done in C.
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

from benchmarks.checks_worker import COUNT, DOORS, LONE
from benchmarks.measure import Measure

ROOT: Final = Path(__file__).parents[1]
BEFORE: Final = os.environ.get("RESPROUT_BEFORE", "05d03aeb")
"""The last commit that believed what peers say about themselves."""
NOW, THEN = "now", "before the checks"
WORKS: Final = (*LONE, *DOORS)


def run(quick: bool = False) -> list[Measure]:
    rounds = 5 if quick else 41
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
        counted = {(version, work): _ask(workers[version], f"{COUNT} {work}") for version in workers for work in LONE}
    return [*_rates(found), *_counts(counted)]


def _rates(found: dict[tuple[str, str], list[float]]) -> list[Measure]:
    plain, ruled = DOORS
    measures = [_paired(ruled, found[NOW, ruled], "without rules", found[NOW, plain])]
    return measures + [
        _paired(work, found[NOW, work], THEN, found[THEN, work], "at least 0.95")
        for work in WORKS
        if (THEN, work) in found
    ]


def _paired(work: str, rates: list[float], yardstick: str, others: list[float], goal: str = "") -> Measure:
    """Compare round by round."""
    ratios = [rate / other for rate, other in zip(rates, others, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    value = statistics.median(rates)
    return Measure(f"{work} ({low:.3f} to {high:.3f})", value, "msg/CPU s", yardstick, value / middle, goal)


def _counts(counted: dict[tuple[str, str], float]) -> list[Measure]:
    """Messages in a million instructions, so that more is better as in the other measures."""
    return [
        Measure(
            work, 1e6 / counted[NOW, work], "msg/10^6 instructions", THEN, 1e6 / counted[THEN, work], "at least 0.95"
        )
        for work in LONE
        if (THEN, work) in counted
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
