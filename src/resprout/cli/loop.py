"""The event loop of a command, and the signals that end it."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs until `main` is through, on uvloop where there is one."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


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
