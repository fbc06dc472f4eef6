"""The application of a client: made from the scenario, and run on its client machine. Every driver uses it.

`AppMaker` makes it: first the subscriptions of the client, then its workloads, side by side. Workloads begin when every
subscription of the client is confirmed (or refused): the client is owed everything that it publishes afterwards, so
that a loss is seen. Other clients may have begun earlier; where that matters a workload has a `start`.

`AppRunner` runs it and has it observed. The driver brings what the machine has for the application (`given`, after the
step that caused it is complete) and the time (`woke`); the driver provides little more than a clock and an alarm. One
runner is one life of a client: the application is lost with the process, and the next life has a new one.

A client that consumes a durable subscription has no application: it acknowledges everything that it is handed, at once
or as slowly as it reads. `make_consumer` makes its machine, `ConsumerRows` its rows.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from resprout.core.contract import Answer, Deliver, Effect
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.core.message_ids import WINDOW_US
from resprout.core.timing import DUE, EXPIRES, PUBLISHED
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.options import ClientOptions
from resprout.edge.durable_messages import RetryTerms, Settlement, Terms, WhenFull
from resprout.edge.requests import (
    AcknowledgeRequest,
    ClientNews,
    ClientRequest,
    ConsumerBegan,
    ConsumerOver,
    DroppedBefore,
    FollowUpAnswered,
    FollowUpRequest,
    Published,
    PublishRequest,
    Refused,
    SessionLost,
    SettleRequest,
    SubscribeRequest,
    SubscriptionConfirmed,
)
from resprout.filters.predicate import topic_matches
from resprout.scenario.app import App, Applied, AppWish, PageRead, WakeAt
from resprout.scenario.log_reader import LogReaderApp
from resprout.scenario.model import (
    DURABLE_WHEN_FULL,
    BankOptions,
    ChatterOptions,
    ClientSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    ValueOptions,
    random_for,
)
from resprout.scenario.observe import ClientRows, RowObserver
from resprout.scenario.source import ScenarioError
from resprout.scenario.value_app import ValueApp
from resprout.scenario.workloads import BankApp, ChatterApp, RandomApp
from resprout.trace import kinds
from resprout.trace.schema import Row


class ClientApp:
    """Subscribes, waits, then lets the workloads run side by side."""

    def __init__(self, subscriptions: Sequence[SubscriptionSpec], workloads: Sequence[App]) -> None:
        self._requests = [SubscribeRequest(s.filter, s.where, s.retained) for s in subscriptions]
        self._awaited = {(s.filter, s.where): None for s in subscriptions}
        self._workloads = workloads
        self._begun = False

    @property
    def done(self) -> bool:
        return self._begun and all(workload.done for workload in self._workloads)

    def start(self, now_us: int) -> Sequence[AppWish]:
        return self._requests or self._begin(now_us)

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if self._begun:
            return [wish for workload in self._workloads for wish in workload.told(news, now_us)]
        if isinstance(news, SubscriptionConfirmed):
            self._awaited.pop((news.filter, news.where), None)
        elif isinstance(news, Refused) and isinstance(news.request, SubscribeRequest):
            self._awaited.pop((news.request.filter, news.request.where), None)
        return [] if self._awaited else self._begin(now_us)

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        if not self._begun:
            return []
        return [wish for workload in self._workloads for wish in workload.delivered(message, now_us)]

    def woke(self, now_us: int) -> Sequence[AppWish]:
        if not self._begun:
            return []
        return [wish for workload in self._workloads for wish in workload.woke(now_us)]

    def _begin(self, now_us: int) -> list[AppWish]:
        self._begun = True
        return [wish for workload in self._workloads for wish in workload.start(now_us)]


class AppMaker:
    """Makes the applications of a scenario's clients; knows what they must know about each other."""

    def __init__(self, scenario: Scenario) -> None:
        self._seed = scenario.seed
        self._clients = {client.name: client for client in scenario.clients}
        self._employed: dict[str, list[int]] = {}
        for number, workload in enumerate(scenario.workloads):
            for name in workload.clients:
                self._employed.setdefault(name, []).append(number)
        self._workloads = scenario.workloads
        self._readers = {reader.client: reader for reader in scenario.readers}
        self._banks = [workload for workload in scenario.workloads if workload.kind == "bank"]
        self._opening_us = min((bank.start_us for bank in self._banks), default=0)
        self._partners = self._find_partners()

    def make(self, client: str, life: int = 0) -> App:
        """The application of this client in its first life (0) or after so many recoveries."""
        if client not in self._clients:
            raise ScenarioError(f"there is no client {client!r}")
        spec = self._clients[client]
        workloads = [self._workload(number, spec, life) for number in self._employed.get(client, ())]
        reader = self._readers.get(client)
        return ClientApp(spec.subscriptions, [*workloads, *([LogReaderApp(reader)] if reader is not None else [])])

    def _workload(self, number: int, client: ClientSpec, life: int) -> App:
        spec = self._workloads[number]
        rng = random_for(self._seed, "workload", number, client.name, life)
        match spec.options:
            case BankOptions():
                held = held_topics(client, self._bank_topics()) if life == 0 else ()
                return BankApp(spec, spec.options, rng, held, self._partners, self._opening_us)
            case RandomOptions():
                return RandomApp(spec, spec.options, rng, client)
            case ChatterOptions():
                return ChatterApp(spec, spec.options, rng, client.name)
            case ValueOptions():
                return ValueApp(spec, spec.options, rng, client)

    def _bank_topics(self) -> list[str]:
        return list(dict.fromkeys(topic for bank in self._banks for topic in bank.topics))

    def _find_partners(self) -> dict[str, tuple[str, ...]]:
        """Banks between which money can be sent: those with the same replicas, since the outcome needs both ledgers."""
        tellers = dict.fromkeys(name for bank in self._banks for name in bank.clients)
        topics = self._bank_topics()
        replicas: dict[str, list[str]] = {topic: [] for topic in topics}
        for name in tellers:
            for topic in held_topics(self._clients[name], topics):
                replicas[topic].append(name)
        return {topic: tuple(t for t in topics if t != topic and replicas[t] == replicas[topic]) for topic in topics}


