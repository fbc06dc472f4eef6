"""The program of a process with clients: `python -m resprout.net.run.worker`, started by the coordinator only.

Orders come on standard input, reports go to standard output. When standard input ends the coordinator is gone, however
it went, and so is this process. A report that nobody reads is left out rather than waited for.
"""

import asyncio
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

from resprout.core import limits
from resprout.core.message_ids import WINDOW_US
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.options import LinkOptions
from resprout.net.address import Address, parse_address
from resprout.net.event_loop import now_us
from resprout.net.orders import leave_group
from resprout.net.run.clients import RealClient, RealConsumer
from resprout.net.run.exchange import (
    LINE_BYTES_MAX,
    UNCONFIRMED_NAMED,
    Assignment,
    BarClients,
    Begin,
    BrokerFound,
    ClientsProgress,
    ClientTold,
    Finish,
    Go,
    Leave,
    Ready,
    Report,
    RowWriter,
    WorkerOrder,
    as_line,
    read_order,
)
from resprout.net.run.schedule import first_event_us, subscribers
from resprout.net.sessions import make_codec, with_signs_of_life
from resprout.net.tls import Keyring, tls_of_client
from resprout.net.tree import delays_of
from resprout.scenario.app_runner import AppMaker
from resprout.scenario.load import parse_scenario
from resprout.stacks.stack import find_stack
from resprout.trace.schema import Row

REPORT_SECONDS: Final = 0.1


class Worker:
    """The clients of one process."""

    def __init__(self, assignment: Assignment) -> None:
        scenario = parse_scenario(assignment.scenario, "assignment")
        specs = {client.name: client for client in scenario.clients}
        apps = AppMaker(scenario)
        codec = make_codec(CLIENT_MESSAGES)
        writer = RowWriter(assignment.rows_descriptor)
        links = with_signs_of_life(LinkOptions(**assignment.links))
        self._addresses: dict[str, Address] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        delays_us = delays_of(scenario)
        brokers = [broker.name for broker in scenario.brokers]
        caps = scenario.bundle_caps
        given = find_stack(scenario.stack).receipts
        last_receipt = given[-1].label if given else ""
        tls = Path(assignment.tls) if assignment.tls else None
        first_us = first_event_us(scenario)
        self._awaited = [name for name in subscribers(scenario) if name in assignment.clients]
        """Clients without whose subscriptions nothing happens."""
        self.clients: dict[str, RealClient | RealConsumer] = {}
        for name, life in assignment.clients.items():
            spec = specs[name]
            keyring = Keyring(tls_of_client(tls, name)) if tls is not None else None
            if (wanted := spec.consumes) is not None:
                self.clients[name] = RealConsumer(
                    spec, wanted, life, scenario.seed, codec, links, self._addresses.get, brokers, delays_us[name],
                    writer, _tell, keyring, int(scenario.options.get("message_id_us", WINDOW_US)),
                )  # fmt: skip
            else:
                self.clients[name] = RealClient(
                    spec, life, apps.make(name, life - 1), scenario.seed, codec, links, self._addresses.get, brokers,
                    delays_us[name], writer, _tell, caps.get(name, limits.BUNDLE_MESSAGES), last_receipt, first_us,
                    keyring,
                )  # fmt: skip

    def obey(self, order: WorkerOrder) -> None:
        match order:
            case Go():
                self._addresses.update({name: parse_address(text) for name, text in order.addresses.items()})
                self._do(self._go(order.start_us))
            case Begin():
                for client in self.clients.values():
                    client.begin(order.held_us)
            case BrokerFound():
                self._addresses[order.broker] = parse_address(order.address)
            case BarClients():
                for name, peers in order.peers.items():
                    self.clients[name].bar(peers)
            case Leave():
                self._do(self.clients[order.client].leave())

    async def finish(self) -> None:
        await asyncio.gather(*(client.finish() for client in self.clients.values()))

    def progress(self) -> ClientsProgress:
        clients = self.clients.values()
        return ClientsProgress(
            rows=sum(client.tally.rows for client in clients),
            published=sum(client.tally.published for client in clients),
            delivered=sum(client.tally.delivered for client in clients),
            pending=sum(client.pending for client in clients),
            busy=any(client.busy for client in clients),
            unconfirmed=tuple(self._unconfirmed())[:UNCONFIRMED_NAMED],
        )

    def _unconfirmed(self) -> Iterator[str]:
        return (name for name in self._awaited if not self.clients[name].is_subscribed)

    async def _go(self, start_us: int) -> None:
        await asyncio.sleep(max(0, start_us - now_us()) / 1e6)
        while now_us() < start_us:  # event loops count milliseconds, and time does not begin before 0
            await asyncio.sleep(0)
        for client in self.clients.values():
            client.start(start_us)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _die(error)


async def _live() -> None:
    leave_group()
    os.set_blocking(sys.stdout.fileno(), False)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _die(context.get("exception") or RuntimeError(context["message"])))
    orders = asyncio.StreamReader(LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    worker: Worker | None = None
    reports: asyncio.Task[None] | None = None
    while line := await orders.readline():
        order = read_order(line)
        if isinstance(order, Assignment):
            worker = Worker(order)
            _say(Ready())
        elif worker is not None:
            worker.obey(order)
            if isinstance(order, Go):
                reports = asyncio.ensure_future(_report(worker))
            elif isinstance(order, Finish):
                await worker.finish()
                break
    if reports is not None:
        reports.cancel()


async def _report(worker: Worker) -> None:
    told: ClientsProgress | None = None
    while True:
        progress = worker.progress()
        if progress != told and _say(progress):
            told = progress
        await asyncio.sleep(REPORT_SECONDS)


def _tell(row: Row) -> None:
    _say(ClientTold(row))


def _say(report: Report) -> bool:
    """A line this short is written whole or not at all."""
    with contextlib.suppress(OSError):
        return os.write(sys.stdout.fileno(), as_line(report)) > 0
    return False


def _die(error: BaseException) -> None:
    """A fault of this program must not look like a calm client."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(70)


def main() -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_live())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
