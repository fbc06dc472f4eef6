"""The node of a client that consumes a durable subscription, from above, in virtual time."""

from collections import deque
from collections.abc import Callable

from resprout.core.contract import Answer, Deliver
from resprout.core.message import Message
from resprout.edge.requests import AcknowledgeRequest
from resprout.scenario.app_runner import ConsumerRows
from resprout.scenario.model import ClientSpec, SubscriptionSpec
from resprout.sim.nodes import Process
from resprout.sim.world import World
from resprout.trace.schema import Row


class ConsumerSide:
    """Every life of one. Takes `reading_us` for each message, and acknowledges it then."""

    def __init__(self, spec: ClientSpec, wanted: SubscriptionSpec, world: World, record: Callable[[Row], None]) -> None:
        self._spec = spec
        self._wanted = wanted
        self._world = world
        self._record = record
        self._rows: ConsumerRows
        self._unread: deque[Message] = deque()
        self._alarms = 0

    @property
    def busy(self) -> bool:
        return False

    def began(self, process: Process) -> None:
        self._rows = ConsumerRows(self._spec, self._wanted, process.incarnation)
        self._unread = deque()
        self._record(self._rows.began(self._now_us))

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        for row in self._rows.given(self._now_us, effect):
            self._record(row)
        if isinstance(effect, Deliver):
            waits = bool(self._unread)
            self._unread.extend(effect.messages)
            if not self._spec.reading_us:
                while self._unread:
                    self._read(process)
            elif not waits:
                self._wake(process)

    @property
    def _now_us(self) -> int:
        return self._world.calendar.now_us

    def _wake(self, process: Process) -> None:
        self._alarms += 1
        self._world.alarms.set(process, self._alarms, self._now_us + self._spec.reading_us, self._woke)

    def _woke(self, process: Process, _: int) -> None:
        if self._unread:
            self._read(process)
        if self._unread:
            self._wake(process)

    def _read(self, process: Process) -> None:
        message = self._unread.popleft()
        self._record(self._rows.acknowledged(self._now_us, message))
        self._world.request(process, AcknowledgeRequest((message,)))
