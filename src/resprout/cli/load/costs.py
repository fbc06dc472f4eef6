"""Processor time of another process."""

import time


def cpu_seconds(pid: int) -> float | None:
    """That the process has used so far, all threads, user and system; None where the system does not tell.

    On Linux the number of such a clock is made from the pid (see clock_getcpuclockid); it counts nanoseconds, where
    /proc counts hundredths of a second.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except (AttributeError, OSError, OverflowError):
        return None


def spent(before: list[float | None], after: list[float | None]) -> list[float | None]:
    """By each process in between."""
    return [None if begin is None or end is None else end - begin for begin, end in zip(before, after, strict=True)]
