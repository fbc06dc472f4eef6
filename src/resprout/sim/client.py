"""A client's node from above: the runner of its application, driven in virtual time."""

from collections.abc import Callable, Sequence

from resprout.core.contract import Answer, Deliver, Effect
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import FlushRequest, TakeRequest
from resprout.scenario.app import App
from resprout.scenario.app_runner import AppRunner
from resprout.scenario.model import ClientSpec
from resprout.scenario.observe import ClientCounts
from resprout.sim.nodes import Process
from resprout.sim.reading import Reading, reads_at_once
from resprout.sim.world import World
from resprout.trace.counts import Counts
from resprout.trace.schema import Row


class ClientSide:
    """Every life of one client."""

    def __init__(
        self,
        spec: ClientSpec,
        world: World,
        record: Callable[[Row], None],
        make_app: Callable[[int], App],
        counts: Counts | None = None,
    ) -> None:
        """With `counts`, what it asks and gets is counted, not recorded."""
        self._spec = spec
        self.machine: ClientMachine
        """Of the life that began last; whoever makes it puts it here."""
        self._world = world
        self._record = record
        self._make_app = make_app
        self._counts = counts
        self._process: Process | None = None
        self._runner: AppRunner
        self._reading: Reading | None = None

    @property
    def busy(self) -> bool:
        """Whether the application will act of its own accord; one that is dead or frozen will not."""
        process = self._process
        runs = process is not None and process.step is not None
        return runs and not self._runner.over and not self._runner.app.done

    def began(self, process: Process) -> None:
        self._process = process
        driver = _Driver(self._world, process, self._record)
        observer: ClientCounts | None = None
        if self._counts is not None:
            observer = ClientCounts(self.machine.name, self.machine.incarnation, self._counts, self._record)
        driver.runner = self._runner = AppRunner(driver, self.machine, self._make_app(process.incarnation), observer)
        if not reads_at_once(self._spec):
            driver.reading = self._reading = Reading(self._spec, lambda: driver.now_us, driver.wake, driver.read)
        self._runner.start()

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        self._runner.given(effect)
        if self._reading is not None and isinstance(effect, Deliver):
            self._reading.given()


class _Driver:
    """Of one life."""

    def __init__(self, world: World, process: Process, record: Callable[[Row], None]) -> None:
        self.runner: AppRunner
        self.reading: Reading | None = None
        self.record = record
        self._world = world
        self._process = process
        self._alarms = 0

    @property
    def now_us(self) -> int:
        return self._world.calendar.now_us

    def wake(self, at_us: int) -> None:
        self._alarms += 1
        self._world.alarms.set(self._process, self._alarms, at_us, self._wake)

    def perform(self, answers: Sequence[Effect]) -> None:
        self._world.perform(self._process, answers)

    def flush(self) -> None:
        self._world.request(self._process, FlushRequest())

    def read(self) -> None:
        self._world.request(self._process, TakeRequest(1))

    def _wake(self, process: Process, _: int) -> None:
        if self.reading is not None:
            self.reading.woke()
        self.runner.woke()
