"""Runs the application of a client on its client machine, and has both observed. Every driver uses it.

The driver brings what the machine has for the application (`given`, after the step that caused it is complete) and the
time (`woke`); it is asked for little more than a clock and an alarm. One runner is one life of a client: the
application is lost with the process, and the next life has a new one.

A client that consumes a durable subscription has no application: it acknowledges everything that it is handed, at once
or as slowly as it reads. `make_consumer` makes its machine, `ConsumerRows` its rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from resprout.core.contract import Answer, Deliver, Effect
from resprout.core.message import Message
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.requests import (
    ClientNews,
    ClientRequest,
    ConsumerBegan,
    ConsumerOver,
    DroppedBefore,
    Published,
    PublishRequest,
    Refused,
    SessionLost,
)
from resprout.scenario.app import App, Applied, AppWish, WakeAt
from resprout.scenario.model import DURABLE_WHEN_FULL, ClientSpec, SubscriptionSpec
from resprout.scenario.observe import ClientRows, RowObserver
from resprout.trace import kinds
from resprout.trace.schema import Row


class Driver(Protocol):
    """What a driver does for one client."""

    @property
    def now_us(self) -> int:
        """Since the beginning of the run."""
        ...

    def record(self, row: Row) -> None: ...

    def wake(self, at_us: int) -> None:
        """Have `woke` called at this time, not earlier."""
        ...

    def perform(self, answers: Sequence[Effect]) -> None:
        """Execute what the machine says at once to a request; it comes back as `given`."""
        ...

    def flush(self) -> None:
        """Let the machine send what it was asked for."""
        ...


class Observer(Protocol):
    """Told what one life of a client asks and gets; `RowObserver` is the usual one."""

    def published(self, time_us: int, request: PublishRequest, news: Published) -> None: ...

    def delivered(self, time_us: int, message: Message) -> None: ...

    def applied(self, time_us: int, applied: Applied) -> None: ...

    def asked(self, time_us: int, request: ClientRequest) -> None: ...

    def told(self, time_us: int, news: ClientNews) -> None: ...


class AppRunner:
    def __init__(self, driver: Driver, machine: ClientMachine, app: App, observer: Observer | None = None) -> None:
        """Rows go to the driver's `record` unless somebody else observes."""
        self.app = app
        self._driver = driver
        self._machine = machine
        rows = ClientRows(machine.name, machine.incarnation, machine.when_full is WhenFull.DROP_OLDEST)
        self._observer: Observer = observer if observer is not None else RowObserver(rows, driver.record)
        self._tokens = 0
        self._unsent = False
        self.over = False
        """Another client has taken the name, and this one is done."""
        self._unnumbered: dict[int, PublishRequest] = {}
        """Publications that the machine has not answered yet, by token."""

    @property
    def unnumbered(self) -> int:
        """Publications that were asked for before the network said what it offers."""
        return len(self._unnumbered)

    def start(self) -> None:
        self._grant(self.app.start(self._driver.now_us))
        self._flush()

    def given(self, effect: Deliver | Answer) -> None:
        now_us = self._driver.now_us
        if self.over:
            return
        if isinstance(effect, Deliver):
            observe, to_app = self._observer.delivered, self.app.delivered
            for message in effect.messages:
                observe(now_us, message)
                if wishes := to_app(message, now_us):
                    self._grant(wishes)
        else:
            self.numbered(effect)
            self._observer.told(now_us, effect.body)
            if isinstance(effect.body, SessionLost) and effect.body.superseded:
                self.over = True
                return
            self._grant(self.app.told(effect.body, now_us))
        self._flush()

    def woke(self) -> None:
        if self.over:
            return
        self._grant(self.app.woke(self._driver.now_us))
        self._flush()

    def numbered(self, answer: Answer) -> None:
        """A publication is observed as soon as it has its number, before anything that it causes. A driver
        that executes effects one by one may say so before it says `given`."""
        if isinstance(answer.body, Published):
            if (request := self._unnumbered.pop(answer.token, None)) is not None:
                self._observer.published(self._driver.now_us, request, answer.body)
        elif isinstance(answer.body, Refused):
            self._unnumbered.pop(answer.token, None)

    def _grant(self, wishes: Sequence[AppWish]) -> None:
        driver = self._driver
        for wish in wishes:
            if isinstance(wish, WakeAt):
                driver.wake(wish.at_us)
            elif isinstance(wish, Applied):
                self._observer.applied(driver.now_us, wish)
            else:
                self._ask(wish)

    def _ask(self, request: ClientRequest) -> None:
        """The machine takes the request now and sends it at the next `_flush`, with whatever is asked until then."""
        self._tokens += 1
        self._observer.asked(self._driver.now_us, request)
        if isinstance(request, PublishRequest):
            self._unnumbered[self._tokens] = request
        answers: list[Effect] = []
        self._machine.ask(request, self._tokens, answers)
        for answer in answers:
            if isinstance(answer, Answer):
                self.numbered(answer)
        self._driver.perform(answers)
        self._unsent = True

    def _flush(self) -> None:
        if self._unsent:
            self._unsent = False
            self._driver.flush()


