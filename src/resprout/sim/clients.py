"""Clients in virtual time: the runner of an application, consumers of durable subscriptions, slow readers, producers.

A program may read slowly, or not at all for a while (`Reading`). Its client has the messages and shows them to its
application; only the acknowledgement is sent later, and until then they count as not taken. When too much waits, the
broker has to keep the rest.

A producer may connect with the same `life` after a crash and publish everything again (`ClientSpec.repeats`). Its
program reads its input from somewhere that outlives its processes. Each process publishes the input from the beginning,
in the same order, but grouped and paced differently. Brokers must add only what is new, and send receipts for all of
it. To the network, all processes are one publisher, so they are one client in the trace. Its crash is recorded as a
freeze, and its next process as the end of that freeze: the client stays correct, and everything that it published is
owed. A publication has one row, of the process that published it first. A receipt has a row in each process, unless an
earlier process had a higher one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.contract import Answer, Deliver, Effect
from resprout.core.guarantee import ReceiptLevel
from resprout.core.message import Message
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.options import ClientOptions
from resprout.edge.requests import ClientNews, FlushRequest, PublishRequest, TakeRequest
from resprout.links.options import LinkOptions
from resprout.scenario.app import App, AppWish, WakeAt
from resprout.scenario.app_runner import AppRunner, ConsumerRows, answer_of
from resprout.scenario.model import ClientSpec, SubscriptionSpec
from resprout.scenario.observe import ClientCounts
from resprout.sim.mqtt.tags import TraceTags
from resprout.sim.nodes import Process
from resprout.sim.world import World
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.trace.summary import Counts

UNREAD_BYTES_MAX: Final = 4_000
"""What may wait in the client: little, so that in short runs brokers have to keep something, too."""

GROUPS: Final = (1, 1, 3, 20, 10_000)
"""How many publications a process repeats at once."""
PAUSES_US: Final = (0, 200, 5_000, 100_000)
"""Between two such groups."""
TRACE_KINDS: Final = {kinds.CRASH: kinds.FREEZE, kinds.RECOVER: kinds.UNFREEZE}
"""What the trace says of a crash and a recovery of a producer that repeats."""

_LEVELS: Final = {level.label: level for level in ReceiptLevel}

MessageKey = tuple[str | None, int | None]


def reads_at_once(spec: ClientSpec) -> bool:
    return not spec.reading_us and spec.idle_us is None


def options_of(spec: ClientSpec, bundle_max: int = limits.BUNDLE_MESSAGES) -> ClientOptions:
    """Of the machine of a client: one whose program takes its time may have little waiting."""
    if reads_at_once(spec):
        return ClientOptions(bundle_max=bundle_max, returns=spec.repeats, epoch_us=0)
    return ClientOptions(
        takes_at_once=False,
        untaken_bytes_max=UNREAD_BYTES_MAX,
        bundle_max=bundle_max,
        returns=spec.repeats,
        epoch_us=0,
    )


def window_of(spec: ClientSpec, links: LinkOptions) -> LinkOptions:
    """Return the link options of a client. Only messages beyond the window wait at the broker and can be dropped, so
    the window is small where they may be."""
    if reads_at_once(spec) or spec.when_full != "drop_oldest":
        return links
    return msgspec.structs.replace(links, window_bytes=UNREAD_BYTES_MAX)


class Reading:
    """One life of such a program. `read` is called for each delivery when it is read; `wake` has `woke` called."""

    def __init__(
        self, spec: ClientSpec, now_us: Callable[[], int], wake: Callable[[int], None], read: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._now_us = now_us
        self._wake = wake
        self._read = read
        self._unread = 0
        self._next_us = -1
        """When the next one is read; -1 when none waits."""

    def given(self) -> None:
        self._unread += 1
        if self._next_us < 0:
            self._go_on()

    def woke(self) -> None:
        if self._unread and self._now_us() >= self._next_us:
            self._take()
            self._go_on()

    def _go_on(self) -> None:
        """Read all that takes no time, and be woken for the next one."""
        while self._unread:
            due_us = self._due_us()
            if due_us > self._now_us():
                self._next_us = due_us
                self._wake(due_us)
                return
            self._take()
        self._next_us = -1

    def _take(self) -> None:
        self._unread -= 1
        self._read()

    def _due_us(self) -> int:
        due_us = self._now_us() + self._spec.reading_us
        begin_us, end_us = self._spec.idle_us or (0, 0)
        return max(due_us, end_us) if begin_us <= due_us < end_us else due_us


class RepeatingProducer:
    """What outlives the processes of one producer: its input, how far it was read, and what the trace says already."""

    def __init__(self, app: App, rng: Random, record: Callable[[Row], None]) -> None:
        self.app = app
        self.rng = rng
        self.published: list[PublishRequest] = []
        """All publications that any process has made, in order."""
        self.alarms_us: list[int] = []
        """Wake-ups that `app` asked for; those of a process end with it."""
        self.is_begun = False
        self._record = record
        self._recorded: dict[MessageKey, Row] = {}
        self._reached: dict[MessageKey, ReceiptLevel] = {}

    def start_process(self) -> "RepeatingProcess":
        return RepeatingProcess(self)

    def keep(self, wishes: Sequence[AppWish]) -> list[AppWish]:
        """Remember what the next process has to repeat, and return the wishes."""
        self.published += [wish for wish in wishes if isinstance(wish, PublishRequest)]
        self.alarms_us += [wish.at_us for wish in wishes if isinstance(wish, WakeAt)]
        return list(wishes)

    def record(self, row: Row) -> None:
        """Record a row of any process, unless the trace has it."""
        message = (row.stream, row.seq)
        if row.kind == kinds.PUBLISH:
            first = self._recorded.setdefault(message, row)
            assert (first.topic, first.keys, first.guarantee) == (row.topic, row.keys, row.guarantee), "not a repeat"
            if first is not row:
                return
        elif row.kind == kinds.RECEIPT and row.receipt in _LEVELS:
            level = _LEVELS[row.receipt]
            if level < self._reached.get(message, level):
                return
            self._reached[message] = level
        self._record(row)


class RepeatingProcess:
    """The application of one process: repeats what earlier processes published, then goes on with the input."""

    def __init__(self, producer: RepeatingProducer) -> None:
        self._producer = producer
        self._repeated = 0
        self._left = len(producer.published)
        """Publications to repeat before the input goes on."""
        self._news: list[ClientNews] = []
        """Told meanwhile; the input hears of it afterwards, so that nothing new overtakes what is repeated."""

    @property
    def done(self) -> bool:
        return self._left == 0 and self._producer.app.done

    def start(self, now_us: int) -> Sequence[AppWish]:
        if self._producer.is_begun:
            return self._repeat(now_us)
        self._producer.is_begun = True
        return self._producer.keep(self._producer.app.start(now_us))

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if self._left:
            self._news.append(news)
            return []
        return self._producer.keep(self._producer.app.told(news, now_us))

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return []

    def woke(self, now_us: int) -> Sequence[AppWish]:
        if self._left:
            return self._repeat(now_us)
        return self._producer.keep(self._producer.app.woke(now_us))

    def _repeat(self, now_us: int) -> list[AppWish]:
        producer = self._producer
        count = min(self._left, producer.rng.choice(GROUPS))
        wishes: list[AppWish] = list(producer.published[self._repeated : self._repeated + count])
        self._repeated += count
        self._left -= count
        if self._left:
            return [*wishes, WakeAt(now_us + producer.rng.choice(PAUSES_US))]
        for news in self._news:
            wishes += producer.keep(producer.app.told(news, now_us))
        self._news.clear()
        wishes += producer.keep(producer.app.woke(now_us))
        producer.alarms_us = [at_us for at_us in producer.alarms_us if at_us > now_us]
        return [*wishes, *[WakeAt(at_us) for at_us in producer.alarms_us]]


class ClientSide:
    """Every life of one client."""

    def __init__(
        self,
        spec: ClientSpec,
        world: World,
        record: Callable[[Row], None],
        make_app: Callable[[int], App],
        counts: Counts | None = None,
        tags: TraceTags | None = None,
    ) -> None:
        """With `counts`, what it asks and gets is counted, not recorded. `tags` are those of a run with MQTT
        clients."""
        self._tags = tags
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
        if self._tags is not None and isinstance(effect, Deliver):
            self._tags.learn(effect.messages)
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

    @property
    def wall_us(self) -> int:
        return self.now_us

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


class ConsumerSide:
    """Every life of one. Takes `reading_us` for each message, and acknowledges it then."""

    def __init__(
        self,
        spec: ClientSpec,
        wanted: SubscriptionSpec,
        world: World,
        record: Callable[[Row], None],
        message_id_us: int,
        tags: TraceTags | None = None,
    ) -> None:
        self._spec = spec
        self._message_id_us = message_id_us
        self._tags = tags
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
        self._rows = ConsumerRows(self._spec, self._wanted, process.incarnation, self._message_id_us)
        self._unread = deque()
        self._record(self._rows.began(self._now_us))

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        if self._tags is not None and isinstance(effect, Deliver):
            self._tags.learn(effect.messages)
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
        answer = answer_of(self._wanted, message)
        for row in self._rows.answered(self._now_us, message, answer):
            self._record(row)
        if answer is not None:
            self._world.request(process, answer)
