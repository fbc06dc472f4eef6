"""`python -m tests.logs --seeds N --first S`: runs N random schedules of a log, and judges each.

Exit status 1 when any of them fails; each failure says the command that shows it again.
"""

import argparse
import sys

from tests.logs.schedule import LogSchedule


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.logs", description="Run schedules of a log.")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many (default 1000)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    wanted = parser.parse_args(arguments)
    failed = entries = crashes = wipes = 0
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        schedule = LogSchedule(seed)
        try:
            schedule.run()
        except AssertionError as error:
            failed += 1
            sys.stdout.write(f"seed {seed}: {error}\n  python -m tests.logs --seeds 1 --first {seed}\n")
            sys.stdout.flush()
        entries += len(schedule.kept)
        crashes += schedule.crashes
        wipes += schedule.wipes
    last = wanted.first + wanted.seeds - 1
    sys.stdout.write(
        f"seeds {wanted.first} to {last}: {failed} failed; {entries} entries, {crashes} crashes, {wipes} lost disks\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
