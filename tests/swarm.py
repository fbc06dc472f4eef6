"""`python -m tests.swarm --seeds N --first S --class C --stack S --workers W`: draws, runs and judges N scenarios.

Exit status 1 when any of them fails; each failure says what was drawn and the command that shows it again. With
`--write` the scenario of the first seed is written as TOML, for `resprout sim` and for a closer look; a fault that
strikes after an event is written with the time of that event, which is nearly the same.
"""

import argparse
import sys
import time
from pathlib import Path

from resprout.scenario.write import to_toml
from resprout.sim.classes import ANY, CLASSES, FAULTS, class_of
from resprout.sim.swarm import DEFAULT_STACK, Outcome, swarm_trial, try_seeds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description="Draw, run and judge scenarios.")
    parser.add_argument("--seeds", type=_positive, default=200, help="how many (default 200)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    parser.add_argument(
        "--class", dest="wanted", choices=(ANY, *CLASSES), default=ANY, help="what to draw (default any)"
    )
    parser.add_argument("--stack", default=DEFAULT_STACK, help=f"which protocol (default {DEFAULT_STACK})")
    parser.add_argument("--workers", type=_positive, default=1, help="processes (default 1)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the scenario of the first seed as TOML")
    wanted = parser.parse_args(arguments)
    if wanted.stack != DEFAULT_STACK and wanted.wanted == ANY:
        wanted.wanted = FAULTS
    if wanted.write is not None:
        drawn = class_of(wanted.first, wanted.wanted)
        wanted.write.write_text(to_toml(swarm_trial(wanted.first, drawn, wanted.stack).timed))
    begin = time.monotonic()
    failed: list[int] = []
    seeds = range(wanted.first, wanted.first + wanted.seeds)
    for number, outcome in enumerate(try_seeds(seeds, wanted.workers, wanted.wanted, wanted.stack), 1):
        _progress(number, wanted.seeds, len(failed))
        if outcome.failed:
            failed.append(outcome.seed)
            _say(outcome)
    _progress(0, 0, 0)
    told = f"seeds {wanted.first} to {wanted.first + wanted.seeds - 1}"
    named = f" ({', '.join(map(str, failed))})" if failed else ""
    sys.stdout.write(f"{told}: {len(failed)} failed{named}, {time.monotonic() - begin:.1f} s\n")
    return 1 if failed else 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _say(outcome: Outcome) -> None:
    _progress(0, 0, 0)
    sys.stdout.write(f"{outcome.report}\n\n")
    sys.stdout.flush()


def _progress(number: int, seeds: int, failed: int) -> None:
    """One line on a terminal that replaces itself; nothing in a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{number} of {seeds}, {failed} failed" if number else "\r\033[K")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
