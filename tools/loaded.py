"""`python -m tools.loaded [--busy 20] [--minutes 60] COMMAND...`: run a command beside busy processes.

A test must not depend on the speed of the machine, so it has to pass while others want all processors. The busy
processes end when the command ends. Each of them also ends by itself after the given time, or when this process is
gone.
"""

import argparse
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import Final

BUSY: Final = """
import os, sys, time
parent, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while time.monotonic() < end and os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=20, help="how many busy processes (default: 20)")
    parser.add_argument("--minutes", type=float, default=60, help="how long they run at most (default: 60)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    wanted = parser.parse_args()
    if not wanted.command or wanted.busy < 0 or wanted.minutes <= 0:
        parser.error("give a command, and numbers above 0")
    signal.signal(signal.SIGTERM, _interrupt)
    words = [sys.executable, "-S", "-E", "-c", BUSY, str(os.getpid()), str(60 * wanted.minutes)]
    busy: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(wanted.busy):  # one by one: those that were started are ended, whatever happens to the next
            busy.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))  # noqa: PERF401
        print(f"{len(busy)} busy processes beside: {' '.join(wanted.command)}", file=sys.stderr, flush=True)
        return subprocess.run(wanted.command, check=False).returncode
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends this process as Ctrl-C does, with its busy processes."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