DROPPING_WINDOW: Final = 4
"""Messages that a consumer has at once where the oldest are dropped: few, so that others wait in short runs, too."""


def make_consumer(
    spec: ClientSpec, wanted: SubscriptionSpec, incarnation: int, others: tuple[str, ...]
) -> ConsumerMachine:
    assert wanted.durable is not None
    when_full = DURABLE_WHEN_FULL[wanted.when_full]
    terms = Terms(wanted.filter, wanted.where, wanted.group, when_full, wanted.most)
    window = DROPPING_WINDOW if when_full is WhenFull.DROP_OLDEST else None
    return ConsumerMachine(spec.name, incarnation, spec.broker, wanted.durable, terms, window=window, others=others)


class ConsumerRows:
    """Of one life."""

    def __init__(self, spec: ClientSpec, wanted: SubscriptionSpec, incarnation: int) -> None:
        self._node = spec.name
        self._wanted = wanted
        self._rows = ClientRows(spec.name, incarnation)
        self._dropped = 0
        """Messages of the subscription that were dropped, as its broker said last; 0 when a row has said so since."""

    def began(self, time_us: int) -> Row:
        more = {"group": "yes"} if self._wanted.group else {}
        more |= {"drop_oldest": "yes"} if self._wanted.when_full == "drop_oldest" else {}
        return self._row(time_us, kinds.CONSUME, more, filter=self._wanted.filter, where=self._wanted.where)

    def given(self, time_us: int, effect: Deliver | Answer) -> Iterator[Row]:
        if isinstance(effect, Deliver):
            for message in effect.messages:
                yield self._handed(time_us, message)
        elif isinstance(effect.body, ConsumerBegan):
            yield self._row(time_us, kinds.CONSUMING, {}, filter=self._wanted.filter, where=self._wanted.where)
        elif isinstance(effect.body, ConsumerOver):
            yield self._row(time_us, kinds.CONSUME_OVER, {}, detail=effect.body.reason)
        elif isinstance(effect.body, DroppedBefore):
            self._dropped = max(self._dropped, effect.body.upto)
        else:
            yield from self._rows.told(time_us, effect.body)

    def acknowledged(self, time_us: int, message: Message) -> Row:
        return self._row(
            time_us,
            kinds.ACKNOWLEDGED,
            {},
            publisher=message.publisher,
            incarnation=message.incarnation,
            stream=message.stream,
            seq=message.seq,
        )

    def _handed(self, time_us: int, message: Message) -> Row:
        more = {"redelivered": "yes"} if message.redelivered else {}
        if self._dropped:
            more["dropped"], self._dropped = str(self._dropped), 0
        row = self._rows.delivered(time_us, message)
        columns = {name: getattr(row, name) for name in row.__struct_fields__}
        return Row(**{**columns, "kind": kinds.HANDED, "attributes": self._about(more)})

    def _about(self, more: dict[str, str]) -> dict[str, str]:
        return {"durable": self._wanted.durable or "", **more}

    def _row(self, time_us: int, kind: str, more: dict[str, str], **columns: Any) -> Row:
        return Row(time_us=time_us, node=self._node, kind=kind, attributes=self._about(more), **columns)
