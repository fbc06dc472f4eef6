"""Signals that ask a command to end, heard as an event: it is to say what it has before it goes."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def asked_to_end(stop: threading.Event) -> Iterator[None]:
    """Sets the event. Whoever asks a second time is not kept waiting: that raises KeyboardInterrupt."""
    before: dict[int, Any] = {}
    asked = False

    def hear(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop.set()

    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
