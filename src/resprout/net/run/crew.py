"""The clients of a scenario, spread over processes, as the coordinator sees them."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from resprout.core.errors import PeerError
from resprout.net.address import Address
from resprout.net.process import START_SECONDS_MAX, STOP_SECONDS_MAX, Child, ProcessError, lines_of
from resprout.net.run.exchange import (
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
    RowReader,
    WorkerOrder,
    as_line,
    read_report,
    read_rows,
)
from resprout.net.run.schedule import share_out, subscribers
from resprout.scenario.model import Scenario
from resprout.scenario.write import to_toml
from resprout.trace.schema import Row


class WorkerProcess(Child):
    """Started once. Its rows are in a file without a name, so nothing of it is left when this process is gone.

    `on_end` is told when it ends; `deliberate` says whether that was asked for here. `on_row` hears at once what people
    may want to know; all rows are in the file.
    """

    def __init__(
        self,
        clients: Mapping[str, int],
        on_end: Callable[["WorkerProcess"], None],
        on_row: Callable[[Row], None] = lambda row: None,
    ) -> None:
        super().__init__(f"the process of {', '.join(clients)}")
        self.clients = dict(clients)
        """By name, the number of its life."""
        self.progress = ClientsProgress()
        """As last reported."""
        self._on_end = on_end
        self._on_row = on_row
        self._rows = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this object is
        self._reader = RowReader(self._rows.fileno())
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None

    def rows(self) -> list[Row]:
        """Those it has saved."""
        return read_rows(self._rows.fileno())

    def new_rows(self) -> list[Row]:
        """Those it has saved since the last time they were asked for here."""
        return self._reader.read_new()

    def forget_rows(self) -> None:
        self._rows.close()

    # -- start and end -----------------------------------------------------------------------------------------------

    async def start(self, scenario: str, links: Mapping[str, int], tls: Path | None = None) -> None:
        """Returns when it is ready to go. ProcessError when it fails; then no process is left."""
        descriptor = self._rows.fileno()
        command = (sys.executable, "-P", "-m", "resprout.net.run.worker")
        process = await self._spawn(command, (descriptor,))
        self._life = asyncio.create_task(self._live(process))
        self.order(Assignment(scenario, self.clients, descriptor, dict(links), str(tls or "")))
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await asyncio.wait((self._ready, self._life), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.stop(0)
            raise ProcessError(f"{self.what} was not ready in time") from None
        except BaseException:
            await self.stop(0)
            raise
        if not self._ready.done():
            raise ProcessError(self.epitaph)

    async def stop(self, grace_s: float = STOP_SECONDS_MAX) -> None:
        """Let it end its sessions, and kill it when it has not ended by then. A frozen one is killed at once: woken, it
        would still act, after the run."""
        if self._life is None:
            return
        self.deliberate = True
        if grace_s > 0 and self.running and not self.frozen:
            self.order(Finish())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        await self.wait()

    async def wait(self) -> None:
        """Until it has ended."""
        assert self._life is not None, "a worker is started first"
        await asyncio.shield(self._life)

    # -- orders and signals ------------------------------------------------------------------------------------------

    def order(self, order: WorkerOrder) -> None:
        stdin = self._started().stdin
        assert stdin is not None
        if self.running:
            with contextlib.suppress(OSError, RuntimeError):  # it is just ending, which `on_end` tells
                stdin.write(as_line(order))

    # -- listening to it ---------------------------------------------------------------------------------------------

    async def _live(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        await asyncio.gather(self._hear_out(process.stdout), self._hear_err(process.stderr))
        await process.wait()
        process.stdin.close()
        self._on_end(self)

    async def _hear_out(self, out: asyncio.StreamReader) -> None:
        async for line in lines_of(out):
            try:
                report = read_report(line)
            except PeerError as error:
                self._last_words.append(str(error))
                self._signal(signal.SIGKILL)
                return
            match report:
                case ClientsProgress():
                    self.progress = report
                case ClientTold():
                    self._on_row(report.row)
                case Ready() if not self._ready.done():
                    self._ready.set_result(None)


class Crew:
    """Every process with clients, those that have ended included."""

    def __init__(
        self,
        scenario: Scenario,
        links: Mapping[str, int],
        on_row: Callable[[Row], None] = lambda row: None,
        tls: Path | None = None,
    ) -> None:
        """`links`: options of the clients' links, see `LinkOptions`. `on_row` hears at once of what people may want to
        know. `tls`: the folder with certificates, if TLS is spoken."""
        self._scenario = scenario
        self._links = links
        self._on_row = on_row
        self._tls = tls
        self._text = to_toml(scenario)
        self._workers: list[WorkerProcess] = []
        self._sent_off: list[WorkerProcess] = []
        """Those that have begun; others are not there yet to be told anything."""
        self._barred: dict[str, list[str]] = {}
        self._of: dict[str, WorkerProcess] = {}
        self._go: Go | None = None
        self._begin: Begin | None = None
        self._gone: set[str] = set()
        """Clients that have left."""
        self._fallen: asyncio.Future[WorkerProcess]

    # -- start and end -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when every client is ready to go."""
        self._fallen = asyncio.get_running_loop().create_future()  # a run may be made before there is a loop to run in
        async with asyncio.TaskGroup() as group:
            for names in share_out(self._scenario):
                group.create_task(self._add(dict.fromkeys(names, 1)))

    def go(self, start_us: int, addresses: dict[str, str]) -> None:
        self._go = Go(start_us, addresses)
        for worker in self._workers:
            self._send_off(worker)

    def begin(self, held_us: int) -> None:
        """The schedule goes on, so much later; so does that of whoever starts from now on."""
        self._begin = Begin(held_us)
        for worker in self._sent_off:
            worker.order(self._begin)

    async def stop(self) -> None:
        """All of them at once. Afterwards none is left."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def unexpected_end(self) -> WorkerProcess:
        """Wait until a process ends without having been stopped here. Return it."""
        return await asyncio.shield(self._fallen)

    # -- what happens to clients -------------------------------------------------------------------------------------

    def worker(self, client: str) -> WorkerProcess:
        """The process that the client lives, or last lived, in."""
        return self._of[client]

    def runs(self, client: str) -> bool:
        return client not in self._gone and self._of[client].running

    async def revive(self, client: str) -> None:
        """The next life of a client that was killed; it begins at once."""
        assert self._go is not None, "clients are revived during a run"
        self._send_off(await self._add({client: self._of[client].clients[client] + 1}))

    def leave(self, client: str) -> None:
        self._gone.add(client)
        self._of[client].order(Leave(client))

    def found(self, broker: str, address: Address) -> None:
        """A broker listens that was not there at the beginning."""
        assert self._go is not None, "brokers join during a run"
        self._go.addresses[broker] = str(address)
        for worker in self._sent_off:
            worker.order(BrokerFound(broker, str(address)))

    def bar(self, peers: dict[str, list[str]]) -> None:
        """By client, whom it cannot reach from now on."""
        self._barred = peers
        for worker in self._sent_off:
            self._tell_bars(worker)

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def progress(self) -> ClientsProgress:
        """All together. What dead and frozen clients would still want does not count."""
        everybody = [worker.progress for worker in self._workers]
        awake = [worker.progress for worker in self._workers if worker.running and not worker.frozen]
        return ClientsProgress(
            rows=sum(progress.rows for progress in everybody),
            published=sum(progress.published for progress in everybody),
            delivered=sum(progress.delivered for progress in everybody),
            pending=sum(progress.pending for progress in awake),
            busy=any(progress.busy for progress in awake),
            unconfirmed=tuple(name for progress in awake for name in progress.unconfirmed),
        )

    def rows(self) -> list[Row]:
        """Of all processes; those of one client are in order."""
        return [row for worker in self._workers for row in worker.rows()]

    def row_readers(self) -> list[Callable[[], list[Row]]]:
        """One for each process, those that have ended included: what it has saved since it was last asked."""
        return [worker.new_rows for worker in self._workers]

    def forget_rows(self) -> None:
        """They are not needed any more."""
        for worker in self._workers:
            worker.forget_rows()

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _add(self, clients: dict[str, int]) -> WorkerProcess:
        worker = WorkerProcess(clients, self._ended, self._on_row)
        awaited = tuple(name for name in subscribers(self._scenario) if name in clients)
        worker.progress = ClientsProgress(unconfirmed=awaited)
        self._workers.append(worker)
        self._of.update(dict.fromkeys(clients, worker))
        await worker.start(self._text, self._links, self._tls)
        return worker

    def _send_off(self, worker: WorkerProcess) -> None:
        """It begins, with all that those who began earlier were told meanwhile."""
        assert self._go is not None, "whoever begins is told when and where"
        worker.order(self._go)
        if self._begin is not None:
            worker.order(self._begin)
        self._sent_off.append(worker)
        if self._barred:
            self._tell_bars(worker)

    def _tell_bars(self, worker: WorkerProcess) -> None:
        worker.order(BarClients({name: self._barred.get(name, []) for name in worker.clients}))

    def _ended(self, worker: WorkerProcess) -> None:
        if not worker.deliberate and not self._fallen.done():
            self._fallen.set_result(worker)
