"""The event loop in a thread that runs the asynchronous client for code that blocks."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from resprout.client.arguments import time_limit
from resprout.client.errors import ClosedError, ForkedError
from resprout.core.errors import UsageError

T = TypeVar("T")

P = ParamSpec("P")


class Background:
    """An event loop in a thread, which runs coroutines for any number of threads. The thread does not keep the process
    alive, and does not survive a fork."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._stopped = False
        self._process = os.getpid()
        self._thread.start()

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process that has the thread."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """ForkedError in a child process, where every call would wait for a thread that is not there."""
        if self.is_forked:
            raise ForkedError(
                f"the client was connected in process {self._process} and is used in its child {os.getpid()}: a fork"
                " copies neither its thread nor its connection. Connect in the child instead, after the fork"
                " (gunicorn: post_fork; Celery: worker_process_init; multiprocessing: in the target function)"
            )

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the coroutine; ClosedError when the loop ends before it does. When the wait is
        interrupted (Ctrl-C), the coroutine is cancelled."""
        future = self.submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClosedError("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def post(self, work: Callable[[], object]) -> None:
        """Run a function in the loop later, without waiting for it. ClosedError when the loop has ended."""
        self.check_process()
        with self._lock:
            if self._stopped:
                raise ClosedError("the client is closed")
            self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        """Cancel what still runs and end the thread. It may be called twice."""
        if self.is_forked:
            return
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        try:
            self.check_process()
        except ForkedError:
            work.close()
            raise
        with self._lock:
            if not self._stopped and threading.current_thread() is not self._thread:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        if self._stopped:
            raise ClosedError("the client is closed")
        raise UsageError("a blocking call in the thread of its own event loop: on_event must not call the client")

    # -- inside --------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def within(
    timeout: float | None, failure: str, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kw: P.kwargs
) -> T:
    """Measure the time where the work is done: a result that came in time is never thrown away."""
    async with time_limit(timeout, failure):
        return await work(*args, **kw)
