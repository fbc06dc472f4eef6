"""How many connections the system lets this process have: every one is an open file (`ulimit -n`)."""

import resource
from typing import Final

from resprout.core.errors import UsageError

RESERVED: Final = 64
"""Files that a broker needs beside the connections that others open: its own connections, records, the loop."""
CONNECTIONS_MIN: Final = 16
"""With fewer, no broker is of use to anybody."""


def raise_limit(connections: int) -> None:
    """As far as this process may, and no further than needed. For processes that are nothing but a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))


def room_for(connections: int) -> tuple[int, str]:
    """So many of these connections can be had, and a line of warning when that is not all of them. UsageError when it
    is next to none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= connections + RESERVED:
        return connections, ""
    room = soft - RESERVED
    if room < CONNECTIONS_MIN:
        raise UsageError(
            f"this process may have {soft} files open at once, and a broker needs {RESERVED + CONNECTIONS_MIN}; raise"
            " `ulimit -n`"
        )
    return room, (
        f"this process may have {soft} files open at once: it takes {room} connections instead of {connections}; raise"
        " `ulimit -n`, or lower sessions_max and greetings_max"
    )
