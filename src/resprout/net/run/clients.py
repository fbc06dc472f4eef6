"""Clients of a scenario in real time, behind sockets: one life of an application, or of a consumer of a durable
subscription.

Rows are saved before anything that they speak of leaves the process, so that one which is killed has done nothing that
the trace does not know. What the machine has for the application waits until the step that caused it is complete, as in
virtual time. A delivery counts as taken when the application has had it: no `delivered` receipt is ever ahead of the
row. `Tally` counts the rows of one life: how far it is, and which requests have no outcome yet.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from resprout.core import limits
from resprout.core.contract import Answer, Deliver, Effect, Machine, Note, Request
from resprout.core.guarantee import ReceiptLevel
from resprout.core.message_ids import WINDOW_US
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.requests import (
    AcknowledgeRequest,
    FlushRequest,
    FollowUpRequest,
    LeaveRequest,
    Published,
    SettleRequest,
    TakeRequest,
)
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.event_loop import epoch_us, now_us, wall_us
from resprout.net.host import Host, Upward
from resprout.net.run.exchange import RowWriter
from resprout.net.run.schedule import ScheduledApp
from resprout.net.sessions import EncodedBodies, Here
from resprout.net.tls import Keyring
from resprout.scenario.app import App
from resprout.scenario.app_runner import AppRunner, ConsumerRows, answer_of, make_consumer
from resprout.scenario.model import PLAIN_WHEN_FULL, ClientSpec, SubscriptionSpec, random_for
from resprout.scenario.observe import note_row
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.wire.codec import Codec

_WAKE_SECONDS_MIN: Final = 0.001
"""Event loops count milliseconds, and one that wakes early is asked again."""


class Tally:
    def __init__(self, last_receipt: str = ReceiptLevel.DELIVERED.label) -> None:
        """`last_receipt`: the last one that the network gives, empty where it gives none: nothing more is told of a
        publication after it."""
        self._outcomes = (last_receipt, "failed")
        self._has_outcomes = bool(last_receipt)
        self.rows = 0
        self.published = 0
        self.delivered = 0
        self._publications: set[tuple[str | None, int | None]] = set()
        """Neither told the last receipt or `failed` nor refused, by stream and number."""
        self._subscriptions: set[tuple[str | None, str | None]] = set()
        """Asked for, or asked to end, and not yet answered."""

    @property
    def unconfirmed(self) -> int:
        """Subscriptions that were asked for, or asked to end, and not yet answered."""
        return len(self._subscriptions)

    @property
    def pending(self) -> int:
        return len(self._publications) + len(self._subscriptions)

    def count(self, row: Row) -> None:
        self.rows += 1
        match row.kind:
            case kinds.DELIVER:
                self.delivered += 1
            case kinds.PUBLISH:
                self.published += 1
                if self._has_outcomes:
                    self._publications.add((row.stream, row.seq))
            case kinds.RECEIPT if row.receipt in self._outcomes:
                self._publications.discard((row.stream, row.seq))
            case kinds.REFUSED:
                self._publications.discard((row.stream, row.seq))
                self._subscriptions.discard((row.filter, row.where))
            case kinds.SUBSCRIBE | kinds.UNSUBSCRIBE | kinds.CONSUME:
                self._subscriptions.add((row.filter, row.where))
            case kinds.SUBSCRIBED | kinds.UNSUBSCRIBED | kinds.CONSUMING:
                self._subscriptions.discard((row.filter, row.where))
            case kinds.CONSUME_OVER:
                self._subscriptions.clear()


class RealLife:
    """`seed`: of the scenario. `find` tells where brokers listen, `delays_us` how far away each one is; `given` is told
    what the machine has for its application, `on_note` hears at once of rows that are for people. `keyring`: with which
    it speaks TLS."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        incarnation: int,
        seed: int,
        codec: Codec,
        options: LinkOptions,
        find: Callable[[str], Address | None],
        delays_us: Mapping[str, int],
        writer: RowWriter,
        on_note: Callable[[Row], None],
        given: Callable[[Deliver | Answer], None],
        tally: Tally,
        keyring: Keyring | None,
    ) -> None:
        self.name = name
        self.tally = tally
        self.over = False
        links = Links(
            machine,
            name=name,
            role="client",
            incarnation=incarnation,
            rng=random_for(seed, "node", name, incarnation),
            options=options,
            bodies=EncodedBodies(codec, limits.PAYLOAD_BYTES_MAX),
        )
        delays_s = {broker: us / 1e6 for broker, us in delays_us.items()}
        here = Here(name, "client", incarnation)
        self._host = Host(links, codec, here, find, self._hear, delays_s=delays_s, door=Door(keyring))
        self._writer = writer
        self._on_note = on_note
        self._given = given
        self._start_us = 0
        self._started = False

    @property
    def is_subscribed(self) -> bool:
        """Whether every subscription was answered that it has asked for; of one that has left, none is awaited."""
        return self.over or (self._started and not self.tally.unconfirmed)

    @property
    def now_us(self) -> int:
        return now_us() - self._start_us

    @property
    def wall_us(self) -> int:
        """Microseconds since 1970."""
        return wall_us()

    def start(self, start_us: int) -> None:
        """`start_us`: time 0 of the run, on the clock of the machine."""
        self._start_us = start_us
        self._started = True
        self._host.start()

    def bar(self, peers: Collection[str]) -> None:
        self._host.bar(peers)

    async def leave(self) -> None:
        """In good order, as a part of the scenario."""
        if not self.over:
            self.record(Row(time_us=self.now_us, node=self.name, kind=kinds.LEAVE))
            await self.finish()

    async def finish(self) -> None:
        if not self.over:
            self.over = True
            self._writer.save()
            self._host.handle(Request(LeaveRequest()))
            await self._host.close()

    def record(self, row: Row) -> None:
        self.tally.count(row)
        self._writer.record(row)
        if row.kind == kinds.NOTE:
            self._on_note(row)

    def _hear(self, effect: Upward) -> None:
        if self.over:
            return
        if isinstance(effect, Note):
            self.record(note_row(self.now_us, self.name, effect.kind, effect.columns))
            return
        assert isinstance(effect, Deliver | Answer)
        self._given(effect)


