"""Programs that read slowly, or not at all for a while: what their client was given waits there until they do.

The client has it, and shows it to its application; only that it was read is said later, and until then it counts as not
taken. When too much waits, the broker has to keep the rest.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from resprout.core import limits
from resprout.edge.options import ClientOptions
from resprout.links.options import LinkOptions
from resprout.scenario.model import ClientSpec

UNREAD_BYTES_MAX: Final = 4_000
"""What may wait in the client: little, so that in short runs brokers have to keep something, too."""


def reads_at_once(spec: ClientSpec) -> bool:
    return not spec.reading_us and spec.idle_us is None


def options_of(spec: ClientSpec, bundle_max: int = limits.BUNDLE_MESSAGES) -> ClientOptions:
    """Of the machine of a client: one whose program takes its time may have little waiting."""
    if reads_at_once(spec):
        return ClientOptions(bundle_max=bundle_max, returns=spec.repeats)
    return ClientOptions(
        takes_at_once=False, untaken_bytes_max=UNREAD_BYTES_MAX, bundle_max=bundle_max, returns=spec.repeats
    )


def window_of(spec: ClientSpec, links: LinkOptions) -> LinkOptions:
    """Return the link options of a client. Only messages beyond the window wait at the broker and can be dropped, so
    the window is small where they may be."""
    if reads_at_once(spec) or spec.when_full != "drop_oldest":
        return links
    return msgspec.structs.replace(links, window_bytes=UNREAD_BYTES_MAX)


class Reading:
    """One life of such a program. `read` is called for each delivery when it is read; `wake` has `woke` called."""

    def __init__(
        self, spec: ClientSpec, now_us: Callable[[], int], wake: Callable[[int], None], read: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._now_us = now_us
        self._wake = wake
        self._read = read
        self._unread = 0
        self._next_us = -1
        """When the next one is read; -1 when none waits."""

    def given(self) -> None:
        self._unread += 1
        if self._next_us < 0:
            self._go_on()

    def woke(self) -> None:
        if self._unread and self._now_us() >= self._next_us:
            self._take()
            self._go_on()

    def _go_on(self) -> None:
        """Read all that takes no time, and be woken for the next one."""
        while self._unread:
            due_us = self._due_us()
            if due_us > self._now_us():
                self._next_us = due_us
                self._wake(due_us)
                return
            self._take()
        self._next_us = -1

    def _take(self) -> None:
        self._unread -= 1
        self._read()

    def _due_us(self) -> int:
        due_us = self._now_us() + self._spec.reading_us
        begin_us, end_us = self._spec.idle_us or (0, 0)
        return max(due_us, end_us) if begin_us <= due_us < end_us else due_us
