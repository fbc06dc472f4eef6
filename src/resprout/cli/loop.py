"""The event loop of a command: the signals that end it, and standard input and output that do not block it.

`unless_stopped` cancels what runs when a signal comes. `asked_to_end` turns the signal into an event, for a command
that prints what it has before it ends.

`pub`, `sub` and `read` use standard input and output. Both may be files, pipes or terminals, and no event loop waits
for all three. So one thread per direction does the waiting. It is a daemon and uses the bare file descriptor: a command
that ends is never held up by it.
"""

import asyncio
import base64
import contextlib
import gc
import os
import queue
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, TypeVar

from resprout.cli.console import json_line
from resprout.core.errors import UsageError, escape
from resprout.core.message import Message

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


READ_BYTES: Final = 1 << 18

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]

Show = Callable[[Message], str | bytes]
"""Text is escaped where it leaves (`Output`); bytes leave as they are."""


class Helper:
    """A thread that does one blocking call after the other."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def do(self, call: Callable[[], T]) -> T:
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((call, done))
        return await done

    def _work(self) -> None:
        while True:
            call, done = self._jobs.get()
            result, error = None, None
            try:
                result = call()
            except Exception as trouble:
                error = trouble
            try:
                self._loop.call_soon_threadsafe(_settle, done, result, error)
            except RuntimeError:  # the loop is closed: no task waits any more
                return


def _settle(done: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


async def read_lines(descriptor: int, longest: int) -> AsyncIterator[list[bytes]]:
    """Yield lines without their ends, as many at a time as are there. The last one need not have an end.
    Raises UsageError at the first line that has more than `longest` bytes."""
    helper = Helper("input")
    rest = b""
    count = 0
    while chunk := await helper.do(lambda: os.read(descriptor, READ_BYTES)):
        *lines, rest = (rest + chunk).split(b"\n")
        for place, line in enumerate((*lines, rest), count + 1):
            if len(line) > longest:
                raise UsageError(f"line {place} is longer than {longest} bytes")
        count += len(lines)
        if lines:
            yield lines
    if rest:
        yield [rest]


def _as_bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else escape(line).encode()


class Output:
    """A file descriptor to write lines to; `write` returns when everything has been taken."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._helper = Helper("output")

    async def write(self, lines: Iterable[str | bytes]) -> None:
        """Write each on a line of its own: text escaped, bytes as they are.
        Raises BrokenPipeError when the reader has closed it."""
        data = b"".join([_as_bytes(line) + b"\n" for line in lines])
        await self._helper.do(lambda: self._write(data))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def as_text(message: Message) -> str:
    """The topic and the payload. What is not text is written as hexadecimal digits, and says so."""
    return f"{message.topic} {_readable(message.payload)}"


def as_payload(message: Message) -> bytes:
    """The payload as it came."""
    return message.payload


def as_json(message: Message) -> str:
    return json_line(as_fields(message))


def as_fields(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"topic": message.topic}
    try:
        fields["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(message.payload).decode()
    fields["publisher"] = message.publisher
    fields["epoch"] = message.epoch
    fields["seq"] = message.seq
    fields["guarantee"] = message.guarantee.label
    fields["keys"] = message.keys
    fields["attributes"] = message.attributes
    fields["position"] = message.position
    fields["id"] = str(message.id)
    if message.redelivered:
        fields["redelivered"] = True
    return fields


def _readable(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return f"(hex) {payload.hex()}"
