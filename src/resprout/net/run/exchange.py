"""What the coordinator and a worker (a process with clients) exchange: orders and reports as lines, rows as files.

An order or a report is one JSON object a line.

A row file holds batches, each with its length first. A batch that was saved is with the operating system: it is there
even when the process is killed the next moment. A process that is killed while it saves leaves a part of a batch, which
is ignored.

`LiveRows`: every half second, the rows that the processes have saved since the last time become one file of a live
folder. A thread reads and writes, because the coordinator has signals to send and processes to hear. An error with the
folder ends the live rows, not the run, whose trace does not change.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from resprout.core.errors import PeerError, ResproutError
from resprout.trace import kinds
from resprout.trace.schema import Row

if TYPE_CHECKING:
    from resprout.trace.store import LiveFolder

T = TypeVar("T")

LINE_BYTES_MAX = 16 << 20
"""An assignment holds the whole scenario."""
UNCONFIRMED_NAMED = 8
"""Enough for an error message. A report must fit into one atomic write to a pipe, of 4 kB."""

_LENGTH_BYTES: Final = 4
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Row]).decode

PERIOD_SECONDS: Final = 0.5

Readers = Callable[[], Sequence[Callable[[], list[Row]]]]
"""Whom to ask for new rows; each of those gives what it has not given before."""


class Assignment(msgspec.Struct, frozen=True, tag="assignment"):
    """The first order: who lives in this process, and where their rows go."""

    scenario: str
    """As TOML."""
    clients: dict[str, int]
    """By name, the number of the life that begins: 1 is the first."""
    rows_descriptor: int
    """An open file."""
    links: dict[str, int]
    """Options of the links, see `LinkOptions`."""
    tls: str = ""
    """The folder with certificates; empty: clients speak without TLS."""


class Go(msgspec.Struct, frozen=True, tag="go"):
    """Begin at this time of the common clock, which is time 0 of the run."""

    start_us: int
    addresses: dict[str, str]
    """Where brokers listen, by name."""


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Every subscription is confirmed: the schedule goes on, later than in the scenario by this much."""

    held_us: int


class BrokerFound(msgspec.Struct, frozen=True, tag="found"):
    """One more broker listens."""

    broker: str
    address: str


class BarClients(msgspec.Struct, frozen=True, tag="bar"):
    """An emulated cut: by client, the peers (and no others) that it cannot reach from now on."""

    peers: dict[str, list[str]]


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """This client goes in good order."""

    client: str


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The run is over: end every session in good order, then the process."""


WorkerOrder = Assignment | Go | Begin | BrokerFound | BarClients | Leave | Finish


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The assignment is understood; `Go` is awaited."""


class ClientsProgress(msgspec.Struct, frozen=True, tag="progress"):
    """How far the clients of the process have come, all together."""

    rows: int = 0
    """Observations; it stands still when nothing happens."""
    published: int = 0
    delivered: int = 0
    pending: int = 0
    """Publications and requests without an outcome."""
    busy: bool = True
    """An application will act of its own accord."""
    unconfirmed: tuple[str, ...] = ()
    """Clients with a subscription that is not confirmed yet, the first `UNCONFIRMED_NAMED` of them."""


class ClientTold(msgspec.Struct, frozen=True, tag="told"):
    """Something happened to a client that people want to hear of at once."""

    row: Row


Report = Ready | ClientsProgress | ClientTold

_orders: msgspec.json.Decoder[WorkerOrder] = msgspec.json.Decoder(WorkerOrder)
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def as_line(said: WorkerOrder | Report) -> bytes:
    return msgspec.json.encode(said) + b"\n"


def read_order(line: bytes) -> WorkerOrder:
    return _read(_orders, line)


def read_report(line: bytes) -> Report:
    return _read(_reports, line)


def _read(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{line[:80]!r} is not a valid message here: {error}") from None


class RowWriter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unsaved: list[Row] = []

    def record(self, row: Row) -> None:
        self._unsaved.append(row)

    def save(self) -> None:
        """Whatever is done after this, the rows so far will be known."""
        if not self._unsaved:
            return
        batch = _encode(self._unsaved)
        self._unsaved.clear()
        view = memoryview(len(batch).to_bytes(_LENGTH_BYTES, "big") + batch)
        while view:
            view = view[os.write(self._descriptor, view) :]


class RowReader:
    """Reads a file of rows that is still being written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = 0
        """Everything before this has been given out."""

    def read_new(self) -> list[Row]:
        """Whole batches that were not there the last time, in order; PeerError when they are no rows."""
        rows: list[Row] = []
        content = self._content()
        at = 0
        while at + _LENGTH_BYTES <= len(content):
            begin = at + _LENGTH_BYTES
            end = begin + int.from_bytes(content[at:begin], "big")
            if end > len(content):
                break
            try:
                rows += _decode(memoryview(content)[begin:end])
            except msgspec.MsgspecError as error:
                raise PeerError(f"a client process wrote what are no rows: {error}") from None
            at = end
        self._at += at
        return rows

    def _content(self) -> bytes:
        wanted = os.fstat(self._descriptor).st_size - self._at
        content = b""
        while len(content) < wanted and (
            more := os.pread(self._descriptor, wanted - len(content), self._at + len(content))
        ):
            content += more
        return content


def read_rows(descriptor: int) -> list[Row]:
    """All whole batches, in order; PeerError when they are no rows."""
    return RowReader(descriptor).read_new()


class LiveRows:
    """`limit_us`: rows later than this are no part of a run that ends there, and are kept until it is known how the run
    ends."""

    def __init__(self, folder: "LiveFolder", limit_us: int, readers: Readers) -> None:
        self._folder = folder
        self._limit_us = limit_us
        self._readers = readers
        self._beyond: list[Row] = []
        self._task: asyncio.Task[None] | None = None
        self.trouble: ResproutError | None = None
        """Why not all rows were handed out."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._hand_out())

    async def end(self, last: Row) -> None:
        """Hands out the rest, and then the last row. Every row must have been saved by now. Only the first call counts:
        what ended is over."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait((self._task,))
        self._task = None
        if self.trouble is None:
            await self._try(lambda: self._finish(last))

    async def _hand_out(self) -> None:
        while self.trouble is None:
            await asyncio.sleep(PERIOD_SECONDS)
            work = asyncio.ensure_future(self._try(self._write_new))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await work  # what a thread has begun is not left half done
                raise

    async def _try(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
        except ResproutError as error:
            self.trouble = error

    def _write_new(self) -> None:
        self._folder.write(self._new())

    def _finish(self, last: Row) -> None:
        rows = self._new()
        if last.kind != kinds.TIMEOUT:
            rows += self._beyond
        self._folder.write([*rows, last])

    def _new(self) -> list[Row]:
        rows = [row for read in self._readers() for row in read()]
        rows.sort(key=lambda row: row.time_us)
        self._beyond += [row for row in rows if row.time_us > self._limit_us]
        return [row for row in rows if row.time_us <= self._limit_us]
