"""The publishing half of the client, and when publications leave.

Publishing costs no task switch: what is published before the loop next runs leaves as one bundle, and every `BURST`
publications the publisher yields so that the loop does run. The machine decides what may be published, and under which
number (`edge.client.publishing`); only more of the same goes straight into the open bundle.

A frame, a pass through every broker on the way and a receipt cost the same for one publication as for fifty. So
(`Turns`):

- a publication that is alone leaves at once, before anything is counted or measured: the first one after a pause of a
  program that waits for no receipts, or the next one of a program that waits for receipts and has got them all;
- what follows closely waits as long as every turn of the loop brings more, and at most for `GATHER_SECONDS`; where
  turns take longer than that because many clients send in each of them, for at most `GATHER_TURNS`;
- when a task begins to wait for a receipt, everything leaves at the end of that turn.

Turns are counted (`Pulse`) and not only timed, because event loops do not tell the time so finely: a turn without
anything new is the end, and comes within microseconds when the program has nothing more to publish. A loop does not
tell which turn it is in, nor how long its turns take. Where many clients share a loop, a turn may take milliseconds
because each of them sends something in each. `Pulse` counts processor time: a machine with other work must not look
like a program with other work. Reading it costs as much as a publication, so it is read only in turns in which it
is needed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import monotonic, thread_time
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from resprout.client.arguments import wrong
from resprout.client.errors import ClosedError
from resprout.client.inbox import Payload, payload_of
from resprout.client.receipts import BundleReceipt, Receipt, Stream
from resprout.client.retaining import Handling, handled_arguments, with_time
from resprout.core.contract import Request
from resprout.core.guarantee import STREAMS, Guarantee, GuaranteeName
from resprout.core.limits import AttributeValue
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.outgoing import PAYLOAD_OVERHEAD
from resprout.edge.client.publishing import NO_ATTRIBUTES
from resprout.edge.requests import FlushRequest, RoomAgain
from resprout.net.host import Host

IDLE_SECONDS: Final = 0.0005
"""A publication that follows no other within this time leaves at once."""

GATHER_SECONDS: Final = 0.0005
GATHER_TURNS: Final = 8
"""Bounds on how long a publication is gathered: seconds, or turns of a busy loop."""

SMOOTHING: Final = 8
"""Length, in samples, of the moving averages of `Pulse`."""

BUSY_SHARE: Final = 0.125
"""A loop that spends more than this share of its time on sending counts as busy. The receipts and acknowledgements
that come back cost two to three times as much again."""

BURST = 256
"""Publications after which the publisher yields to the event loop; every 4 KiB of payload count as one more."""

BURST_BYTES_SHIFT = 12
"""Every 4 KiB of a payload count as one more publication."""

SMALL_BYTES = 1 << BURST_BYTES_SHIFT


class WaitsForTurn(Protocol):
    def turn(self) -> None:
        """Act at the beginning of another turn of the loop."""


class LastDeparture:
    """The time at which something was last sent. All publishers of one event loop share one object."""

    __slots__ = ("last_at",)

    def __init__(self) -> None:
        self.last_at = 0.0
        """By the monotonic clock, in seconds."""


class Pulse:
    """Counts the turns of one event loop while something waits, and measures how busy sending keeps it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.last_departure = LastDeparture()
        """When a publication of any client in this loop last left."""
        self._waiting: dict[WaitsForTurn, None] = {}
        self.next: asyncio.Handle | None = None
        """Handle of the next turn; None while no turn is counted."""
        self._looked = 0
        """The turn in which `busy` was last computed."""
        self._looked_at = 0.0
        self._spent = 0.0
        """Processor seconds spent on sending since `_looked`."""
        self._time = 0.0
        self._sending = 0.0
        """Moving sums of processor seconds: of all turns (`_time`), and of sending in them."""
        self._is_busy = False
        self.turns = 0
        """Turns counted so far. Turns in which nothing waits are not counted, so only differences mean something."""

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Pulse":
        """Return the pulse of a loop; each loop has one."""
        pulse = _pulses.get(loop)
        if pulse is None:
            pulse = _pulses[loop] = cls(loop)
        return pulse

    @property
    def busy(self) -> bool:
        """Whether the turns of the loop take as long as they do because clients send in them."""
        if self._looked != self.turns:
            self._look()
        return self._is_busy

    def join(self, waiting: WaitsForTurn) -> None:
        """Call `waiting.turn` at the beginning of each turn, until `leave`."""
        self._waiting[waiting] = None
        if self.next is None:
            self._looked = self.turns
            self._looked_at = thread_time()
            self._spent = self._time = self._sending = 0.0
            self._is_busy = False
            self.next = self._loop.call_soon(self._turn)

    def leave(self, waiting: WaitsForTurn) -> None:
        self._waiting.pop(waiting, None)

    def spent(self, seconds: float) -> None:
        """Count processor time that was spent on sending."""
        self._spent += seconds

    def _turn(self) -> None:
        self.turns += 1
        still = bool(self._waiting)
        for waiting in list(self._waiting):
            waiting.turn()
        # One more turn after the last has left: it tells what that took, and whether more follow.
        self.next = self._loop.call_soon(self._turn) if still else None

    def _look(self) -> None:
        now = thread_time()
        self._time += now - self._looked_at - self._time / SMOOTHING
        self._sending += self._spent - self._sending / SMOOTHING
        self._looked, self._looked_at, self._spent = self.turns, now, 0.0
        self._is_busy = self._sending > self._time * BUSY_SHARE


