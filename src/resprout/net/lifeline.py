"""What binds a child process to the one that started it: its standard input, a pipe.

When the pipe ends the parent is gone, and so is the child. That works however the parent went, `kill -9` included, and
on every system with pipes. A process that is stopped (SIGSTOP) notices nothing; so the child leads a process group of
its own, and when that group is orphaned the system wakes its stopped members with SIGHUP and SIGCONT.

Until then the parent may say something through it, a line at a time.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from resprout.core.errors import UsageError

_STDIN: Final = 0
_READ_BYTES: Final = 65_536


def leave_group() -> None:
    """Ctrl-C in the parent's terminal is for the parent; it stops its children itself."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpgid(0, 0)


def watch_stdin(stop: asyncio.Event, hear: Callable[[bytes], None], line_bytes_max: int) -> None:
    """Sets `stop` when standard input ends; `hear` is given each line of it, as long as lines are not too long."""
    loop = asyncio.get_running_loop()
    unread = bytearray()

    def look() -> None:
        try:
            more = os.read(_STDIN, _READ_BYTES)
        except OSError:
            more = b""
        if not more:
            loop.remove_reader(_STDIN)
            stop.set()
            return
        unread.extend(more)
        *lines, rest = bytes(unread).split(b"\n")
        unread[:] = rest[:line_bytes_max]
        for line in lines:
            hear(line)

    try:
        loop.add_reader(_STDIN, look)
    except (OSError, ValueError):
        raise UsageError("standard input is no pipe: its end cannot be waited for") from None
