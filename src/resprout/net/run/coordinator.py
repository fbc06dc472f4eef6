"""Runs a scenario with real processes, from the first start to the last row.

Every process reads the same clock (`net.host.now_us`), so rows from all of them can be merged by time: what one process
caused in another takes longer than the clock's microsecond. Times of the trace count from the moment at which all
clients were told to begin, when every broker already listened. Workloads and faults wait until every subscription is
confirmed (`schedule`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import msgspec

from resprout.core.errors import ResproutError
from resprout.core.guarantee import Promises, ReceiptLevel
from resprout.links.options import LinkOptions
from resprout.net.event_loop import now_us
from resprout.net.identity.proofs import write_network_key
from resprout.net.orders import SaidNote
from resprout.net.process import BrokerProcess, ProcessError
from resprout.net.run.crew import Crew
from resprout.net.run.exchange import ClientsProgress, LiveRows
from resprout.net.run.faults import ProcessFaults
from resprout.net.run.logs import RealLogs
from resprout.net.run.schedule import (
    Calm,
    Patience,
    Repairs,
    check_runnable,
    first_event_us,
    longest_way_us,
    silence_us,
)
from resprout.net.sessions import with_signs_of_life
from resprout.net.tree import LocalTree
from resprout.scenario.model import Scenario
from resprout.scenario.observe import note_row
from resprout.stacks.stack import find_stack
from resprout.trace import kinds
from resprout.trace.schema import Row, digest_of
from resprout.trace.store import ABORTED, ENDS, LiveFolder, promise_row

T = TypeVar("T")

OnProgress = Callable[[int, ClientsProgress], None]
OnRow = Callable[[Row], None]

WORLD: Final = "world"
"""Stands as the node of rows that no node observed."""

LEAD_US: Final = 100_000
"""From the order to begin to the beginning: it reaches every process by then."""

LOOK_SECONDS: Final = 0.05

SUBSCRIBE_US_MAX: Final = 60_000_000
"""From the beginning until every subscription is confirmed. A subscription crosses the tree a few times; this leaves a
crowded machine the time to start sixteen processes and to let each of them act."""
WAYS_TO_SUBSCRIBE: Final = 20
"""Ways through the network that this may take beyond that: a few greetings and confirmations, one after the other."""


class ProcessRunResult(msgspec.Struct, frozen=True):
    rows: list[Row]
    """In the order of time; those of one client in its own."""
    ended: str
    """"quiescent", "timeout", or what went wrong."""
    digest: str


class RealRun:
    """One run. `on_progress` is told now and then how far it is: microseconds since the beginning, and the counts;
    `on_row` is told at once of faults, and of what brokers and clients note. `links` are options of all links, see
    `LinkOptions`. `live` is given all rows while the run goes on. `tls`: a folder with certificates
    for all brokers; None: without TLS."""

    def __init__(
        self,
        scenario: Scenario,
        on_progress: OnProgress | None = None,
        links: Mapping[str, int] | None = None,
        on_row: OnRow = lambda row: None,
        live: LiveFolder | None = None,
        tls: Path | None = None,
    ) -> None:
        check_runnable(scenario)
        stack = find_stack(scenario.stack)
        links = {"silence_us": silence_us(scenario), **(links or {})}
        waits = stack.waits(stack.parse_options(scenario.options))
        self._patience = Patience(with_signs_of_life(LinkOptions(**links)), waits)
        self._scenario = scenario
        self._on_progress = on_progress
        self._on_row = on_row
        self._repairs = Repairs()
        self._rows: list[Row] = []
        """Of what the coordinator does and hears itself."""
        self._start_us = 0
        self._listening = True
        """To what brokers note: until the run is over."""
        self._disks = TemporaryDirectory(prefix="resprout-run-", ignore_cleanup_errors=True)
        data = Path(self._disks.name)
        self._tree = LocalTree(
            scenario, emulate_latency=True, links=links, data=data, tls=tls, on_note=self._hear_note, insecure=True,
            network_key=write_network_key(data / "network.key") if tls is None else None,
            is_traced=any(log.compact for log in scenario.logs),
        )  # fmt: skip
        self._crew = Crew(scenario, links, on_row, tls)
        self._logs = RealLogs(scenario, self._tree, tls)
        self._rows += self._logs.declared(WORLD)
        self._faults = ProcessFaults(scenario, self._tree, self._crew, self._tell)
        self._held_us: asyncio.Future[int]
        """How much later than in the scenario the schedule is played; known when every subscription is confirmed."""
        self._handed_out = 0
        self._live = LiveRows(live, scenario.time_limit_us, self._row_readers) if live is not None else None
        if live is not None and (promise := stack.promise()) != Promises():
            live.write([promise_row(promise)])

    async def finish(self) -> ProcessRunResult:
        """Runs it to quiescence, to its time limit, or to the first process that fails; it also fails when not all
        subscriptions are confirmed after `SUBSCRIBE_US_MAX`. However it ends, no process is left afterwards. UsageError
        when it cannot be run with processes, ProcessError when they cannot be started."""
        ended = ""
        try:
            await self._start()
            ended = await self._play()
            self._listening = False
            if ended in ENDS:
                time_us = min(now_us() - self._start_us, self._scenario.time_limit_us)
                self._rows += await self._logs.rows(time_us)
            await self._crew.stop()
            result = self._result(ended)
            if self._live is not None and ended in ENDS:
                await self._live.end(result.rows[-1])
            return result
        finally:
            if self._live is not None:
                # One that came to rest, and was then interrupted while its clients stopped, has no end in its trace.
                reason = ended if ended and ended not in ENDS else "interrupted"
                await self._live.end(Row(time_us=now_us() - self._start_us, node=WORLD, kind=ABORTED, detail=reason))
            await asyncio.gather(self._crew.stop(), self._tree.stop())
            self._crew.forget_rows()
            self._disks.cleanup()

    def pid_of(self, node: str) -> int | None:
        """Of the process that a node lives, or last lived, in; None when it has not been started."""
        child = self._faults.process_of(node)
        return child.pid if child is not None and child.has_started else None

    @property
    def live_trouble(self) -> ResproutError | None:
        """Why rows were not handed out while the run went on, when they were not."""
        return self._live.trouble if self._live is not None else None

    async def _start(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tree.start())
                group.create_task(self._crew.start())
        except BaseExceptionGroup as errors:
            raise _root_of(errors) from None
        self._held_us = asyncio.get_running_loop().create_future()
        self._start_us = now_us() + LEAD_US
        addresses = {process.name: str(process.address) for process in self._tree.processes}
        self._crew.go(self._start_us, addresses)
        if self._live is not None:
            self._live.start()

    async def _play(self) -> str:
        """Until the run is over; how it ended."""
        faults = asyncio.create_task(self._faults.play(self._start_us, self._held_us))
        try:
            return await _first(self._watch(faults), self._fail_with_broker(), self._fail_with_client())
        except ProcessError as error:
            return str(error)
        finally:
            faults.cancel()
            await asyncio.wait((faults,))

    async def _watch(self, faults: "asyncio.Task[None]") -> str:
        tells_delivered = ReceiptLevel.DELIVERED in find_stack(self._scenario.stack).receipts
        calm = Calm(longest_way_us(self._scenario), self._patience, tells_delivered)
        limit_us = self._start_us + self._scenario.time_limit_us
        while (time_us := now_us()) < limit_us:
            progress = self._crew.progress
            if self._on_progress is not None:
                self._on_progress(time_us - self._start_us, progress)
            if not self._held_us.done():
                self._begin_when_subscribed(time_us - self._start_us, progress)
            observed = (progress.rows, self._repairs.heard)
            busy = progress.busy or not faults.done() or not self._held_us.done()
            pending = progress.pending + self._repairs.open
            if calm.over(time_us, observed, busy, pending, self._faults.latest_us) and await self._logs.are_complete(
                time_us
            ):
                return kinds.QUIESCENT
            if faults.done():
                faults.result()
            await asyncio.sleep(min(LOOK_SECONDS, (limit_us - time_us) / 1e6))
        return kinds.TIMEOUT

    def _begin_when_subscribed(self, time_us: int, progress: ClientsProgress) -> None:
        """Let the schedule go on when every subscription is confirmed; ProcessError when that takes too long."""
        waiting = progress.unconfirmed or [f"the feeder of log {log}" for log in self._logs.unfed]
        if waiting:
            if time_us > SUBSCRIBE_US_MAX + WAYS_TO_SUBSCRIBE * longest_way_us(self._scenario):
                raise ProcessError(
                    f"not subscribed after {time_us // 1_000_000} s: {', '.join(waiting)}; workloads and"
                    " faults wait for every subscription: is the machine overloaded, or a broker of theirs stuck?"
                )
            return
        held_us = max(0, time_us - first_event_us(self._scenario))
        if held_us:
            self._tell(
                kinds.NOTE, WORLD, f"all subscriptions are confirmed: the schedule is {held_us / 1e6:.3f} s late"
            )
        self._crew.begin(held_us)
        self._held_us.set_result(held_us)

    async def _fail_with_broker(self) -> str:
        raise ProcessError((await self._tree.unexpected_end()).epitaph)

    async def _fail_with_client(self) -> str:
        raise ProcessError((await self._crew.unexpected_end()).epitaph)

    def _result(self, ended: str) -> ProcessRunResult:
        rows = sorted(self._crew.rows() + self._rows, key=lambda row: row.time_us)
        limit_us = self._scenario.time_limit_us
        if ended == kinds.TIMEOUT:
            rows = [row for row in rows if row.time_us <= limit_us]
            rows.append(Row(time_us=limit_us, node=WORLD, kind=ended))
        elif ended == kinds.QUIESCENT:
            last_us = rows[-1].time_us if rows else 0
            rows.append(Row(time_us=last_us, node=WORLD, kind=ended))
        return ProcessRunResult(rows, ended, digest_of(rows))

    def _row_readers(self) -> list[Callable[[], list[Row]]]:
        return [*self._crew.row_readers(), self._own_new_rows]

    def _own_new_rows(self) -> list[Row]:
        new = self._rows[self._handed_out :]
        self._handed_out += len(new)
        return new

    def _tell(self, kind: str, node: str, detail: str | None) -> None:
        self._keep(Row(time_us=now_us() - self._start_us, node=node, kind=kind, detail=detail))

    def _hear_note(self, process: BrokerProcess, note: SaidNote) -> None:
        is_early = not self._start_us or note.time_us < self._start_us
        if self._listening and is_early and note.kind == kinds.LOG_FED:
            self._keep(note_row(0, process.name, note.kind, note.columns))
        elif self._listening and not is_early:
            self._keep(note_row(note.time_us - self._start_us, process.name, note.kind, note.columns))
            self._faults.noted(process.name, note.kind)

    def _keep(self, row: Row) -> None:
        self._rows.append(row)
        self._repairs.hear(row)
        self._logs.hear(row)
        self._on_row(row)


def _root_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first trouble itself, however deep it is wrapped."""
    first = errors.exceptions[0]
    return _root_of(first) if isinstance(first, BaseExceptionGroup) else first


async def _first(*works: Coroutine[Any, Any, T]) -> T:
    """The outcome of the work that is done first; the others are cancelled and have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
