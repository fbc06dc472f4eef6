"""Faults for the brokers of a running `resprout up`, to see what the others do about them.

`resprout freeze`, `resume`, `crash` and `restart` ask the process of `up` over a Unix socket that only its user can
reach. The port of the first broker names the socket.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import click
import msgspec

from resprout.cli.console import tell
from resprout.cli.loop import run_loop
from resprout.core.errors import NoBrokerError, ResproutError, UsageError
from resprout.core.limits import check_name
from resprout.net.address import DEFAULT_PORT
from resprout.net.process import BrokerProcess
from resprout.net.tree import LocalTree
from resprout.trace import kinds

ANSWER_SECONDS: Final = 150.0
"""A broker that is started again takes a while on a crowded machine."""
END_SECONDS: Final = 5.0
"""From SIGKILL to the end of the process."""


class FaultOrder(msgspec.Struct, frozen=True):
    kind: str
    broker: str


class FaultAnswer(msgspec.Struct, frozen=True):
    """What was done, or why nothing was."""

    done: str = ""
    refused: str = ""


def socket_path(port: int) -> Path:
    return Path(tempfile.gettempdir()) / f"resprout-{os.getuid()}" / f"up-{port}.sock"


# -- in the process of `up` --------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def obeying(
    tree: LocalTree, told: Callable[[str, str], None], complain: Callable[[str], None]
) -> AsyncIterator[None]:
    """Take orders while the tree runs. `told` is given the broker and the kind of each fault."""
    path = socket_path(next(iter(tree.processes)).address.port)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            answer = await _answer(tree, told, await reader.readline())
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()

    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        found = path.parent.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"others can write to {path.parent}")
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(serve, path)
    except OSError as error:
        complain(f"resprout: `resprout freeze`, `resume`, `crash` and `restart` cannot be used: {error}")
        yield
        return
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def _answer(tree: LocalTree, told: Callable[[str, str], None], line: bytes) -> FaultAnswer:
    try:
        order = msgspec.json.decode(line, type=FaultOrder)
        return FaultAnswer(await _obey(tree, told, order))
    except msgspec.MsgspecError as error:
        return FaultAnswer(refused=f"that is no order: {error}")
    except ResproutError as error:
        return FaultAnswer(refused=str(error))


async def _obey(tree: LocalTree, told: Callable[[str, str], None], order: FaultOrder) -> str:
    name, process = order.broker, tree.process(order.broker)
    if order.kind == kinds.RECOVER:
        if process.running:
            raise UsageError(f"{name} runs: `resprout crash {name}` ends it")
        told(name, kinds.RECOVER)
        return f"{name} runs again at {await tree.restart(name)}"
    if not process.running:
        raise UsageError(f"{name} does not run: `resprout restart {name}` starts it again")
    match order.kind:
        case kinds.CRASH:
            process.kill()
            await _until_ended(process)
        case kinds.FREEZE:
            if process.frozen:
                raise UsageError(f"{name} is frozen: `resprout resume {name}` lets it continue")
            process.freeze()
        case kinds.UNFREEZE:
            if not process.frozen:
                raise UsageError(f"{name} is not frozen")
            process.unfreeze()
        case _:
            raise UsageError(f"{order.kind!r} is no fault of a broker")
    told(name, order.kind)
    return f"{name} {_DONE[order.kind]} (pid {process.pid})"


_DONE: Final = {kinds.CRASH: "was killed", kinds.FREEZE: "is frozen", kinds.UNFREEZE: "continues"}


async def _until_ended(process: BrokerProcess) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while process.running:
                await asyncio.sleep(0.01)


# -- the commands ------------------------------------------------------------------------------------------------------


def _order(kind: str, name: str, port: int) -> int:
    check_name(name, "broker name")
    answer = run_loop(_ask(FaultOrder(kind, name), port))
    if answer.refused:
        raise UsageError(answer.refused)
    tell(answer.done)
    return 0


async def _ask(order: FaultOrder, port: int) -> FaultAnswer:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(socket_path(port))
            writer.write(msgspec.json.encode(order) + b"\n")
            line = await reader.readline()
            writer.close()
        return msgspec.json.decode(line, type=FaultAnswer)
    except (OSError, TimeoutError, msgspec.MsgspecError):
        raise NoBrokerError(
            f"no `resprout up` of yours on this machine has its first broker at port {port}; --port names another one"
        ) from None


_port = click.option(
    "--port", type=click.IntRange(1, 65_535), default=DEFAULT_PORT, show_default=True, metavar="N",
    help="Where the first broker of `resprout up` listens.",
)  # fmt: skip


@click.command()
@click.argument("name", metavar="NAME")
@_port
def freeze(name: str, port: int) -> int:
    """Freeze the broker NAME of a running `resprout up`: it keeps its connections and does nothing (SIGSTOP).

    \b
        resprout freeze b1
    """
    return _order(kinds.FREEZE, name, port)


@click.command()
@click.argument("name", metavar="NAME")
@_port
def resume(name: str, port: int) -> int:
    """Let the frozen broker NAME continue (SIGCONT). It belongs to a running `resprout up`.

    \b
        resprout resume b1
    """
    return _order(kinds.UNFREEZE, name, port)


@click.command()
@click.argument("name", metavar="NAME")
@_port
def crash(name: str, port: int) -> int:
    """Kill the broker NAME of a running `resprout up` (SIGKILL).

    \b
        resprout crash b1
    """
    return _order(kinds.CRASH, name, port)


@click.command()
@click.argument("name", metavar="NAME")
@_port
def restart(name: str, port: int) -> int:
    """Start the broker NAME again after it crashed, as a new process at the same address.

    \b
        resprout restart b1
    """
    return _order(kinds.RECOVER, name, port)
