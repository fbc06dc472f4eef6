"""The event loop of a command, and the signals that end it."""

import asyncio
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


def stopped_by_signals() -> asyncio.Event:
    """Set when this process is asked to end: Ctrl-C, SIGTERM, or a terminal that is closed."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in _STOPS:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:  # such as SIGHUP under nohup
            continue
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # a loop without signals: Ctrl-C still raises KeyboardInterrupt
            return stop
    return stop


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
