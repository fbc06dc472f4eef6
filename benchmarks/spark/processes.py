"""What a process and all its descendants take, looked at from outside (Linux).

Memory is the sum of resident sets: pages that processes share are counted for each of them, so the truth is somewhat
less.
"""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.1
_PROC: Final = Path("/proc")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_STAT_WORDS: Final = 52


def output_and_peak(command: Sequence[str], environment: Mapping[str, str]) -> tuple[bytes, int]:
    """What a program wrote, and the most bytes that it and its descendants held. CalledProcessError when it fails."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(environment))
    peak = 0
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(_LOOK_SECONDS):
            peak = max(peak, resident(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        over.set()
        watcher.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return output, peak


def resident(pid: int) -> int:
    """Bytes that a process and its descendants hold now."""
    return sum(int(_words(folder / "statm")[1]) * _PAGE for folder in _family(pid))


def processor_seconds(pid: int) -> float:
    """Processor time of a process and its descendants since they began, the ended ones included."""
    ticks = sum(sum(map(int, _words(folder / "stat")[13:17])) for folder in _family(pid))
    return ticks / _TICKS_PER_SECOND


def _family(pid: int) -> Iterator[Path]:
    waiting = [str(pid)]
    while waiting:
        folder = _PROC / waiting.pop()
        yield folder
        try:
            threads = list((folder / "task").iterdir())
        except OSError:  # it has ended meanwhile
            continue
        for thread in threads:
            with contextlib.suppress(OSError):  # threads end, too
                waiting += (thread / "children").read_text().split()


def _words(path: Path) -> list[str]:
    """Zeros when it has ended. The second word of `stat` is a program's name in brackets, and may hold anything."""
    try:
        before, _, after = path.read_text().rpartition(")")
    except OSError:
        return ["0"] * _STAT_WORDS
    return [*before.split(maxsplit=1), *after.split()]