class RealClient(RealLife):
    """`last_receipt`: the last one that the stack gives. `first_event_us`: of the schedule, see `schedule`. All else as
    for `RealLife`."""

    def __init__(
        self,
        spec: ClientSpec,
        incarnation: int,
        app: App,
        seed: int,
        codec: Codec,
        options: LinkOptions,
        find: Callable[[str], Address | None],
        brokers: Sequence[str],
        delays_us: Mapping[str, int],
        writer: RowWriter,
        on_note: Callable[[Row], None],
        bundle_max: int,
        last_receipt: str,
        first_event_us: int,
        keyring: Keyring | None = None,
    ) -> None:
        # Whoever returns has been here before, and turns to others when its own broker is gone meanwhile.
        others = brokers if incarnation > 1 else ()
        client_options = ClientOptions(takes_at_once=False, bundle_max=bundle_max, epoch_us=epoch_us())
        machine = ClientMachine(spec.name, incarnation, spec.broker, client_options, others)
        machine.when_full = PLAIN_WHEN_FULL[spec.when_full]
        super().__init__(
            machine, spec.name, incarnation, seed, codec, options, find, delays_us, writer, on_note, self._take,
            Tally(last_receipt), keyring,
        )  # fmt: skip
        self._app = ScheduledApp(app, first_event_us)
        self._runner = AppRunner(self, machine, self._app)
        self._loop = asyncio.get_running_loop()
        self._heard: deque[Deliver | Answer] = deque()
        """For the application."""
        self._handing_over = False
        self._taken = 0
        """Deliveries that the application has had and the machine has not been told of."""
        self._unsent = False
        self._idle_us = spec.idle_us or (0, 0)
        self._resuming = False
        """It will be woken when it reads again."""

    # -- for the process ---------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return not self.over and not self._runner.over and not self._runner.app.done

    @property
    def pending(self) -> int:
        """Publications and requests without an outcome; of one that is over, nothing is awaited."""
        return 0 if self.over or self._runner.over else self.tally.pending + self._runner.unnumbered

    def start(self, start_us: int) -> None:
        super().start(start_us)
        self._runner.start()
        self._send()

    def begin(self, held_us: int) -> None:
        """The schedule goes on."""
        self._app.release(held_us)
        self._runner.woke()
        self._send()

    # -- for the runner ----------------------------------------------------------------------------------------------

    def wake(self, at_us: int) -> None:
        wait_s = max(_WAKE_SECONDS_MIN, (at_us - self.now_us) / 1e6)
        self._loop.call_later(wait_s, self._wake, at_us)

    def perform(self, answers: Sequence[Effect]) -> None:
        self._host.perform(answers)

    def flush(self) -> None:
        self._unsent = True

    # -- inside ------------------------------------------------------------------------------------------------------

    def _take(self, effect: Deliver | Answer) -> None:
        if isinstance(effect, Answer) and isinstance(effect.body, Published):  # it may leave right behind this answer
            self._runner.numbered(effect)
            self._writer.save()
        self._heard.append(effect)
        if not self._handing_over:
            self._handing_over = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing_over = False
        heard, self._heard = self._heard, deque()
        if self.over:
            return
        for effect in heard:
            self._runner.given(effect)
            if isinstance(effect, Deliver):
                self._taken += 1
        self._send()

    def _wake(self, at_us: int) -> None:
        if self.over:
            return
        if self.now_us < at_us:
            self.wake(at_us)
            return
        self._runner.woke()
        self._send()

    def _take_now(self) -> int:
        """Deliveries to be told as taken; none while the program does not read."""
        begin_us, end_us = self._idle_us
        if begin_us <= self.now_us < end_us:
            if not self._resuming and self._taken:
                self._resuming = True
                self.wake(end_us)
            return 0
        taken, self._taken = self._taken, 0
        return taken

    def _send(self) -> None:
        """Let the machine send what it was asked for and say what was taken."""
        self._writer.save()
        taken = self._take_now()
        unsent, self._unsent = self._unsent, False
        if taken:
            self._host.handle(Request(TakeRequest(taken)))
        elif unsent:
            self._host.handle(Request(FlushRequest()))