def held_topics(client: ClientSpec, topics: Sequence[str]) -> tuple[str, ...]:
    """Of these, the ones whose every publication the client receives: a content filter may hide some."""
    whole = [s.filter for s in client.subscriptions if s.where is None]
    return tuple(topic for topic in topics if any(topic_matches(filter_, topic) for filter_ in whole))


class Driver(Protocol):
    """What a driver does for one client."""

    @property
    def now_us(self) -> int:
        """Since the beginning of the run."""
        ...

    @property
    def wall_us(self) -> int:
        """Since 1970, where the run has such a time; otherwise like `now_us`."""
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

    def given_value(self, time_us: int, message: Message, request: SubscribeRequest) -> None: ...

    def applied(self, time_us: int, applied: Applied) -> None: ...

    def read(self, time_us: int, page: PageRead) -> None: ...

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
                if effect.wanted_by is None:
                    observe(now_us, message)
                else:
                    self._observer.given_value(now_us, message, effect.wanted_by)
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
            elif isinstance(wish, PageRead):
                self._observer.read(driver.now_us, wish)
            else:
                self._ask(wish)

    def _ask(self, request: ClientRequest) -> None:
        """The machine takes the request now and sends it at the next `_flush`, with whatever is asked until then."""
        self._tokens += 1
        if isinstance(request, PublishRequest) and (request.delay_us or request.ttl_us):
            request = _timed(request, self._driver.wall_us)
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


def _timed(request: PublishRequest, wall_us: int) -> PublishRequest:
    """Return the request with attributes that say when it is due and when it expires."""
    told: dict[str, AttributeValue] = {**request.attributes, PUBLISHED: wall_us}
    if request.delay_us:
        told[DUE] = wall_us + request.delay_us
    if request.ttl_us:
        told[EXPIRES] = wall_us + request.ttl_us
    return replace(request, attributes=told)


DROPPING_WINDOW: Final = 4
"""Messages that a consumer has at once where the oldest are dropped: few, so that others wait in short runs, too."""


def make_consumer(
    spec: ClientSpec, wanted: SubscriptionSpec, incarnation: int, others: tuple[str, ...], epoch_us: int
) -> ConsumerMachine:
    assert wanted.durable is not None
    when_full = DURABLE_WHEN_FULL[wanted.when_full]
    retry = RetryTerms(f"dead/{wanted.durable}", wanted.max_deliver, wanted.ack_wait_us) if wanted.retries else None
    terms = Terms(wanted.filter, wanted.where, wanted.group, when_full, wanted.max_pending, retry)
    window = DROPPING_WINDOW if when_full is WhenFull.DROP_OLDEST else None
    return ConsumerMachine(
        spec.name, incarnation, spec.broker, wanted.durable, terms, window=window, others=others,
        options=ClientOptions(epoch_us=epoch_us),
    )  # fmt: skip


DELAYS_US: Final = (0, 0, 100_000, 2_000_000)
"""After which a rejected message may be handed out again."""


ConsumerAnswer = AcknowledgeRequest | SettleRequest | FollowUpRequest


