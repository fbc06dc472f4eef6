"""An event loop in a thread of its own, for code that blocks."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from resprout.client.errors import ClosedError
from resprout.core.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


class Background:
    """Runs coroutines for any number of threads. Its thread does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._stopped = False
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine; ClosedError when the loop ends before it does. When the waiting is interrupted
        (Ctrl-C), the coroutine is cancelled."""
        future = self.submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClosedError("closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancels what still runs and ends the thread. May be called twice."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # -- inside --------------------------------------------------------------------------------------------------------

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        with self._lock:
            if not self._stopped and threading.current_thread() is not self._thread:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        if self._stopped:
            raise ClosedError("the client is closed")
        raise UsageError("a blocking call inside the event loop that it would wait for")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def within(timeout: float | None, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kw: P.kwargs) -> T:
    """Measured where the work is done: what has happened by then is never thrown away."""
    async with asyncio.timeout(timeout):
        return await work(*args, **kw)