class RealConsumer(RealLife):
    """As `RealClient`, for whoever runs both."""

    def __init__(
        self,
        spec: ClientSpec,
        wanted: SubscriptionSpec,
        incarnation: int,
        seed: int,
        codec: Codec,
        options: LinkOptions,
        find: Callable[[str], Address | None],
        brokers: Sequence[str],
        delays_us: Mapping[str, int],
        writer: RowWriter,
        on_note: Callable[[Row], None],
        keyring: Keyring | None = None,
        message_id_us: int = WINDOW_US,
    ) -> None:
        machine = make_consumer(spec, wanted, incarnation, tuple(brokers), epoch_us())
        super().__init__(
            machine, spec.name, incarnation, seed, codec, options, find, delays_us, writer, on_note, self._take,
            Tally(), keyring,
        )  # fmt: skip
        self.busy = False
        self.pending = 0
        self._wanted = wanted
        self._rows = ConsumerRows(spec, wanted, incarnation, message_id_us)

    def start(self, start_us: int) -> None:
        super().start(start_us)
        self.record(self._rows.began(self.now_us))

    def begin(self, held_us: int) -> None:
        """It does nothing by a schedule."""

    def _take(self, effect: Deliver | Answer) -> None:
        for row in self._rows.given(self.now_us, effect):
            self.record(row)
        if isinstance(effect, Deliver):
            answers = [answer_of(self._wanted, message) for message in effect.messages]
            for message, answer in zip(effect.messages, answers, strict=True):
                for row in self._rows.answered(self.now_us, message, answer):
                    self.record(row)
            self._writer.save()  # before the acknowledgement leaves
            done = [each for answer in answers if isinstance(answer, AcknowledgeRequest) for each in answer.messages]
            settled = [answer for answer in answers if isinstance(answer, SettleRequest | FollowUpRequest)]
            for said in (AcknowledgeRequest(tuple(done)), *settled):
                self._host.loop.call_soon(self._host.handle, Request(said))
