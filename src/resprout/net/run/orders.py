"""What the coordinator and a worker (a process with clients) say to each other: one JSON object a line."""

from typing import TypeVar

import msgspec

from resprout.core.errors import PeerError
from resprout.trace.schema import Row

T = TypeVar("T")

LINE_BYTES_MAX = 16 << 20
"""An assignment holds the whole scenario."""
UNCONFIRMED_NAMED = 8
"""Enough for an error message. A report must fit into one atomic write to a pipe, of 4 kB."""


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
        raise PeerError(f"{line[:80]!r} is not what is said here: {error}") from None