_pulses: WeakKeyDictionary[asyncio.AbstractEventLoop, Pulse] = WeakKeyDictionary()


class Turns:
    """Decides when waiting publications, or acknowledgements of deliveries, are sent.

    `progress` returns another value whenever there is more to send. `leave` is called when it is time to send; it sends
    everything and calls `over`. Clients of one loop share `last_departure`: together they make its turns long, so each
    by itself would always seem to publish after a pause.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        progress: Callable[[], object],
        leave: Callable[[], None],
        last_departure: LastDeparture | None = None,
    ) -> None:
        self._loop = loop
        self._pulse = Pulse.of(loop)
        self._progress = progress
        self._leave = leave
        self._last_departure = last_departure if last_departure is not None else LastDeparture()
        self.waiting = False
        self._hurries = False
        self._since = 0
        """The turn in which something began to wait."""
        self._until = 0.0
        self._seen: object = None

    @property
    def idle(self) -> bool:
        """Whether nothing has left for `IDLE_SECONDS`, and no client of this loop gathers."""
        return self._pulse.next is None and monotonic() - self._last_departure.last_at > IDLE_SECONDS

    def wait(self, hurry: bool = False) -> None:
        """Gather: send when a turn brings nothing more, or, with `hurry`, at the end of this turn."""
        self.waiting = True
        if hurry:
            self.hurry()
            return
        self._since = self._pulse.turns
        self._until = monotonic() + GATHER_SECONDS
        self._seen = None  # the next turn may begin before the program has had its own: it does not count
        self._pulse.join(self)

    def hurry(self) -> None:
        """Send what waits at the end of this turn of the loop."""
        if self.waiting and not self._hurries:
            self._hurries = True
            self._loop.call_soon(self._end_of_turn)

    def turn(self) -> None:
        """Send what waits, unless the last turn brought more and the bounds allow another turn."""
        seen = self._progress()
        if seen != self._seen and (monotonic() < self._until or self._may_wait()):
            self._seen = seen
        else:
            self.go()

    def go(self) -> None:
        """Send everything that waits, and charge the cost to the pulse while others wait in the same loop."""
        if self._pulse.next is None:
            self._leave()
            return
        began = thread_time()
        self._leave()
        self._pulse.spent(thread_time() - began)

    def over(self) -> None:
        """Note that everything has left."""
        self._last_departure.last_at = monotonic()
        if self.waiting:
            self.waiting = False
            self._pulse.leave(self)

    def _end_of_turn(self) -> None:
        self._hurries = False
        if self.waiting:
            self.go()

    def _may_wait(self) -> bool:
        """Whether to gather for more turns, because sending clients keep the loop busy."""
        pulse = self._pulse
        return pulse.busy and pulse.turns - self._since < GATHER_TURNS


class Publisher:
    """The publishing half of `Client`: bundles, receipts, back-pressure."""

    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        """`copies`: the number of brokers that `safe` means until the network reports another one."""
        self._machine = machine
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._loop, self._progress, self._flush, Pulse.of(self._loop).last_departure)
        origin = (machine.name, machine.incarnation)
        self._streams = {name: Stream(*origin, name, self._loop, self._turns.hurry, copies) for name in STREAMS}
        self._builder = machine.outgoing.open
        self._topic: object = None
        self._guarantee: object = None
        self._keys: object = None
        self._stream = self._streams["ordered"]
        """The open bundle, and the topic, guarantee, keys and stream of the last publication: the same again needs
        no check."""
        self._counted = self._builder.next
        """Publications in that bundle below this number are counted in `_burst`."""
        self._burst = 0
        """Publications since this publisher last yielded to the event loop (see `BURST`)."""
        self._room: asyncio.Future[None] | None = None
        self._closed: str | None = None
        """Why the client can no longer publish; None while it can."""

    async def publish(
        self,
        topic: str,
        payload: Payload,
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        retain: bool = False,
        ttl: float | None = None,
        delay: float | None = None,
        deliver_at: float | datetime | None = None,
        priority: int | None = None,
        message_id: str | None = None,
    ) -> Receipt:
        """Publish a message and return its receipt: at once, or after a pause when the network does not keep up.

        With `retain`, every broker keeps the message as the last value of its topic, for subscriptions that begin with
        last values (`retained=True`): until the next one, or an empty one, or for `ttl` seconds. It is published with
        `total`, whatever `guarantee` says, so that all brokers keep the same one.

        Nobody is given the message more than `ttl` seconds after now, nor before `delay` seconds have passed, or before
        the time `deliver_at`. A delayed message is published with `eventual`, whatever `guarantee` says. Groups hand
        out messages with a higher `priority`, up to 9, first.

        Durable subscriptions drop a message whose topic and `message_id` were those of another one lately, whoever
        published it: for two minutes, unless their broker has another window. Other subscribers receive both.

        The payload is bytes, or a structure that travels as JSON (`client.inbox`). The order of a client's publications
        is that of the calls. UsageError (and nothing was published) for a wrong argument. Cancelling a call that pauses
        does not take the message back.
        """
        is_plain = retain is False and ttl is None and delay is None and deliver_at is None
        is_plain = is_plain and priority is None and message_id is None
        if topic is self._topic and guarantee is self._guarantee and keys is self._keys:
            # Fast path: append to the open bundle, which is scheduled already. `_publish` does the same with checks.
            builder = self._builder
            seq = builder.next
            if seq < builder.unchecked_end and attributes is None and type(payload) is bytes and is_plain:
                size = len(payload) + PAYLOAD_OVERHEAD
                left = builder.bytes_left - size
                if left >= 0 and size < SMALL_BYTES:
                    builder.bytes_left = left
                    builder.next = seq + 1
                    builder.payloads.append(payload)
                    return Receipt(self._stream, seq)
        if not is_plain:
            handling = Handling(retain, ttl, delay, deliver_at, priority, message_id)
            said = handled_arguments(topic, guarantee, keys, attributes, handling)
            guarantee, keys, attributes = said.guarantee, said.keys, said.attributes
        return await self._publish(topic, payload, guarantee, keys, attributes)

    async def publish_bundle(
        self,
        topic: str,
        payloads: Sequence[Payload],
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Sequence[Mapping[str, AttributeValue]] | None = None,
    ) -> Receipt:
        """Publish up to 1,024 messages as one bundle; return one receipt for all of them.

        A client with an `epoch` may repeat them with other boundaries, so each of its messages is a bundle of its own,
        unless the option `same_bundles` promises the same boundaries. UsageError for more than fits into one.
        """
        receipt = self.add_bundle(topic, payloads, guarantee, keys, attributes)
        await self._give_way()
        return receipt

    def add_bundle(
        self,
        topic: str,
        payloads: Sequence[Payload],
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Sequence[Mapping[str, AttributeValue]] | None,
    ) -> Receipt:
        """Publish a bundle without a pause: for the blocking client, which waits for room before it publishes."""
        publishing = self._machine.publishing
        target = publishing.target(topic, guarantee, keys)
        if self._closed is not None:
            raise ClosedError(self._closed)
        if not isinstance(payloads, Sequence) or isinstance(payloads, str | bytes | bytearray | memoryview):
            raise wrong("payloads", payloads, "a list of payloads")
        data = [one if type(one) is bytes else payload_of(one, "payloads[]") for one in payloads]
        if attributes is not None and not isinstance(attributes, Sequence):
            raise wrong("attributes", attributes, "a list with a mapping for each payload, or None")
        if self._machine.options.publish_times:
            attributes = [with_time(row) for row in attributes or [{}] * len(data)]
        seq = publishing.add_bundle(target, data, attributes)
        self._builder = publishing.outgoing.open
        self._topic = None  # what is published next asks for a bundle of its own
        self._flush()
        return BundleReceipt(self._streams[target.stream], seq, seq - len(payloads) + 1)

    def add_handled(
        self,
        topic: str,
        payload: Payload,
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None,
        handling: Handling,
    ) -> Receipt:
        """Publish what is retained, delayed or expires without a pause, as `add_publication` does."""
        said = handled_arguments(topic, guarantee, keys, attributes, handling)
        return self.add_publication(topic, payload, said.guarantee, said.keys, said.attributes)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _publish(
        self,
        topic: str,
        payload: Payload,
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None,
    ) -> Receipt:
        """Add a publication, and yield when a burst is complete."""
        receipt = self.add_publication(topic, payload, guarantee, keys, attributes)
        builder = self._builder
        if self._burst >= BURST:
            await self._give_way()
        # A bundle with attributes has a row for every message: no short cut past that.
        builder.unchecked_end = (
            min(builder.end, builder.next + BURST - self._burst) if builder.attributes is None else 0
        )
        return receipt

    def add_publication(
        self,
        topic: str,
        payload: Payload,
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None,
    ) -> Receipt:
        """Publish without a pause: for the blocking client, which waits for room before it publishes."""
        publishing = self._machine.publishing
        target = publishing.target(topic, guarantee, keys)
        if self._closed is not None:
            raise ClosedError(self._closed)
        data = payload if type(payload) is bytes else payload_of(payload)
        if self._machine.options.publish_times:
            attributes = with_time(attributes)
        stream = self._streams[target.stream]
        added = self._builder.next - self._counted  # without coming here
        seq = publishing.add(target, data, NO_ATTRIBUTES if attributes is None else attributes)
        self._burst += added + 1 + (len(data) >> BURST_BYTES_SHIFT)
        builder = self._builder = publishing.outgoing.open
        self._counted = builder.next
        self._topic, self._guarantee, self._stream = topic, guarantee, stream
        self._keys = keys if type(keys) is tuple else None  # a list may be another one next time
        turns = self._turns
        if not turns.waiting:  # the rule for when a publication leaves: docs/decisions/06
            awaited = [each for each in self._streams.values() if each.is_awaited]
            if any(each.is_in_flight for each in awaited) if awaited else not turns.idle:
                turns.wait()
            else:
                turns.go()
        builder.unchecked_end = 0
        return Receipt(stream, seq)

    def check_publication(
        self, topic: str, payload: Payload, guarantee: GuaranteeName | Guarantee, keys: Sequence[str]
    ) -> bytes:
        """Return the bytes of the payload. UsageError for what cannot be published."""
        publishing = self._machine.publishing
        publishing.target(topic, guarantee, keys)
        return publishing.check_payload(payload_of(payload))

    async def wait_for_room(self) -> None:
        """Return once a publication would not have to wait; ClosedError when the client is closed."""
        while self._closed is None and self._burst >= BURST:
            await self._give_way()
        if self._closed is not None:
            raise ClosedError(self._closed)

    def _flush(self) -> None:
        """Send all waiting bundles. While the machine is crowded the burst stays complete, so the next publication
        waits."""
        self._builder.unchecked_end = 0
        if self._closed is None:
            awaits = 0
            for name, stream in self._streams.items():
                awaits |= stream.take_awaited(self._machine.outgoing.last(name))
            self._machine.awaits = awaits
            self._ask(FlushRequest())
        self._turns.over()
        self._begin_burst(BURST if self._machine.crowded else 0)

    def _progress(self) -> int:
        """Return a number that changes with every publication. Two streams may reach the same number; then what
        waits leaves a turn earlier."""
        return self._builder.next

    def _begin_burst(self, burst: int) -> None:
        self._burst = burst
        self._counted = self._builder.next

    async def _give_way(self) -> None:
        """Yield to the loop; while the machine is crowded, wait for `RoomAgain`."""
        if self._machine.crowded:
            self._flush()
            if self._machine.crowded and self._closed is None:
                self._room = self._room or self._loop.create_future()
                await asyncio.shield(self._room)
                return
        self._begin_burst(0)
        await asyncio.sleep(0)

    def _room_again(self, news: RoomAgain) -> None:
        self._begin_burst(0)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _ask(self, request: Any) -> None:
        self._host.handle(Request(request))
