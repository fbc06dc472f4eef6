"""The event loop of a command, and the signals that end it.

`unless_stopped` cancels what runs when a signal comes. `asked_to_end` turns the signal into an event, for a command
that prints what it has before it ends.
"""

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")

_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP")

_FULL_COLLECTION_AFTER: Final = 1_000
"""Collections of the middle generation between two full ones. Python's default is 10."""


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs until `main` is through, on uvloop where there is one."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def collect_garbage_rarely() -> None:
    """Make full collections of Python's garbage collector rare in a process that has started.

    A full collection looks at every object, and nothing else runs meanwhile: 50 to 280 ms for the log of a broker. A
    broker frees its objects by counting references, so such a collection finds next to nothing. Objects that exist
    now, mostly modules, are never looked at again.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _FULL_COLLECTION_AFTER)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def stopped_by_signals(stop: asyncio.Event | None = None) -> asyncio.Event:
    """Set when this process is asked to end: Ctrl-C, SIGTERM, or a terminal that is closed."""
    stop = stop or asyncio.Event()
    for name in _STOPS:
        on_signal(name, stop.set)
    return stop


def on_signal(name: str, call: Callable[[], object]) -> None:
    """Unless this system has no such signal, or the process was told to ignore it, such as SIGHUP under nohup."""
    number = getattr(signal, name, None)
    if number is None or signal.getsignal(number) is signal.SIG_IGN:
        return
    with contextlib.suppress(NotImplementedError):  # a loop without signals: Ctrl-C still raises KeyboardInterrupt
        asyncio.get_running_loop().add_signal_handler(number, call)


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T | None:
    """The result of the work, or None when `stop` came first; the work is then cancelled and has ended."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    return None if task.cancelled() else task.result()


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

    for name in _STOPS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