def answer_of(wanted: SubscriptionSpec, message: Message) -> ConsumerAnswer | None:
    """Return what a consumer says of a message that it has read; None for nothing. All consumers of a subscription
    answer alike, so that a message which one of them cannot process is one that none of them can."""
    if not wanted.retries:
        return _processed(wanted, message)
    draw = zlib.crc32(f"{wanted.durable}/{message.id}".encode())
    share, choice = (draw & 0xFFFF) / 0x10000, draw >> 16
    if share < wanted.poison:
        if choice % 5 == 0:
            return SettleRequest(Settlement.TERM, (message,), 0, "it is poison")
        if wanted.ack_wait_us and choice % 2:
            return None
    elif share >= wanted.poison + wanted.flaky or message.deliveries > 1:
        return _processed(wanted, message)
    return SettleRequest(Settlement.NACK, (message,), DELAYS_US[choice // 10 % len(DELAYS_US)])


def _processed(wanted: SubscriptionSpec, message: Message) -> AcknowledgeRequest | FollowUpRequest:
    """Each delivery of a message has another follow-up, of which one may be published."""
    share = (zlib.crc32(f"{wanted.durable}/{message.id}/after".encode()) & 0xFFFF) / 0x10000
    if share >= wanted.follow_ups:
        return AcknowledgeRequest((message,))
    content = f"after {message.id}, delivery {message.deliveries}".encode()
    return FollowUpRequest(message, f"after/{wanted.durable}", content, (), {"amount": message.deliveries})


class ConsumerRows:
    """Of one life."""

    def __init__(
        self, spec: ClientSpec, wanted: SubscriptionSpec, incarnation: int, message_id_us: int = WINDOW_US
    ) -> None:
        """`message_id_us`: how long repeats are recognised by their ids."""
        self._message_id_us = message_id_us
        self._node = spec.name
        self._wanted = wanted
        self._rows = ClientRows(spec.name, incarnation)

    def began(self, time_us: int) -> Row:
        more = {"group": "yes"} if self._wanted.group else {}
        more |= {"drop_oldest": "yes"} if self._wanted.when_full == "drop_oldest" else {}
        more |= {"max_deliver": str(self._wanted.max_deliver)} if self._wanted.max_deliver else {}
        more |= {"ack_wait": str(self._wanted.ack_wait_us)} if self._wanted.ack_wait_us else {}
        more |= {"message_ids": str(self._message_id_us)} if self._message_id_us != WINDOW_US else {}
        return self._row(time_us, kinds.CONSUME, more, filter=self._wanted.filter, where=self._wanted.where)

    def given(self, time_us: int, effect: Deliver | Answer) -> Iterator[Row]:
        if isinstance(effect, Deliver):
            for message in effect.messages:
                yield self._handed(time_us, message)
        elif isinstance(effect.body, ConsumerBegan):
            yield self._row(time_us, kinds.CONSUMING, {}, filter=self._wanted.filter, where=self._wanted.where)
        elif isinstance(effect.body, ConsumerOver):
            yield self._row(time_us, kinds.CONSUME_OVER, {}, detail=effect.body.reason)
        elif isinstance(effect.body, FollowUpAnswered):
            if not effect.body.reason:
                yield self._about_message(time_us, kinds.ACKNOWLEDGED, effect.body.message, {"follow_up": "yes"})
        elif isinstance(effect.body, DroppedBefore):
            if effect.body.upto:
                yield self._row(time_us, kinds.DROPS_TOLD, {"dropped": str(effect.body.upto)})
        else:
            yield from self._rows.told(time_us, effect.body)

    def answered(self, time_us: int, message: Message, answer: ConsumerAnswer | None) -> Iterator[Row]:
        """Of what the consumer says of a message. A follow-up has a row when the broker has answered."""
        if isinstance(answer, AcknowledgeRequest):
            yield self._about_message(time_us, kinds.ACKNOWLEDGED, message)
        elif isinstance(answer, SettleRequest):
            is_over = answer.settlement is Settlement.TERM
            yield self._about_message(time_us, kinds.TERMINATED if is_over else kinds.REJECTED, message)

    def _about_message(self, time_us: int, kind: str, message: Message, more: dict[str, str] | None = None) -> Row:
        return self._row(
            time_us,
            kind,
            more or {},
            publisher=message.publisher,
            incarnation=message.epoch,
            stream=message.stream,
            seq=message.seq,
        )

    def _handed(self, time_us: int, message: Message) -> Row:
        more = {"redelivered": "yes"} if message.redelivered else {}
        more |= {"deliveries": str(message.deliveries)} if message.deliveries > 1 else {}
        row = self._rows.delivered(time_us, message)
        columns = {name: getattr(row, name) for name in row.__struct_fields__}
        return Row(**{**columns, "kind": kinds.HANDED, "attributes": self._about(more)})

    def _about(self, more: dict[str, str]) -> dict[str, str]:
        return {"durable": self._wanted.durable or "", **more}

    def _row(self, time_us: int, kind: str, more: dict[str, str], **columns: Any) -> Row:
        return Row(time_us=time_us, node=self._node, kind=kind, attributes=self._about(more), **columns)
