"""One life of one client that consumes a durable subscription, in real time, behind a socket.

Its rows are saved before anything that they speak of leaves the process, acknowledgements above all.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from resprout.core.contract import Answer, Deliver, Note, Request
from resprout.edge.requests import AcknowledgeRequest, LeaveRequest
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.bodies import EncodedBodies
from resprout.net.clock import now_us
from resprout.net.door import Door
from resprout.net.frames import Here
from resprout.net.host import Host, Upward
from resprout.net.run.row_file import RowWriter
from resprout.net.run.tally import Tally
from resprout.net.tls.keyring import Keyring
from resprout.scenario.consuming import ConsumerRows, make_consumer
from resprout.scenario.model import ClientSpec, SubscriptionSpec
from resprout.scenario.observe import note_row
from resprout.scenario.seeds import random_for
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.wire.codec import Codec


class RealConsumer:
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
    ) -> None:
        self.name = spec.name
        self.tally = Tally()
        self.over = False
        self.busy = False
        self.pending = 0
        links = Links(
            make_consumer(spec, wanted, incarnation, tuple(brokers)),
            name=spec.name,
            role="client",
            incarnation=incarnation,
            rng=random_for(seed, "node", spec.name, incarnation),
            options=options,
            bodies=EncodedBodies(codec),
        )
        delays_s = {broker: us / 1e6 for broker, us in delays_us.items()}
        here = Here(spec.name, "client", incarnation)
        self._host = Host(links, codec, here, find, self._hear, delays_s=delays_s, door=Door(keyring))
        self._rows = ConsumerRows(spec, wanted, incarnation)
        self._writer = writer
        self._on_note = on_note
        self._start_us = 0

    def start(self, start_us: int) -> None:
        self._start_us = start_us
        self._record(self._rows.began(self._now_us))
        self._host.start()

    def bar(self, peers: Collection[str]) -> None:
        self._host.bar(peers)

    async def leave(self) -> None:
        if not self.over:
            self._record(Row(time_us=self._now_us, node=self.name, kind=kinds.LEAVE))
            await self.finish()

    async def finish(self) -> None:
        if not self.over:
            self.over = True
            self._writer.save()
            self._host.handle(Request(LeaveRequest()))
            await self._host.close()

    @property
    def _now_us(self) -> int:
        return now_us() - self._start_us

    def _record(self, row: Row) -> None:
        self.tally.count(row)
        self._writer.record(row)
        if row.kind == kinds.NOTE:
            self._on_note(row)

    def _hear(self, effect: Upward) -> None:
        if self.over:
            return
        if isinstance(effect, Note):
            self._record(note_row(self._now_us, self.name, effect.kind, effect.columns))
            return
        assert isinstance(effect, Deliver | Answer)
        for row in self._rows.given(self._now_us, effect):
            self._record(row)
        if isinstance(effect, Deliver):
            for message in effect.messages:
                self._record(self._rows.acknowledged(self._now_us, message))
            self._writer.save()
            self._host.loop.call_soon(self._host.handle, Request(AcknowledgeRequest(tuple(effect.messages))))
