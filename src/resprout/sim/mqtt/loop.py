"""`VirtualLoop`: an event loop of asyncio in virtual time, for the MQTT sessions of one broker's process.

It has what coroutines, tasks, futures and timeouts need: `call_soon`, `call_at` and `time`, and no sockets, threads or
signals. Its calls are alarms of a process of the world, so they wait while the process is frozen and end with it. Calls
of one instant happen in the order in which they were asked for, so a run is a function of its inputs.

An exception in a callback or a task ends the run.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from resprout.sim.nodes import Process, VirtualAlarms

SECOND_US = 1_000_000


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, alarms: VirtualAlarms, now_us: Callable[[], int], process: Process) -> None:
        self._alarms = alarms
        self._now_us = now_us
        self._process = process
        self._ready: deque[asyncio.Handle] = deque()
        self._is_due = False
        self._calls = 0
        self._timers: dict[int, int] = {}
        """Alarm of each timer, by the identity of its handle: equal handles may be two timers."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_over = False
        self._error: BaseException | None = None

    # -- what tasks and futures need -----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now_us() / SECOND_US

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_over

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_due and not self._is_over:
            self._is_due = True
            self._set_alarm(self._now_us(), self._turn)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at(when, False, callback, args, context)

    def call_idly(self, delay: float, callback: Callable[..., Any]) -> asyncio.TimerHandle:
        """Call as housekeeping: a run may end before."""
        return self._call_at(self.time() + delay, True, callback, (), None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._error is None and not self._is_over:
            self._error = context.get("exception") or AssertionError(str(context.get("message")))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        number = self._timers.pop(id(handle), None)
        if number is not None:
            self._alarms.cancel(self._process, ("loop", number))

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self, work: Callable[[], Any]) -> None:
        """Call a function as this loop's, for events of the world."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            work()
        finally:
            asyncio._set_running_loop(before)

    def end(self) -> None:
        """Cancel all tasks, after the end of the process or of the run. What they do now has no effect."""
        if self._is_over:
            return
        self._is_over = True
        for task in self._tasks:
            task.cancel()
        self.run(self._drain)

    def _call_at(
        self, when: float, is_idle: bool, callback: Callable[..., Any], args: Any, context: Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_over:
            at_us = max(self._now_us(), -int(-when * SECOND_US // 1))
            self._timers[id(handle)] = self._set_alarm(at_us, lambda: self._ring(handle), is_idle)
        return handle

    def _set_alarm(self, at_us: int, call: Callable[[], None], is_idle: bool = False) -> int:
        self._calls += 1
        self._alarms.set(self._process, ("loop", self._calls), at_us, lambda process, key: call(), is_idle)
        return self._calls

    def _ring(self, handle: asyncio.TimerHandle) -> None:
        self._timers.pop(id(handle), None)
        self._ready.append(handle)
        self._turn()

    def _turn(self) -> None:
        self._is_due = False
        self.run(self._drain_once)
        if self._ready and not self._is_due and not self._is_over:
            self._is_due = True
            self._set_alarm(self._now_us(), self._turn)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _drain_once(self) -> None:
        """Make the calls that are due; those that they ask for come in the next turn."""
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _drain(self) -> None:
        while self._ready:
            self._drain_once()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task in self._tasks:
            self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._is_over:
            self._error = error
