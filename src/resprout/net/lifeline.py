"""How a child process notices that the one that started it is gone: its standard input, a pipe, ends.

That works however the parent went, `kill -9` included, and on every system with pipes. A process that is stopped
(SIGSTOP) notices nothing; so the child leads a process group of its own, and when that group is orphaned the system
wakes its stopped members with SIGHUP and SIGCONT.
"""

import asyncio
import contextlib
import os
from typing import Final

from resprout.core.errors import UsageError

_STDIN: Final = 0
_READ_BYTES: Final = 4096


def leave_group() -> None:
    """Ctrl-C in the parent's terminal is for the parent; it stops its children itself."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpgid(0, 0)


def watch_stdin(stop: asyncio.Event) -> None:
    """Sets `stop` when standard input ends. What is written to it is ignored."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        try:
            more = os.read(_STDIN, _READ_BYTES)
        except OSError:
            more = b""
        if not more:
            loop.remove_reader(_STDIN)
            stop.set()

    try:
        loop.add_reader(_STDIN, look)
    except (OSError, ValueError):
        raise UsageError("standard input is no pipe: its end cannot be waited for") from None
