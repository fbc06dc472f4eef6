"""Standard input and output of `pub`, `sub` and `read`: without blocking the event loop, and messages as lines.

Both may be files, pipes or terminals, and no event loop waits for all three. So one thread per direction does the
waiting. It is a daemon and uses the bare file descriptor: a command that ends is never held up by it.
"""

import asyncio
import base64
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, TypeVar

from resprout.cli.console import json_line
from resprout.core import limits
from resprout.core.errors import UsageError, escape
from resprout.core.message import Message

T = TypeVar("T")

READ_BYTES: Final = 1 << 18

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]

Show = Callable[[Message], str | bytes]
"""Text is escaped where it leaves (`cli.standard_io.Output`); bytes leave as they are."""


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
            except RuntimeError:  # the loop is closed: nobody waits any more
                return


def _settle(done: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Lines without their ends, as many at a time as are there. The last one need not have an end."""
    helper = Helper("input")
    rest = b""
    count = 0
    while chunk := await helper.do(lambda: os.read(descriptor, READ_BYTES)):
        *lines, rest = (rest + chunk).split(b"\n")
        count += len(lines)
        if len(rest) > limits.PAYLOAD_BYTES:
            raise UsageError(f"line {count + 1} is longer than {limits.PAYLOAD_BYTES} bytes")
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
        """Write each on a line of its own: text escaped, bytes as they are. BrokenPipeError when nobody reads."""
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
