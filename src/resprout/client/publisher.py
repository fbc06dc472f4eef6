"""The publishing half of the client.

Publishing costs no task switch: what is published before the loop next runs leaves as one bundle, and every `BURST`
publications the publisher gives way so that the loop does run. Turns that follow each other closely and each bring
something share a bundle, too (`client.turns`). What may be published, and under which number, the machine decides
(`edge.client.publishing`); only more of the same goes straight into the bundle that is open.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from resprout.client.errors import ClosedError
from resprout.client.receipts import BundleReceipt, Receipt, Stream
from resprout.client.turns import Pulse, Turns
from resprout.client.typed import Payload, payload_of
from resprout.core.contract import Request
from resprout.core.guarantee import STREAMS, Guarantee, GuaranteeName
from resprout.core.names import AttributeValue
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.outgoing import PAYLOAD_OVERHEAD
from resprout.edge.client.publishing import NO_ATTRIBUTES
from resprout.edge.requests import FlushRequest, RoomAgain
from resprout.net.host import Host

BURST = 256
"""Publications after which the publisher gives way to the event loop; large ones count for more."""

BURST_BYTES_SHIFT = 12
"""Every 4 KiB of a payload count as one more publication."""

SMALL_BYTES = 1 << BURST_BYTES_SHIFT


class Publisher:
    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        """`copies`: on how many brokers `safe` rests until something else is told."""
        self._machine = machine
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._loop, self._progress, self._flush, Pulse.of(self._loop).leaves)
        origin = (machine.name, machine.incarnation)
        self._streams = {name: Stream(*origin, name, self._loop, self._turns.hurry, copies) for name in STREAMS}
        self._builder = machine.outgoing.open
        self._topic: object = None
        self._guarantee: object = None
        self._keys: object = None
        self._stream = self._streams["ordered"]
        """The bundle that the last publication went to, and what was asked for then."""
        self._counted = self._builder.next
        """Up to here, publications in that bundle are counted in the burst."""
        self._burst = 0
        self._room: asyncio.Future[None] | None = None
        self._closed: str | None = None
        """Why nothing can be published any more."""

    async def publish(
        self,
        topic: str,
        payload: Payload,
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Receipt:
        """Publish a message; returns at once, or after a pause when the network does not keep up. The payload is bytes,
        or a structure that stands for them (`client.typed`).

        Its order among this client's publications is that of the calls. Raises UsageError (and nothing was published)
        for what cannot be published. A call that is cancelled while it pauses has published already.
        """
        if topic is self._topic and guarantee is self._guarantee and keys is self._keys:
            # More of the same into a bundle that is open anyway: nothing to check, nothing to schedule, no pause due.
            builder = self._builder
            seq = builder.next
            if seq < builder.pause and not attributes and type(payload) is bytes:
                size = len(payload) + PAYLOAD_OVERHEAD
                left = builder.bytes_left - size
                if left >= 0 and size < SMALL_BYTES:
                    builder.bytes_left = left
                    builder.next = seq + 1
                    builder.payloads.append(payload)
                    return Receipt(self._stream, seq)
        return await self._publish(topic, payload, guarantee, keys, attributes)

    async def publish_bundle(
        self,
        topic: str,
        payloads: Sequence[bytes],
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Sequence[Mapping[str, AttributeValue]] | None = None,
    ) -> Receipt:
        """Publish many messages as one bundle, which nothing else joins; return one receipt for all of them.

        A client with a `life` may repeat them with other boundaries, so each of its messages is a bundle of its own,
        unless the option `same_bundles` promises the same boundaries. UsageError for more than fits into one.
        """
        publishing = self._machine.publishing
        target = publishing.target(topic, guarantee, keys)
        if self._closed is not None:
            raise ClosedError(self._closed)
        seq = publishing.add_bundle(target, payloads, attributes)
        self._builder = publishing.outgoing.open
        self._topic = None  # what is published next asks for a bundle of its own
        self._flush()
        await self._give_way()
        return BundleReceipt(self._streams[target.stream], seq, seq - len(payloads) + 1)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _publish(
        self,
        topic: str,
        payload: Payload,
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None,
    ) -> Receipt:
        """The whole way: check, add, see to it that it is sent, and give way when it is time to."""
        publishing = self._machine.publishing
        target = publishing.target(topic, guarantee, keys)
        if self._closed is not None:
            raise ClosedError(self._closed)
        data = payload if type(payload) is bytes else payload_of(payload)
        stream = self._streams[target.stream]
        added = self._builder.next - self._counted  # without coming here
        seq = publishing.add(target, data, attributes or NO_ATTRIBUTES)
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
        if self._burst >= BURST:
            await self._give_way()
        # A bundle with attributes has a row for every message: no short cut past that.
        builder.pause = min(builder.end, builder.next + BURST - self._burst) if builder.attributes is None else 0
        return Receipt(stream, seq)

    def _flush(self) -> None:
        """While there is no room the burst stays complete: whoever publishes next waits, however rarely it does."""
        self._builder.pause = 0
        if self._closed is None:
            awaits = 0
            for name, stream in self._streams.items():
                awaits |= stream.take_awaited(self._machine.outgoing.last(name))
            self._machine.awaits = awaits
            self._ask(FlushRequest())
        self._turns.over()
        self._begin_burst(BURST if self._machine.crowded else 0)

    def _progress(self) -> int:
        """Something else whenever something was published; nearly: two streams may have come to the same number, and
        then what waits leaves a turn earlier."""
        return self._builder.next

    def _begin_burst(self, burst: int) -> None:
        self._burst = burst
        self._counted = self._builder.next

    async def _give_way(self) -> None:
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
