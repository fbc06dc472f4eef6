"""`python -m tests.replicas --seeds N --first S`: runs N random schedules of replicas, and judges each.

Exit status 1 when any of them fails; each failure says the command that shows it again.
"""

import argparse
import sys
import time

from tests.replicas.schedule import Schedule


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replicas", description="Run schedules of replicas.")
    parser.add_argument("--seeds", type=_positive, default=5_000, help="how many (default 5000)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    wanted = parser.parse_args(arguments)
    begin = time.monotonic()
    failed = decided = crashes = 0
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        schedule = Schedule(seed)
        try:
            schedule.run()
        except AssertionError as error:
            failed += 1
            sys.stdout.write(f"seed {seed}: {error}\n  python -m tests.replicas --seeds 1 --first {seed}\n")
            sys.stdout.flush()
        decided += len(schedule.decisions.slots)
        crashes += sum(schedule.runs.values()) - len(schedule.runs)
    sys.stdout.write(
        f"seeds {wanted.first} to {wanted.first + wanted.seeds - 1}: {failed} failed, {decided} decisions,"
        f" {crashes} restarts, {time.monotonic() - begin:.1f} s\n"
    )
    return 1 if failed else 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
