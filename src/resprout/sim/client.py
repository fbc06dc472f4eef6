"""A client's node from above: the runner of its application, driven in virtual time."""

from collections.abc import Callable, Sequence

from resprout.core.contract import Answer, Deliver, Effect
from resprout.edge.client import ClientMachine
from resprout.edge.requests import FlushRequest
from resprout.scenario.app import App
from resprout.scenario.app_runner import AppRunner
from resprout.sim.nodes import Process
from resprout.sim.world import World
from resprout.trace.schema import Row


class ClientSide:
    """Every life of one client."""

    def __init__(self, world: World, record: Callable[[Row], None], make_app: Callable[[int], App]) -> None:
        self.machine: ClientMachine
        """Of the life that began last; whoever makes it puts it here."""
        self._world = world
        self._record = record
        self._make_app = make_app
        self._process: Process | None = None
        self._runner: AppRunner

    @property
    def busy(self) -> bool:
        """Whether the application will act of its own accord; one that is dead or frozen will not."""
        process = self._process
        return process is not None and process.step is not None and not self._runner.app.done

    def began(self, process: Process) -> None:
        self._process = process
        driver = _Driver(self._world, process, self._record)
        driver.runner = self._runner = AppRunner(driver, self.machine, self._make_app(process.incarnation))
        self._runner.start()

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        self._runner.given(effect)


class _Driver:
    """Of one life."""

    def __init__(self, world: World, process: Process, record: Callable[[Row], None]) -> None:
        self.runner: AppRunner
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

    def _wake(self, process: Process, _: int) -> None:
        self.runner.woke()
